package umem

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// SlabFD is a memfd of a region and how much of it is mapped.
type SlabFD struct {
	File  *os.File
	Bytes int64
}

// Region is memory that the daemon shares with one application.
type Region struct {
	// Fds are to be mapped one behind the other. The region owns the files: they
	// may be sent, not closed.
	Fds []SlabFD

	mem   []byte
	freed atomic.Bool

	whole []byte // plain regions: the mapping, whole pages

	arena            *Arena // regions in the arena, else nil
	firstSlab, slabs int
}

// NewPlainRegion makes a region of bytes outside the arena, for sizes that the
// arena does not have: one sealed memfd, zeroed and populated. It fails with
// ErrNoMemory when memory is short. Quotas are the caller's to check before.
func NewPlainRegion(bytes int64) (*Region, error) {
	return newRegion("metaroced-region", bytes, sealed)
}

// NewReadOnlyRegion makes a plain region that only the daemon can write: whoever
// holds its descriptor can neither map it writable, nor write to it, nor punch
// holes, nor open it again for writing.
func NewReadOnlyRegion(bytes int64) (*Region, error) {
	r, err := newRegion("metaroced-share", bytes, sealed|unix.F_SEAL_FUTURE_WRITE)
	if err != nil {
		return nil, err
	}
	// The descriptor that goes out is read-only on its own account too.
	writable := r.Fds[0].File
	readable, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", writable.Fd()))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("metaroced: umem: open share read-only: %w", err), r.Free())
	}
	r.Fds[0].File = readable
	return r, writable.Close()
}

func newRegion(name string, bytes int64, seals int) (*Region, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("metaroced: umem: a region of %d bytes", bytes)
	}
	if err := checkMemory(bytes); err != nil {
		return nil, err
	}
	page := int64(os.Getpagesize())
	rounded := (bytes + page - 1) / page * page
	file, err := newMemfd(name, rounded)
	if err != nil {
		return nil, err
	}
	whole, err := reserve(rounded)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	r := &Region{Fds: []SlabFD{{File: file, Bytes: rounded}}, mem: whole[:bytes:bytes], whole: whole}
	if err := r.fill(file, seals); err != nil {
		return nil, errors.Join(err, r.Free())
	}
	return r, nil
}

// fill maps, populates and seals the file of a plain region.
func (r *Region) fill(file *os.File, seals int) error {
	if err := mapFile(r.whole, file, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	if err := populate(r.whole); err != nil {
		return err
	}
	if seals&unix.F_SEAL_FUTURE_WRITE != 0 {
		// The mode is checked when /proc/<pid>/fd/<n> is opened again.
		if err := file.Chmod(0o400); err != nil {
			return fmt.Errorf("metaroced: umem: make share read-only: %w", err)
		}
	}
	return seal(file, seals)
}

// Mem is the memory of the region, of the length asked for. It is nil after Free.
// The application may write to it at any time.
func (r *Region) Mem() []byte { return r.mem }

// InArena reports whether the region lies in the arena, so that devices can send
// from it.
func (r *Region) InArena() bool { return r.arena != nil }

// Free gives the region up: slabs go back to the arena for the same tenant, a
// plain region is unmapped and closed. No published descriptor, and no worker,
// may refer to it any more. Called again it fails with ErrFreed.
func (r *Region) Free() error {
	if r.freed.Swap(true) {
		return fmt.Errorf("%w: region", ErrFreed)
	}
	fds := r.Fds
	r.mem, r.Fds = nil, nil
	if r.arena != nil {
		r.arena.returnSlabs(r)
		return nil
	}
	err := unmap(r.whole)
	r.whole = nil
	for _, fd := range fds {
		err = errors.Join(err, fd.File.Close())
	}
	return err
}
