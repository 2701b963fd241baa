package rings

import (
	"fmt"
	"unsafe"
)

// view returns the words and entries of a ring as Go pointers into mem. The
// caller has checked that l lies inside mem and that T holds no pointers; only
// what depends on the address, alignment, is checked here.
func view[T any](mem []byte, l Layout) (shared[T], error) {
	base := unsafe.Pointer(unsafe.SliceData(mem))
	words := [...]struct {
		name   string
		offset uintptr
	}{{"producer index", l.Producer}, {"consumer index", l.Consumer}, {"flags", l.Flags}}
	for _, w := range words {
		if (uintptr(base)+w.offset)%wordBytes != 0 {
			return shared[T]{}, fmt.Errorf("metaroced: ring: %s at offset %d is not aligned to %d bytes", w.name, w.offset, wordBytes)
		}
	}
	if (uintptr(base)+l.Desc)%entryAlignment != 0 {
		return shared[T]{}, fmt.Errorf("metaroced: ring: entries at offset %d are not aligned to %d bytes", l.Desc, entryAlignment)
	}
	return shared[T]{
		producer: (*uint32)(unsafe.Add(base, l.Producer)),
		consumer: (*uint32)(unsafe.Add(base, l.Consumer)),
		flags:    (*uint32)(unsafe.Add(base, l.Flags)),
		slots:    unsafe.Slice((*T)(unsafe.Add(base, l.Desc)), int(l.Entries)),
	}, nil
}
