package transport

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// Every packet from the close on is lost in every combination of the first six,
// however the connection ends. Both sides must end, tell their application once
// and keep nothing, and what a closing side has posted must have arrived.
func TestCloseSurvivesAnyLoss(t *testing.T) {
	for name, end := range map[string]func(p *pair, ca, cb *Conn){
		"one side":  func(p *pair, ca, _ *Conn) { _ = ca.Close(p.now, 0) },
		"both":      func(p *pair, ca, cb *Conn) { _, _ = ca.Close(p.now, 0), cb.Close(p.now, 0) },
		"one later": func(p *pair, ca, cb *Conn) { _ = ca.Close(p.now, 0); p.step(p.now + 12_000); _ = cb.Close(p.now, 0) },
	} {
		for _, length := range []int{0, 100, 50_000} {
			for lost := range 64 {
				what := fmt.Sprintf("%s, %d bytes, loss %06b", name, length, lost)
				p := newPair(t, 2, uint64(lost), nil)
				ca, cb := p.connect()
				p.a.events, p.b.events = nil, nil
				n := 0
				p.tap = func(*endpoint, []byte) bool { n++; return n > 6 || lost>>(n-1)&1 == 0 }
				var src, dst []byte
				if length > 0 {
					src, dst = p.write(ca, length)
				}
				end(p, ca, cb)
				p.run("both sides gone, "+what, 10e9, func() bool { return p.a.engine.active+p.b.engine.active == 0 })
				for _, e := range []*endpoint{p.a, p.b} {
					p.flush()
					if got := e.count(EventClosed); got != 1 {
						t.Errorf("%s: %s: EventClosed %d times", what, e.name, got)
					}
					checkNothingLeft(t, what+": "+e.name, e.engine)
				}
				if length == 0 {
					continue
				}
				ev := p.a.find(EventSent)
				if ev == nil || name == "one side" && ev.Status != StatusOK || ev.Status == StatusOK && !bytes.Equal(src, dst) {
					t.Errorf("%s: operation ended as %+v", what, ev)
				}
			}
		}
	}
}

// The peer never answers a CLOSE: the side that closes goes all the same.
func TestCloseWithoutAnswer(t *testing.T) {
	p := newPair(t, 2, 1, nil)
	ca, _ := p.connect()
	p.tap = func(from *endpoint, _ []byte) bool { return from != p.b }
	if err := ca.Close(p.now, 0); err != nil {
		t.Fatal(err)
	}
	start := p.now
	p.run("a gone", 3e9, func() bool { return p.a.engine.active == 0 })
	if p.a.count(EventClosed) != 1 || p.now-start < 500e6 {
		t.Errorf("gone after %d ms, EventClosed %d times", (p.now-start)/1e6, p.a.count(EventClosed))
	}
}

// After a close nothing of the old connection disturbs the next one on the same
// index, though every packet of the old one comes again.
func TestReplayOfAnOldConnection(t *testing.T) {
	p := newPair(t, 1, 2, func(a, b *Config) { a.MaxConnections, b.MaxConnections = 1, 1 })
	type packet struct {
		to  *endpoint
		pkt []byte
	}
	var old []packet
	p.tap = func(from *endpoint, pkt []byte) bool {
		old = append(old, packet{p.other(from), append([]byte(nil), pkt...)})
		return true
	}
	ca, cb := p.connect()
	p.write(ca, 20_000)
	p.run("completion", 1e9, func() bool { return p.a.find(EventSent) != nil })
	p.closeBoth(ca, cb)
	p.tap = nil
	p.idle(quietNanos)
	p.a.events, p.b.events = nil, nil
	replay := func(skip wire.Type) {
		for _, o := range old {
			if wire.Type(o.pkt[1]) != skip {
				o.to.engine.HandlePacket(p.now, 0, p.other(o.to).addrs[0], false, o.pkt)
				p.flush()
			}
		}
	}
	ca, cb = p.connect()
	src, dst := p.write(ca, 20_000)
	replay(wire.CONNECT) // a second connection is above the limit here
	p.run("completion", 1e9, func() bool { return p.a.find(EventSent) != nil })
	replay(wire.CONNECT)
	if !bytes.Equal(src, dst) || ca.state != stateEstablished || cb.state != stateEstablished {
		t.Error("the new connection was disturbed")
	}
	p.closeBoth(ca, cb)
	p.a.events, p.b.events = nil, nil
	replay(wire.CONNECT)
	p.flush()
	if len(p.a.events)+len(p.b.events) != 0 {
		t.Error("an old packet caused an event")
	}
}

// A session ends while its connections are in every state: Abort tells peers
// and leaves nothing, and nothing is delivered to it any more.
func TestAbortInEveryState(t *testing.T) {
	for steps := range 40 {
		p := newPair(t, 2, uint64(steps), nil)
		ca := p.dial()
		var cb *Conn
		closing := false
		for range steps {
			p.step(p.now + 1e6)
			if ev := p.b.find(EventIncoming); ev != nil {
				cb = p.b.engine.Conn(ev.Conn)
				if steps%3 != 0 {
					if err := cb.Accept(p.now, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			if ca.state == stateEstablished && cb.state == stateEstablished && !closing {
				closing = true
				p.write(ca, 100_000)
				if steps%2 == 0 {
					_ = ca.Close(p.now, 0)
				}
			}
		}
		p.a.events, p.b.events = nil, nil
		p.b.engine.Unlisten(testService, testOwner)
		for _, e := range []*endpoint{p.a, p.b} {
			e.engine.Connections(func(c *Conn) { c.Abort(p.now, wire.CloseApplicationGone) })
			checkEngine(t, e.name, e.engine, p.now)
		}
		p.run("nothing left", 5e9, func() bool { return p.a.engine.active+p.b.engine.active == 0 })
		p.flush()
		for _, e := range []*endpoint{p.a, p.b} {
			checkNothingLeft(t, e.name, e.engine)
			for _, ev := range e.events {
				t.Errorf("%d steps: %s: event %d after the abort: %s", steps, e.name, ev.Kind, ev.Text)
			}
		}
	}
}

// Both hosts' oldest operations are refused while short operations fill both
// windows: the ERRORs must get through nevertheless.
func TestRefusalsInBothFullWindows(t *testing.T) {
	p := newPair(t, 1, 3, func(a, b *Config) {
		a.DSNWindow, b.DSNWindow, a.RxPackets, b.RxPackets = 256, 256, 4096, 4096
	})
	p.latency = 1_000_000
	ca, cb := p.connect()
	ends := []struct {
		e *endpoint
		c *Conn
	}{{p.a, ca}, {p.b, cb}}
	for _, end := range ends {
		p.region(end.e, keyA, 1000, 0)
		p.region(end.e, keyB, 1000, RemoteWrite)
	}
	total := 0
	for _, end := range ends {
		for plane := range end.c.planes {
			end.c.tx[plane].cc.OnShare(p.now, 100e9, 16)
		}
		for i := range 1000 {
			w := Work{Owner: testOwner, Length: 10, LocalKey: keyA, RemoteKey: keyB}
			if i < 40 {
				w.RemoteKey = 0x999
			}
			w.Stream = uint16(i % 8)
			if end.c.Post(p.now, &w) == StatusOK {
				total++
			}
		}
	}
	p.run("every completion", 10e9, func() bool { return p.a.count(EventSent)+p.b.count(EventSent) == total })
	for _, end := range ends {
		for _, ev := range end.e.events {
			if ev.Kind == EventSent && ev.Status != StatusOK && ev.Status != StatusRemoteAccess {
				t.Errorf("%s: %v", end.e.name, ev.Status)
			}
		}
	}
}
