package wire

import "encoding/binary"

// PlaneAddr is one plane of a host.
//
//	0 IP 16 B | 16 port u16 | 18 MTU u16 | 20 speed u32 (Mb/s)
type PlaneAddr struct {
	Addr      Addr
	MTU       uint16 // bytes of the IP packet
	SpeedMbps uint32 // of the link; 0: unknown
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
	Features     uint32 // offered; what both sides offer is used, unknown bits are ignored
	DSNWindow    uint32 // DSNs above the cumulative one that its sender can keep apart
	RxPackets    uint32 // packets per plane that it can hold unread
	MaxPayload   uint16 // bytes of payload in a DATA packet that it can take
	PathInFlight uint16 // unresolved packets per path, 1 to MaxPathInFlight
	AckEvery     uint16 // packets between its acknowledgments, at most
	AckDelay     uint16 // microseconds until it acknowledges, at most
	ReadDepth    uint16 // READ requests it serves at a time
	AtomicDepth  uint16 // atomics it serves at a time
	MaxStreams   uint16
	MessageDepth uint16 // messages per stream and direction
	Paths        uint8  // per plane, 1 to MaxPaths
	PlaneCount   uint8  // 1 to MaxPlanes
	Planes       [MaxPlanes]PlaneAddr
	Service      []byte // CONNECT: what is dialled, at most MaxService bytes
	Cookie       []byte // CONNECT: from a REFUSE, at most MaxCookie bytes
	Private      []byte // application data, at most MaxPrivate bytes
}

// ParseSetup reads and checks a CONNECT or ACCEPT body.
func ParseSetup(body []byte, s *Setup) Reason {
	if len(body) < SetupSize {
		return ReasonTruncated
	}
	b := body[:SetupSize:SetupSize]
	*s = Setup{
		Nonce: binary.BigEndian.Uint64(b[0:8]), PeerNonce: binary.BigEndian.Uint64(b[8:16]),
		Conn: ConnID(binary.BigEndian.Uint32(b[16:20])), Tag: binary.BigEndian.Uint32(b[20:24]),
		Features: binary.BigEndian.Uint32(b[24:28]), DSNWindow: binary.BigEndian.Uint32(b[28:32]),
		RxPackets: binary.BigEndian.Uint32(b[32:36]), MaxPayload: binary.BigEndian.Uint16(b[36:38]),
		PathInFlight: binary.BigEndian.Uint16(b[38:40]), AckEvery: binary.BigEndian.Uint16(b[40:42]),
		AckDelay: binary.BigEndian.Uint16(b[42:44]), ReadDepth: binary.BigEndian.Uint16(b[44:46]),
		AtomicDepth: binary.BigEndian.Uint16(b[46:48]), MaxStreams: binary.BigEndian.Uint16(b[48:50]),
		MessageDepth: binary.BigEndian.Uint16(b[50:52]), Paths: b[52], PlaneCount: b[53],
	}
	service, cookie, private := int(b[54]), int(b[55]), int(binary.BigEndian.Uint16(b[56:58]))
	if s.PlaneCount == 0 || s.PlaneCount > MaxPlanes || s.Paths == 0 || s.Paths > MaxPaths ||
		s.PathInFlight == 0 || s.PathInFlight > MaxPathInFlight ||
		service > MaxService || cookie > MaxCookie || private > MaxPrivate {
		return ReasonBadField
	}
	if binary.BigEndian.Uint16(b[58:60]) != 0 || binary.BigEndian.Uint32(b[60:64]) != 0 {
		return ReasonReserved
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
		if !s.Planes[i].Addr.isTarget() {
			return ReasonBadField
		}
	}
	s.Service, rest = rest[:service:service], rest[service:]
	s.Cookie, rest = rest[:cookie:cookie], rest[cookie:]
	s.Private = rest[:private:private]
	return 0
}

// PutSetup writes a CONNECT or ACCEPT body and returns its length, at most
// MaxSetupSize. It panics when a slice or a count is above its bound: what
// applications pass is checked long before.
func PutSetup(body []byte, s *Setup) int {
	if len(s.Service) > MaxService || len(s.Cookie) > MaxCookie || len(s.Private) > MaxPrivate || s.PlaneCount > MaxPlanes {
		panic("wire: PutSetup: service, cookie, private data or planes above their bound")
	}
	b := body[:SetupSize:SetupSize]
	clear(b)
	binary.BigEndian.PutUint64(b[0:8], s.Nonce)
	binary.BigEndian.PutUint64(b[8:16], s.PeerNonce)
	binary.BigEndian.PutUint32(b[16:20], uint32(s.Conn))
	binary.BigEndian.PutUint32(b[20:24], s.Tag)
	binary.BigEndian.PutUint32(b[24:28], s.Features)
	binary.BigEndian.PutUint32(b[28:32], s.DSNWindow)
	binary.BigEndian.PutUint32(b[32:36], s.RxPackets)
	for i, v := range [...]uint16{
		s.MaxPayload, s.PathInFlight, s.AckEvery, s.AckDelay,
		s.ReadDepth, s.AtomicDepth, s.MaxStreams, s.MessageDepth,
	} {
		binary.BigEndian.PutUint16(b[36+2*i:], v)
	}
	b[52], b[53] = s.Paths, s.PlaneCount
	b[54], b[55] = uint8(len(s.Service)), uint8(len(s.Cookie))
	binary.BigEndian.PutUint16(b[56:58], uint16(len(s.Private)))
	n := SetupSize
	for i := range int(s.PlaneCount) {
		p := body[n : n+PlaneAddrSize]
		n += PlaneAddrSize
		copy(p, s.Planes[i].Addr.IP[:])
		binary.BigEndian.PutUint16(p[16:], s.Planes[i].Addr.Port)
		binary.BigEndian.PutUint16(p[18:], s.Planes[i].MTU)
		binary.BigEndian.PutUint32(p[20:], s.Planes[i].SpeedMbps)
	}
	for _, part := range [...][]byte{s.Service, s.Cookie, s.Private} {
		n += copy(body[n:n+len(part)], part)
	}
	return n
}
