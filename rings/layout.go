package rings

import (
	"fmt"
	"math/bits"
	"reflect"
)

// Layout says where the parts of one ring lie inside shared memory. All offsets
// are in bytes from the start of the memory given to NewProducer or NewConsumer.
type Layout struct {
	Producer uintptr // producer index, uint32
	Consumer uintptr // consumer index, uint32
	Flags    uintptr // flags word, uint32
	Desc     uintptr // first entry
	Entries  uint32  // number of entries, a power of two
}

const (
	wordBytes      = 4    // an index or the flags word
	entryAlignment = 8    // entries start and repeat on this boundary
	cacheLineBytes = 64   // words written by different sides lie on different lines
	pageBytes      = 4096 // smallest page of the supported machines
)

// AppLayout returns the layout of a ring between daemon and application with the
// given number of entries of entryBytes each, and the bytes it occupies, a whole
// number of 4 KiB pages. The indices and flags lie on cache lines of their own.
func AppLayout(entries uint32, entryBytes uintptr) (l Layout, totalBytes uintptr) {
	l = Layout{
		Producer: 0,
		Consumer: cacheLineBytes,
		Flags:    2 * cacheLineBytes,
		Desc:     pageBytes,
		Entries:  entries,
	}
	return l, roundUp(l.Desc+uintptr(entries)*entryBytes, pageBytes)
}

// SessionLayout returns the layouts of an application's submission and
// completion queue in one shared memory object, the submission queue first, and
// the bytes both occupy.
func SessionLayout(sqEntries, cqEntries uint32, sqeBytes, cqeBytes uintptr) (sq, cq Layout, totalBytes uintptr) {
	sq, sqTotal := AppLayout(sqEntries, sqeBytes)
	cq, cqTotal := AppLayout(cqEntries, cqeBytes)
	cq.Producer += sqTotal
	cq.Consumer += sqTotal
	cq.Flags += sqTotal
	cq.Desc += sqTotal
	return sq, cq, sqTotal + cqTotal
}

func roundUp(n, unit uintptr) uintptr { return (n + unit - 1) / unit * unit }

// shared is the memory of one ring after its layout was checked.
type shared[T any] struct {
	producer, consumer, flags *uint32
	slots                     []T
}

// attach checks l against mem and T and returns pointers into mem.
func attach[T any](mem []byte, l Layout) (shared[T], error) {
	var s shared[T]
	entry := reflect.TypeFor[T]()
	if !pointerFree(entry) {
		return s, fmt.Errorf("metaroced: ring: entries of type %v hold pointers and cannot lie in shared memory", entry)
	}
	if entry.Size() == 0 || entry.Size()%entryAlignment != 0 {
		return s, fmt.Errorf("metaroced: ring: entries of type %v are %d bytes, not a multiple of %d", entry, entry.Size(), entryAlignment)
	}
	if bits.OnesCount32(l.Entries) != 1 {
		return s, fmt.Errorf("metaroced: ring: %d entries, not a power of two", l.Entries)
	}
	if err := l.check(uint64(len(mem)), uint64(entry.Size())); err != nil {
		return s, err
	}
	return view[T](mem, l)
}

// span is one part of a ring's memory.
type span struct {
	name           string
	offset, length uint64
}

// check verifies that the parts of the ring lie inside memBytes and apart from
// each other.
func (l Layout) check(memBytes, entryBytes uint64) error {
	parts := [...]span{
		{"producer index", uint64(l.Producer), wordBytes},
		{"consumer index", uint64(l.Consumer), wordBytes},
		{"flags", uint64(l.Flags), wordBytes},
		{"entries", uint64(l.Desc), uint64(l.Entries) * entryBytes},
	}
	for i, p := range parts {
		if p.length > memBytes || p.offset > memBytes-p.length {
			return fmt.Errorf("metaroced: ring: %s at offset %d with %d bytes lies outside the %d bytes of memory", p.name, p.offset, p.length, memBytes)
		}
		for _, q := range parts[:i] {
			if p.offset < q.offset+q.length && q.offset < p.offset+p.length {
				return fmt.Errorf("metaroced: ring: %s at offset %d overlaps %s at offset %d", p.name, p.offset, q.name, q.offset)
			}
		}
	}
	return nil
}

// pointerFree reports whether values of t hold nothing the garbage collector
// follows, so that they mean the same in another process.
func pointerFree(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return true
	case reflect.Array:
		return pointerFree(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !pointerFree(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return false
	}
}
