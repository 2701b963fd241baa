package umem

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Sizes used where Config leaves a field zero.
const (
	DefaultFrameBytes     = 64 << 20
	DefaultSlabBytes      = 192 << 20
	DefaultSlabSize       = 4 << 20
	DefaultFrameSize      = 4096
	DefaultMaxKernelBytes = 1 << 30

	// NoSlabs as Config.SlabBytes makes an arena of frames only.
	NoSlabs = -1
)

// Config gives the sizes of an arena, all in bytes. Zero fields take defaults.
type Config struct {
	FrameBytes     int64  // all frames together; a multiple of FrameSize and of the page size
	SlabBytes      int64  // all slabs together; a multiple of SlabSize, or NoSlabs
	SlabSize       int64  // one slab; a multiple of FrameSize and of the page size
	FrameSize      uint32 // one frame, the UMEM's chunk size: 2048 or 4096
	MaxKernelBytes int64  // limit of what CheckBindings allows the kernel to take
	NUMANode       *int   // node to take memory from; nil: the kernel's choice
}

func (c Config) withDefaults() Config {
	if c.FrameBytes == 0 {
		c.FrameBytes = DefaultFrameBytes
	}
	switch c.SlabBytes {
	case 0:
		c.SlabBytes = DefaultSlabBytes
	case NoSlabs:
		c.SlabBytes = 0
	}
	if c.SlabSize == 0 {
		c.SlabSize = DefaultSlabSize
	}
	if c.FrameSize == 0 {
		c.FrameSize = DefaultFrameSize
	}
	if c.MaxKernelBytes == 0 {
		c.MaxKernelBytes = DefaultMaxKernelBytes
	}
	return c
}

// maxArenaBytes bounds the arena so that no sum of sizes overflows and frame
// numbers fit 32 bits.
const maxArenaBytes = 1 << 40

func (c Config) check() error {
	page := int64(os.Getpagesize())
	switch {
	case c.FrameSize != 2048 && c.FrameSize != 4096:
		return fmt.Errorf("metaroced: umem: frame size is %d bytes, must be 2048 or 4096", c.FrameSize)
	case c.FrameBytes <= 0 || c.FrameBytes%page != 0 || c.FrameBytes%int64(c.FrameSize) != 0:
		return fmt.Errorf("metaroced: umem: %d bytes of frames, must be a positive multiple of the page size %d and of the frame size %d", c.FrameBytes, page, c.FrameSize)
	case c.SlabSize <= 0 || c.SlabSize%page != 0 || c.SlabSize%int64(c.FrameSize) != 0:
		return fmt.Errorf("metaroced: umem: slab size is %d bytes, must be a positive multiple of the page size %d and of the frame size %d", c.SlabSize, page, c.FrameSize)
	case c.SlabBytes < 0 || c.SlabBytes%c.SlabSize != 0:
		return fmt.Errorf("metaroced: umem: %d bytes of slabs, must be a multiple of the slab size %d", c.SlabBytes, c.SlabSize)
	case c.FrameBytes > maxArenaBytes || c.SlabBytes > maxArenaBytes-c.FrameBytes:
		return fmt.Errorf("metaroced: umem: arena of %d bytes of frames and %d bytes of slabs is above the limit of %d", c.FrameBytes, c.SlabBytes, int64(maxArenaBytes))
	}
	return nil
}

// Arena is the memory registered with AF_XDP: frames, then slabs, in one address
// range. Its methods may be called from several goroutines; Close only when
// nobody uses the memory any more.
type Arena struct {
	config Config
	mem    []byte

	mu     sync.Mutex // guards what follows
	frames extents    // frames in no pool
	slabs  []slab
	closed bool
}

// NewArena reserves, maps and populates an arena. It fails with ErrMemlock or
// ErrNoMemory, naming the bytes needed, when limits or memory do not suffice; it
// then leaves nothing behind. Populating takes more than a second per GiB.
func NewArena(config Config) (*Arena, error) {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return nil, err
	}
	total := config.FrameBytes + config.SlabBytes
	if err := errors.Join(checkMemlock(total), checkMemory(total)); err != nil {
		return nil, err
	}
	mem, err := reserve(total)
	if err != nil {
		return nil, err
	}
	a := &Arena{
		config: config,
		mem:    mem,
		frames: extents{{first: 0, count: uint32(config.FrameBytes / int64(config.FrameSize))}},
	}
	if err := errors.Join(a.mapFrames(), a.mapSlabs()); err != nil {
		return nil, errors.Join(err, a.release())
	}
	return a, nil
}

// mapFrames puts private memory under the frames.
func (a *Arena) mapFrames() error {
	mem := a.mem[:a.config.FrameBytes]
	if err := mapFile(mem, nil, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	// A forked child must not take pages over that devices write to. Huge pages
	// spare address translations; both are refused on kernels built without them.
	_ = unix.Madvise(mem, unix.MADV_DONTFORK)
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	return a.populate(mem)
}

// populate makes the pages of a part of the arena present, on the wished node.
func (a *Arena) populate(mem []byte) error {
	if a.config.NUMANode != nil {
		if err := preferNode(mem, *a.config.NUMANode); err != nil {
			return err
		}
	}
	return populate(mem)
}

// Bytes is the whole arena, to be registered as UMEM. Addresses of frames and in
// descriptors are offsets in it. It is nil after Close.
func (a *Arena) Bytes() []byte { return a.mem }

// FrameSize is the size of a frame in bytes, the UMEM's chunk size.
func (a *Arena) FrameSize() uint32 { return a.config.FrameSize }

// FrameCount is the number of frames in the arena, in pools or not.
func (a *Arena) FrameCount() uint32 {
	return uint32(a.config.FrameBytes / int64(a.config.FrameSize))
}

const (
	kernelBytesPerChunk = 128 // what one binding keeps per chunk: 32 MiB per GiB of 4 KiB chunks
	kernelBytesPerPage  = 8   // what the UMEM keeps per page, however many bindings
)

// KernelBytes estimates the kernel memory that the arena costs with the given
// number of bound (device, queue) pairs. Slabs count like frames: the kernel
// keeps a record for every chunk of the range.
func (a *Arena) KernelBytes(bindings int) int64 {
	total := a.config.FrameBytes + a.config.SlabBytes
	chunks := total / int64(a.config.FrameSize)
	return chunks*kernelBytesPerChunk*int64(bindings) + total/int64(os.Getpagesize())*kernelBytesPerPage
}

// CheckBindings fails when KernelBytes(bindings) is above Config.MaxKernelBytes.
func (a *Arena) CheckBindings(bindings int) error {
	if need := a.KernelBytes(bindings); need > a.config.MaxKernelBytes {
		return fmt.Errorf("metaroced: umem: %d bound queues with an arena of %s need %s of kernel memory, the limit (MaxKernelBytes) is %s; use fewer queues, a smaller arena, or raise the limit",
			bindings, mebibytes(a.config.FrameBytes+a.config.SlabBytes), mebibytes(need), mebibytes(a.config.MaxKernelBytes))
	}
	return nil
}

// NewPool takes frames out of the arena into a pool of their own.
func (a *Arena) NewPool(frames uint32) (*Pool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, fmt.Errorf("%w: arena", ErrFreed)
	}
	if frames == 0 {
		return nil, errors.New("metaroced: umem: a pool of no frames")
	}
	first, ok := a.frames.take(frames)
	if !ok {
		return nil, fmt.Errorf("metaroced: umem: a pool of %d frames does not fit, the arena has %d of %d frames left; raise the arena's frame bytes (now %d)",
			frames, a.frames.total(), a.FrameCount(), a.config.FrameBytes)
	}
	return newPool(a, first, frames, a.config.FrameSize), nil
}

func (a *Arena) returnFrames(first, count uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.frames.give(first, count)
}

// Close unmaps the arena. Pools, regions and, before them, all sockets that the
// arena is registered with must be closed: it fails with ErrInUse while pools or
// regions are left, and with ErrFreed when called again.
func (a *Arena) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return fmt.Errorf("%w: arena", ErrFreed)
	}
	inPools := a.FrameCount() - a.frames.total()
	slabsTaken := 0
	for i := range a.slabs {
		if a.slabs[i].taken {
			slabsTaken++
		}
	}
	if inPools > 0 || slabsTaken > 0 {
		return fmt.Errorf("%w: close the arena with %d frames in pools and %d slabs in regions", ErrInUse, inPools, slabsTaken)
	}
	return a.release()
}

// release unmaps and closes whatever the arena has.
func (a *Arena) release() error {
	err := unmap(a.mem)
	for _, s := range a.slabs {
		err = errors.Join(err, s.file.Close())
	}
	a.mem, a.slabs, a.closed = nil, nil, true
	return err
}
