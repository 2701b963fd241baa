package umem

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// attachRegion plays the application: it maps the region's descriptors.
func attachRegion(t *testing.T, r *Region) []byte {
	t.Helper()
	mem, err := MapRegion(r.Fds)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := UnmapRegion(mem); err != nil {
			t.Error(err)
		}
	})
	return mem
}

func freeAll(t *testing.T, regions ...*Region) {
	t.Helper()
	for _, r := range regions {
		if err := r.Free(); err != nil {
			t.Fatal(err)
		}
	}
}

// eachKind runs test over a region in the arena and a plain one, both of three
// and a half slabs.
func eachKind(t *testing.T, test func(t *testing.T, r *Region)) {
	const size = 3*testSlab + testSlab/2
	t.Run("slabs", func(t *testing.T) {
		r, err := newArena(t).AllocSlabs(size, Tenant{})
		if err != nil {
			t.Fatal(err)
		}
		if !r.InArena() || len(r.Fds) != 4 || len(r.Mem()) != size {
			t.Fatalf("in arena %v, %d descriptors, %d bytes", r.InArena(), len(r.Fds), len(r.Mem()))
		}
		test(t, r)
		freeAll(t, r)
	})
	t.Run("plain", func(t *testing.T) {
		r, err := NewPlainRegion(size)
		if err != nil {
			t.Fatal(err)
		}
		if r.InArena() || len(r.Fds) != 1 || len(r.Mem()) != size {
			t.Fatalf("in arena %v, %d descriptors, %d bytes", r.InArena(), len(r.Fds), len(r.Mem()))
		}
		test(t, r)
		freeAll(t, r)
	})
}

func TestRegionIsShared(t *testing.T) {
	eachKind(t, func(t *testing.T, r *Region) {
		application := attachRegion(t, r)
		for i := range r.Mem() {
			if r.Mem()[i] != 0 {
				t.Fatalf("byte %d is not zero", i)
			}
			r.Mem()[i] = byte(i * 7 >> 3)
		}
		if !bytes.Equal(application[:len(r.Mem())], r.Mem()) {
			t.Fatal("application sees other bytes")
		}
		application[len(r.Mem())-1] = 99
		if r.Mem()[len(r.Mem())-1] != 99 {
			t.Fatal("daemon does not see what the application wrote")
		}
	})
}

func TestRegionCannotChangeSize(t *testing.T) {
	eachKind(t, func(t *testing.T, r *Region) {
		for _, fd := range r.Fds {
			for _, size := range []int64{0, fd.Bytes - 4096, fd.Bytes + 4096} {
				if err := fd.File.Truncate(size); !errors.Is(err, unix.EPERM) {
					t.Fatalf("ftruncate to %d bytes: %v, want EPERM", size, err)
				}
			}
			if _, err := unix.FcntlInt(fd.File.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); !errors.Is(err, unix.EPERM) {
				t.Fatalf("adding a seal: %v, want EPERM", err)
			}
		}
	})
}

// TestPunchedHole documents what the seals do not forbid: pages disappear, and
// both sides see new ones in their place. Nobody faults.
func TestPunchedHole(t *testing.T) {
	eachKind(t, func(t *testing.T, r *Region) {
		application := attachRegion(t, r)
		application[0], application[4096] = 1, 2
		hole := func() error {
			return unix.Fallocate(int(r.Fds[0].File.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096)
		}
		if err := hole(); err != nil {
			t.Fatal(err)
		}
		if r.Mem()[0] != 0 || r.Mem()[4096] != 2 {
			t.Fatalf("after the hole: %d, %d", r.Mem()[0], r.Mem()[4096])
		}
		r.Mem()[0] = 3
		if application[0] != 3 {
			t.Fatal("the sides see different pages")
		}
		if err := unix.Madvise(application[:4096], unix.MADV_REMOVE); err != nil {
			t.Fatal(err)
		}
		if r.Mem()[0] != 0 {
			t.Fatal("MADV_REMOVE left the page")
		}
	})
}

func TestReadOnlyRegion(t *testing.T) {
	r, err := NewReadOnlyRegion(5000)
	if err != nil {
		t.Fatal(err)
	}
	defer freeAll(t, r)
	copy(r.Mem(), "published")
	mem, err := MapReadOnlyRegion(r.Fds)
	if err != nil {
		t.Fatal(err)
	}
	defer UnmapRegion(mem)
	copy(r.Mem(), "Published") // the daemon's own mapping stays writable
	if !bytes.HasPrefix(mem, []byte("Published")) {
		t.Fatalf("reader sees %q", mem[:9])
	}
	if err := guardFault(func() { mem[0] = 1 }); err == nil {
		t.Fatal("reader wrote through its mapping")
	}

	file := r.Fds[0].File
	attempts := map[string]func(*os.File) error{
		"map": func(f *os.File) error {
			m, err := MapRegion([]SlabFD{{File: f, Bytes: 4096}})
			if err == nil {
				UnmapRegion(m)
			}
			return err
		},
		"write": func(f *os.File) error { _, err := f.WriteAt([]byte{1}, 0); return err },
		"punch": func(f *os.File) error {
			return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096)
		},
	}
	for name, attempt := range attempts {
		if attempt(file) == nil {
			t.Errorf("%s succeeded", name)
		}
	}
	info, err := file.Stat()
	if err != nil || info.Mode().Perm() != 0o400 {
		t.Fatalf("mode %v, %v; want 0400", info.Mode(), err)
	}
	// Root may open it again in spite of the mode, and still cannot write.
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer again.Close()
	for name, attempt := range attempts {
		if attempt(again) == nil {
			t.Errorf("%s succeeded through a descriptor opened again", name)
		}
	}
}

func TestTenantRule(t *testing.T) {
	a := newArena(t) // eight slabs
	alice, bob := Tenant{UID: 1000}, Tenant{UID: 1000, Cgroup: "/user/other"}
	alloc := func(slabs int64, tenant Tenant) *Region {
		t.Helper()
		r, err := a.AllocSlabs(slabs*testSlab, tenant)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	refuse := func(slabs int64, tenant Tenant) {
		t.Helper()
		if r, err := a.AllocSlabs(slabs*testSlab, tenant); !errors.Is(err, ErrNoSlabs) {
			t.Fatalf("%d slabs for %+v: %+v, %v; want ErrNoSlabs", slabs, tenant, r, err)
		}
	}

	r := alloc(5, alice)
	stale := attachRegion(t, r) // survives Free
	copy(r.Mem(), "secret")
	freeAll(t, r)
	refuse(4, bob) // three virgin slabs are left
	other := alloc(3, bob)
	other.Mem()[0] = 1
	copy(stale, "late")
	if !bytes.Equal(other.Mem()[:4], []byte{1, 0, 0, 0}) {
		t.Fatal("a former mapping reaches another tenant")
	}
	freeAll(t, other)
	refuse(1, Tenant{UID: 7})
	refuse(6, alice)

	// The same tenant gets its slabs back, cleared, holes filled.
	hole := unix.Fallocate(int(a.slabs[1].file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, testSlab)
	if hole != nil {
		t.Fatal(hole)
	}
	r = alloc(5, alice)
	for i, b := range r.Mem() {
		if b != 0 {
			t.Fatalf("byte %d of a slab used before is %d", i, b)
		}
	}
	var status unix.Stat_t
	if err := unix.Fstat(int(a.slabs[1].file.Fd()), &status); err != nil || status.Blocks*512 < testSlab {
		t.Fatalf("hole was not filled: %d blocks, %v", status.Blocks, err)
	}
	freeAll(t, r)
}

// TestOwnSlabsFirst expects a tenant to be served from slabs it has had, as fresh
// ones are lost to everyone else.
func TestOwnSlabsFirst(t *testing.T) {
	a := newArena(t)
	first, err := a.AllocSlabs(testSlab, Tenant{UID: 1})
	if err != nil {
		t.Fatal(err)
	}
	second, err := a.AllocSlabs(2*testSlab, Tenant{UID: 2})
	if err != nil {
		t.Fatal(err)
	}
	freeAll(t, first, second)
	for range 3 {
		r, err := a.AllocSlabs(2*testSlab, Tenant{UID: 2})
		if err != nil {
			t.Fatal(err)
		}
		if r.firstSlab != 1 {
			t.Fatalf("uid 2 was given slab %d, its own starts at 1", r.firstSlab)
		}
		freeAll(t, r)
	}
}

func TestRegionSizesRefused(t *testing.T) {
	a := newArena(t)
	for _, size := range []int64{0, -1, -1 << 63} {
		if _, err := a.AllocSlabs(size, Tenant{}); err == nil {
			t.Errorf("arena: %d bytes accepted", size)
		}
		if _, err := NewPlainRegion(size); err == nil {
			t.Errorf("plain: %d bytes accepted", size)
		}
	}
	for _, size := range []int64{8*testSlab + 1, MaxRegionSlabs*testSlab + 1, 1<<63 - 1} {
		if _, err := a.AllocSlabs(size, Tenant{}); !errors.Is(err, ErrNoSlabs) {
			t.Errorf("arena: %d bytes: %v, want ErrNoSlabs", size, err)
		}
	}
	if _, err := NewPlainRegion(1<<63 - 1); !errors.Is(err, ErrNoMemory) {
		t.Errorf("plain: all memory there could be: %v, want ErrNoMemory", err)
	}
}

func TestPlainRegionsLeaveNothing(t *testing.T) {
	before := openFiles(t)
	for range 3 {
		plain, err := NewPlainRegion(10_000)
		if err != nil {
			t.Fatal(err)
		}
		share, err := NewReadOnlyRegion(10_000)
		if err != nil {
			t.Fatal(err)
		}
		freeAll(t, plain, share)
		if err := plain.Free(); !errors.Is(err, ErrFreed) {
			t.Fatalf("second Free: %v", err)
		}
	}
	if after := openFiles(t); after != before {
		t.Fatalf("%d descriptors before, %d after", before, after)
	}
}

func TestMapRegionRefuses(t *testing.T) {
	unsealed, err := newMemfd("test", 8192)
	if err != nil {
		t.Fatal(err)
	}
	defer unsealed.Close()
	r, err := NewPlainRegion(8192)
	if err != nil {
		t.Fatal(err)
	}
	defer freeAll(t, r)
	good := r.Fds[0].File
	for name, fds := range map[string][]SlabFD{
		"nothing":         nil,
		"no bytes":        {{File: good}},
		"part of a page":  {{File: good, Bytes: 100}},
		"negative":        {{File: good, Bytes: -4096}},
		"behind the end":  {{File: good, Bytes: 12288}},
		"overflowing sum": {{File: good, Bytes: 8192}, {File: good, Bytes: 1<<63 - 4096}},
		"can shrink":      {{File: unsealed, Bytes: 8192}},
	} {
		if mem, err := MapRegion(fds); err == nil {
			UnmapRegion(mem)
			t.Errorf("%s: accepted", name)
		}
	}
}
