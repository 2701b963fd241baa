package dataplane

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// waiter is what a worker sleeps on. Ports are polled directly, the sessions'
// wake sockets and the mailbox through an epoll set: a socket that is in an
// epoll set makes the kernel run a callback for every packet, even while the
// worker is awake, and that costs the sender's core several percent.
type waiter struct {
	set    int // epoll
	events [64]unix.EpollEvent
	fds    []unix.PollFd // the epoll set, then the ports
}

// Kinds of descriptors in the set, kept in the event's Pad.
const (
	waitSession = iota
	waitMailbox
)

func (p *waiter) init() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("metaroced: epoll: %w", err)
	}
	p.set = fd
	p.fds = append(p.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	return nil
}

func (p *waiter) add(fd, kind, index int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(index), Pad: int32(kind)}
	if err := unix.EpollCtl(p.set, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("metaroced: epoll: %w", err)
	}
	return nil
}

func (p *waiter) remove(fd int) { _ = unix.EpollCtl(p.set, unix.EPOLL_CTL_DEL, fd, nil) }

// addPort has sleep end when a packet arrives. Reading only: a port is always
// writable.
func (p *waiter) addPort(fd int) {
	p.fds = append(p.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
}

// removePort forgets a port whose device is gone: it would end every sleep.
func (p *waiter) removePort(fd int) {
	for i := range p.fds {
		if p.fds[i].Fd == int32(fd) {
			p.fds[i].Fd = -1 // poll ignores it
		}
	}
}

// sleep waits until something is ready or nanos have passed; a signal ends it
// early.
func (p *waiter) sleep(nanos int64) {
	ts := unix.NsecToTimespec(nanos)
	_, _ = unix.Ppoll(p.fds, &ts, nil) // whatever it says, the worker looks at everything next
}

// ready returns how many of the set's descriptors are ready, without waiting.
func (p *waiter) ready() int {
	n, err := unix.EpollWait(p.set, p.events[:], 0)
	if err != nil {
		return 0 // EINTR: looked at again soon
	}
	return n
}

// yield lets another thread run: spinners may outnumber cores.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
