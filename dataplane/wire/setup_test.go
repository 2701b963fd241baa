package wire

import (
	"bytes"
	"testing"
)

func offer() Setup {
	return Setup{
		Nonce: 0x0102030405060708, Conn: MakeConnID(5, 1), Tag: 0xa1b2c3d4, Features: FeatureCRC,
		DSNWindow: 8192, RxPackets: 1024, MaxPayload: 3384, PathInFlight: 256, AckEvery: 32, AckDelay: 100,
		MaxStreams: 64, MessageDepth: 1024, Paths: 16, PlaneCount: 2,
		Planes: [MaxPlanes]PlaneAddr{
			{Addr: AddrFrom4([4]byte{10, 0, 0, 1}, 4797), MTU: 3498, SpeedMbps: 100_000},
			{Addr: Addr{IP: [16]byte{0xfd, 15: 1}, Port: 4797}, MTU: 9000},
		},
		Service: []byte("training"), Private: []byte{1, 2, 3},
	}
}

func setupVectors() []vector {
	connect, accept, many := offer(), offer(), offer()
	connect.Cookie = []byte("0123456789abcdef")
	accept.PeerNonce, accept.Service, accept.Private = 0x1112131415161718, nil, nil
	many.PlaneCount = MaxPlanes
	for i := range many.Planes {
		many.Planes[i] = PlaneAddr{Addr: AddrFrom4([4]byte{10, byte(i), 0, 2}, 4797), MTU: 9000, SpeedMbps: 400_000}
	}
	first := Header{Type: CONNECT, Flags: FlagCRC, Class: ClassControl}
	probe := Probe{Value: 0x1234567890abcdef, TxTimestamp: 0x01020304}
	full, unknown := probe, probe
	full.Flags, unknown.Flags = ProbeFullAck, ProbeUnknown
	return []vector{
		{name: "connect", about: "two planes, one of them IPv6, with a cookie", value: decoded{header: first, setup: connect}},
		{name: "connect-planes", about: "eight planes", value: decoded{header: first, setup: many}},
		{name: "accept", about: "without private data", value: decoded{header: header(ACCEPT, FlagCRC), setup: accept}},
		{name: "confirm", about: "the initiator has the ACCEPT", value: decoded{
			header:  header(CONFIRM, FlagCRC),
			confirm: Confirm{Nonce: 0x0102030405060708, PeerNonce: 0x1112131415161718},
		}},
		{name: "refuse", about: "no such service", value: decoded{header: header(REFUSE, FlagCRC), refuse: Refuse{
			PeerNonce: 0x0102030405060708, Reason: RefuseNoService, Text: []byte("no application listens on this service"),
		}}},
		{name: "refuse-cookie", about: "dial again with this cookie", value: decoded{header: header(REFUSE, FlagCRC), refuse: Refuse{
			PeerNonce: 0x0102030405060708, Reason: RefuseRetryCookie, Text: []byte("0123456789abcdef"),
		}}},
		{name: "close", about: "the last DSN used was 99", value: decoded{
			header: header(CLOSE, FlagCRC), close: Close{FinalDSN: 100, Reason: CloseNormal, Nonce: 0x1112131415161718},
		}},
		{name: "close-reply", about: "answer to a CLOSE", value: decoded{
			header: header(CLOSE, FlagCRC|FlagReply),
			close:  Close{FinalDSN: 3, Reason: CloseStopping, Nonce: 0x0102030405060708},
		}},
		{name: "reset", about: "the application has gone", value: decoded{
			header: header(RESET, FlagCRC), reset: Reset{Reason: CloseApplicationGone, Nonce: 0x1112131415161718, Detail: 7},
		}},
		{name: "probe", about: "asks for a full acknowledgment, padded by 4 bytes", value: decoded{
			header: header(PROBE, FlagCRC), probe: full, padding: 4,
		}},
		{name: "probe-ack", about: "answer of the peer", value: decoded{header: header(PROBE_ACK, FlagCRC), probe: probe}},
		{name: "probe-ack-unknown", about: "answer of a host that does not know the connection", value: decoded{
			header: header(PROBE_ACK, FlagCRC), probe: unknown,
		}},
	}
}

func TestSetupRefusals(t *testing.T) {
	ip, port := SetupSize, SetupSize+16
	refuseEach(t, "connect", []damage{
		{"no unresolved packet", 38, u16(0), ReasonBadField},
		{"too many unresolved packets", 38, u16(MaxPathInFlight + 1), ReasonBadField},
		{"no path", 52, []byte{0}, ReasonBadField},
		{"too many paths", 52, []byte{MaxPaths + 1}, ReasonBadField},
		{"no plane", 53, []byte{0}, ReasonBadField},
		{"too many planes", 53, []byte{MaxPlanes + 1}, ReasonBadField},
		{"one plane more than there is", 53, []byte{3}, ReasonBadLength},
		{"service too long", 54, []byte{MaxService + 1}, ReasonBadField},
		{"service longer than it is", 54, []byte{9}, ReasonBadLength},
		{"cookie too long", 55, []byte{MaxCookie + 1}, ReasonBadField},
		{"cookie shorter than it is", 55, []byte{15}, ReasonBadLength},
		{"private data too long", 56, u16(MaxPrivate + 1), ReasonBadField},
		{"private data longer than it is", 56, u16(4), ReasonBadLength},
		{"reserved", 58, u16(1), ReasonReserved},
		{"reserved", 60, u32(1), ReasonReserved},
		{"multicast address", ip + 12, []byte{224, 0, 0, 1}, ReasonBadField},
		{"broadcast address", ip + 12, []byte{255, 255, 255, 255}, ReasonBadField},
		{"no address", ip + 12, []byte{0, 0, 0, 0}, ReasonBadField},
		{"no port", port, u16(0), ReasonBadField},
		{"IPv6 multicast", ip + PlaneAddrSize, []byte{0xff}, ReasonBadField},
		{"no IPv6 address", ip + PlaneAddrSize, make([]byte, 16), ReasonBadField},
	})
}

// What a second parse reads shows nothing of the first.
func TestSetupForgetsEarlierPlanes(t *testing.T) {
	var s Setup
	for _, name := range []string{"connect-planes", "connect"} {
		pkt := goldenPacket(t, name)
		if r := ParseSetup(pkt[HeaderSize:len(pkt)-TrailerSize], &s); r != 0 {
			t.Fatal(r)
		}
	}
	if want := offer().Planes; s.Planes != want {
		t.Errorf("planes %v, want %v", s.Planes, want)
	}
}

// Appending to one part of a packet cannot write over the next.
func TestSetupPartsAreApart(t *testing.T) {
	pkt := goldenPacket(t, "connect")
	p, r := decode(pkt)
	if r != 0 {
		t.Fatal(r)
	}
	before := bytes.Clone(pkt)
	_ = append(p.setup.Service, 0xff)
	_ = append(p.setup.Cookie, 0xff)
	_ = append(p.setup.Private, 0xff)
	if !bytes.Equal(pkt, before) {
		t.Error("the packet changed")
	}
}

func TestPutSetupRefusesTooLong(t *testing.T) {
	for name, s := range map[string]Setup{
		"service": {Service: make([]byte, MaxService+1)},
		"cookie":  {Cookie: make([]byte, MaxCookie+1)},
		"private": {Private: make([]byte, MaxPrivate+1)},
		"planes":  {PlaneCount: MaxPlanes + 1},
	} {
		mustPanic(t, name, func() { PutSetup(make([]byte, 2*MaxSetupSize), &s) })
	}
	s := Setup{
		PlaneCount: MaxPlanes, Service: make([]byte, MaxService),
		Cookie: make([]byte, MaxCookie), Private: make([]byte, MaxPrivate),
	}
	if n := PutSetup(make([]byte, MaxSetupSize), &s); n != MaxSetupSize {
		t.Errorf("largest body has %d bytes, MaxSetupSize says %d", n, MaxSetupSize)
	}
}

func mustPanic(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", name)
		}
	}()
	f()
}
