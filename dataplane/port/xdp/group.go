package xdp

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/umem"
)

// GroupConfig is what all ports of a Group have in common.
type GroupConfig struct {
	Arena   *umem.Arena  // must outlive the group
	UDPPort uint16       // packets to this port are received; 0 = bpf.DefaultUDPPort
	Log     *slog.Logger // modes, reasons and warnings; nil = none
}

// Group owns the ports on one arena: of any number of devices, queues and
// workers. Its methods may be called from any goroutine.
type Group struct {
	config GroupConfig
	opener opener
	log    *slog.Logger

	mu      sync.Mutex
	devices map[deviceKey]*device
	ports   []*Port // in the order of opening
	closed  bool
}

// NewGroup makes a group without ports.
func NewGroup(config GroupConfig) (*Group, error) {
	if config.Arena == nil {
		return nil, errors.New("metaroced: group of ports without an arena")
	}
	log := config.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Group{config: config, log: log, devices: map[deviceKey]*device{}}, nil
}

// Open opens a port on a device of the calling thread's network namespace. When
// there may be several, the caller locks the goroutine to its thread. The port
// receives when Open returns. On error nothing is left behind. It takes a second
// per GiB of arena when it is the first of its mode, and up to Config.BindTimeout
// while somebody has the queue; other calls of Open and Close wait for it.
//
// The order is one that drivers survive: probe, attach, check queues again since
// attaching may change them, socket, rings, fill, bind, read mode back; the queue
// is steered to the socket last.
func (g *Group) Open(config Config) (*Port, error) {
	config = config.withDefaults()
	p, err := g.open(&config)
	if err != nil {
		return nil, fmt.Errorf("metaroced: plane %s: %w", config.Interface, err)
	}
	return p, nil
}

func (g *Group) open(c *Config) (*Port, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := g.opener.checkCapabilities(); err != nil {
		return nil, err
	}
	if err := g.config.Arena.CheckBindings(len(g.ports) + 1); err != nil {
		return nil, err
	}
	d, err := g.device(c)
	if err != nil {
		return nil, err
	}
	p, err := g.openQueue(d, c)
	if err != nil {
		return nil, errors.Join(err, g.dropUnused(d))
	}
	d.ports[c.Queue] = true
	g.ports = append(g.ports, p)
	g.log.Info("port opened", "plane", c.Interface, "queue", c.Queue, "mode", p.Mode(), "reason", p.reason)
	return p, nil
}

// device returns the device with the steering program attached and the queue
// found to exist.
func (g *Group) device(c *Config) (*device, error) {
	link, warning, err := probe(c.Interface, g.config.Arena.FrameSize())
	if err != nil {
		return nil, err
	}
	g.warn(c, warning)
	if err := checkQueue(link, c.Queue); err != nil {
		return nil, err
	}
	netns, err := currentNetNS()
	if err != nil {
		return nil, err
	}
	key := deviceKey{netns, link.Attrs().Index}
	if d, ok := g.devices[key]; ok {
		if d.ports[c.Queue] {
			return nil, fmt.Errorf("queue %d: %w: this daemon has it open; name each queue once", c.Queue, ErrQueueBusy)
		}
		if c.Mode == Generic && !d.generic {
			return nil, fmt.Errorf("queue %d: mode generic, but another queue runs the XDP program in native mode; choose one mode for the whole interface", c.Queue)
		}
		return d, nil
	}
	d, warning, err := attach(g.opener, link, key, c.Mode, g.config.UDPPort)
	if err != nil {
		return nil, err
	}
	g.warn(c, warning)
	if err := checkQueue(link, c.Queue); err != nil {
		return nil, errors.Join(fmt.Errorf("after attaching the XDP program: %w", err), d.program.Close())
	}
	g.devices[key] = d
	return d, nil
}

func (g *Group) warn(c *Config, warning string) {
	if warning != "" {
		g.log.Warn(warning, "plane", c.Interface, "queue", c.Queue)
	}
}

// dropUnused detaches the program of a device without ports.
func (g *Group) dropUnused(d *device) error {
	if len(d.ports) > 0 || g.devices[d.key] != d {
		return nil
	}
	delete(g.devices, d.key)
	return d.program.Close()
}

// openQueue makes the port on a device that has the program.
func (g *Group) openQueue(d *device, c *Config) (_ *Port, err error) {
	p := &Port{group: g, device: d, queue: c.Queue}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.free())
		}
	}()
	arena := g.config.Arena
	if p.rxPool, err = arena.NewPool(c.RxFrames); err != nil {
		return nil, fmt.Errorf("receive frames: %w", err)
	}
	if p.txPool, err = arena.NewPool(c.TxFrames); err != nil {
		return nil, fmt.Errorf("transmit frames: %w", err)
	}
	if p.sock, err = newSocket(g.opener, c, arena.FrameSize()); err != nil {
		return nil, err
	}
	p.prepare(arena, c)
	p.refill()
	if err := g.bind(p, c); err != nil {
		return nil, err
	}
	if err := d.program.SetSocket(c.Queue, p.sock.fd); err != nil {
		return nil, err
	}
	return p, nil
}

// bind binds the port's socket in the best mode allowed and reads the mode back.
func (g *Group) bind(p *Port, c *Config) error {
	p.reason = p.device.reason
	if c.Mode == Copy || c.Mode == Generic {
		p.reason = "configured"
	}
	bound := false
	if p.device.zeroCopy && c.Mode != Copy && c.Mode != Generic {
		err := g.bindMode(p, c, true)
		if err != nil && !driverRefused(err) {
			return err
		}
		if bound = err == nil; !bound {
			p.reason = fmt.Sprintf("driver refused zero-copy: %v", err)
		}
	}
	if !bound && c.mustZeroCopy() {
		return fmt.Errorf("queue %d: %w: %s; choose mode copy and do not require zero-copy to run without", c.Queue, ErrZeroCopy, p.reason)
	}
	if !bound {
		if err := g.bindMode(p, c, false); err != nil {
			return err
		}
	}
	zeroCopy, err := p.sock.zeroCopy()
	switch {
	case err != nil:
		return fmt.Errorf("queue %d: %w", c.Queue, err)
	case zeroCopy != bound:
		return fmt.Errorf("queue %d: the kernel says zero-copy is %v after a bind with zero-copy %v", c.Queue, zeroCopy, bound)
	}
	if p.zeroCopy = bound; bound {
		p.reason = ""
	}
	return nil
}

// driverRefused tells errors of a bind that another mode may avoid.
func driverRefused(err error) bool {
	for _, errno := range []error{unix.EOPNOTSUPP, unix.EINVAL, unix.ENOMEM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// bindMode binds in exactly one mode. The arena is registered once per mode: all
// sharers of a registration are in the mode of the first, so a device without
// zero-copy must not share with those that have it. Any port that is still bound
// can be shared from, whichever was the first.
func (g *Group) bindMode(p *Port, c *Config, zeroCopy bool) error {
	ifindex := p.device.key.ifindex
	if !p.sock.registered {
		for _, other := range g.ports {
			if other.zeroCopy != zeroCopy {
				continue
			}
			err := p.sock.bind(ifindex, c, unix.XDP_SHARED_UMEM, other.sock.fd)
			if errors.Is(err, unix.EBADF) {
				continue // its device is gone
			}
			return bindError(c, err)
		}
		if err := p.sock.register(g.config.Arena.Bytes(), g.config.Arena.FrameSize()); err != nil {
			return err
		}
	}
	flags := uint16(unix.XDP_USE_NEED_WAKEUP | unix.XDP_COPY)
	if zeroCopy {
		flags = unix.XDP_USE_NEED_WAKEUP | unix.XDP_ZEROCOPY
	}
	return bindError(c, p.sock.bind(ifindex, c, flags, 0))
}

func bindError(c *Config, err error) error {
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("bind queue %d: %w for %v (%s)", c.Queue, ErrQueueBusy, c.BindTimeout, holders())
	}
	if err != nil {
		return fmt.Errorf("bind queue %d: %w", c.Queue, err)
	}
	return nil
}

// Close closes all ports, the newest first. The caller has made sure that no
// worker uses them any more. A second Close does nothing.
func (g *Group) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	var err error
	for len(g.ports) > 0 {
		err = errors.Join(err, g.closePort(g.ports[len(g.ports)-1]))
	}
	return err
}

// closePort closes one of the open ports: first nothing new comes in, then
// transmissions drain, then queue and frames are given back. Rings and socket
// both hold the queue, the program is detached with the device's last port.
func (g *Group) closePort(p *Port) error {
	for i, other := range g.ports {
		if other == p {
			g.ports = append(g.ports[:i], g.ports[i+1:]...)
			break
		}
	}
	err := p.device.program.ClearSocket(p.queue)
	delete(p.device.ports, p.queue)
	err = errors.Join(err, g.dropUnused(p.device))
	p.settle()
	if err = errors.Join(err, p.free()); err != nil {
		return fmt.Errorf("metaroced: plane %s: close queue %d: %w", p.device.name, p.queue, err)
	}
	return nil
}
