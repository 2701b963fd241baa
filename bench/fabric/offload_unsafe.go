package fabric

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethtoolValue is struct ethtool_value of linux/ethtool.h.
type ethtoolValue struct{ command, data uint32 }

// interfaceRequest is struct ifreq of linux/if.h with a pointer in its union.
type interfaceRequest struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [24 - unsafe.Sizeof(uintptr(0))]byte
}

// setOffloads prepares a host's interface; doc.go says why. The interface is one of
// the calling thread's network namespace.
func setOffloads(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	for _, v := range [...]ethtoolValue{
		{unix.ETHTOOL_STXCSUM, 0},
		{unix.ETHTOOL_SGSO, 0},
		{unix.ETHTOOL_SGRO, 1},
	} {
		request := interfaceRequest{data: unsafe.Pointer(&v)}
		copy(request.name[:unix.IFNAMSIZ-1], name)
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
		if errno != 0 {
			return fmt.Errorf("%s: set offload, ethtool command %#x to %d: %w", name, v.command, v.data, errno)
		}
	}
	return nil
}
