package transport

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

var (
	oneSeed = flag.Int64("seed", -1, "TestRandomOperations: replay this seed only")
	seeds   = flag.Int("seeds", 320, "TestRandomOperations: how many seeds")
)

// TestRandomOperations runs random operations over a random bad network and
// compares with a model: every operation ends exactly once and in the order of
// its stream, its bytes are where they belong, nothing else was written, and
// in the end nothing is left.
func TestRandomOperations(t *testing.T) {
	if *oneSeed >= 0 {
		runRandom(t, uint64(*oneSeed))
		return
	}
	for seed := range uint64(*seeds) {
		if ok := t.Run(fmt.Sprint(seed), func(t *testing.T) { runRandom(t, seed) }); !ok {
			t.Fatalf("replay: go test ./dataplane/transport -run TestRandomOperations -seed %d", seed)
		}
	}
}

const (
	slotBytes = 24_000 // room for one operation at its target, guards included
	maxOps    = 48     // per direction and seed
)

// op is one operation in the model.
type op struct {
	side   *side
	conn   *modelConn
	work   Work
	msn    uint32
	target int // offset of its slot in the target memory
	ended  bool
	status Status
	got    int // EventReceived
	bad    bool
}

// side is one endpoint in the model.
type side struct {
	*endpoint
	peer    *side
	source  []byte
	target  []byte // where the peer writes
	ops     []*op
	conns   []*modelConn
	removed bool // the source region
	closedR bool // the target region
}

// modelConn is one end of a connection in the model.
type modelConn struct {
	side    *side
	conn    *Conn
	id      wire.ConnID
	peer    *modelConn
	ended   bool // some end has closed or aborted
	aborted bool // this end
	closed  int  // EventClosed
	sent    map[uint16]uint32
	recv    map[uint16]uint32
	owed    map[uint16]int // messages that the application has not taken
	base    uint32         // MSN of the first message
}

// world is the model of a run.
type world struct {
	*pair
	a, b  *side
	conns map[*Engine]map[wire.ConnID]*modelConn
	r     *rand.Rand
}

func runRandom(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	depth := 4 << r.IntN(5)
	window := 256 << r.IntN(3)
	p := newPair(t, 1+r.IntN(4), seed, func(a, b *Config) {
		for _, c := range []*Config{a, b} {
			c.MessageDepth, c.DSNWindow, c.RxPackets = depth, window, 64<<r.IntN(4)
			c.Paths, c.AckEvery, c.PathInFlight = 1+r.IntN(16), 1+r.IntN(40), 1+r.IntN(256)
			c.MaxPending = 2 + r.IntN(8)
		}
	})
	p.latency = 5_000 + r.Int64N(200_000)
	p.now = 1<<32 + r.Int64N(3)*(1<<31) - 2_000_000 // some runs cross a wrap of the timestamps
	w := &world{pair: p, a: &side{endpoint: p.a}, b: &side{endpoint: p.b}, r: r, conns: map[*Engine]map[wire.ConnID]*modelConn{}}
	w.a.peer, w.b.peer = w.b, w.a
	for _, s := range []*side{w.a, w.b} {
		w.conns[s.engine] = map[wire.ConnID]*modelConn{}
		s.source = p.region(s.endpoint, keyA, 64_000, 0)
		s.target = p.region(s.endpoint, keyB, maxOps*slotBytes, RemoteWrite)
		p.region(s.endpoint, keyA^keyB, 100, RemoteRead)
		fillRandom(r, s.source)
	}
	for range 1 + r.IntN(3) {
		w.open()
	}
	p.onEvent = w.event
	p.tap = func(*endpoint, []byte) bool { return true }
	w.setFaults()
	for range 120 {
		w.act()
		for range r.IntN(6) {
			p.step(p.now + r.Int64N(300_000))
			checkEngine(t, "a", p.a.engine, p.now)
			checkEngine(t, "b", p.b.engine, p.now)
		}
	}
	w.finish()
}

// open makes a connection whose numbers start anywhere, near a wrap as a rule.
func (w *world) open() {
	ca, cb := w.connect()
	n := numbers{
		psn: wire.PSN(0) - wire.PSN(w.r.IntN(40)), dsn: 1<<32 - wire.DSN(w.r.IntN(60)),
		msn: uint32(0) - uint32(w.r.IntN(6)), count: uint32(0) - uint32(w.r.IntN(40)),
	}
	n.start(ca, cb)
	n.start(cb, ca)
	ma, mb := w.model(w.a, ca, n.msn), w.model(w.b, cb, n.msn)
	ma.peer, mb.peer = mb, ma
}

func (w *world) model(s *side, c *Conn, msn uint32) *modelConn {
	m := &modelConn{side: s, conn: c, id: c.id, base: msn, sent: map[uint16]uint32{}, recv: map[uint16]uint32{}, owed: map[uint16]int{}}
	w.conns[s.engine][c.id] = m
	s.conns = append(s.conns, m)
	return m
}

func (w *world) anySide() *side {
	if w.r.IntN(2) == 0 {
		return w.a
	}
	return w.b
}

func (w *world) anyConn(s *side) *modelConn {
	n := w.r.IntN(len(s.conns))
	for _, c := range s.engine.conns {
		if c == nil {
			continue
		}
		if n--; n < 0 {
			return w.conns[s.engine][c.id]
		}
	}
	return nil
}

func (w *world) setFaults() {
	some := func(most float64) float64 {
		if w.r.IntN(2) == 0 {
			return 0
		}
		return w.r.Float64() * most
	}
	f := &w.faults
	f.loss, f.duplicate, f.corrupt, f.reorder, f.mark = some(0.4), some(0.3), some(0.1), some(0.3), some(0.5)
}

// act does one random thing.
func (w *world) act() {
	s := w.anySide()
	c := w.anyConn(s)
	plane := w.r.IntN(len(s.addrs))
	switch n := w.r.IntN(100); {
	case n < 60:
		if c != nil {
			w.post(s, c)
		}
	case n < 68:
		w.setFaults()
	case n < 76:
		w.faults.black[plane] = !w.faults.black[plane]
	case n < 86:
		s.engine.HandlePlane(w.now, plane, s.engine.planeUp>>plane&1 == 0)
	case n < 94:
		if c != nil {
			w.consume(c)
		}
	case n < 95:
		w.removeRegion(s)
	case n < 96 && c != nil && w.r.IntN(3) == 0:
		c.ended, c.peer.ended = true, true
		if w.r.IntN(2) == 0 {
			_ = c.conn.Close(w.now, 0)
			return
		}
		c.aborted = true
		c.conn.Abort(w.now, wire.CloseApplicationGone)
	default:
		w.idle(w.r.Int64N(20_000_000))
	}
}

func (w *world) removeRegion(s *side) {
	key := uint64(keyB)
	if w.r.IntN(2) == 0 {
		key, s.removed = keyA, true
	} else {
		s.closedR = true
	}
	_ = s.engine.RemoveRegion(w.now, key)
}

// post tries one WRITE of a random size.
func (w *world) post(s *side, c *modelConn) {
	if len(s.ops) == maxOps {
		return
	}
	sizes := []int{0, 1, shortBytes, shortBytes + 1, c.conn.maxPayload, c.conn.maxPayload + 1, slotBytes - 200, w.r.IntN(slotBytes - 200)}
	n := sizes[w.r.IntN(len(sizes))]
	o := &op{side: s, conn: c, target: len(s.ops)*slotBytes + 100}
	o.work = Work{
		Owner: testOwner, Stream: uint16(w.r.IntN(4)), HasImm: w.r.IntN(3) == 0, Fence: w.r.IntN(8) == 0, Imm: w.r.Uint32(),
		LocalKey: keyA, LocalOffset: uint64(w.r.IntN(len(s.source) - n)), Length: uint32(n),
		RemoteKey: keyB, RemoteOffset: uint64(o.target), UserData: uint64(len(s.ops)),
	}
	if w.r.IntN(12) == 0 {
		o.bad = true
		o.work.RemoteKey = []uint64{keyA ^ keyB, 0x999, keyA}[w.r.IntN(3)]
	}
	next := c.base
	if st := c.conn.sendS; st != nil && st[o.work.Stream] != nil {
		next = st[o.work.Stream].next
	}
	switch status := c.conn.Post(w.now, &o.work); {
	case status == StatusOK:
		o.msn = next
		s.ops = append(s.ops, o)
	case status == StatusRetry, status == StatusFlushed && c.ended, status == StatusLocalAccess && s.removed:
	default:
		w.t.Fatalf("%s: post: %v", s.name, status)
	}
}

// consume has an application take what it was told.
func (w *world) consume(c *modelConn) {
	for id := range uint16(4) {
		for ; c.owed[id] > 0; c.owed[id]-- {
			c.conn.Consumed(id)
		}
	}
}

// event checks one event against the model.
func (w *world) event(e *endpoint, ev *Event) {
	s := w.a
	if e == w.b.endpoint {
		s = w.b
	}
	c := w.conns[e.engine][ev.Conn]
	switch ev.Kind {
	case EventSent:
		w.ended(s, c, ev)
	case EventReceived:
		w.received(s, c, ev)
	case EventClosed:
		c.closed++
		if !c.ended || c.aborted {
			w.t.Fatalf("%s: closed: %s", s.name, ev.Text)
		}
	default:
		w.t.Fatalf("%s: unexpected event %d", s.name, ev.Kind)
	}
}

func (w *world) ended(s *side, c *modelConn, ev *Event) {
	o := s.ops[ev.UserData]
	if c.closed > 0 {
		w.t.Fatalf("%s: operation %d ended after EventClosed", s.name, ev.UserData)
	}
	if o.ended || o.conn != c || ev.MSN != o.msn || ev.Stream != o.work.Stream || ev.Bytes != uint64(o.work.Length) {
		w.t.Fatalf("%s: operation %d ended as %+v; before: %v", s.name, ev.UserData, *ev, o.ended)
	}
	o.ended, o.status = true, ev.Status
	if want := c.base + c.sent[ev.Stream]; ev.MSN != want {
		w.t.Fatalf("%s: stream %d: MSN %d ended, %d is next", s.name, ev.Stream, ev.MSN, want)
	}
	c.sent[ev.Stream]++
	switch ev.Status {
	case StatusOK:
		if o.bad {
			w.t.Fatalf("%s: operation %d has a bad key and ended well", s.name, ev.UserData)
		}
		w.landed(o)
	case StatusRemoteAccess:
		if !o.bad && !s.peer.closedR {
			w.t.Fatalf("%s: operation %d was refused", s.name, ev.UserData)
		}
	case StatusLocalAccess:
		if !s.removed {
			w.t.Fatalf("%s: operation %d lost its memory", s.name, ev.UserData)
		}
	default:
		if !c.ended {
			w.t.Fatalf("%s: operation %d: %v", s.name, ev.UserData, ev.Status)
		}
	}
}

// landed says that an operation's bytes are in place.
func (w *world) landed(o *op) {
	got := o.side.peer.target[o.target:][:o.work.Length]
	if !bytes.Equal(got, o.side.source[o.work.LocalOffset:][:o.work.Length]) {
		w.t.Fatalf("%s: operation %d ended and its bytes are not there", o.side.name, o.work.UserData)
	}
}

// received checks an immediate: once, in order, all earlier bytes in place.
func (w *world) received(s *side, c *modelConn, ev *Event) {
	if last, ok := c.recv[ev.Stream]; ok && int32(ev.MSN-last) <= 0 {
		w.t.Fatalf("%s: stream %d: MSN %d after %d", s.name, ev.Stream, ev.MSN, last)
	}
	c.recv[ev.Stream] = ev.MSN
	c.owed[ev.Stream]++
	found := false
	for _, o := range s.peer.ops {
		if o.conn != c.peer || o.work.Stream != ev.Stream || int32(o.msn-ev.MSN) > 0 {
			continue
		}
		if o.msn == ev.MSN {
			found = o.work.HasImm && o.work.Imm == ev.Imm && uint64(o.work.Length) == ev.Bytes && o.got == 0
			o.got++
		}
		if !o.bad && !s.closedR && !s.peer.removed {
			w.landed(o)
		}
	}
	if !found {
		w.t.Fatalf("%s: received %+v, which nobody sent or which came before", s.name, *ev)
	}
}

// finish lets the network recover and everything come to its end.
func (w *world) finish() {
	w.faults = faults{}
	for _, s := range []*side{w.a, w.b} {
		for plane := range s.addrs {
			s.engine.HandlePlane(w.now, plane, true)
		}
	}
	done := func() bool {
		for _, s := range []*side{w.a, w.b} {
			for _, c := range s.conns {
				w.consume(c)
			}
		}
		for _, s := range []*side{w.a, w.b} {
			for _, o := range s.ops {
				if !o.ended && !o.conn.aborted {
					return false
				}
			}
		}
		return true
	}
	w.run("the end of every operation", 20e9, done)
	w.idle(2e9)
	for _, s := range []*side{w.a, w.b} {
		for _, c := range s.conns {
			if c.ended {
				continue
			}
			if n := c.conn.log.next - c.conn.log.cumulative; n != 0 || c.conn.msgs.used != 0 {
				w.t.Errorf("%s: idle, yet %d DSNs and %d messages", s.name, n, c.conn.msgs.used)
			}
			for plane := range c.conn.planes {
				if _, n := c.conn.PlaneWindow(plane); n != 0 {
					w.t.Errorf("%s: idle, yet %d bytes in flight on plane %d", s.name, n, plane)
				}
			}
			c.ended, c.peer.ended = true, true
			_ = c.conn.Close(w.now, 0)
		}
	}
	w.run("the end of every connection", 10e9, func() bool { return w.a.engine.active+w.b.engine.active == 0 })
	w.flush()
	for _, s := range []*side{w.a, w.b} {
		checkNothingLeft(w.t, s.name, s.engine)
		w.leftAlone(s)
		if n := s.engine.Counters.AckInvalid; n != 0 {
			w.t.Errorf("%s: %d acknowledgments, credits or ERRORs of what was never sent", s.name, n)
		}
	}
}

// leftAlone compares all of a side's memory with the model, guards included.
func (w *world) leftAlone(s *side) {
	for _, c := range s.conns {
		if want := 1; !c.aborted && c.closed != want {
			w.t.Errorf("%s: %d times EventClosed", s.name, c.closed)
		}
	}
	want := make([]byte, len(s.target))
	for _, o := range s.peer.ops {
		at := want[o.target:][:o.work.Length]
		switch {
		case o.bad:
		case o.ended && o.status == StatusOK:
			copy(at, o.side.source[o.work.LocalOffset:])
			if o.work.HasImm && o.got != 1 && !o.conn.ended {
				w.t.Errorf("%s: operation %d was received %d times", s.name, o.work.UserData, o.got)
			}
		default: // some of it may have been placed
			copy(at, s.target[o.target:])
		}
	}
	if !bytes.Equal(want, s.target) {
		for i := range want {
			if want[i] != s.target[i] {
				w.t.Fatalf("%s: byte %d (slot %d + %d) is %d, want %d", s.name, i, i/slotBytes, i%slotBytes, s.target[i], want[i])
			}
		}
	}
}
