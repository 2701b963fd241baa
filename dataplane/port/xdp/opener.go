package xdp

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/bpf"
)

// opener makes the calls that need privileges, and only those. Everything else of
// a port - rings, binding, steering, driving, closing - works without any. It is
// the seam at which a daemon that has dropped its privileges would ask a helper.
type opener struct{}

// checkCapabilities names the first capability that is missing.
func (opener) checkCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // version 3 writes two
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for _, c := range [...]struct {
		bit       uint
		name, use string
	}{
		{unix.CAP_NET_RAW, "CAP_NET_RAW", "open AF_XDP sockets"},
		{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN", "attach the XDP program"},
		{unix.CAP_BPF, "CAP_BPF", "load the XDP program"},
	} {
		if data[c.bit/32].Effective&(1<<(c.bit%32)) == 0 {
			return &CapabilityError{Name: c.name, Use: c.use}
		}
	}
	return nil
}

// socket opens an AF_XDP socket in the calling thread's network namespace. It
// needs CAP_NET_RAW.
func (opener) socket() (fd int, err error) {
	fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return -1, fmt.Errorf("open AF_XDP socket: the kernel has none (CONFIG_XDP_SOCKETS): %w", err)
	}
	if err != nil {
		return -1, fmt.Errorf("open AF_XDP socket: %w", err)
	}
	return fd, nil
}

// sendBuffer lets the socket have bytes of packets between its rings and the
// driver. It needs CAP_NET_ADMIN: the limit for others is far too small.
func (opener) sendBuffer(fd, bytes int) error {
	return os.NewSyscallError("setsockopt SO_SNDBUFFORCE", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, bytes))
}

// busyPoll moves receive processing of the socket's queue from interrupts to the
// calls of the worker. It needs CAP_NET_ADMIN.
func (opener) busyPoll(fd int, config BusyPoll) error {
	for _, option := range [...]struct {
		name  int
		value int
	}{
		{unix.SO_PREFER_BUSY_POLL, 1},
		{unix.SO_BUSY_POLL, config.Micros},
		{unix.SO_BUSY_POLL_BUDGET, config.Budget},
	} {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option.name, option.value); err != nil {
			return fmt.Errorf("switch busy polling on (socket option %d, value %d): %w", option.name, option.value, err)
		}
	}
	return nil
}

// attach loads the steering program and attaches it to a device of the calling
// thread's network namespace. It needs CAP_BPF and CAP_NET_ADMIN.
func (opener) attach(ifindex int, mode bpf.AttachMode, udpPort uint16) (*bpf.Program, bpf.Attached, error) {
	program, err := bpf.Load(bpf.Config{UDPPort: udpPort})
	if err != nil {
		return nil, bpf.Attached{}, err
	}
	attached, err := program.Attach(ifindex, mode)
	if err != nil {
		_ = program.Close() // the first error says more
		return nil, bpf.Attached{}, err
	}
	return program, attached, nil
}
