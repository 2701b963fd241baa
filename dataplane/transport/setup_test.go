package transport

import (
	"fmt"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// dial starts a connection from a to every plane of b.
func (p *pair) dial() *Conn {
	p.t.Helper()
	if _, ok := p.b.engine.listeners[testService]; !ok {
		if err := p.b.engine.Listen(testService, testOwner); err != nil {
			p.t.Fatal(err)
		}
	}
	r := DialRequest{Owner: testOwner, Token: 5, Service: testService}
	for i, addr := range p.b.addrs {
		r.Peers = append(r.Peers, DialPeer{Plane: i, Addr: addr})
	}
	c, err := p.a.engine.Dial(p.now, r)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// connectPacket is a CONNECT that a stranger sends, changed by adjust.
func connectPacket(t *testing.T, nonce uint64, adjust func(*wire.Setup)) []byte {
	t.Helper()
	s := wire.Setup{
		Nonce: nonce, Conn: wire.MakeConnID(3, 1), Tag: 77, DSNWindow: 8192, RxPackets: 100, MaxPayload: 3000,
		PathInFlight: 256, AckEvery: 32, MaxStreams: 4, MessageDepth: 64, Paths: 4, PlaneCount: 1,
		Features: wire.FeatureCRC, Service: []byte(testService),
	}
	s.Planes[0] = wire.PlaneAddr{Addr: wire.AddrFrom4([4]byte{10, 9, 9, 9}, 4797), MTU: 3498}
	if adjust != nil {
		adjust(&s)
	}
	buf := make([]byte, 2048)
	n := wire.PutSetup(buf[wire.HeaderSize:], &s)
	return buf[:finish(buf, &wire.Header{Type: wire.CONNECT, Flags: wire.FlagCRC, Class: wire.ClassControl}, n)]
}

// answer takes the one packet that an engine has for a plane.
func answer(t *testing.T, e *Engine, now int64, plane int) (h wire.Header, body []byte) {
	t.Helper()
	buf := make([]byte, 4096)
	var tx Tx
	n := e.Transmit(now, plane, buf, &tx)
	if r := wire.ParseHeader(buf[:n], &h); r != 0 {
		t.Fatalf("no answer, or one that is refused: %v", r)
	}
	if again := e.Transmit(now, plane, buf[2048:], &tx); again != 0 {
		t.Fatal("more than one answer")
	}
	return h, h.Body(buf[:n])
}

// Any stranger can send an offer that does not fit: nothing may stay of it.
func TestOfferThatDoesNotFitLeavesNothing(t *testing.T) {
	p := newPair(t, 1, 1, nil)
	if err := p.b.engine.Listen(testService, testOwner); err != nil {
		t.Fatal(err)
	}
	for name, adjust := range map[string]func(*wire.Setup){
		"payload":  func(s *wire.Setup) { s.MaxPayload = 1023 },
		"window":   func(s *wire.Setup) { s.DSNWindow = 300 },
		"small":    func(s *wire.Setup) { s.DSNWindow = 128 },
		"depth":    func(s *wire.Setup) { s.MessageDepth = 3 },
		"streams":  func(s *wire.Setup) { s.MaxStreams = 0 },
		"capacity": func(s *wire.Setup) { s.RxPackets = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			e := p.b.engine
			e.HandlePacket(p.now, 0, wire.AddrFrom4([4]byte{10, 9, 9, 9}, 5), false, connectPacket(t, 1, adjust))
			h, body := answer(t, e, p.now, 0)
			var r wire.Refuse
			if h.Type != wire.REFUSE || wire.ParseRefuse(body, &r) != 0 || r.Reason != wire.RefuseIncompatible {
				t.Errorf("answer %v %+v", h.Type, r)
			}
			left := 0
			e.Connections(func(*Conn) { left++ })
			if left != 0 || e.active != 0 || e.pending != 0 || len(e.conns) != 0 {
				t.Errorf("left over: %d connections, %d active, %d pending, %d indices", left, e.active, e.pending, len(e.conns))
			}
		})
	}
}

// Packets whose checksum is not negotiable are refused without one.
func TestSetupMustCarryTheChecksum(t *testing.T) {
	p := newPair(t, 1, 2, func(a, b *Config) { a.NoCRC, b.NoCRC = true, true })
	strip := func(pkt []byte) []byte {
		var h wire.Header
		if r := wire.ParseHeader(pkt, &h); r != 0 {
			t.Fatal(r)
		}
		h.Flags &^= wire.FlagCRC
		out := append([]byte(nil), pkt[:len(pkt)-wire.TrailerSize]...)
		return out[:finish(out, &h, int(h.Length))]
	}
	p.tap = func(from *endpoint, pkt []byte) bool {
		if mustCarryCRC(wire.Type(pkt[1])) {
			to := p.other(from).engine
			before := to.Counters.MissingCRC
			to.HandlePacket(p.now, 0, from.addrs[0], false, strip(pkt))
			if to.Counters.MissingCRC != before+1 {
				t.Errorf("%v without checksum is taken", wire.Type(pkt[1]))
			}
		}
		return true
	}
	p.dial()
	p.run("incoming", 1e9, func() bool { return p.b.count(EventIncoming) == 1 })
	ev := p.b.find(EventIncoming)
	if err := p.b.engine.Conn(ev.Conn).Accept(p.now, nil); err != nil {
		t.Fatal(err)
	}
	p.run("both up", 1e9, func() bool { return p.a.count(EventEstablished) == 1 && p.b.count(EventEstablished) == 1 })
	p.idle(6e9) // a keep-alive probe
}

func TestDialChecksItsPlanes(t *testing.T) {
	p := newPair(t, 2, 3, nil)
	for _, plane := range []int{-1, 2, 8} {
		if _, err := p.a.engine.Dial(p.now, DialRequest{Service: "x", Peers: []DialPeer{{Plane: plane, Addr: p.b.addrs[0]}}}); err == nil {
			t.Errorf("plane %d of 2 is taken", plane)
		}
	}
	if p.a.engine.active != 0 {
		t.Error("a refused dial left a connection")
	}
}

// Every packet of set-up is lost in turn, and one, and two: both sides come up
// once, or the dialling side hears why not. The application is asked once.
func TestSetupSurvivesAnyLoss(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		for lost := range 64 { // bit n: the n-th packet is lost
			p := newPair(t, 2, uint64(lost), nil)
			n := 0
			p.tap = func(*endpoint, []byte) bool { n++; return n > 6 || lost>>(n-1)&1 == 0 }
			p.dial()
			p.run("incoming", 4e9, func() bool { return p.b.count(EventIncoming) == 1 })
			c := p.b.engine.Conn(p.b.find(EventIncoming).Conn)
			if refuse {
				if err := c.Refuse(p.now, "no room"); err != nil {
					t.Fatal(err)
				}
				var ev *Event
				p.run("refusal", 4e9, func() bool { ev = p.a.find(EventRefused); return ev != nil })
				if ev.Text != "no room" {
					t.Errorf("loss %b: text %q", lost, ev.Text)
				}
				p.run("nothing left", 4e9, func() bool { return p.a.engine.active == 0 && p.b.engine.active == 0 })
			} else {
				if err := c.Accept(p.now, nil); err != nil {
					t.Fatal(err)
				}
				p.run("both up", 4e9, func() bool { return p.a.count(EventEstablished) == 1 && p.b.count(EventEstablished) == 1 })
			}
			p.idle(2e9)
			if n := p.b.count(EventIncoming); n != 0 {
				t.Errorf("refuse %v, loss %b: the application was asked %d times more", refuse, lost, n)
			}
			if p.b.engine.pending != 0 {
				t.Errorf("refuse %v, loss %b: %d pending", refuse, lost, p.b.engine.pending)
			}
		}
	}
}

// Answers that say "connection unknown" must not end a dial: before set-up has
// ended nobody was probed.
func TestUnknownAnswersDoNotEndADial(t *testing.T) {
	p := newPair(t, 1, 4, nil)
	p.tap = func(*endpoint, []byte) bool { return false }
	c := p.dial()
	p.flush()
	for _, secret := range []uint64{0, c.probeSecret} {
		guess := Conn{id: c.id, probeSecret: secret}
		buf := make([]byte, 256)
		wire.PutProbe(buf[wire.HeaderSize:], &wire.Probe{Value: guess.probeValue(0, 0), Flags: wire.ProbeUnknown})
		n := finish(buf, &wire.Header{Type: wire.PROBE_ACK, Flags: wire.FlagCRC, DestConn: 99, Class: wire.ClassControl}, wire.ProbeSize)
		for range 2 * restartAnswers {
			p.a.engine.HandlePacket(p.now, 0, p.b.addrs[0], false, buf[:n])
		}
	}
	if c.state != stateConnecting {
		t.Errorf("the dial is %v", c.state)
	}
}

// A flood of strangers: half of the places are free, then a cookie is asked
// for, which needs no memory; who can show one gets in up to the limit.
func TestFloodOfSetups(t *testing.T) {
	p := newPair(t, 1, 5, func(_, b *Config) { b.MaxPending = 8 })
	e := p.b.engine
	if err := e.Listen(testService, testOwner); err != nil {
		t.Fatal(err)
	}
	from := wire.AddrFrom4([4]byte{10, 9, 9, 9}, 5)
	for nonce := range uint64(4) {
		e.HandlePacket(p.now, 0, from, false, connectPacket(t, nonce, nil))
	}
	if e.pending != 4 {
		t.Fatalf("%d pending, want 4", e.pending)
	}
	ask := func(nonce uint64, from wire.Addr, cookie []byte) (wire.RefuseReason, []byte) {
		e.HandlePacket(p.now, 0, from, false, connectPacket(t, nonce, func(s *wire.Setup) { s.Cookie = cookie }))
		if !e.Pending(0) {
			return 0, nil
		}
		h, body := answer(t, e, p.now, 0)
		var r wire.Refuse
		if h.Type != wire.REFUSE || wire.ParseRefuse(body, &r) != 0 {
			t.Fatalf("answer %v", h.Type)
		}
		return r.Reason, append([]byte(nil), r.Text...)
	}
	reason, cookie := ask(100, from, nil)
	if reason != wire.RefuseRetryCookie {
		t.Fatalf("answer %v", reason)
	}
	other := from
	other.Port++
	for name, try := range map[string]func() (wire.RefuseReason, []byte){
		"another's cookie": func() (wire.RefuseReason, []byte) { return ask(100, other, cookie) },
		"another nonce":    func() (wire.RefuseReason, []byte) { return ask(101, from, cookie) },
		"made up":          func() (wire.RefuseReason, []byte) { return ask(100, from, make([]byte, 16)) },
	} {
		if reason, _ := try(); reason != wire.RefuseRetryCookie || e.pending != 4 {
			t.Errorf("%s: %v, %d pending", name, reason, e.pending)
		}
	}
	if reason, _ := ask(100, from, cookie); reason != 0 || e.pending != 5 {
		t.Errorf("right cookie: %v, %d pending", reason, e.pending)
	}
	for nonce := uint64(200); e.pending < 8; nonce++ {
		_, cookie := ask(nonce, from, nil)
		ask(nonce, from, cookie)
	}
	_, cookie = ask(300, from, nil)
	if reason, _ := ask(300, from, cookie); reason != wire.RefuseBusy || e.pending != 8 {
		t.Errorf("one too many: %v, %d pending", reason, e.pending)
	}
	p.now += 2 * cookieNanos
	if reason, _ := ask(300, from, cookie); reason != wire.RefuseRetryCookie {
		t.Errorf("old cookie: %v", reason)
	}
	for range 2 * maxReplies {
		e.HandlePacket(p.now, 0, from, false, connectPacket(t, 999, nil))
	}
	if n := e.replies[0].len(); n > maxReplies {
		t.Errorf("%d answers to strangers wait", n)
	}
	for e.Deadline() != never { // the application never answers
		p.now = max(p.now, e.Deadline())
		e.HandleDeadline(p.now)
	}
	if e.active != 0 || e.pending != 0 || len(e.dialed) != 0 {
		t.Errorf("left over: %d active, %d pending, %d dialled", e.active, e.pending, len(e.dialed))
	}
}

func TestDialThroughACookie(t *testing.T) {
	p := newPair(t, 2, 6, func(_, b *Config) { b.MaxPending = 1 }) // always asks for one
	p.faults.loss = 0.2
	ca, cb := p.connect()
	p.closeBoth(ca, cb)
}

// One of both sides goes away at any moment of set-up.
func TestSetupGivenUp(t *testing.T) {
	giveUp := map[string]func(p *pair, c *Conn){
		"close": func(p *pair, c *Conn) { _ = c.Close(p.now, 0) },
		"abort": func(p *pair, c *Conn) { c.Abort(p.now, wire.CloseApplicationGone) },
		"lose":  func(p *pair, c *Conn) { p.tap = func(*endpoint, []byte) bool { return false } },
	}
	for how, f := range giveUp {
		for _, side := range []string{"a", "b"} {
			for steps := range 8 {
				t.Run(fmt.Sprintf("%s at %s after %d", how, side, steps), func(t *testing.T) {
					p := newPair(t, 2, 7, func(a, b *Config) { a.ConnectionTimeoutNanos, b.ConnectionTimeoutNanos = 8e9, 8e9 })
					ca := p.dial()
					var cb *Conn
					for range steps {
						p.step(p.now + 1e6)
						if ev := p.b.find(EventIncoming); ev != nil {
							cb = p.b.engine.Conn(ev.Conn)
							if err := cb.Accept(p.now, nil); err != nil {
								t.Fatal(err)
							}
						}
					}
					if c := map[string]*Conn{"a": ca, "b": cb}[side]; c != nil {
						f(p, c)
					}
					p.idle(12e9)
					for name, e := range map[string]*Engine{"a": p.a.engine, "b": p.b.engine} {
						if how == "lose" || cb != nil || side == "a" {
							if e.active != 0 || e.pending != 0 || len(e.dialed) != 0 {
								t.Errorf("%s: left over: %d active, %d pending, %d dialled; %s", name, e.active, e.pending, len(e.dialed), p.a.describe())
							}
						}
					}
				})
			}
		}
	}
}

func TestConnectionNumberIsNeverZero(t *testing.T) {
	p := newPair(t, 1, 8, func(_, b *Config) { b.MaxConnections = 1 })
	seen := map[wire.ConnID]bool{}
	for range 5000 {
		c, err := p.b.engine.newConn(p.now)
		if err != nil {
			t.Fatal(err)
		}
		c.state = stateConnecting
		if c.id == 0 {
			t.Fatal("connection number 0")
		}
		seen[c.id] = true
		p.b.engine.release(p.now, c)
		p.now += quietNanos
	}
	if len(seen) != 4095 || len(p.b.engine.conns) != 1 {
		t.Errorf("%d numbers, %d indices", len(seen), len(p.b.engine.conns))
	}
}
