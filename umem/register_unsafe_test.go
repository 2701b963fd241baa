package umem

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/internal/testenv"
)

// TestKernelTakesTheArena registers an arena as UMEM, as port/xdp does: the
// kernel refuses ranges with holes and files it cannot pin.
func TestKernelTakesTheArena(t *testing.T) {
	testenv.RequireRoot(t)
	a := newArena(t)
	for range 2 { // one range may be registered more than once
		fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		mem := a.Bytes()
		registration := unix.XDPUmemReg{
			Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))),
			Len:  uint64(len(mem)),
			Size: a.FrameSize(),
		}
		_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_UMEM_REG,
			uintptr(unsafe.Pointer(&registration)), unsafe.Sizeof(registration), 0)
		if errno != 0 {
			t.Fatalf("XDP_UMEM_REG: %v", errno)
		}
	}
}
