package transport

import (
	"bytes"
	"container/heap"
	"math/rand/v2"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// faults is what the test network does to packets, each with a probability.
type faults struct {
	loss, duplicate, corrupt, reorder, mark float64
	black                                   [MaxPlanes]bool
}

// flight is a packet on its way.
type flight struct {
	at    int64
	seq   int
	to    *endpoint
	plane int
	ce    bool
	from  wire.Addr
	pkt   []byte
}

type flights []flight

func (f flights) Len() int { return len(f) }
func (f flights) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].seq < f[j].seq
}
func (f flights) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)   { *f = append(*f, x.(flight)) }
func (f *flights) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

// endpoint is one engine, what it reported and what it holds.
type endpoint struct {
	name   string
	engine *Engine
	addrs  []wire.Addr
	events []Event
	taken  bool // Consumed is called by the test, not at once
}

// pair is two engines, a network between them and virtual time.
type pair struct {
	t       testing.TB
	now     int64
	latency int64
	rng     *rand.Rand
	a, b    *endpoint
	net     flights
	seq     int
	faults  faults
	tap     func(from *endpoint, pkt []byte) bool         // false: drop
	onEvent func(e *endpoint, ev *Event)                  // instead of keeping it
	aside   func(peer wire.Addr, tx *Tx, pkt []byte) bool // takes packets that do not go to the peer
	sent    int
	buf     []byte
}

const (
	testOwner   = 7
	testService = "bytes"
)

func testConfig(planes int, host byte, seed uint64) Config {
	r := rand.New(rand.NewPCG(seed, uint64(host)))
	c := Config{Random: r.Uint64, RxPackets: 512, Paths: 8}
	for p := range planes {
		c.Planes = append(c.Planes, PlaneConfig{
			Addr: wire.AddrFrom4([4]byte{10, byte(p), 0, host}, 4797), MTU: 3498, LinkBitsPerSec: 100e9,
		})
	}
	return c
}

func newPair(t testing.TB, planes int, seed uint64, adjust func(a, b *Config)) *pair {
	p := &pair{
		t: t, latency: 10_000, now: 1_000_000_000,
		rng: rand.New(rand.NewPCG(seed, 99)), buf: make([]byte, 4096),
	}
	ca, cb := testConfig(planes, 1, seed), testConfig(planes, 2, seed)
	if adjust != nil {
		adjust(&ca, &cb)
	}
	p.a, p.b = p.endpoint("a", ca), p.endpoint("b", cb)
	return p
}

func (p *pair) endpoint(name string, c Config) *endpoint {
	e, err := New(c)
	if err != nil {
		p.t.Fatal(err)
	}
	ep := &endpoint{name: name, engine: e}
	for _, pl := range c.Planes {
		ep.addrs = append(ep.addrs, pl.Addr)
	}
	return ep
}

func (p *pair) other(e *endpoint) *endpoint {
	if e == p.a {
		return p.b
	}
	return p.a
}

// flush sends everything both engines want to send now.
func (p *pair) flush() {
	for _, e := range []*endpoint{p.a, p.b} {
		for plane := range e.addrs {
			for {
				var tx Tx
				n := e.engine.Transmit(p.now, plane, p.buf, &tx)
				if n == 0 {
					break
				}
				p.sent++
				p.carry(e, plane, &tx, append([]byte(nil), p.buf[:n]...))
			}
		}
		var ev Event
		for e.engine.PollEvent(&ev) {
			if p.onEvent != nil {
				p.onEvent(e, &ev)
				continue
			}
			e.events = append(e.events, ev)
			if ev.Kind == EventReceived && !e.taken {
				e.engine.Conn(ev.Conn).Consumed(ev.Stream)
			}
		}
	}
}

// carry hands a packet to the network.
func (p *pair) carry(from *endpoint, plane int, tx *Tx, pkt []byte) {
	to := p.other(from)
	if p.aside != nil && p.aside(to.addrs[plane], tx, pkt) {
		return
	}
	if tx.Dst != to.addrs[plane] { // the port, too: nothing is received on others
		p.t.Fatalf("plane %d: packet to %v, the peer there is %v", plane, tx.Dst, to.addrs[plane])
	}
	f := &p.faults
	hit := func(prob float64) bool { return prob > 0 && p.rng.Float64() < prob }
	if (p.tap != nil && !p.tap(from, pkt)) || f.black[plane] || hit(f.loss) {
		return
	}
	copies := 1
	if hit(f.duplicate) {
		copies = 2
	}
	if hit(f.corrupt) {
		pkt[p.rng.IntN(len(pkt))] ^= 1 << p.rng.IntN(8)
	}
	at := p.now + p.latency
	if hit(f.reorder) {
		at += p.latency / 2
	}
	addr := from.addrs[plane]
	addr.Port = tx.SourcePort
	for range copies {
		p.seq++
		heap.Push(&p.net, flight{at: at, seq: p.seq, to: to, plane: plane, ce: hit(f.mark), from: addr, pkt: pkt})
	}
}

// step moves to the next thing that happens; false when nothing will.
func (p *pair) step(until int64) bool {
	p.flush()
	next := min(p.a.engine.Deadline(), p.b.engine.Deadline())
	if len(p.net) > 0 {
		next = min(next, p.net[0].at)
	}
	if next > until {
		p.now = until
		return false
	}
	p.now = max(p.now, next)
	for len(p.net) > 0 && p.net[0].at <= p.now {
		f := heap.Pop(&p.net).(flight)
		f.to.engine.HandlePacket(p.now, f.plane, f.from, f.ce, f.pkt)
	}
	p.a.engine.HandleDeadline(p.now)
	p.b.engine.HandleDeadline(p.now)
	p.flush()
	return true
}

// run lets time pass until done, or fails the test after the given time.
func (p *pair) run(what string, limit int64, done func() bool) {
	p.t.Helper()
	until := p.now + limit
	p.flush()
	for !done() {
		if !p.step(until) && !done() {
			p.t.Fatalf("after %d ms: %s did not happen\na: %s\nb: %s", limit/1_000_000, what, p.a.describe(), p.b.describe())
		}
	}
}

// idle lets the given time pass.
func (p *pair) idle(nanos int64) {
	until := p.now + nanos
	for p.step(until) {
	}
}

func (e *endpoint) describe() string {
	var b bytes.Buffer
	e.engine.Connections(func(c *Conn) {
		b.WriteString(c.State())
		b.WriteByte(' ')
	})
	e.engine.Counters.Each(func(name string, v uint64) {
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(itoa(v))
		b.WriteString("; ")
	})
	return b.String()
}

func itoa(v uint64) string {
	if v < 10 {
		return string(rune('0' + v))
	}
	return itoa(v/10) + itoa(v%10)
}

// find returns the first event of a kind, and forgets it.
func (e *endpoint) find(kind EventKind) *Event { return takeEvent(&e.events, kind) }

// takeEvent takes the first event of a kind out of a list, or returns nil.
func takeEvent(events *[]Event, kind EventKind) *Event {
	for i, ev := range *events {
		if ev.Kind == kind {
			*events = append((*events)[:i], (*events)[i+1:]...)
			return &ev
		}
	}
	return nil
}

func (e *endpoint) count(kind EventKind) int {
	n := 0
	for i := range e.events {
		if e.events[i].Kind == kind {
			n++
		}
	}
	return n
}

// connect dials from a to b and returns both ends.
func (p *pair) connect() (ca, cb *Conn) {
	p.t.Helper()
	if p.b.engine.listeners[testService].owner == 0 {
		if err := p.b.engine.Listen(testService, testOwner); err != nil {
			p.t.Fatal(err)
		}
	}
	ca, err := p.a.engine.Dial(p.now, DialRequest{
		Owner: testOwner, Token: 5, Service: testService, Private: []byte("hello"),
		Peers: []DialPeer{{Plane: 0, Addr: p.b.addrs[0]}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	var in *Event
	p.run("EventIncoming", 4e9, func() bool { in = p.b.find(EventIncoming); return in != nil })
	cb = p.b.engine.Conn(in.Conn)
	if string(in.Private) != "hello" {
		p.t.Fatalf("private data %q", in.Private)
	}
	if err := cb.Accept(p.now, []byte("welcome")); err != nil {
		p.t.Fatal(err)
	}
	var up *Event
	p.run("EventEstablished at a", 4e9, func() bool { up = p.a.find(EventEstablished); return up != nil })
	if string(up.Private) != "welcome" || up.Token != 5 {
		p.t.Fatalf("established with %q, token %d", up.Private, up.Token)
	}
	p.run("EventEstablished at b", 4e9, func() bool { return p.b.find(EventEstablished) != nil })
	return ca, cb
}

// region registers memory at an endpoint.
func (p *pair) region(e *endpoint, key uint64, size int, access Access) []byte {
	p.t.Helper()
	mem := make([]byte, size)
	if err := e.engine.AddRegion(Region{Key: key, Mem: mem, Access: access, Owner: testOwner}); err != nil {
		p.t.Fatal(err)
	}
	return mem
}

func fillRandom(r *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}
