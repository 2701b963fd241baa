package transport

import (
	"bytes"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// Everything that was ever sent comes again, at once, later and at the end, at
// its destination and at its sender, in a good network and in a bad one: every
// operation ends once, every message is received once, every byte is right.
func TestReplayOfEverything(t *testing.T) {
	for _, loss := range []float64{0, 0.1} {
		s := newSiege(t, 31)
		s.faults.loss = loss
		type packet struct {
			from, to *endpoint
			plane    int
			pkt      []byte
		}
		var all []packet
		again := func(p *packet, to *endpoint) {
			to.engine.HandlePacket(s.now, p.plane, s.other(to).addrs[p.plane], false, p.pkt)
		}
		s.tap = func(from *endpoint, pkt []byte) bool {
			all = append(all, packet{from, s.other(from), int(pkt[12]), bytes.Clone(pkt)})
			for range 3 {
				p := &all[s.rng.IntN(len(all))]
				again(p, p.to)
			}
			p := &all[s.rng.IntN(len(all))]
			again(p, p.from)
			return true
		}
		for range 30 {
			s.goOn(5)
		}
		s.settle()
		s.tap = nil
		for i := range all {
			again(&all[i], all[i].to)
			if wire.Type(all[i].pkt[1]) != wire.PROBE { // to its sender, whose value it has, it says "unknown"
				again(&all[i], all[i].from)
			}
			s.check()
			s.flush()
		}
		s.settle()
		if n := s.ends[0].ended; n < 50 {
			t.Errorf("only %d operations ended", n)
		}
		s.end()
	}
}

// A packet with the right tag that is refused confirms nothing: only data does.
func TestRefusedDataDoesNotConfirm(t *testing.T) {
	s := newSiege(t, 32)
	m := s.mallory
	m.nonce += 100
	m.id, m.tag = 0, 0
	m.send(m.setup(wire.CONNECT, nil))
	s.flush()
	m.conn = s.b.engine.Conn(m.event(EventIncoming).Conn)
	early := m.conn.state
	m.id, m.tag = m.conn.id, m.conn.tag // a guess, before ACCEPT says so
	for typ, pkt := range m.fresh() {
		if typ == wire.CONNECT || typ == wire.RESET {
			continue
		}
		if refused, changed := s.strike(pkt); refused != "refused: wrong state" && typ != wire.PROBE_ACK && typ != wire.CONFIRM || changed != "" || m.conn.state != early {
			t.Errorf("%v before ACCEPT: %q; changed: %s", typ, refused, changed)
		}
	}
	if err := m.conn.Accept(s.now, nil); err != nil {
		t.Fatal(err)
	}
	s.flush()
	for _, pkt := range [][]byte{
		badByte(wire.DATA, bodyAt+11, 1)(m), badByte(wire.DATA, bodyAt+10, 9)(m), m.request(), badByte(wire.CONTROL, bodyAt+8, 9)(m),
	} {
		if refused, changed := s.strike(pkt); refused == "" || changed != "" {
			t.Errorf("before CONFIRM: %q; changed: %s", refused, changed)
		}
	}
	if m.conn.state != stateAccepting {
		t.Fatalf("the connection is %v", m.conn.state)
	}
	m.dsn, m.msn = 0, 0
	m.write()
	if m.conn.state != stateEstablished || m.event(EventEstablished) == nil {
		t.Errorf("data did not confirm: the connection is %v", m.conn.state)
	}
	s.end()
}

// A peer that asks for another dial with a cookie, again and again, gets one,
// also when the cookie is empty.
func TestCookieIsAskedForOnce(t *testing.T) {
	for _, cookie := range [][]byte{nil, []byte("cookie")} {
		p := newPair(t, 1, 33, nil)
		var connects []wire.Setup
		p.aside = func(_ wire.Addr, _ *Tx, pkt []byte) bool {
			var h wire.Header
			var s wire.Setup
			if wire.ParseHeader(pkt, &h) == 0 && h.Type == wire.CONNECT && wire.ParseSetup(h.Body(pkt), &s) == 0 {
				connects = append(connects, s)
			}
			return true
		}
		r := DialRequest{Owner: testOwner, Service: "x", Peers: []DialPeer{{Addr: malloryAddr(0)}}}
		if _, err := p.a.engine.Dial(p.now, r); err != nil {
			t.Fatal(err)
		}
		p.flush()
		for range 10 {
			buf := make([]byte, 512)
			h := wire.Header{Type: wire.REFUSE, Flags: wire.FlagCRC, DestConn: connects[0].Conn, Tag: connects[0].Tag}
			n := wire.PutRefuse(buf[wire.HeaderSize:], &wire.Refuse{PeerNonce: connects[0].Nonce, Reason: wire.RefuseRetryCookie, Text: cookie})
			p.a.engine.HandlePacket(p.now, 0, malloryAddr(0), false, buf[:finish(buf, &h, n)])
			p.flush()
		}
		if len(connects) != 2 || !bytes.Equal(connects[1].Cookie, cookie) {
			t.Errorf("%d CONNECTs after ten demands for the cookie %q, want 2", len(connects), cookie)
		}
	}
}
