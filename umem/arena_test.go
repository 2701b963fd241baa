package umem

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	testSlab  = 64 << 10
	testFrame = 4096
)

// newArena makes an arena of 64 frames and eight slabs of 16 pages.
func newArena(t testing.TB) *Arena {
	t.Helper()
	a, err := NewArena(Config{FrameBytes: 64 * testFrame, SlabBytes: 8 * testSlab, SlabSize: testSlab})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil && !errors.Is(err, ErrFreed) {
			t.Error(err)
		}
	})
	return a
}

// openFiles counts the descriptors of this process.
func openFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestArenaIsOneRange(t *testing.T) {
	a := newArena(t)
	mem := a.Bytes()
	if len(mem) != 64*testFrame+8*testSlab || a.FrameCount() != 64 || a.FrameSize() != testFrame {
		t.Fatalf("%d bytes, %d frames of %d", len(mem), a.FrameCount(), a.FrameSize())
	}
	for i := 0; i < len(mem); i += testFrame {
		if mem[i] != 0 {
			t.Fatalf("byte %d is not zero", i)
		}
		mem[i] = 1
	}
	// The region's memory is the arena's, behind the frames.
	r, err := a.AllocSlabs(1, Tenant{})
	if err != nil {
		t.Fatal(err)
	}
	r.Mem()[0] = 42
	if mem[64*testFrame] != 42 {
		t.Fatal("first slab does not follow the frames")
	}
	if err := r.Free(); err != nil {
		t.Fatal(err)
	}
}

func TestArenaDefaults(t *testing.T) {
	c := Config{}.withDefaults()
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	if c.FrameBytes != 64<<20 || c.SlabBytes != 192<<20 || c.FrameSize != 4096 {
		t.Fatalf("%+v", c)
	}
	if c := (Config{SlabBytes: NoSlabs}).withDefaults(); c.SlabBytes != 0 || c.check() != nil {
		t.Fatalf("%+v: %v", c, c.check())
	}
}

func TestArenaConfigRefused(t *testing.T) {
	for name, c := range map[string]Config{
		"frame size":        {FrameSize: 1024},
		"half a page":       {FrameSize: 2048, FrameBytes: 2048},
		"negative frames":   {FrameBytes: -4096},
		"half a slab":       {SlabSize: 8192, SlabBytes: 12288},
		"odd slab":          {SlabSize: 5000, SlabBytes: 10000},
		"negative slabs":    {SlabBytes: -2},
		"too many frames":   {FrameBytes: maxArenaBytes + 4096},
		"sum of both":       {FrameBytes: maxArenaBytes, SlabBytes: DefaultSlabSize},
		"unknown NUMA node": {FrameBytes: 4096, SlabBytes: NoSlabs, NUMANode: new(5000)},
	} {
		t.Run(name, func(t *testing.T) {
			before := openFiles(t)
			a, err := NewArena(c)
			if err == nil {
				a.Close()
				t.Fatal("accepted")
			}
			if !strings.HasPrefix(err.Error(), "metaroced: umem: ") {
				t.Fatalf("error does not say where it comes from: %v", err)
			}
			if after := openFiles(t); after != before {
				t.Fatalf("%d descriptors left behind", after-before)
			}
		})
	}
}

func TestArenaOnNUMANode(t *testing.T) {
	a, err := NewArena(Config{FrameBytes: testFrame, SlabBytes: testSlab, SlabSize: testSlab, NUMANode: new(0)})
	if errors.Is(err, unix.ENOSYS) {
		return // a kernel without NUMA: refused by name rather than ignored
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCloseOrder(t *testing.T) {
	before := openFiles(t)
	a := newArena(t)
	pool, err := a.NewPool(10)
	if err != nil {
		t.Fatal(err)
	}
	region, err := a.AllocSlabs(100, Tenant{UID: 1})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) || (want == nil && err != nil) {
			t.Fatalf("%s: %v, want %v", what, err, want)
		}
	}
	expect("arena with pool and region", a.Close(), ErrInUse)
	expect("pool", pool.Close(), nil)
	expect("arena with region", a.Close(), ErrInUse)
	expect("region", region.Free(), nil)
	expect("arena", a.Close(), nil)
	expect("pool again", pool.Close(), ErrFreed)
	expect("region again", region.Free(), ErrFreed)
	expect("arena again", a.Close(), ErrFreed)
	_, err = a.NewPool(1)
	expect("pool of a closed arena", err, ErrFreed)
	_, err = a.AllocSlabs(1, Tenant{})
	expect("region of a closed arena", err, ErrFreed)
	if a.Bytes() != nil || region.Mem() != nil || region.Fds != nil {
		t.Fatal("memory still reachable after close")
	}
	if after := openFiles(t); after != before {
		t.Fatalf("%d descriptors before, %d after", before, after)
	}
}

func TestKernelBytes(t *testing.T) {
	const gib = 1 << 30
	a := &Arena{config: Config{FrameBytes: gib / 4, SlabBytes: gib - gib/4, FrameSize: 4096, MaxKernelBytes: 100 << 20}}
	if per := a.KernelBytes(2) - a.KernelBytes(1); per != 32<<20 {
		t.Fatalf("%d bytes per binding of 1 GiB, measured were 32 MiB", per)
	}
	if err := a.CheckBindings(3); err != nil {
		t.Fatal(err)
	}
	err := a.CheckBindings(4)
	if err == nil || !strings.Contains(err.Error(), "136314880") || !strings.Contains(err.Error(), "104857600") {
		t.Fatalf("error does not name need and limit: %v", err)
	}
}
