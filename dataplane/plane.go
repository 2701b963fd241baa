package dataplane

import (
	"errors"

	"github.com/metaroced/metaroced/dataplane/port"
	"golang.org/x/sys/unix"
)

// portError acts on what a port's system call said. A link that is down is
// known from netlink as well; a device that is gone takes its plane along.
func (w *worker) portError(i int, err error) {
	if err == nil {
		return
	}
	p := &w.planes[i]
	switch {
	case errors.Is(err, port.ErrDeviceGone):
		w.planeGone(i)
	case errors.Is(err, port.ErrLinkDown):
		if p.up {
			p.up = false
			w.log.Warn("plane link changed", "plane", p.name, "up", false)
			w.engine.HandlePlane(w.now, i, false)
		}
	default:
		if p.errors++; p.errors == 1 {
			w.log.Error("plane cannot transmit", "plane", p.name, "error", err)
		}
	}
}

// planeGone stops using a plane whose device no longer exists.
func (w *worker) planeGone(i int) {
	p := &w.planes[i]
	if p.gone {
		return
	}
	p.gone, p.up = true, false
	w.log.Error("plane's interface is gone; restart the daemon when it is back", "plane", p.name)
	w.engine.HandlePlane(w.now, i, false)
	w.waiter.removePort(p.port.Fd())
}

// closePorts gives frames and queues back.
func (w *worker) closePorts() error {
	var errs []error
	for i := range w.planes {
		p := &w.planes[i]
		if p.port == nil {
			continue
		}
		p.port.FreeTx(p.tx[:p.spare])
		for k := range p.parked {
			p.port.FreeTx([]port.Desc{p.parked[k].desc})
		}
		p.spare, p.parked = 0, nil
		errs = append(errs, p.port.Close())
		p.port.Stats(&p.stats)
		if n := p.stats.FramesLeaked; n > 0 {
			w.log.Error("frames leaked", "plane", p.name, "frames", n)
		}
	}
	return errors.Join(errs...)
}

// closeDescriptors gives back what the worker sleeps on.
func (w *worker) closeDescriptors() {
	for _, fd := range []int{w.waiter.set, w.wakeFD} {
		if fd > 0 {
			_ = unix.Close(fd)
		}
	}
}

// planeState is what the worker says of a plane in Status.
func (p *plane) state() string {
	switch {
	case p.gone:
		return "gone"
	case p.up:
		return "up"
	}
	return "down"
}
