package umem

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// MapRegion maps the descriptors of a region one behind the other, for reading and
// writing. It is the application's side of a Region. The files may be closed
// afterwards; UnmapRegion ends the mapping. The length is the sum of the
// descriptors' bytes, whole slabs or pages, and may be more than was asked for.
func MapRegion(fds []SlabFD) ([]byte, error) {
	return mapRegion(fds, unix.PROT_READ|unix.PROT_WRITE)
}

// MapReadOnlyRegion is MapRegion for a region made by NewReadOnlyRegion. Writing
// to the result faults.
func MapReadOnlyRegion(fds []SlabFD) ([]byte, error) {
	return mapRegion(fds, unix.PROT_READ)
}

// UnmapRegion ends a mapping made by MapRegion or MapReadOnlyRegion. mem must be
// the whole of it.
func UnmapRegion(mem []byte) error { return unmap(mem) }

func mapRegion(fds []SlabFD, protection int) ([]byte, error) {
	page := int64(os.Getpagesize())
	var total int64
	for i, fd := range fds {
		if fd.Bytes <= 0 || fd.Bytes%page != 0 || fd.Bytes > maxArenaBytes-total {
			return nil, fmt.Errorf("metaroced: umem: descriptor %d of region has %d bytes to map, must be a positive multiple of the page size %d and %d in sum at most", i, fd.Bytes, page, int64(maxArenaBytes))
		}
		if err := checkMappable(fd); err != nil {
			return nil, fmt.Errorf("metaroced: umem: descriptor %d of region: %w", i, err)
		}
		total += fd.Bytes
	}
	if total == 0 {
		return nil, errors.New("metaroced: umem: a region without descriptors")
	}
	mem, err := reserve(total)
	if err != nil {
		return nil, err
	}
	rest := mem
	for _, fd := range fds {
		if err := mapFile(rest[:fd.Bytes], fd.File, protection); err != nil {
			return nil, errors.Join(err, unmap(mem))
		}
		rest = rest[fd.Bytes:]
	}
	return mem, nil
}

// checkMappable verifies that a file is as long as it is said to be and stays
// so, since access behind its end would fault.
func checkMappable(fd SlabFD) error {
	info, err := fd.File.Stat()
	if err != nil {
		return err
	}
	if info.Size() < fd.Bytes {
		return fmt.Errorf("has %d bytes, %d expected", info.Size(), fd.Bytes)
	}
	seals, err := unix.FcntlInt(fd.File.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
		return fmt.Errorf("can shrink under its users (seals %#x)", seals)
	}
	return nil
}
