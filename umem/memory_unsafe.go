package umem

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePageBytes is the alignment that lets the kernel back memory with huge pages.
const hugePageBytes = 2 << 20

// reserve takes an address range of the given size, a multiple of the page size,
// aligned to huge pages. Nothing can be accessed in it until it is mapped over.
func reserve(bytes int64) ([]byte, error) {
	padded := uintptr(bytes) + hugePageBytes
	base, err := unix.MmapPtr(-1, 0, nil, padded, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("metaroced: umem: reserve %s of address space: %w", mebibytes(bytes), err)
	}
	head := -uintptr(base) % hugePageBytes
	start := unsafe.Add(base, head)
	tail := padded - head - uintptr(bytes)
	if head > 0 {
		err = unix.MunmapPtr(base, head)
	}
	if err == nil && tail > 0 {
		err = unix.MunmapPtr(unsafe.Add(start, bytes), tail)
	}
	if err != nil {
		return nil, fmt.Errorf("metaroced: umem: trim reserved address space: %w", err)
	}
	return unsafe.Slice((*byte)(start), int(bytes)), nil
}

// mapFile maps file, or fresh private memory when file is nil, over the whole of
// mem, which lies in a reserved range.
func mapFile(mem []byte, file *os.File, protection int) error {
	fd, flags := -1, unix.MAP_FIXED
	if file == nil {
		flags |= unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	} else {
		fd = int(file.Fd())
		flags |= unix.MAP_SHARED
	}
	_, err := unix.MmapPtr(fd, 0, unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)), protection, flags)
	if err != nil {
		return fmt.Errorf("metaroced: umem: map %s: %w", mebibytes(int64(len(mem))), err)
	}
	return nil
}

// unmap gives an address range back, with everything mapped inside it.
func unmap(mem []byte) error {
	if err := unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem))); err != nil {
		return fmt.Errorf("metaroced: umem: unmap %s: %w", mebibytes(int64(len(mem))), err)
	}
	return nil
}

// preferNode asks for the pages of mem, none of which exists yet, to be taken
// from a NUMA node as long as it has some.
func preferNode(mem []byte, node int) error {
	const maxNodes = 1024 // the kernel's own limit, CONFIG_NODES_SHIFT <= 10
	if node < 0 || node >= maxNodes {
		return fmt.Errorf("metaroced: umem: NUMA node %d is not in 0..%d", node, maxNodes-1)
	}
	var mask [maxNodes / 64]uint64
	mask[node/64] = 1 << (node % 64)
	_, _, errno := unix.Syscall6(unix.SYS_MBIND,
		uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)),
		unix.MPOL_PREFERRED, uintptr(unsafe.Pointer(&mask)), maxNodes+1, 0)
	if errno != 0 {
		return fmt.Errorf("metaroced: umem: prefer memory of NUMA node %d: %w", node, errno)
	}
	return nil
}

// populate makes every page of mem present and writable, so that no later access
// faults for want of memory. It is ErrNoMemory when there is none. mem is new, or
// about to be cleared: bytes of it may be overwritten.
func populate(mem []byte) error {
	for {
		err := unix.Madvise(mem, unix.MADV_POPULATE_WRITE)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN):
			continue // pages present already are passed over quickly
		case errors.Is(err, unix.EINVAL): // kernels before 5.14
			return touch(mem)
		default:
			return fmt.Errorf("%w: populate %s: %w", ErrNoMemory, mebibytes(int64(len(mem))), err)
		}
	}
}
