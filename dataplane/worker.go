package dataplane

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/metaroced/metaroced/dataplane/frame"
	"github.com/metaroced/metaroced/dataplane/neighbor"
	"github.com/metaroced/metaroced/dataplane/port"
	"github.com/metaroced/metaroced/dataplane/transport"
	"github.com/metaroced/metaroced/dataplane/wire"
	"golang.org/x/sys/unix"
)

const (
	// rxBatch and txBatch are packets per plane and turn.
	rxBatch = 64
	txBatch = 64
	// maxSleepNanos bounds a sleep. A lost link or device wakes no sleeper by
	// itself: netlink's notices do, unless they get lost.
	maxSleepNanos = 1_000_000_000
	// checkLoops is how many loops pass between looks at the wake sockets while
	// the worker does not sleep.
	checkLoops = 64
	// maxParked bounds packets per plane that wait for a neighbour's address.
	maxParked = 64
	// parkNanos is how long they wait.
	parkNanos = 200_000_000
)

// plane is one port of the worker.
type plane struct {
	name        string
	port        port.Port
	headerBytes int
	up          bool
	gone        bool
	kick        bool // something was sent since the last kick
	parked      []parked
	tx          [txBatch]port.Desc // frames to write the next packets into
	spare       int                // how many of tx there are
	errors      uint64
	stats       port.Stats
}

// parked is a packet whose neighbour is not resolved yet.
type parked struct {
	desc  port.Desc
	tx    transport.Tx
	bytes int
	until int64
}

// route is a cached frame template.
type route struct {
	dst        wire.Addr
	generation uint64
	template   frame.Template
}

// worker serves one queue of every plane: it moves packets between ports and
// the engine, and work between applications' queues and the engine. All its
// state belongs to the one goroutine that runs it; others reach it through the
// mailbox.
type worker struct {
	mailbox
	cfg       *Config
	log       *slog.Logger
	arena     []byte
	engine    *transport.Engine
	neighbors *neighbor.Table
	planes    []plane
	routes    []route
	sessions  []*appQueue // by session slot
	used      []uint32    // generation, by session slot
	active    []*appQueue
	broken    []*appQueue // must end
	resting   []*appQueue // wakes are ignored for a while
	dirty     []*appQueue // with completions to publish
	rx        [rxBatch]port.Desc
	out       [txBatch]port.Desc
	held      int // descriptors of rx that a fault must give back
	heldPlane int
	work      transport.Work
	event     transport.Event
	txMeta    transport.Tx
	received  frame.Received
	start     time.Time
	now       int64 // nanoseconds since start, read once per loop
	idleSince int64
	empty     int // loops without work, while spinning
	waiter    waiter
	stop      bool
	counters  workerCounters
}

// workerCounters counts what the worker refused or lost.
type workerCounters struct {
	Frames                            [frame.NumReasons]uint64 // by frame.Reason
	NoNeighbor, Faults, Sleeps, Loops uint64
}

// clock reads the time, once per loop.
func (w *worker) clock() { w.now = int64(time.Since(w.start)) }

// run is the worker's goroutine. It returns when stop is set.
func (w *worker) run() {
	runtime.LockOSThread() // never unlocked: the thread is pinned and ends with it
	debug.SetPanicOnFault(true)
	w.settle()
	for !w.stop {
		w.guarded()
	}
}

// settle pins the worker and sets its priority and timer slack; what the host
// refuses is logged and left.
func (w *worker) settle() {
	if cpu := w.cfg.WorkerCPU; cpu >= 0 {
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			w.log.Warn("worker not pinned", "cpu", cpu, "error", err)
		}
	}
	if n := w.cfg.WorkerNice; n != 0 {
		if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), n); err != nil {
			w.log.Warn("worker priority not set", "nice", n, "error", err)
		}
	}
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0) // nanoseconds; only precision is lost without
}

// guarded runs loops until one faults: memory that an application took away
// ends that session, nothing else.
func (w *worker) guarded() {
	defer func() {
		if r := recover(); r != nil {
			w.faulted(r)
		}
	}()
	for !w.stop {
		w.clock()
		if w.loop() {
			w.idleSince = 0
			continue
		}
		w.idle()
	}
}

// loop does one round of everything and says whether there was work.
func (w *worker) loop() bool {
	w.counters.Loops++
	work := 0
	w.serve()
	w.followLinks()
	for i := range w.planes {
		work += w.receive(i)
	}
	if w.engine.Deadline() <= w.now {
		w.engine.HandleDeadline(w.now)
	}
	w.drainEvents()
	if w.publish() && w.cfg.Poll != PollInterrupt {
		// An application that spins on this core can answer now: its answer
		// leaves with the acknowledgment, not behind it.
		yield()
	}
	work += w.serveQueues(w.now)
	for i := range w.planes {
		work += w.transmit(i)
	}
	w.drainEvents()
	w.publish()
	if len(w.broken) > 0 {
		w.endBroken()
	}
	if w.counters.Loops%checkLoops == 0 {
		w.lookAtSockets()
	}
	return work > 0
}

// receive moves a batch of packets from a port into the engine.
func (w *worker) receive(i int) int {
	p := &w.planes[i]
	if p.gone {
		return 0
	}
	if w.cfg.BusyPoll {
		w.portError(i, p.port.BusyPoll())
	}
	n := p.port.Receive(w.rx[:])
	if n == 0 {
		return 0
	}
	w.held, w.heldPlane = n, i
	for k := range n {
		d := &w.rx[k]
		if !frame.Parse(w.arena[d.Addr:d.Addr+uint64(d.Len)], w.cfg.UDPPort, &w.received) {
			w.counters.Frames[w.received.Reason]++
			continue
		}
		w.engine.HandlePacket(w.now, i, w.received.Src, w.received.CE, w.received.Payload)
	}
	w.held = 0
	p.port.Release(w.rx[:n])
	return n
}

// transmit moves what the engine wants to send on a plane into its port. Frames
// that were allocated and not needed stay with the plane for the next turn.
func (w *worker) transmit(i int) int {
	p := &w.planes[i]
	if p.gone {
		return 0
	}
	if len(p.parked) > 0 {
		w.unpark(i)
	}
	if !w.engine.Pending(i) {
		w.kick(i)
		return 0
	}
	if p.spare < txBatch {
		p.spare += p.port.AllocTx(p.tx[p.spare:])
	}
	w.heldPlane = i
	ready := 0
	for ready < p.spare {
		d := p.tx[ready]
		buf := w.arena[d.Addr : d.Addr+uint64(d.Len)]
		bytes := w.engine.Transmit(w.now, i, buf[p.headerBytes:], &w.txMeta)
		if bytes == 0 {
			break
		}
		t := w.template(i, &w.txMeta)
		if t == nil {
			w.park(i, d, bytes)
			p.spare-- // the frame is kept: the last one takes its place
			p.tx[ready] = p.tx[p.spare]
			continue
		}
		t.Put(buf, bytes, w.txMeta.SourcePort, w.txMeta.Class)
		w.out[ready] = port.Desc{Addr: d.Addr, Len: uint32(p.headerBytes + bytes)}
		ready++
	}
	sent := p.port.Send(w.out[:ready])
	p.spare = copy(p.tx[:], p.tx[sent:p.spare])
	p.kick = p.kick || sent > 0
	w.kick(i)
	return sent
}

// kick has the kernel transmit, when there is something.
func (w *worker) kick(i int) {
	p := &w.planes[i]
	if !p.kick && p.port.Unsent() == 0 {
		return
	}
	p.kick = false
	w.portError(i, p.port.Kick())
}

// template returns the frame of a packet's destination, or nil while its
// neighbour is not resolved.
func (w *worker) template(i int, tx *transport.Tx) *frame.Template {
	generation := w.neighbors.Generation()
	for int(tx.Route) >= len(w.routes) {
		w.routes = append(w.routes, route{generation: ^uint64(0)})
	}
	r := &w.routes[tx.Route]
	if r.generation == generation && r.dst == tx.Dst {
		return &r.template
	}
	t, ok := w.neighbors.Resolve(i, tx.Dst)
	if !ok {
		return nil
	}
	*r = route{dst: tx.Dst, generation: generation, template: t}
	return &r.template
}

// park keeps a packet until its neighbour is resolved; beyond a few it is
// dropped, and repaired like any loss.
func (w *worker) park(i int, d port.Desc, bytes int) {
	p := &w.planes[i]
	if len(p.parked) >= maxParked {
		w.counters.NoNeighbor++
		one := [1]port.Desc{d}
		p.port.FreeTx(one[:])
		return
	}
	p.parked = append(p.parked, parked{desc: d, tx: w.txMeta, bytes: bytes, until: w.now + parkNanos})
}

// unpark sends what waited for a neighbour, and gives up what waited too long.
func (w *worker) unpark(i int) {
	p := &w.planes[i]
	kept := p.parked[:0]
	for k := range p.parked {
		q := &p.parked[k]
		one := [1]port.Desc{q.desc}
		t := w.template(i, &q.tx)
		switch {
		case t != nil:
			t.Put(w.arena[q.desc.Addr:q.desc.Addr+uint64(q.desc.Len)], q.bytes, q.tx.SourcePort, q.tx.Class)
			one[0].Len = uint32(p.headerBytes + q.bytes)
			if p.port.Send(one[:]) == 0 {
				p.port.FreeTx(one[:])
			}
			p.kick = true
		case w.now >= q.until:
			w.counters.NoNeighbor++
			p.port.FreeTx(one[:])
		default:
			kept = append(kept, *q)
		}
	}
	p.parked = kept
}

// followLinks takes what netlink said of the planes' links.
func (w *worker) followLinks() {
	for {
		select {
		case ch := <-w.neighbors.Links():
			p := &w.planes[ch.Plane]
			if p.gone {
				continue
			}
			if ch.Up != p.up {
				w.log.Warn("plane link changed", "plane", p.name, "up", ch.Up)
			}
			p.up = ch.Up
			w.engine.HandlePlane(w.now, ch.Plane, ch.Up)
			if ch.Gone {
				w.planeGone(ch.Plane)
			}
		default:
			return
		}
	}
}

// faulted ends the session whose memory faulted. A panic that is no fault in a
// region is a defect: it is not hidden.
func (w *worker) faulted(r any) {
	err, ok := r.(interface{ Addr() uintptr })
	if !ok {
		panic(r)
	}
	s := w.sessionAt(err.Addr())
	if s == nil {
		panic(r)
	}
	w.counters.Faults++
	if w.held > 0 {
		w.planes[w.heldPlane].port.Release(w.rx[:w.held])
		w.held = 0
	}
	s.fail(fmt.Errorf("a region's memory was taken away (fault at %#x)", err.Addr()))
	w.broken = append(w.broken, s)
	w.endBroken()
}
