package bpf

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// DefaultUDPPort is the UDP port whose packets are steered unless configured.
const DefaultUDPPort = 4797

// ErrClosed is returned by every method called after Close.
var ErrClosed = errors.New("metaroced: XDP program is closed")

// Config says which packets a Program steers.
type Config struct {
	UDPPort uint16 // destination port; 0 = DefaultUDPPort
}

// Program is the XDP program of one device, with its socket map and counters. Its
// methods may be called from any goroutine.
type Program struct {
	mu      sync.Mutex
	objects steerObjects
	link    link.Link // nil until attached
	closed  bool
}

// Load puts the program and its maps into the kernel, attached to nothing. It
// needs CAP_BPF and CAP_NET_ADMIN.
func Load(cfg Config) (*Program, error) {
	port := cfg.UDPPort
	if port == 0 {
		port = DefaultUDPPort
	}
	spec, err := loadSteer()
	if err != nil {
		return nil, fmt.Errorf("metaroced: read embedded XDP object: %w", err)
	}
	if err := spec.Variables[steerVarUdpPort].Set(port); err != nil {
		return nil, fmt.Errorf("metaroced: set UDP port of the XDP program: %w", err)
	}
	p := &Program{}
	if err := spec.LoadAndAssign(&p.objects, nil); err != nil {
		return nil, fmt.Errorf("metaroced: load XDP program (needs Linux 5.18, CAP_BPF and CAP_NET_ADMIN): %w", err)
	}
	return p, nil
}

// MaxQueues is how many receive queues of a device can have a socket.
func (p *Program) MaxQueues() uint32 { return p.objects.Xsks.MaxEntries() }

// SetSocket steers packets of the receive queue to the AF_XDP socket fd, which must
// be bound to the same device and queue: the kernel drops packets of any other.
func (p *Program) SetSocket(queue uint32, fd int) error {
	return p.updateSlot(queue, func(sockets *ebpf.Map) error {
		return sockets.Update(queue, uint32(fd), ebpf.UpdateAny)
	})
}

// ClearSocket lets the kernel have the packets of the receive queue again. A queue
// without socket is no error. Closing a socket clears its slots, too.
func (p *Program) ClearSocket(queue uint32) error {
	return p.updateSlot(queue, func(sockets *ebpf.Map) error {
		err := sockets.Delete(queue)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		return err
	})
}

func (p *Program) updateSlot(queue uint32, update func(*ebpf.Map) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	if limit := p.MaxQueues(); queue >= limit {
		return fmt.Errorf("metaroced: queue %d: the XDP program serves queues below %d (MAX_QUEUES in bpf/steer.c)", queue, limit)
	}
	if err := update(p.objects.Xsks); err != nil {
		return fmt.Errorf("metaroced: queue %d: change socket of the XDP program: %w", queue, err)
	}
	return nil
}

// Close detaches the program and frees it and its maps. Clear or close the sockets
// first if their packets shall reach the kernel meanwhile; once detached, all do.
// A second Close does nothing.
func (p *Program) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	var err error
	if p.link != nil {
		err = p.link.Close()
	}
	return errors.Join(err, p.objects.Close())
}
