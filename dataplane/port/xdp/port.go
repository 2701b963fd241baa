package xdp

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/dataplane/port"
	"github.com/metaroced/metaroced/umem"
)

// Port is one queue of one device; it implements port.Port. Its methods are for
// one goroutine at a time.
type Port struct {
	mem       []byte // the arena
	frameMask uint64 // offset within a frame
	sock      *socket
	rxPool    *umem.Pool
	txPool    *umem.Pool
	addrs     []uint64 // scratch for the pools
	stats     port.Stats
	zeroCopy  bool
	busyPoll  bool
	fault     error // the kernel's side of a ring made no sense: the port is dead

	errDown, errGone error // made beforehand, since making errors allocates

	group           *Group
	device          *device
	queue           uint32
	reason          string // why not zero-copy, "" when it is
	seen            snapshot
	kernelTxInvalid uint64 // as last read, for the difference
	closed          bool
}

var _ port.Port = (*Port)(nil)

// batch is how many addresses go between pools and rings at a time.
const batch = 256

// prepare sets what does not change while the port is open.
func (p *Port) prepare(arena *umem.Arena, c *Config) {
	p.mem = arena.Bytes()
	p.frameMask = uint64(arena.FrameSize()) - 1
	p.addrs = make([]uint64, batch)
	p.busyPoll = c.BusyPoll.Micros > 0
	p.errDown = fmt.Errorf("metaroced: plane %s: %w", c.Interface, port.ErrLinkDown)
	p.errGone = fmt.Errorf("metaroced: plane %s: %w", c.Interface, port.ErrDeviceGone)
}

// Receive implements port.Port.
func (p *Port) Receive(descs []port.Desc) int {
	p.refill()
	available, err := p.sock.rx.Peek(uint32(len(descs)))
	if err != nil {
		p.fail(err)
		return 0
	}
	if available == 0 {
		p.wakeFill()
		return 0
	}
	n := 0
	for i := range available {
		d := p.sock.rx.At(i)
		if p.rxPool.Move(d.Addr, umem.Fill, umem.Rx) != nil {
			p.stats.RxInvalid++
			continue
		}
		if d.Addr&p.frameMask+uint64(d.Len) > p.frameMask+1 || d.Options != 0 {
			p.stats.RxInvalid++
			_ = p.rxPool.Put(d.Addr, umem.Rx) // moved there just now
			continue
		}
		p.stats.RxBytes += uint64(d.Len)
		descs[n] = d
		n++
	}
	p.sock.rx.Release(available)
	p.stats.RxPackets += uint64(n)
	return n
}

// refill gives all free receive frames to the kernel. Descriptors of received
// packets point behind a headroom; frames go back by their start.
func (p *Port) refill() {
	for p.fault == nil {
		slots, err := p.sock.fill.Reserve(batch)
		if err != nil {
			p.fail(err)
			return
		}
		n := p.rxPool.Get(p.addrs[:slots])
		for i, addr := range p.addrs[:n] {
			*p.sock.fill.Slot(uint32(i)) = addr
			_ = p.rxPool.Move(addr, umem.Pending, umem.Fill) // Get made it Pending
		}
		p.sock.fill.Unreserve(slots - uint32(n))
		if n == 0 {
			return
		}
		p.sock.fill.Submit(uint32(n))
	}
}

// wakeFill tells a driver that ran out of frames that there are some again. Only
// zero-copy drivers ask for it.
func (p *Port) wakeFill() {
	if p.sock.fill.NeedWakeup() {
		p.stats.TxKicks++
		_ = p.wakeError(wakeRx(p.sock.fd)) // Kick and BusyPoll report the same
	}
}

// Release implements port.Port.
func (p *Port) Release(descs []port.Desc) {
	for i := range descs {
		if p.rxPool.Put(descs[i].Addr, umem.Rx) != nil {
			p.stats.FrameErrors++
		}
	}
}

// Bytes implements port.Port.
func (p *Port) Bytes(d port.Desc) []byte { return p.mem[d.Addr:][:d.Len:d.Len] }

// AllocTx implements port.Port.
func (p *Port) AllocTx(descs []port.Desc) int {
	p.reap()
	total := 0
	for total < len(descs) {
		n := p.txPool.Get(p.addrs[:min(batch, len(descs)-total)])
		if n == 0 {
			break
		}
		for i, addr := range p.addrs[:n] {
			descs[total+i] = port.Desc{Addr: addr, Len: uint32(p.frameMask + 1)}
		}
		total += n
	}
	return total
}

// FreeTx implements port.Port.
func (p *Port) FreeTx(descs []port.Desc) {
	for i := range descs {
		if p.txPool.Put(descs[i].Addr, umem.Pending) != nil {
			p.stats.FrameErrors++
		}
	}
}

// minPacket is an Ethernet header; the kernel takes no less.
const minPacket = 14

// Send implements port.Port.
func (p *Port) Send(descs []port.Desc) int {
	slots, err := p.sock.tx.Reserve(uint32(len(descs)))
	if err != nil {
		p.fail(err)
		return 0
	}
	n := uint32(0)
	for _, d := range descs[:slots] {
		if !p.sendable(d) {
			p.stats.TxInvalid++
			continue
		}
		*p.sock.tx.Slot(n) = d
		n++
		p.stats.TxBytes += uint64(d.Len)
	}
	p.sock.tx.Unreserve(slots - n)
	p.sock.tx.Submit(n)
	p.stats.TxPackets += uint64(n)
	return int(slots)
}

// sendable moves the frame of a valid descriptor to Tx. An invalid one's goes back
// to the pool when it was the caller's: the kernel would complete it, or lose it.
func (p *Port) sendable(d port.Desc) bool {
	inside := d.Len >= minPacket && d.Addr&p.frameMask+uint64(d.Len) <= p.frameMask+1 && d.Options == 0
	if inside {
		return p.txPool.Move(d.Addr, umem.Pending, umem.Tx) == nil
	}
	_ = p.txPool.Put(d.Addr, umem.Pending) // refused when it was not the caller's
	return false
}

// reap takes back the frames whose transmission is complete and returns how many
// completions there were. They come in any order. One that names a frame which is
// not being sent changes nothing.
func (p *Port) reap() (total uint32) {
	for p.fault == nil {
		n, err := p.sock.completion.Peek(batch)
		if err != nil {
			p.fail(err)
			break
		}
		if n == 0 {
			break
		}
		for i := range n {
			if p.txPool.Put(p.sock.completion.At(i), umem.Tx) != nil {
				p.stats.CompletionForeign++
			}
		}
		p.sock.completion.Release(n)
		total += n
	}
	return total
}

// Unsent implements port.Port. The kernel publishes late what it has taken, but a
// frame that is complete certainly was.
func (p *Port) Unsent() int {
	queued := uint64(p.sock.tx.Entries() - p.sock.tx.Free())
	return int(min(queued, p.txPool.Counts()[umem.Tx]))
}

// Fd implements port.Port.
func (p *Port) Fd() int { return p.sock.fd }

// Mode implements port.Port.
func (p *Port) Mode() string {
	switch {
	case p.zeroCopy:
		return ZeroCopy.String()
	case p.device.generic:
		return Generic.String()
	}
	return Copy.String()
}

// Reason says why the port is not in zero-copy mode; "" when it is.
func (p *Port) Reason() string { return p.reason }

// fail records that a ring cannot be used any more. Kick reports it.
func (p *Port) fail(err error) {
	if p.fault == nil {
		p.fault = fmt.Errorf("metaroced: plane %s: queue %d: %w", p.device.name, p.queue, err)
	}
}

// Close implements port.Port. A second Close does nothing.
func (p *Port) Close() error {
	p.group.mu.Lock()
	defer p.group.mu.Unlock()
	if p.closed {
		return nil
	}
	return p.group.closePort(p)
}

// wakeError turns the errno of a wake-up into an error; shortages are none.
func (p *Port) wakeError(errno unix.Errno) error {
	switch errno {
	case 0, unix.EAGAIN, unix.EINTR, unix.EBUSY, unix.ENOBUFS, unix.ENOMEM:
		return nil
	case unix.ENETDOWN:
		return p.errDown
	case unix.ENXIO:
		return p.errGone
	}
	return fmt.Errorf("metaroced: plane %s: queue %d: wake the kernel: %w", p.device.name, p.queue, errno)
}
