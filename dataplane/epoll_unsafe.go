package dataplane

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// epoll is what a worker sleeps on: its ports, its sessions' wake sockets and
// its mailbox.
type epoll struct {
	fd     int
	events [64]unix.EpollEvent
}

// Kinds of descriptors, kept in the event's Pad.
const (
	epollPort = iota
	epollSession
	epollMailbox
)

func (e *epoll) init() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("metaroced: epoll: %w", err)
	}
	e.fd = fd
	return nil
}

func (e *epoll) add(fd, kind, index int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(index), Pad: int32(kind)}
	if err := unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("metaroced: epoll: %w", err)
	}
	return nil
}

func (e *epoll) remove(fd int) { _ = unix.EpollCtl(e.fd, unix.EPOLL_CTL_DEL, fd, nil) }

// wait sleeps until something is ready or nanos have passed. It returns how
// many events there are; an interrupted sleep has none.
func (e *epoll) wait(nanos int64) int {
	ts := unix.NsecToTimespec(nanos)
	var n uintptr
	var errno unix.Errno
	if nanos == 0 {
		n, _, errno = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(e.fd), uintptr(unsafe.Pointer(&e.events)), uintptr(len(e.events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
	} else {
		n, _, errno = unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(e.fd), uintptr(unsafe.Pointer(&e.events)), uintptr(len(e.events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
	}
	if errno != 0 {
		return 0
	}
	return int(n)
}

// yield lets another thread run: spinners may outnumber cores.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
