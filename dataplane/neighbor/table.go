package neighbor

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/metaroced/metaroced/dataplane/frame"
	"github.com/metaroced/metaroced/dataplane/wire"
)

const (
	maxRequests = 1024   // asked for and not yet served
	maxPeers    = 32_768 // 4,096 connections on 8 planes
	maxAttempts = 256    // per step, so that a flood of false peers does not delay the others
)

// timing is when Run acts without being told to. Tests shorten it.
type timing struct {
	retry      time.Duration // between attempts at a neighbour, the first fastRetries
	retrySlow  time.Duration // between later ones
	keepAlive  time.Duration // between verifications of neighbours in use
	forget     time.Duration // a peer nobody asked for that long is dropped
	giveUp     time.Duration // likewise, while it is not resolved
	rerouteGap time.Duration // at least that long between two look-ups of all routes
	warnGap    time.Duration // at least that long between two warnings
}

const fastRetries = 50

var defaultTiming = timing{
	retry:      100 * time.Millisecond,
	retrySlow:  time.Second,
	keepAlive:  20 * time.Second,
	forget:     time.Minute,
	giveUp:     5 * time.Second,
	rerouteGap: 100 * time.Millisecond,
	warnGap:    10 * time.Second,
}

// LinkChange says what has become of a plane.
type LinkChange struct {
	Plane int
	Up    bool // the link is operational and has the plane's address
	Gone  bool // the interface no longer exists; nothing follows. One created anew is another
	MTU   int  // bytes above Ethernet
}

// Table resolves peers to frame templates. Resolve, Generation, PlaneFor and Links
// may be called from any goroutine; Run is called once.
type Table struct {
	log     *slog.Logger
	udpPort uint16
	timing  timing
	kernel  *kernel
	notices *notices
	planes  []plane

	published  atomic.Pointer[map[key]*peer]
	generation atomic.Uint64
	requests   chan key
	links      chan LinkChange
	onChange   func() // ends a worker's sleep

	// Owned by Run.
	peers       map[key]*peer
	neighbors   map[hop][6]byte // the kernel's usable entries of our interfaces
	rerouteDue  bool
	routedAt    time.Time
	keptAliveAt time.Time
	warnedAt    time.Time
}

// New makes a table for planes of the calling thread's network namespace and
// subscribes to changes, which Run then follows. udpPort is our UDP port.
func New(planes []Plane, udpPort uint16, log *slog.Logger) (*Table, error) {
	t := &Table{
		log:       log,
		udpPort:   udpPort,
		timing:    defaultTiming,
		planes:    make([]plane, len(planes)),
		requests:  make(chan key, maxRequests),
		links:     make(chan LinkChange),
		onChange:  func() {},
		peers:     map[key]*peer{},
		neighbors: map[hop][6]byte{},
	}
	for i := range planes {
		t.planes[i].init(i, planes[i])
	}
	t.publish()
	var err error
	if t.kernel, err = openKernel(); err != nil {
		return nil, fmt.Errorf("metaroced: %w", err)
	}
	if t.notices, err = subscribe(); err != nil {
		t.kernel.close()
		return nil, fmt.Errorf("metaroced: %w", err)
	}
	return t, nil
}

// OnChange has f called, from Run's goroutine, when Links has something to deliver
// and when Generation has grown: a receiver that sleeps must be woken. Set it before
// Run.
func (t *Table) OnChange(f func()) { t.onChange = f }

// Generation grows whenever a template may have changed, and now and then besides:
// whoever keeps templates resolves again.
func (t *Table) Generation() uint64 { return t.generation.Load() }

// Links delivers what becomes of the planes, at first what has changed since their
// LookupPlane. When nobody receives for a while, only the last state is delivered.
func (t *Table) Links() <-chan LinkChange { return t.links }

// Resolve returns the frame for packets to a peer. It does not block: a peer that is
// not known is asked for, and Generation grows once it is. Callers that keep the
// template read Generation before and keep it under that number. A peer whose
// address is of another family than the plane's is never resolved.
func (t *Table) Resolve(plane int, dst wire.Addr) (frame.Template, bool) {
	if dst.Is4() != t.planes[plane].Addr.Is4() {
		return frame.Template{}, false
	}
	k := key{plane, dst}
	if p, ok := (*t.published.Load())[k]; ok {
		p.ask()
		if template := p.template.Load(); template != nil {
			return *template, true
		}
		return frame.Template{}, false
	}
	select {
	case t.requests <- k:
	default: // the packet that asks comes again
	}
	return frame.Template{}, false
}

// PlaneFor returns the plane that reaches an address: the one the kernel would send
// through, else the first with a route. Planes that are down do not count. It asks
// the kernel, so it is not for the path of a packet.
func (t *Table) PlaneFor(dst netip.Addr) (plane int, ok bool) {
	dst = dst.Unmap()
	index, err := t.kernel.interfaceTo(dst)
	for i := range t.planes {
		if err == nil && t.planes[i].Index == index && t.reaches(i, dst) {
			return i, true
		}
	}
	for i := range t.planes {
		if t.reaches(i, dst) {
			return i, true
		}
	}
	return 0, false
}

func (t *Table) reaches(plane int, dst netip.Addr) bool {
	p := &t.planes[plane]
	if !p.usable.Load() || p.Addr.Is4() != dst.Is4() {
		return false
	}
	_, err := t.kernel.nextHop(&p.Plane, dst)
	return err == nil
}

// Run follows the kernel until ctx ends, or until the kernel can no longer be
// followed, which is an error. Afterwards the table only repeats what it knew.
func (t *Table) Run(ctx context.Context) error {
	defer t.kernel.close()
	defer t.notices.close()
	go t.notices.read()
	t.readEverything()

	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		change, links := t.pendingChange()
		if links != nil {
			t.onChange()
		}
		select {
		case <-ctx.Done():
			return nil
		case k := <-t.requests:
			t.admit(k)
		case b := <-t.notices.batches:
			if b.err != nil {
				return fmt.Errorf("metaroced: netlink notices: %w", b.err)
			}
			t.take(b)
		case links <- change:
			t.planes[change.Plane].reported = change
			continue // nothing that peers depend on has changed
		case <-timer.C:
		}
		if wait := t.step(time.Now()); wait > 0 {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
	}
}
