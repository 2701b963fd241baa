package xdp

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setOption and getOption pass structures that x/sys has no function for. Their
// values hold no Go pointers.
func setOption[T any](fd, level, name int, value *T) error {
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(value)), unsafe.Sizeof(*value), 0)
	if errno != 0 {
		return os.NewSyscallError("setsockopt", errno)
	}
	return nil
}

func getOption[T any](fd, level, name int, value *T) error {
	size := uint32(unsafe.Sizeof(*value))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(value)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return os.NewSyscallError("getsockopt", errno)
	}
	return nil
}

// registerUmem makes mem, which must stay mapped until the socket is closed, the
// packet memory of the socket. Pages are pinned one by one: seconds per GiB.
func registerUmem(fd int, mem []byte, frameSize uint32) error {
	return setOption(fd, unix.SOL_XDP, unix.XDP_UMEM_REG, &unix.XDPUmemReg{
		Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))),
		Len:  uint64(len(mem)),
		Size: frameSize,
	})
}

// wakeTx and wakeRx are the calls by which a socket is driven: sendto and
// recvfrom of nothing, never waiting.
func wakeTx(fd int) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

func wakeRx(fd int) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// ethtoolChannels is struct ethtool_channels of linux/ethtool.h.
type ethtoolChannels struct {
	command                                     uint32
	maxRx, maxTx, maxOther, maxCombined         uint32
	rxCount, txCount, otherCount, combinedCount uint32
}

// interfaceRequest is struct ifreq of linux/if.h with a pointer as its union.
type interfaceRequest struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [24 - unsafe.Sizeof(uintptr(0))]byte
}

// readChannels asks for the numbers of receive and transmit queues in use of an
// interface in the calling thread's network namespace.
func readChannels(name string) (rx, tx uint32, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	channels := ethtoolChannels{command: unix.ETHTOOL_GCHANNELS}
	request := interfaceRequest{data: unsafe.Pointer(&channels)}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return 0, 0, os.NewSyscallError("ioctl SIOCETHTOOL", errno)
	}
	return channels.rxCount + channels.combinedCount, channels.txCount + channels.combinedCount, nil
}
