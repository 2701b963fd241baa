package dataplane

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/metaroced/metaroced/dataplane/queue"
	"github.com/metaroced/metaroced/internal/testenv"
	"github.com/metaroced/metaroced/rings"
	"golang.org/x/sys/unix"
)

// patience bounds every wait.
const patience = 15 * time.Second

// hosts is two dataplanes on real veths. One goroutine drives the loops of both
// workers in turn, so that a test can stop them between two loops.
type hosts struct {
	t      testing.TB
	a, b   *Dataplane
	driver chan func()
}

func newHosts(t testing.TB, planes int) *hosts {
	t.Helper()
	left, right := testenv.NewNetNS(t), testenv.NewNetNS(t)
	var configs [2]Config
	for p := range planes {
		prefix := func(host int) []netip.Prefix {
			return []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.%d.0.%d/24", 10+p, host))}
		}
		testenv.VethPair(t, left, right, fmt.Sprintf("left%d", p), fmt.Sprintf("right%d", p), testenv.VethOpts{
			MTU: 3498, A: testenv.VethEnd{Prefixes: prefix(1)}, B: testenv.VethEnd{Prefixes: prefix(2)},
		})
		for i, name := range []string{"left", "right"} {
			configs[i].Planes = append(configs[i].Planes, PlaneConfig{Interface: fmt.Sprintf("%s%d", name, p)})
		}
	}
	h := &hosts{t: t, driver: make(chan func())}
	for i, ns := range []*testenv.NetNS{left, right} {
		c := &configs[i]
		c.UDPPort, c.WorkerCPU, c.Spin = 4797, -1, 50*time.Microsecond
		c.ArenaFrameBytes, c.ArenaSlabBytes = 16<<20, 8<<20
		c.RxRing, c.TxRing = 512, 512
		c.RegionBytesPerSession, c.MaxRegionsPerSession = 64<<20, 8
		var d *Dataplane
		if err := ns.Do(func() (err error) {
			d, err = New(*c, slog.New(slog.DiscardHandler))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			h.a = d
		} else {
			h.b = d
		}
	}
	h.start()
	return h
}

// start drives the workers until the test ends.
func (h *hosts) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 3)
	for _, d := range []*Dataplane{h.a, h.b} {
		go func() { ended <- d.neighbors.Run(ctx) }()
	}
	go func() {
		for ctx.Err() == nil {
			h.loop()
			select {
			case f := <-h.driver:
				f()
			default:
			}
		}
		h.a.worker.mailbox.close()
		h.b.worker.mailbox.close()
		ended <- nil
	}()
	h.t.Cleanup(func() {
		cancel()
		for range 3 {
			if err := <-ended; err != nil {
				h.t.Error(err)
			}
		}
		for _, d := range []*Dataplane{h.a, h.b} {
			if err := d.close(); err != nil {
				h.t.Error(err)
			}
			for i := range d.worker.planes {
				if n := d.worker.planes[i].stats.FramesLeaked; n != 0 {
					h.t.Errorf("plane %d: %d frames leaked", i, n)
				}
			}
		}
	})
}

// loop is one round of both workers.
func (h *hosts) loop() {
	for _, d := range []*Dataplane{h.a, h.b} {
		d.worker.clock()
		d.worker.loop()
	}
}

// paused runs f between two rounds, on the goroutine of the workers.
func (h *hosts) paused(f func()) {
	done := make(chan struct{})
	h.driver <- func() {
		defer close(done)
		f()
	}
	<-done
}

// app is an application: its session, and its ends of the queues.
type app struct {
	t       testing.TB
	session *Session
	sq      *rings.Producer[queue.SQE]
	cq      *rings.Consumer[queue.CQE]
	conn    uint32
	done    []queue.CQE
}

func (h *hosts) attach(d *Dataplane) *app { return h.attachSized(d, 64, 128) }

func (h *hosts) attachSized(d *Dataplane, sqEntries, cqEntries uint32) *app {
	h.t.Helper()
	s, err := d.OpenSession(SessionSpec{SQEntries: sqEntries, CQEntries: cqEntries})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(s.Close)
	layout, err := queue.NewLayout(sqEntries, cqEntries)
	if err != nil {
		h.t.Fatal(err)
	}
	sq, cq, err := layout.ClientSide(s.ringMem)
	if err != nil {
		h.t.Fatal(err)
	}
	return &app{t: h.t, session: s, sq: sq, cq: cq}
}

// event waits for a session event of a kind.
func (a *app) event(kind SessionEventKind) SessionEvent {
	a.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case ev, ok := <-a.session.Events():
			if !ok {
				a.t.Fatalf("session ended while waiting for event %d", kind)
			}
			if ev.Kind == kind {
				return ev
			}
		case <-limit:
			a.t.Fatalf("no event %d within %v", kind, patience)
		}
	}
}

// connect dials from one application to the other.
func (h *hosts) connect(from, to *app, service string) {
	h.t.Helper()
	if err := to.session.Listen(service); err != nil {
		h.t.Fatal(err)
	}
	if err := from.session.Dial(DialSpec{Peers: []netip.Addr{netip.MustParseAddr("10.10.0.2")}, Service: service, Token: 1}); err != nil {
		h.t.Fatal(err)
	}
	to.conn = to.event(EventIncoming).Conn
	if err := to.session.Accept(to.conn, nil); err != nil {
		h.t.Fatal(err)
	}
	from.conn = from.event(EventEstablished).Conn
	to.event(EventEstablished)
}

// region allocates memory and returns it as the application would see it.
func (a *app) region(size int64, access Access) (RegionInfo, []byte) {
	a.t.Helper()
	info, err := a.session.AllocRegion(size, access)
	if err != nil {
		a.t.Fatal(err)
	}
	return info, a.session.regions[info.ID].umem.Mem()[:size]
}

// post submits one entry; false when the queue is full.
func (a *app) post(e *queue.SQE) bool {
	if got, err := a.sq.Reserve(1); err != nil || got == 0 {
		return false
	}
	*a.sq.Slot(0) = *e
	a.sq.Submit(1)
	if a.sq.NeedWakeup() {
		_ = unix.Send(int(a.session.wake.Fd()), wakeByte, unix.MSG_DONTWAIT)
	}
	return true
}

// reap takes what has completed and returns how many entries that were.
func (a *app) reap(keep bool) int {
	n, err := a.cq.Peek(64)
	if err != nil {
		a.t.Error(err)
		return 0
	}
	for i := range n {
		e := a.cq.At(i)
		if keep {
			a.done = append(a.done, e)
		}
	}
	a.cq.Release(n)
	return int(n)
}

// completion waits for the next completion.
func (a *app) completion() queue.CQE {
	a.t.Helper()
	limit := time.Now().Add(patience)
	for len(a.done) == 0 {
		if a.reap(true) == 0 {
			yield()
		}
		if time.Now().After(limit) {
			a.t.Fatalf("no completion within %v", patience)
		}
	}
	e := a.done[0]
	a.done = a.done[1:]
	return e
}
