package transport

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

const (
	keyA = 0x1111111111111111
	keyB = 0x2222222222222222
)

func TestOneWriteLandsAndCompletes(t *testing.T) {
	p := newPair(t, 1, 1, nil)
	ca, cb := p.connect()
	src := p.region(p.a, keyA, 10_000, 0)
	dst := p.region(p.b, keyB, 20_000, RemoteWrite)
	fillRandom(p.rng, src)
	if s := ca.Post(p.now, &Work{Owner: testOwner, Length: 10_000, LocalKey: keyA, RemoteKey: keyB, RemoteOffset: 5000, HasImm: true, Imm: 42, UserData: 9}); s != StatusOK {
		t.Fatal(s)
	}
	var sent, got *Event
	p.run("completion", 1e9, func() bool { sent = p.a.find(EventSent); return sent != nil })
	p.run("receive", 1e9, func() bool { got = p.b.find(EventReceived); return got != nil })
	if sent.Status != StatusOK || sent.UserData != 9 || got.Imm != 42 || got.Bytes != 10_000 {
		t.Fatalf("sent %+v, received %+v", sent, got)
	}
	if !bytes.Equal(dst[5000:15000], src) {
		t.Fatal("bytes differ")
	}
	if !allZero(dst[:5000]) || !allZero(dst[15000:]) {
		t.Fatal("bytes outside the destination were written")
	}
	if ca.Stats().Retransmissions != 0 || cb.Stats().Duplicates != 0 {
		t.Fatalf("clean network, yet %+v %+v", ca.Stats(), cb.Stats())
	}
}

func allZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// transfer writes random pieces of a's memory to b at random places that do
// not overlap, and compares everything in the end.
func transfer(t *testing.T, p *pair, ca *Conn, operations int) {
	t.Helper()
	const slot = 40_000
	src := p.region(p.a, keyA, operations*slot, 0)
	dst := p.region(p.b, keyB, operations*slot, RemoteWrite)
	want := make([]byte, len(dst))
	fillRandom(p.rng, src)
	r := rand.New(rand.NewPCG(3, uint64(operations)))
	order := r.Perm(operations)
	posted, done := 0, 0
	for done < operations {
		for posted < operations {
			n := r.IntN(slot)
			from, to := r.IntN(len(src)-n), order[posted]*slot
			s := ca.Post(p.now, &Work{
				Owner: testOwner, Stream: uint16(posted % 3), Length: uint32(n), LocalKey: keyA, LocalOffset: uint64(from),
				RemoteKey: keyB, RemoteOffset: uint64(to), HasImm: posted%2 == 0, Imm: uint32(posted), UserData: uint64(posted),
			})
			if s == StatusRetry {
				break
			}
			if s != StatusOK {
				t.Fatalf("post %d: %v", posted, s)
			}
			copy(want[to:], src[from:from+n])
			posted++
		}
		var ev *Event
		p.run(fmt.Sprintf("completion %d of %d", done+1, operations), 20e9, func() bool { ev = p.a.find(EventSent); return ev != nil })
		if ev.Status != StatusOK {
			t.Fatalf("operation %d: %v", ev.UserData, ev.Status)
		}
		done++
	}
	if !bytes.Equal(dst, want) {
		t.Fatal("memory differs from the model")
	}
	imms := (operations + 1) / 2
	p.run("every immediate", 5e9, func() bool { return p.b.count(EventReceived) == imms })
	last := map[uint16]uint32{}
	for _, ev := range p.b.events {
		if ev.Kind != EventReceived {
			continue
		}
		if prev, ok := last[ev.Stream]; ok && int32(ev.MSN-prev) <= 0 {
			t.Fatalf("stream %d: MSN %d after %d", ev.Stream, ev.MSN, prev)
		}
		last[ev.Stream] = ev.MSN
	}
}

func TestEveryByteUnderFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		f    faults
	}{
		{"clean", faults{}},
		{"loss 1 %", faults{loss: 0.01}},
		{"loss 10 %", faults{loss: 0.1}},
		{"loss 30 %", faults{loss: 0.3}},
		{"duplicate", faults{duplicate: 0.2}},
		{"reorder", faults{reorder: 0.2}},
		{"corrupt", faults{corrupt: 0.05}},
		{"marks", faults{mark: 0.3}},
		{"everything", faults{loss: 0.05, duplicate: 0.05, corrupt: 0.02, reorder: 0.1, mark: 0.1}},
	} {
		for _, planes := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s on %d planes", c.name, planes), func(t *testing.T) {
				for seed := range uint64(3) {
					p := newPair(t, planes, seed, nil)
					p.faults = c.f
					ca, cb := p.connect()
					transfer(t, p, ca, 200)
					if c.f == (faults{}) && ca.Stats().Retransmissions != 0 {
						t.Errorf("clean network, yet %d retransmissions", ca.Stats().Retransmissions)
					}
					if c.f.loss > 0 && ca.Stats().Retransmissions == 0 {
						t.Error("loss without a retransmission")
					}
					p.closeBoth(ca, cb)
				}
			})
		}
	}
}

// closeBoth closes from a's side and checks that nothing is left.
func (p *pair) closeBoth(ca, cb *Conn) {
	p.t.Helper()
	if err := ca.Close(p.now, 0); err != nil {
		p.t.Fatal(err)
	}
	p.run("both sides gone", 10e9, func() bool { return p.a.engine.active == 0 && p.b.engine.active == 0 })
	for _, e := range []*endpoint{p.a, p.b} {
		if e.find(EventClosed) == nil {
			p.t.Errorf("%s: no EventClosed", e.name)
		}
		for i := range e.engine.ready {
			p.flush()
			if n := e.engine.ready[i].len(); n > 0 {
				p.t.Errorf("%s: %d connections still in the ready list of plane %d", e.name, n, i)
			}
		}
		if e.engine.pending != 0 || len(e.engine.dialed) != 0 || len(e.engine.deadline.conns) != 0 {
			p.t.Errorf("%s: left over: %d pending, %d dialled, %d deadlines", e.name, e.engine.pending, len(e.engine.dialed), len(e.engine.deadline.conns))
		}
	}
}

func TestPlaneGoesSilentAndReturns(t *testing.T) {
	// Few packets in flight: the network here is as fast as the windows allow.
	p := newPair(t, 4, 5, func(a, b *Config) { a.RxPackets, b.RxPackets = 64, 64 })
	p.latency = 150_000
	ca, _ := p.connect()
	const size = 1 << 20
	src := p.region(p.a, keyA, size, 0)
	p.region(p.b, keyB, size, RemoteWrite)
	fillRandom(p.rng, src)
	posted, done := 0, 0
	pump := func() bool {
		for posted-done < 8 {
			if s := ca.Post(p.now, &Work{Owner: testOwner, Length: size, LocalKey: keyA, RemoteKey: keyB}); s != StatusOK {
				t.Fatal(s)
			}
			posted++
		}
		for ev := p.a.find(EventSent); ev != nil; ev = p.a.find(EventSent) {
			if ev.Status != StatusOK {
				t.Fatal(ev.Status)
			}
			done++
		}
		return false
	}
	run := func(nanos int64) int {
		before := done
		until := p.now + nanos
		for p.now < until && p.step(until) {
			pump()
		}
		return done - before
	}
	pump()
	run(5e6)
	clean := run(20e6)
	p.faults.black[2] = true
	run(20e6)
	failed := run(20e6)
	if ca.usable(2) {
		t.Error("plane 2 is black and still counts as usable")
	}
	if failed < clean/2 {
		t.Errorf("%d operations in 20 ms with three of four planes, %d with four", failed, clean)
	}
	p.faults.black[2] = false
	run(400e6)
	if !ca.usable(2) {
		t.Error("plane 2 works again and is not used")
	}
	if back := run(20e6); back < clean*9/10 {
		t.Errorf("%d operations in 20 ms after the return, %d before", back, clean)
	}
}

func TestLinkDownMovesEverythingAtOnce(t *testing.T) {
	p := newPair(t, 2, 6, nil)
	ca, cb := p.connect()
	src := p.region(p.a, keyA, 1<<20, 0)
	dst := p.region(p.b, keyB, 1<<20, RemoteWrite)
	fillRandom(p.rng, src)
	ca.Post(p.now, &Work{Owner: testOwner, Length: 1 << 20, LocalKey: keyA, RemoteKey: keyB})
	p.step(p.now + 15_000)
	p.faults.black[0] = true
	p.a.engine.HandlePlane(p.now, 0, false)
	p.b.engine.HandlePlane(p.now, 0, false)
	start := p.now
	p.run("completion", 1e9, func() bool { return p.a.find(EventSent) != nil })
	if took := p.now - start; took > 3e6 {
		t.Errorf("took %d us with one of two planes down", took/1000)
	}
	if !bytes.Equal(src, dst) {
		t.Error("bytes differ")
	}
	p.faults.black[0] = false
	p.a.engine.HandlePlane(p.now, 0, true)
	p.b.engine.HandlePlane(p.now, 0, true)
	p.run("plane 0 back at both", 1e9, func() bool { return ca.usable(0) && cb.usable(0) })
}

func TestRefusedOperationFailsAlone(t *testing.T) {
	for _, c := range []struct {
		name string
		work Work
	}{
		{"unknown key", Work{RemoteKey: 0x3333}},
		{"no permission", Work{RemoteKey: 0x4444}},
		{"beyond the end", Work{RemoteKey: keyB, RemoteOffset: 1 << 20}},
		{"across the end", Work{RemoteKey: keyB, RemoteOffset: 1<<20 - 100}},
		{"far offset", Work{RemoteKey: keyB, RemoteOffset: 1<<63 + 5}},
	} {
		for _, loss := range []float64{0, 0.2} {
			t.Run(fmt.Sprintf("%s, loss %v", c.name, loss), func(t *testing.T) {
				p := newPair(t, 2, 8, nil)
				p.faults.loss = loss
				ca, _ := p.connect()
				src := p.region(p.a, keyA, 1<<20, 0)
				dst := p.region(p.b, keyB, 1<<20, RemoteWrite)
				p.region(p.b, 0x4444, 1<<20, RemoteRead)
				fillRandom(p.rng, src)
				good := Work{Owner: testOwner, Length: 50_000, LocalKey: keyA, RemoteKey: keyB, UserData: 1}
				bad := c.work
				bad.Owner, bad.Length, bad.LocalKey, bad.UserData = testOwner, 50_000, keyA, 2
				for _, w := range []Work{good, bad, good, bad, good} {
					if s := ca.Post(p.now, &w); s != StatusOK {
						t.Fatal(s)
					}
				}
				p.run("five completions", 5e9, func() bool { return p.a.count(EventSent) == 5 })
				for i, ev := range p.a.events {
					want := StatusOK
					if i%2 == 1 {
						want = StatusRemoteAccess
					}
					if ev.Status != want {
						t.Errorf("operation %d: %v, want %v", i, ev.Status, want)
					}
				}
				if !bytes.Equal(dst[:50_000], src[:50_000]) || !allZero(dst[50_000:len(dst)-100]) {
					t.Error("bytes are not as the good operations left them")
				}
				transferAfter(t, p, ca)
			})
		}
	}
}

// transferAfter shows that a connection still works.
func transferAfter(t *testing.T, p *pair, ca *Conn) {
	t.Helper()
	p.a.events, p.b.events = nil, nil
	src := p.region(p.a, 0x5555, 30_000, 0)
	dst := p.region(p.b, 0x6666, 30_000, RemoteWrite)
	fillRandom(p.rng, src)
	if s := ca.Post(p.now, &Work{Owner: testOwner, Length: 30_000, LocalKey: 0x5555, RemoteKey: 0x6666, HasImm: true}); s != StatusOK {
		t.Fatal(s)
	}
	p.run("one more write", 5e9, func() bool { return p.a.count(EventSent) == 1 && p.b.count(EventReceived) == 1 })
	if !bytes.Equal(src, dst) {
		t.Error("bytes of the write after differ")
	}
}

func TestBadRequestsAreRefusedAtOnce(t *testing.T) {
	p := newPair(t, 1, 9, nil)
	ca, _ := p.connect()
	p.region(p.a, keyA, 1000, 0)
	for _, c := range []struct {
		name string
		w    Work
		want Status
	}{
		{"unknown region", Work{Owner: testOwner, LocalKey: 77}, StatusLocalAccess},
		{"too long", Work{Owner: testOwner, LocalKey: keyA, Length: 1001}, StatusLocalAccess},
		{"offset beyond", Work{Owner: testOwner, LocalKey: keyA, LocalOffset: 1001}, StatusLocalAccess},
		{"offset overflows", Work{Owner: testOwner, LocalKey: keyA, LocalOffset: ^uint64(0), Length: 2}, StatusLocalAccess},
		{"remote offset overflows", Work{Owner: testOwner, LocalKey: keyA, RemoteOffset: ^uint64(0), Length: 2}, StatusBadRequest},
		{"stream", Work{Owner: testOwner, LocalKey: keyA, Stream: 64}, StatusBadRequest},
		{"another's connection", Work{Owner: 8, LocalKey: keyA}, StatusBadRequest},
	} {
		if s := ca.Post(p.now, &c.w); s != c.want {
			t.Errorf("%s: %v, want %v", c.name, s, c.want)
		}
	}
	transferAfter(t, p, ca)
}

func TestRegionDiesUnderTraffic(t *testing.T) {
	p := newPair(t, 2, 10, nil)
	p.faults.loss = 0.1
	ca, _ := p.connect()
	p.region(p.a, keyA, 1<<20, 0)
	p.region(p.b, keyB, 1<<20, RemoteWrite)
	for range 4 {
		ca.Post(p.now, &Work{Owner: testOwner, Length: 1 << 20, LocalKey: keyA, RemoteKey: keyB, HasImm: true})
	}
	p.step(p.now + 30_000)
	if err := p.a.engine.RemoveRegion(p.now, keyA); err != nil {
		t.Fatal(err)
	}
	p.run("four completions", 5e9, func() bool { return p.a.count(EventSent) == 4 })
	for _, ev := range p.a.events {
		if ev.Status != StatusLocalAccess {
			t.Errorf("operation: %v", ev.Status)
		}
	}
	transferAfter(t, p, ca)
}

func TestCreditHoldsTheSender(t *testing.T) {
	p := newPair(t, 1, 11, func(a, b *Config) { a.MessageDepth, b.MessageDepth = 16, 16 })
	p.b.taken = true
	ca, cb := p.connect()
	p.region(p.a, keyA, 1000, 0)
	p.region(p.b, keyB, 1000, RemoteWrite)
	posted := 0
	pump := func() {
		for ca.Post(p.now, &Work{Owner: testOwner, Length: 10, LocalKey: keyA, RemoteKey: keyB, HasImm: true}) == StatusOK {
			posted++
		}
	}
	for range 50 {
		pump()
		p.idle(2e6)
	}
	if got := p.b.count(EventReceived); got != 16 {
		t.Fatalf("%d messages arrived at an application that takes none, depth is 16", got)
	}
	for range 8 {
		cb.Consumed(0)
	}
	p.run("eight more", 1e9, func() bool { return p.b.count(EventReceived) == 24 })
	p.tap = func(from *endpoint, _ []byte) bool { return from != p.b } // the next credit is lost
	for range 8 {
		cb.Consumed(0)
	}
	p.idle(1e6)
	p.tap = nil
	p.run("credit asked for", 1e9, func() bool { return p.b.count(EventReceived) == 32 })
}

func TestSilentPeerFailsEveryOperation(t *testing.T) {
	p := newPair(t, 2, 12, nil)
	ca, _ := p.connect()
	p.region(p.a, keyA, 1000, 0)
	p.tap = func(*endpoint, []byte) bool { return false }
	for range 3 {
		ca.Post(p.now, &Work{Owner: testOwner, Length: 1000, LocalKey: keyA, RemoteKey: keyB})
	}
	start, packets := p.now, p.sent
	p.run("failure", 40e9, func() bool { return p.a.count(EventSent) == 3 && p.a.count(EventClosed) == 1 })
	if took := p.now - start; took < 29e9 {
		t.Errorf("gave up after %d ms, configured are 30 s", took/1e6)
	}
	if n := p.sent - packets; n > 5000 {
		t.Errorf("%d packets into the void: timers do not back off", n)
	}
	for _, ev := range p.a.events {
		if ev.Kind == EventSent && ev.Status != StatusSilent {
			t.Errorf("status %v", ev.Status)
		}
	}
	p.run("a is free", 5e9, func() bool { return p.a.engine.active == 0 })
}

func TestPeerRestartIsNoticed(t *testing.T) {
	p := newPair(t, 2, 13, nil)
	ca, _ := p.connect()
	p.region(p.a, keyA, 1000, 0)
	p.b = p.endpoint("b", testConfig(2, 2, 77))
	ca.Post(p.now, &Work{Owner: testOwner, Length: 1000, LocalKey: keyA, RemoteKey: keyB})
	var ev *Event
	p.run("failure", 5e9, func() bool { ev = p.a.find(EventSent); return ev != nil })
	if ev.Status != StatusPeerRestarted {
		t.Errorf("status %v", ev.Status)
	}
}

func TestDialIsRefusedWithAReason(t *testing.T) {
	p := newPair(t, 1, 14, nil)
	if _, err := p.a.engine.Dial(p.now, DialRequest{Owner: testOwner, Service: "nobody", Peers: []DialPeer{{Addr: p.b.addrs[0]}}}); err != nil {
		t.Fatal(err)
	}
	var ev *Event
	p.run("refusal", 1e9, func() bool { ev = p.a.find(EventRefused); return ev != nil })
	if ev.Text != "no application listens on this service" {
		t.Errorf("text %q", ev.Text)
	}
	p.tap = func(*endpoint, []byte) bool { return false }
	p.a.engine.Dial(p.now, DialRequest{Owner: testOwner, Service: testService, Peers: []DialPeer{{Addr: p.b.addrs[0]}}})
	p.run("timeout", 6e9, func() bool { ev = p.a.find(EventRefused); return ev != nil })
	if p.a.engine.active != 0 {
		t.Error("a failed dial left a connection")
	}
}

func TestAbortTellsThePeer(t *testing.T) {
	p := newPair(t, 2, 15, nil)
	ca, _ := p.connect()
	p.region(p.a, keyA, 1<<20, 0)
	p.region(p.b, keyB, 1<<20, RemoteWrite)
	ca.Post(p.now, &Work{Owner: testOwner, Length: 1 << 20, LocalKey: keyA, RemoteKey: keyB})
	p.step(p.now + 20_000)
	ca.Abort(p.now, 0)
	p.run("b closed", 1e9, func() bool { return p.b.find(EventClosed) != nil })
	p.run("nothing left", 3e9, func() bool { return p.a.engine.active == 0 && p.b.engine.active == 0 })
	if p.a.count(EventSent) != 0 {
		t.Error("an aborted connection reported completions to nobody")
	}
}
