package transport

import "errors"

// Access is a bit mask of what a peer may do to a region.
type Access uint8

// Remote permissions of a region.
const (
	RemoteRead Access = 1 << iota
	RemoteWrite
	RemoteAtomic
)

// Region is memory an application registered. The engine reads Mem for
// transmission and writes it on arrival; whoever adds a region keeps Mem valid
// until RemoveRegion has returned.
type Region struct {
	Key    uint64 // 64 random bits, unique, not zero
	Mem    []byte
	Access Access
	Owner  uint32 // the session that registered it
}

// Errors of region requests.
var (
	ErrRegionLimit   = errors.New("transport: too many regions registered (max_regions)")
	ErrRegionKey     = errors.New("transport: region key is zero or already in use")
	ErrUnknownRegion = errors.New("transport: no such region")
)

// regionTable finds a region by its key. Keys are random, so their low bits
// are the hash of an open-addressed table: a look-up is one or two compares.
type regionTable struct {
	slots []Region // Key 0 = empty
	count int
	limit int
}

func (t *regionTable) init(limit int) {
	t.slots = make([]Region, 64)
	t.limit = limit
}

// find returns the region with this key, or nil.
func (t *regionTable) find(key uint64) *Region {
	if key == 0 {
		return nil
	}
	mask := uint64(len(t.slots) - 1)
	for i := key & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.Key == key {
			return s
		}
		if s.Key == 0 {
			return nil
		}
	}
}

func (t *regionTable) insert(r Region) {
	mask := uint64(len(t.slots) - 1)
	i := r.Key & mask
	for t.slots[i].Key != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = r
}

func (t *regionTable) add(r Region) error {
	switch {
	case r.Key == 0 || t.find(r.Key) != nil:
		return ErrRegionKey
	case t.count >= t.limit:
		return ErrRegionLimit
	}
	if 2*(t.count+1) > len(t.slots) {
		old := t.slots
		t.slots = make([]Region, 2*len(old))
		for i := range old {
			if old[i].Key != 0 {
				t.insert(old[i])
			}
		}
	}
	t.insert(r)
	t.count++
	return nil
}

// remove takes a key out and closes the probe chain behind it.
func (t *regionTable) remove(key uint64) bool {
	if t.find(key) == nil {
		return false
	}
	mask := uint64(len(t.slots) - 1)
	i := key & mask
	for t.slots[i].Key != key {
		i = (i + 1) & mask
	}
	t.slots[i] = Region{}
	t.count--
	for i = (i + 1) & mask; t.slots[i].Key != 0; i = (i + 1) & mask {
		r := t.slots[i]
		t.slots[i] = Region{}
		t.insert(r)
	}
	return true
}

// contains says whether [offset, offset+length) lies in memory of size bytes,
// without overflow.
func contains(size int, offset uint64, length int) bool {
	return offset <= uint64(size) && uint64(length) <= uint64(size)-offset
}

// AddRegion makes memory reachable by its key. It fails with ErrRegionKey or
// ErrRegionLimit.
func (e *Engine) AddRegion(r Region) error { return e.regions.add(r) }

// RemoveRegion makes a key die: packets that still carry it are refused, and
// operations that read from the region locally fail with StatusLocalAccess.
// After it returns the engine does not touch the memory again.
func (e *Engine) RemoveRegion(now int64, key uint64) error {
	if !e.regions.remove(key) {
		return ErrUnknownRegion
	}
	for _, c := range e.conns {
		if c != nil {
			c.failMessagesOf(now, key)
		}
	}
	return nil
}
