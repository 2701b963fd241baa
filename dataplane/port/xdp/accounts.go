package xdp

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/dataplane/port"
	"github.com/metaroced/metaroced/umem"
)

// snapshot is what Stats remembers of its last call.
type snapshot struct {
	rxPackets, txPackets uint64
	unaccounted          uint64
}

// Stats implements port.Port.
func (p *Port) Stats(s *port.Stats) {
	if !p.closed {
		p.readKernel()
		p.reap()
		p.stats.RxFrames, p.stats.TxFrames = p.rxPool.Counts(), p.txPool.Counts()
		p.stats.FramesLeaked = p.leaked()
	}
	*s = p.stats
}

// readKernel adds what the kernel counts. It cannot fail on an open socket.
func (p *Port) readKernel() {
	var k unix.XDPStatistics
	if getOption(p.sock.fd, unix.SOL_XDP, unix.XDP_STATISTICS, &k) != nil {
		return
	}
	p.stats.RxDropped = k.Rx_dropped
	p.stats.RxRingFull = k.Rx_ring_full
	p.stats.FillEmpty = k.Rx_fill_ring_empty_descs
	p.stats.TxInvalid += k.Tx_invalid_descs - p.kernelTxInvalid
	p.kernelTxInvalid = k.Tx_invalid_descs
}

// leaked returns how many frames were unaccounted for in the last call and still
// are, with no traffic between. While packets flow, frames are in the kernel's
// hands for a moment. Zero-copy drivers keep frames for as long as they like, so
// there the question is answered only at the end.
func (p *Port) leaked() uint64 {
	if p.zeroCopy {
		return 0
	}
	now := snapshot{p.stats.RxPackets, p.stats.TxPackets, p.unaccounted()}
	quiet := now.rxPackets == p.seen.rxPackets && now.txPackets == p.seen.txPackets
	before := p.seen.unaccounted
	p.seen = now
	if !quiet {
		return 0
	}
	return min(before, now.unaccounted)
}

// unaccounted returns how many frames the pools say are the kernel's that are on
// no ring.
func (p *Port) unaccounted() uint64 {
	waiting, _ := p.sock.rx.Peek(p.sock.rx.Entries()) // an impossible index is Receive's to report
	unsent := p.sock.tx.Entries() - p.sock.tx.Free()
	filled := p.sock.fill.Entries() - p.sock.fill.Free()
	var onRings [umem.NumStates]uint64
	onRings[umem.Fill] = uint64(filled) + uint64(waiting)
	onRings[umem.Rx], onRings[umem.Pending] = p.rxPool.Counts()[umem.Rx], p.txPool.Counts()[umem.Pending]
	onRings[umem.Tx] = uint64(unsent)
	return p.rxPool.Leaked(onRings) + p.txPool.Leaked(onRings)
}

const (
	// settleTimeout is how long Close waits for transmissions to complete.
	settleTimeout  = 100 * time.Millisecond
	settleInterval = time.Millisecond
	// A zero-copy device may write into frames until the kernel has taken the queue
	// from it, some time after the socket is closed.
	zeroCopyRelease = 100 * time.Millisecond
)

// settle waits for transmissions to complete and writes the final counters. What
// the caller still has by now it will never give back. Frames that were published
// but never taken by the kernel, as on a link that is down, are not leaked.
func (p *Port) settle() {
	deadline := time.Now().Add(settleTimeout)
	for {
		p.reap()
		if p.txPool.Counts()[umem.Tx] <= uint64(p.Unsent()) || time.Now().After(deadline) {
			break
		}
		time.Sleep(settleInterval)
	}
	p.readKernel()
	rx, tx := p.rxPool.Counts(), p.txPool.Counts()
	p.stats.RxFrames, p.stats.TxFrames = rx, tx
	p.stats.FramesLeaked = rx[umem.Rx] + tx[umem.Pending] + tx[umem.Tx] - uint64(p.Unsent())
	p.closed = true
}

// free gives back whatever the port has: rings and socket first, then the frames
// that the kernel held through them.
func (p *Port) free() error {
	p.closed = true
	var err error
	if p.sock != nil {
		err = p.sock.close()
		if p.zeroCopy {
			time.Sleep(zeroCopyRelease)
		}
	}
	for _, pool := range []*umem.Pool{p.rxPool, p.txPool} {
		if pool != nil {
			pool.Reclaim()
			err = errors.Join(err, pool.Close())
		}
	}
	p.mem = nil
	return err
}
