package dataplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metaroced/metaroced/dataplane/frame"
	"github.com/metaroced/metaroced/dataplane/neighbor"
	"github.com/metaroced/metaroced/dataplane/port/xdp"
	"github.com/metaroced/metaroced/dataplane/transport"
	"github.com/metaroced/metaroced/umem"
)

const (
	// unknownLinkBits is the rate assumed for a link whose driver does not tell
	// a meaningful one (veth says 10 Gb/s whatever it can do).
	unknownLinkBits = 100_000_000_000
	// drainTime is how long a stopping daemon goes on sending resets.
	drainTime = 20 * time.Millisecond
	// minRTO is the least tail timeout on a real host: a few slices of the kernel's
	// scheduler, for which a worker that shares its core may have to wait.
	minRTO = 10 * time.Millisecond
	// paceBurst is how far a worker may run ahead of its pace, and so how late it
	// may wake without losing throughput: more than 100 us is common here, and
	// 600 us would fill the 100 KB after which a 1.3 Gb/s port marks.
	paceBurst = 300 * time.Microsecond
)

// Dataplane is a daemon's data path: arena, ports, engine and the worker that
// drives them. Its methods may be called from any goroutine.
type Dataplane struct {
	cfg       Config
	log       *slog.Logger
	arena     *umem.Arena
	group     *xdp.Group
	neighbors *neighbor.Table
	worker    *worker
	started   time.Time

	plainRegions atomic.Int64 // regions that found no room in the arena

	mu       sync.Mutex
	sessions map[*Session]bool
}

// New opens the planes. It must be called from a goroutine that is locked to a
// thread in the planes' network namespace, or in a process that has only one.
// Nothing is sent or received before Run.
func New(cfg Config, log *slog.Logger) (*Dataplane, error) {
	d := &Dataplane{cfg: cfg, log: log, started: time.Now(), sessions: map[*Session]bool{}}
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *Dataplane) open() error {
	cfg := &d.cfg
	mode, err := xdp.ParseMode(cfg.Mode)
	if err != nil {
		return err
	}
	links := make([]neighbor.Plane, len(cfg.Planes))
	for i := range cfg.Planes {
		if links[i], err = neighbor.LookupPlane(cfg.Planes[i].Interface, cfg.Planes[i].Address); err != nil {
			return err
		}
	}
	if d.arena, err = umem.NewArena(umem.Config{FrameBytes: cfg.ArenaFrameBytes, SlabBytes: cfg.ArenaSlabBytes}); err != nil {
		return err
	}
	d.log.Info("arena populated", "frames", d.arena.FrameCount(), "kernel_bytes", d.arena.KernelBytes(len(links)))
	if d.group, err = xdp.NewGroup(xdp.GroupConfig{Arena: d.arena, UDPPort: cfg.UDPPort, Log: d.log}); err != nil {
		return err
	}
	if d.neighbors, err = neighbor.New(links, cfg.UDPPort, d.log); err != nil {
		return err
	}
	w := &worker{
		cfg: cfg, log: d.log, arena: d.arena.Bytes(), neighbors: d.neighbors,
		planes: make([]plane, len(links)), start: d.started,
	}
	d.worker = w
	if err := errors.Join(w.mailbox.init(), w.waiter.init()); err != nil {
		return err
	}
	d.neighbors.OnChange(w.wake)
	if err := w.waiter.add(w.wakeFD, waitMailbox, 0); err != nil {
		return err
	}
	for i := range links {
		if err := d.openPlane(i, mode, &links[i]); err != nil {
			return err
		}
	}
	w.engine, err = transport.New(d.transportConfig(links))
	if err != nil {
		return err
	}
	for i := range links {
		w.engine.HandlePlane(0, i, links[i].Up)
	}
	return nil
}

func (d *Dataplane) openPlane(i int, mode xdp.Mode, link *neighbor.Plane) error {
	cfg := &d.cfg
	pc := xdp.Config{
		Interface: link.Name, Queue: cfg.Planes[i].Queue, Mode: mode, RequireZeroCopy: cfg.RequireZeroCopy,
		RxRing: cfg.RxRing, TxRing: cfg.TxRing,
	}
	if cfg.BusyPoll {
		pc.BusyPoll.Micros = 20
	}
	p, err := d.group.Open(pc)
	if err != nil {
		return err
	}
	header := frame.HeaderBytes6
	if link.Addr.Is4() {
		header = frame.HeaderBytes4
	}
	d.worker.planes[i] = plane{name: link.Name, port: p, headerBytes: header, up: link.Up}
	d.worker.waiter.addPort(p.Fd())
	return nil
}

func (d *Dataplane) transportConfig(links []neighbor.Plane) transport.Config {
	cfg := &d.cfg
	rx := cfg.RxRing
	if rx == 0 {
		rx = xdp.DefaultRing
	}
	c := transport.Config{
		Paths: cfg.Paths, RunPackets: cfg.RunPackets, DSNWindow: cfg.DSNWindow,
		AckEvery: cfg.AckEvery, AckDelayNanos: int64(cfg.AckDelay),
		MinRTONanos:            int64(minRTO),
		BurstNanos:             int64(paceBurst),
		ConnectionTimeoutNanos: int64(cfg.ConnectionTimeout), MaxConnections: cfg.MaxConnections,
		// Half of what the ring holds: bursts of others need room too.
		RxPackets:        int(rx / 2),
		MaxDatagramBytes: int(d.arena.FrameSize()) - frame.HeaderBytes6,
		Random:           random64,
	}
	for i := range links {
		speed := cfg.Planes[i].LinkBitsPerSec
		if speed == 0 {
			speed = unknownLinkBits
		}
		c.Planes = append(c.Planes, transport.PlaneConfig{
			Addr: toWire(links[i].Addr, cfg.UDPPort), MTU: links[i].MTU, LinkBitsPerSec: speed,
		})
	}
	return c
}

// Run serves until ctx ends, then tells peers, drains and gives everything
// back.
func (d *Dataplane) Run(ctx context.Context) error {
	follow, stopFollowing := context.WithCancel(context.Background())
	defer stopFollowing()
	followed := make(chan error, 1)
	go func() { followed <- d.neighbors.Run(follow) }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.worker.run()
	}()
	var err error
	select {
	case <-ctx.Done():
	case err = <-followed:
		err = fmt.Errorf("metaroced: following links and neighbours: %w", err)
	}
	d.shutdown(done)
	return errors.Join(err, d.close())
}

// shutdown ends every session and then the worker.
func (d *Dataplane) shutdown(done <-chan struct{}) {
	d.mu.Lock()
	sessions := make([]*Session, 0, len(d.sessions))
	for s := range d.sessions {
		sessions = append(sessions, s)
	}
	d.mu.Unlock()
	for _, s := range sessions {
		s.Close()
	}
	time.Sleep(drainTime)
	_ = d.worker.do(func() { d.worker.stop = true })
	<-done
	d.worker.mailbox.close()
}

// close gives back what open took, in reverse.
func (d *Dataplane) close() error {
	var errs []error
	if w := d.worker; w != nil {
		errs = append(errs, w.closePorts())
		w.closeDescriptors()
	}
	if d.group != nil {
		errs = append(errs, d.group.Close())
	}
	if d.arena != nil {
		errs = append(errs, d.arena.Close())
	}
	runtime.KeepAlive(d)
	return errors.Join(errs...)
}
