package wire

import "encoding/binary"

// PlaneAddr is one plane of a host.
//
//	0 IP 16 B | 16 port u16 | 18 MTU u16 | 20 speed u32 (Mb/s)
type PlaneAddr struct {
	Addr      Addr
	MTU       uint16
	SpeedMbps uint32
}

// Setup is the body of CONNECT and ACCEPT. Byte slices alias the packet.
//
//	0 nonce u64 | 8 peer nonce u64 | 16 connection u32 | 20 tag u32 |
//	24 features u32 | 28 DSN window u32 | 32 receive packets u32 |
//	36 max payload u16 | 38 path in flight u16 | 40 ACK every u16 |
//	42 ACK delay u16 (us) | 44 READ depth u16 | 46 ATOMIC depth u16 |
//	48 max streams u16 | 50 message depth u16 | 52 paths u8 |
//	53 plane count u8 | 54 service length u8 | 55 cookie length u8 |
//	56 private length u16 | 58 reserved u16 | 60 reserved u32 |
//	planes (24 B each) | service | cookie | private data
type Setup struct {
	Nonce        uint64
	PeerNonce    uint64 // ACCEPT: echoes CONNECT's nonce
	Conn         ConnID // destination of packets towards the sender of this
	Tag          uint32 // they must carry it
	Features     uint32
	DSNWindow    uint32
	RxPackets    uint32 // receive capacity per plane
	MaxPayload   uint16
	PathInFlight uint16
	AckEvery     uint16 // packets
	AckDelay     uint16 // microseconds
	ReadDepth    uint16
	AtomicDepth  uint16
	MaxStreams   uint16
	MessageDepth uint16
	Paths        uint8 // per plane
	PlaneCount   uint8
	Planes       [MaxPlanes]PlaneAddr
	Service      []byte
	Cookie       []byte
	Private      []byte
}

// ParseSetup reads and checks a CONNECT or ACCEPT body.
func ParseSetup(body []byte, s *Setup) Reason {
	if len(body) < SetupSize {
		return ReasonTruncated
	}
	b := body[:SetupSize:SetupSize]
	*s = Setup{
		Nonce: binary.BigEndian.Uint64(b), PeerNonce: binary.BigEndian.Uint64(b[8:]),
		Conn: ConnID(binary.BigEndian.Uint32(b[16:])), Tag: binary.BigEndian.Uint32(b[20:]),
		Features: binary.BigEndian.Uint32(b[24:]), DSNWindow: binary.BigEndian.Uint32(b[28:]),
		RxPackets: binary.BigEndian.Uint32(b[32:]), MaxPayload: binary.BigEndian.Uint16(b[36:]),
		PathInFlight: binary.BigEndian.Uint16(b[38:]), AckEvery: binary.BigEndian.Uint16(b[40:]),
		AckDelay: binary.BigEndian.Uint16(b[42:]), ReadDepth: binary.BigEndian.Uint16(b[44:]),
		AtomicDepth: binary.BigEndian.Uint16(b[46:]), MaxStreams: binary.BigEndian.Uint16(b[48:]),
		MessageDepth: binary.BigEndian.Uint16(b[50:]), Paths: b[52], PlaneCount: b[53],
	}
	service, cookie, private := int(b[54]), int(b[55]), int(binary.BigEndian.Uint16(b[56:]))
	if s.PlaneCount == 0 || s.PlaneCount > MaxPlanes || s.Paths == 0 || s.Paths > MaxPaths ||
		service > MaxService || cookie > MaxCookie || private > MaxPrivate ||
		binary.BigEndian.Uint16(b[58:]) != 0 || binary.BigEndian.Uint32(b[60:]) != 0 {
		return ReasonBadField
	}
	rest := body[SetupSize:]
	if len(rest) != int(s.PlaneCount)*PlaneAddrSize+service+cookie+private {
		return ReasonBadLength
	}
	for i := range int(s.PlaneCount) {
		p := rest[:PlaneAddrSize]
		rest = rest[PlaneAddrSize:]
		s.Planes[i].Addr = Addr{IP: [16]byte(p[:16]), Port: binary.BigEndian.Uint16(p[16:])}
		s.Planes[i].MTU = binary.BigEndian.Uint16(p[18:])
		s.Planes[i].SpeedMbps = binary.BigEndian.Uint32(p[20:])
	}
	s.Service, rest = rest[:service:service], rest[service:]
	s.Cookie, rest = rest[:cookie:cookie], rest[cookie:]
	s.Private = rest[:private:private]
	return 0
}

// PutSetup writes a CONNECT or ACCEPT body and returns its length. The slices
// must keep within their bounds.
func PutSetup(body []byte, s *Setup) int {
	b := body[:SetupSize:SetupSize]
	clear(b)
	binary.BigEndian.PutUint64(b, s.Nonce)
	binary.BigEndian.PutUint64(b[8:], s.PeerNonce)
	binary.BigEndian.PutUint32(b[16:], uint32(s.Conn))
	binary.BigEndian.PutUint32(b[20:], s.Tag)
	binary.BigEndian.PutUint32(b[24:], s.Features)
	binary.BigEndian.PutUint32(b[28:], s.DSNWindow)
	binary.BigEndian.PutUint32(b[32:], s.RxPackets)
	for i, v := range [...]uint16{
		s.MaxPayload, s.PathInFlight, s.AckEvery, s.AckDelay,
		s.ReadDepth, s.AtomicDepth, s.MaxStreams, s.MessageDepth,
	} {
		binary.BigEndian.PutUint16(b[36+2*i:], v)
	}
	b[52], b[53] = s.Paths, s.PlaneCount
	b[54], b[55] = uint8(len(s.Service)), uint8(len(s.Cookie))
	binary.BigEndian.PutUint16(b[56:], uint16(len(s.Private)))
	n := SetupSize
	for i := range int(s.PlaneCount) {
		p := body[n : n+PlaneAddrSize]
		n += PlaneAddrSize
		copy(p, s.Planes[i].Addr.IP[:])
		binary.BigEndian.PutUint16(p[16:], s.Planes[i].Addr.Port)
		binary.BigEndian.PutUint16(p[18:], s.Planes[i].MTU)
		binary.BigEndian.PutUint32(p[20:], s.Planes[i].SpeedMbps)
	}
	n += copy(body[n:], s.Service)
	n += copy(body[n:], s.Cookie)
	return n + copy(body[n:], s.Private)
}
