package transport

import (
	"encoding/binary"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// mallory is a host that dials b and then sends what it likes: it knows every
// number of its connection, as a peer with a bug does, but none of others.
type mallory struct {
	s         *siege
	t         testing.TB
	conn      *Conn // b's end
	nonce     uint64
	id        wire.ConnID // b's
	tag       uint32
	peerNonce uint64
	dsn       wire.DSN // next to use
	psn       wire.PSN
	msn       uint32
	mem       []byte // b's region that it may write
	seen      []sighting
	heard     [2][4]recvPath // what it got from b
	next      wire.DSN       // of b's, no gaps: nothing is lost on its way
	events    []Event        // of b, on connections that are not the transfer's
}

// sighting is a packet of b's.
type sighting struct {
	h    wire.Header
	body []byte
}

const (
	malloryOwner   = 8
	malloryService = "bait"
	malloryKey     = 0x7777777777777777
	readOnlyKey    = 0x8888888888888888
	malloryBytes   = 5_000
)

func malloryAddr(plane int) wire.Addr {
	return wire.AddrFrom4([4]byte{10, byte(plane), 9, 9}, 4797)
}

func newMallory(s *siege) {
	m := &mallory{s: s, t: s.t}
	s.mallory = m
	m.mem = s.guard(s.b, malloryKey, "bait", malloryBytes, malloryOwner, RemoteWrite)
	s.guard(s.b, readOnlyKey, "read-only bait", malloryBytes, malloryOwner, RemoteRead)
	s.aside = m.take
	if err := s.b.engine.Listen(malloryService, malloryOwner); err != nil {
		s.t.Fatal(err)
	}
	m.dial()
}

// dial makes a connection; the one before is forgotten.
func (m *mallory) dial() {
	m.t.Helper()
	s := m.s
	*m = mallory{s: s, t: m.t, mem: m.mem, nonce: m.nonce + 1}
	m.send(m.setup(wire.CONNECT, nil))
	s.flush()
	in := m.event(EventIncoming)
	if in == nil {
		m.t.Fatalf("b does not hear the attacker dial: %s", s.b.describe())
	}
	m.conn = s.b.engine.Conn(in.Conn)
	if err := m.conn.Accept(s.now, nil); err != nil {
		m.t.Fatal(err)
	}
	s.flush()
	if m.id == 0 {
		m.t.Fatal("no ACCEPT for the attacker")
	}
	m.send(m.confirm(nil))
	s.flush()
	if m.event(EventEstablished) == nil || m.conn.state != stateEstablished {
		m.t.Fatal("the attacker's connection is not established")
	}
}

func (m *mallory) event(kind EventKind) *Event { return takeEvent(&m.events, kind) }

func (m *mallory) send(pkt []byte) {
	m.s.b.engine.HandlePacket(m.s.now, 0, malloryAddr(0), false, pkt)
}

// take notes what b sends to the attacker.
func (m *mallory) take(_ wire.Addr, tx *Tx, pkt []byte) bool {
	if tx.Dst.IP[14] != 9 {
		return false
	}
	var h wire.Header
	if r := wire.ParseHeader(pkt, &h); r != 0 || wire.VerifyCRC(pkt, &h) != 0 {
		m.t.Fatalf("b sends what is refused: %v", r)
	}
	body := h.Body(pkt)
	m.seen = append(m.seen, sighting{h: h, body: body})
	switch h.Type {
	case wire.ACCEPT:
		var s wire.Setup
		if wire.ParseSetup(body, &s) == 0 && s.PeerNonce == m.nonce {
			m.id, m.tag, m.peerNonce = s.Conn, s.Tag, s.Nonce
		}
	case wire.DATA, wire.CONTROL:
		p := &m.heard[h.Plane][h.Path]
		if !p.used {
			p.start(0)
		}
		p.record(h.PSN)
		p.packets++
		m.next = max(m.next, wire.DSN(binary.BigEndian.Uint64(body))+1)
	}
	return true
}

// last returns b's newest packet of a type.
func (m *mallory) last(t wire.Type) *sighting {
	for i := len(m.seen) - 1; i >= 0; i-- {
		if m.seen[i].h.Type == t {
			return &m.seen[i]
		}
	}
	return nil
}

// answer acknowledges all that b has sent.
func (m *mallory) answer() {
	m.send(m.ack(nil))
	m.s.flush()
}

// seal makes a packet of a header and a body.
func (m *mallory) seal(t wire.Type, edit func(*wire.Header), put func(body []byte) int) []byte {
	h := wire.Header{Type: t, Flags: wire.FlagCRC, DestConn: m.id, Tag: m.tag, PSN: m.psn}
	if t == wire.CONNECT {
		h.DestConn, h.Tag = 0, 0
	}
	if edit != nil {
		edit(&h)
	}
	buf := make([]byte, 1<<17)
	return buf[:finish(buf, &h, put(buf[wire.HeaderSize:]))]
}

// data is a WRITE of one packet into the attacker's region, changed by edit.
func (m *mallory) data(edit func(*wire.Header, *wire.Data), payload []byte) []byte {
	d := wire.Data{DSN: m.dsn, Op: wire.OpWrite, MSN: m.msn, PacketCount: 1, Key: malloryKey, TxTimestamp: uint32(m.s.now)}
	return m.seal(wire.DATA, func(h *wire.Header) {
		if edit != nil {
			edit(h, &d)
		}
	}, func(body []byte) int {
		wire.PutData(body, &d)
		return wire.DataSize + copy(body[wire.DataSize:], payload)
	})
}

func (m *mallory) control(k wire.Control) []byte {
	k.DSN = m.dsn
	return m.seal(wire.CONTROL, nil, func(body []byte) int {
		wire.PutControl(body, &k)
		return wire.ControlSize
	})
}

// ackBody is an acknowledgment as values.
type ackBody struct {
	wire.Ack
	reports []wire.PathReport
	credits []wire.Credit
}

// ack acknowledges everything, unless edit changes that.
func (m *mallory) ack(edit func(*ackBody)) []byte {
	a := ackBody{Ack: wire.Ack{CumulativeDSN: m.next, StartAllowance: 16, PlanesUp: 3}}
	for plane := range m.heard {
		for path := range m.heard[plane] {
			if p := &m.heard[plane][path]; p.used {
				a.reports = append(a.reports, wire.PathReport{
					Plane: uint8(plane), Path: uint8(path), HighestPSN: p.highest, PacketCount: p.packets, Bits: p.bits,
				})
			}
		}
	}
	if edit != nil {
		edit(&a)
	}
	a.ReportCount, a.CreditCount = uint8(len(a.reports)), uint8(len(a.credits))
	return m.seal(wire.ACK, nil, func(body []byte) int {
		wire.PutAck(body, &a.Ack)
		for i := range a.reports {
			wire.PutReport(body, i, &a.reports[i])
		}
		for i, k := range a.credits {
			wire.PutCredit(body, len(a.reports), i, k)
		}
		return wire.AckSize + len(a.reports)*wire.ReportSize + len(a.credits)*wire.CreditSize
	})
}

func (m *mallory) setup(t wire.Type, edit func(*wire.Setup)) []byte {
	s := wire.Setup{
		Nonce: m.nonce, Conn: wire.MakeConnID(3, 1), Tag: 77, DSNWindow: 256, RxPackets: 100, MaxPayload: 3000,
		PathInFlight: 256, AckEvery: 32, MaxStreams: 4, MessageDepth: 16, Paths: 4, PlaneCount: 2, Features: wire.FeatureCRC,
	}
	for p := range 2 {
		s.Planes[p] = wire.PlaneAddr{Addr: malloryAddr(p), MTU: 3498}
	}
	if t == wire.CONNECT {
		s.Service = []byte(malloryService)
	} else {
		s.PeerNonce = m.peerNonce
	}
	if edit != nil {
		edit(&s)
	}
	return m.seal(t, nil, func(body []byte) int { return wire.PutSetup(body, &s) })
}

func (m *mallory) confirm(edit func(*wire.Confirm)) []byte {
	k := wire.Confirm{Nonce: m.nonce, PeerNonce: m.peerNonce}
	if edit != nil {
		edit(&k)
	}
	return m.seal(wire.CONFIRM, nil, func(body []byte) int { wire.PutConfirm(body, &k); return wire.ConfirmSize })
}

func (m *mallory) refuse(k wire.Refuse) []byte {
	return m.seal(wire.REFUSE, nil, func(body []byte) int { return wire.PutRefuse(body, &k) })
}

func (m *mallory) close(flags wire.Flags, k wire.Close) []byte {
	return m.seal(wire.CLOSE, func(h *wire.Header) { h.Flags |= flags }, func(body []byte) int { wire.PutClose(body, &k); return wire.CloseSize })
}

func (m *mallory) reset(k wire.Reset) []byte {
	return m.seal(wire.RESET, nil, func(body []byte) int { wire.PutReset(body, &k); return wire.ResetSize })
}

func (m *mallory) probe(t wire.Type, edit func(*wire.Header, *wire.Probe), padding int) []byte {
	p := wire.Probe{Value: 99, TxTimestamp: uint32(m.s.now)}
	return m.seal(t, func(h *wire.Header) {
		if edit != nil {
			edit(h, &p)
		}
	}, func(body []byte) int { wire.PutProbe(body, &p); return wire.ProbeSize + padding })
}

// request is a READ; nobody has negotiated it.
func (m *mallory) request() []byte {
	return m.seal(wire.REQUEST, nil, func(body []byte) int {
		wire.PutRequest(body, &wire.Request{DSN: m.dsn, Op: wire.RequestRead, MSN: m.msn, PacketCount: 1, Key: malloryKey, Length: 8})
		return wire.RequestSize
	})
}

// samples has one packet of each type, none of which b would take: DATA,
// CONTROL and so on are old, the rest is not for this state or names a wrong
// nonce. Changed, they must be refused before that.
func (m *mallory) samples() map[wire.Type][]byte {
	old := *m
	old.dsn--
	return map[wire.Type][]byte{
		wire.DATA:      old.data(nil, []byte("forty bytes of what is not to be written")),
		wire.REQUEST:   old.request(),
		wire.CONTROL:   old.control(wire.Control{Kind: wire.ControlError, Reason: 1, Detail: 5, Detail2: 6}),
		wire.ACK:       m.ack(func(a *ackBody) { a.CumulativeDSN = 1 << 40; a.credits = []wire.Credit{{Stream: 1, MSNLimit: 3}} }),
		wire.CONNECT:   m.setup(wire.CONNECT, func(s *wire.Setup) { s.Nonce = 1 << 40; s.Service, s.Private = []byte("none"), []byte("private") }),
		wire.ACCEPT:    m.setup(wire.ACCEPT, func(s *wire.Setup) { s.PeerNonce = 5; s.Private = []byte("private") }),
		wire.CONFIRM:   m.confirm(func(k *wire.Confirm) { k.PeerNonce++ }),
		wire.REFUSE:    m.refuse(wire.Refuse{PeerNonce: 5, Reason: wire.RefuseBusy, Text: []byte("busy")}),
		wire.CLOSE:     m.close(0, wire.Close{FinalDSN: 9, Nonce: m.peerNonce + 1}),
		wire.RESET:     m.reset(wire.Reset{Nonce: m.peerNonce + 1}),
		wire.PROBE:     m.probe(wire.PROBE, nil, 40),
		wire.PROBE_ACK: m.probe(wire.PROBE_ACK, nil, 0),
	}
}

// fresh has one packet of each type that b takes.
func (m *mallory) fresh() map[wire.Type][]byte {
	return map[wire.Type][]byte{
		wire.DATA:      m.data(nil, []byte("what may be written")),
		wire.REQUEST:   m.request(),
		wire.CONTROL:   m.control(wire.Control{Kind: wire.ControlCredit, Detail: 17}),
		wire.ACK:       m.ack(nil),
		wire.CONNECT:   m.setup(wire.CONNECT, func(s *wire.Setup) { s.Nonce = 1 << 41 }),
		wire.ACCEPT:    m.setup(wire.ACCEPT, func(s *wire.Setup) { s.PeerNonce = m.peerNonce }),
		wire.CONFIRM:   m.confirm(nil),
		wire.REFUSE:    m.refuse(wire.Refuse{PeerNonce: m.peerNonce, Reason: wire.RefuseBusy}),
		wire.CLOSE:     m.close(0, wire.Close{FinalDSN: m.dsn, Nonce: m.peerNonce}),
		wire.RESET:     m.reset(wire.Reset{Nonce: m.peerNonce}),
		wire.PROBE:     m.probe(wire.PROBE, func(_ *wire.Header, p *wire.Probe) { p.Flags = wire.ProbeFullAck }, 8),
		wire.PROBE_ACK: m.probe(wire.PROBE_ACK, func(_ *wire.Header, p *wire.Probe) { p.Value = m.conn.probeValue(0, 0) }, 0),
	}
}
