package umem

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// MaxRegionSlabs is the most slabs one region has: the descriptors of a region
// go to the application in one piece, and at most that many may wait unread.
// Larger regions are plain.
const MaxRegionSlabs = 16

// Tenant is whom memory may be given to again: its processes can keep mappings of
// what they once held, so tenants must not share slabs even one after the other.
type Tenant struct {
	UID    uint32
	Cgroup string // path of the control group, empty where not known
}

// slab is one memfd inside the arena.
type slab struct {
	file   *os.File
	taken  bool
	used   bool   // given out at least once, to tenant
	tenant Tenant // for good once used
}

// allows reports whether tenant may have the slab now.
func (s *slab) allows(tenant Tenant) bool {
	return !s.taken && (!s.used || s.tenant == tenant)
}

// mapSlabs puts a sealed memfd under each slab.
func (a *Arena) mapSlabs() error {
	count := int(a.config.SlabBytes / a.config.SlabSize)
	a.slabs = make([]slab, 0, count)
	for i := range count {
		file, err := newMemfd("metaroced-slab", a.config.SlabSize)
		if err != nil {
			return err
		}
		a.slabs = append(a.slabs, slab{file: file})
		mem := a.slabMem(i, 1)
		if err := mapFile(mem, file, unix.PROT_READ|unix.PROT_WRITE); err != nil {
			return err
		}
		if err := a.populate(mem); err != nil {
			return err
		}
		if err := seal(file, sealed); err != nil {
			return err
		}
	}
	return nil
}

// slabMem is the memory of count slabs from the first-th on.
func (a *Arena) slabMem(first, count int) []byte {
	from := a.config.FrameBytes + int64(first)*a.config.SlabSize
	to := from + int64(count)*a.config.SlabSize
	return a.mem[from:to:to]
}

// AllocSlabs makes a region of bytes from neighbouring slabs of the arena, zeroed.
// It fails with ErrNoSlabs when there are none that tenant may have, or when
// the region would have more than MaxRegionSlabs; a plain region then does.
// Quotas are the caller's to check before.
func (a *Arena) AllocSlabs(bytes int64, tenant Tenant) (*Region, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("metaroced: umem: a region of %d bytes", bytes)
	}
	if bytes > MaxRegionSlabs*a.config.SlabSize {
		return nil, fmt.Errorf("%w: a region in the arena has at most %d slabs of %d bytes, not %d bytes", ErrNoSlabs, MaxRegionSlabs, a.config.SlabSize, bytes)
	}
	count := int((bytes + a.config.SlabSize - 1) / a.config.SlabSize)
	r := &Region{arena: a, slabs: count}
	var dirty bool
	if err := a.takeSlabs(r, tenant, &dirty); err != nil {
		return nil, err
	}
	mem := a.slabMem(r.firstSlab, count)
	r.mem = mem[:bytes:bytes]
	if !dirty {
		return r, nil
	}
	// The tenant may have punched holes: fill them first, where no memory is an
	// error, then clear what it wrote.
	err := populate(mem)
	if err == nil {
		err = zero(mem)
	}
	if err != nil {
		a.returnSlabs(r)
		return nil, err
	}
	return r, nil
}

// takeSlabs finds r.slabs neighbouring slabs for tenant, marks them and gives
// them to r. dirty tells that some were in use before.
func (a *Arena) takeSlabs(r *Region, tenant Tenant, dirty *bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return fmt.Errorf("%w: arena", ErrFreed)
	}
	first, ok := a.findSlabs(r.slabs, tenant)
	if !ok {
		return fmt.Errorf("%w: %d neighbouring slabs of %d bytes for uid %d", ErrNoSlabs, r.slabs, a.config.SlabSize, tenant.UID)
	}
	r.firstSlab = first
	for i := first; i < first+r.slabs; i++ {
		s := &a.slabs[i]
		*dirty = *dirty || s.used
		s.taken, s.used, s.tenant = true, true, tenant
		r.Fds = append(r.Fds, SlabFD{File: s.file, Bytes: a.config.SlabSize})
	}
	return nil
}

// findSlabs returns the run of count slabs open to tenant that takes the fewest
// slabs nobody has had yet, since those are lost to all other tenants.
func (a *Arena) findSlabs(count int, tenant Tenant) (first int, ok bool) {
	fewest, run, fresh := count+1, 0, 0
	for i := range a.slabs {
		if !a.slabs[i].allows(tenant) {
			run, fresh = 0, 0
			continue
		}
		run++
		if !a.slabs[i].used {
			fresh++
		}
		if run > count { // slide: the oldest slab leaves the run
			run--
			if !a.slabs[i-count].used {
				fresh--
			}
		}
		if run == count && fresh < fewest {
			first, fewest, ok = i-count+1, fresh, true
		}
	}
	return first, ok
}

// returnSlabs makes the slabs of r free, for the same tenant only.
func (a *Arena) returnSlabs(r *Region) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := r.firstSlab; i < r.firstSlab+r.slabs; i++ {
		a.slabs[i].taken = false
	}
}
