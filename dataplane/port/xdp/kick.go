package xdp

import "golang.org/x/sys/unix"

// maxRefusals bounds the packets one Kick sees dropped. On a link without carrier
// the kernel drops them one per call.
const maxRefusals = 64

// Kick implements port.Port.
//
// In copy modes a call transmits at most Config.TxBudget packets, so Kick calls
// until the kernel has taken all or takes no more. EAGAIN means that budget,
// completion ring or socket buffer ran out, EBUSY that a packet was taken and
// dropped; the kernel shows the latter in the ring's index only one call later.
func (p *Port) Kick() error {
	p.reap()
	if p.fault != nil {
		return p.fault
	}
	if !p.sock.tx.NeedWakeup() {
		return nil
	}
	left, refusals := p.Unsent(), 0
	for left > 0 {
		errno := wakeTx(p.sock.fd)
		p.stats.TxKicks++
		switch errno {
		case 0, unix.EAGAIN:
		case unix.EBUSY, unix.ENOBUFS, unix.ENOMEM:
			p.stats.TxKickErrors++
			refusals++
		default:
			return p.wakeError(errno)
		}
		if p.zeroCopy {
			return nil // the driver goes on by itself
		}
		before := left
		reaped := p.reap()
		left = p.Unsent()
		if left == before && reaped == 0 && errno != unix.EBUSY || refusals == maxRefusals {
			return nil
		}
	}
	return nil
}

// BusyPoll implements port.Port.
func (p *Port) BusyPoll() error {
	if !p.busyPoll {
		return nil
	}
	return p.wakeError(wakeRx(p.sock.fd))
}
