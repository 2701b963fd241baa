package rings

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// FuzzHostileIndices lets the other side write any index at any time. Whatever
// it does: no call reaches outside the ring or panics, no side holds more than
// the ring has, and an error is ErrCorrupt and grants nothing.
func FuzzHostileIndices(f *testing.F) {
	f.Add(uint32(0), []byte{0, 1, 0, 0, 0, 3, 1, 0, 0, 0})
	f.Add(^uint32(3), []byte{0, 255, 255, 255, 255, 1, 0, 0, 0, 128, 2, 8, 0, 0, 0, 3, 8, 0, 0, 0})
	f.Fuzz(func(t *testing.T, start uint32, script []byte) {
		const entries = 8
		r := newPair(t, entries, start)
		var reserved uint32
		for ; len(script) >= 5; script = script[5:] {
			value := binary.LittleEndian.Uint32(script[1:])
			switch script[0] % 6 {
			case 0:
				*r.raw.producer = value
			case 1:
				*r.raw.consumer = value
			case 2: // small steps from what is right reach more states
				*r.raw.producer = r.c.released + value%(2*entries)
				*r.raw.consumer = r.p.submitted - value>>8%(2*entries)
			case 3:
				got, err := r.p.Reserve(value % 32)
				if err != nil && (!errors.Is(err, ErrCorrupt) || got != 0) {
					t.Fatalf("Reserve = %d, %v", got, err)
				}
				reserved += got
				if reserved > entries {
					t.Fatalf("%d of %d slots reserved", reserved, entries)
				}
				for i := range reserved {
					*r.p.Slot(i) = makeEntry(uint64(value))
				}
			case 4:
				publish := value % (reserved + 1)
				r.p.Submit(publish)
				reserved -= publish
				if r.p.Free() > entries-reserved {
					t.Fatalf("Free() = %d with %d reserved", r.p.Free(), reserved)
				}
			case 5:
				readable, err := r.c.Peek(value % 32)
				if err != nil && (!errors.Is(err, ErrCorrupt) || readable != 0) {
					t.Fatalf("Peek = %d, %v", readable, err)
				}
				if readable > entries {
					t.Fatalf("%d of %d entries readable", readable, entries)
				}
				for i := range readable {
					_ = r.c.At(i)
				}
				r.c.Release(value >> 16 % (readable + 1))
			}
		}
	})
}

// TestAnySlotIsInside covers indices no caller should use.
func TestAnySlotIsInside(t *testing.T) {
	r := newPair(t, 8, ^uint32(0))
	for _, i := range []uint32{0, 7, 8, 1 << 31, ^uint32(0)} {
		*r.p.Slot(i) = makeEntry(1)
		_ = r.c.At(i)
	}
}

func TestConstructionRefused(t *testing.T) {
	mem := make([]byte, 4096+64*8)
	good, _ := AppLayout(8, 64)
	with := func(change func(*Layout)) Layout {
		l := good
		change(&l)
		return l
	}
	for _, tc := range []struct {
		name   string
		layout Layout
		want   string
	}{
		{"no entries", with(func(l *Layout) { l.Entries = 0 }), "power of two"},
		{"odd entries", with(func(l *Layout) { l.Entries = 6 }), "power of two"},
		{"too many entries", with(func(l *Layout) { l.Entries = 16 }), "outside"},
		{"most entries", with(func(l *Layout) { l.Entries = 1 << 31 }), "outside"},
		{"entries far off", with(func(l *Layout) { l.Desc = ^uintptr(0) - 7 }), "outside"},
		{"index outside", with(func(l *Layout) { l.Producer = uintptr(len(mem)) - 3 }), "outside"},
		{"odd index", with(func(l *Layout) { l.Consumer = 66 }), "aligned"},
		{"odd flags", with(func(l *Layout) { l.Flags = 129 }), "aligned"},
		{"odd entries offset", with(func(l *Layout) { l.Desc = 4092 }), "aligned"},
		{"same word twice", with(func(l *Layout) { l.Flags = l.Consumer }), "overlaps"},
		{"index among entries", with(func(l *Layout) { l.Producer = l.Desc + 8 }), "overlaps"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := NewProducer[entry](mem, tc.layout)
			_, err2 := NewConsumer[entry](mem, tc.layout)
			for _, err := range []error{err, err2} {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("error %v does not say %q", err, tc.want)
				}
			}
		})
	}
	if _, err := NewProducer[entry](nil, good); err == nil {
		t.Fatal("ring without memory accepted")
	}
}

func TestInitialIndicesRefused(t *testing.T) {
	r := newPair(t, 8, 5)
	*r.raw.producer = 14 // nine entries in eight slots
	_, err := NewProducer[entry](r.mem, r.layout)
	_, err2 := NewConsumer[entry](r.mem, r.layout)
	if !errors.Is(err, ErrCorrupt) || !errors.Is(err2, ErrCorrupt) {
		t.Fatalf("%v, %v", err, err2)
	}
}

func TestEntryTypes(t *testing.T) {
	type nested struct {
		A [3]struct{ X, Y uint32 }
		B float64
	}
	for _, tc := range []struct {
		name string
		err  error
		ok   bool
	}{
		{"uint64", tryType[uint64](), true},
		{"array of structs", tryType[nested](), true},
		{"pointer", tryType[*uint64](), false},
		{"string inside", tryType[struct{ S string }](), false},
		{"slice in an array", tryType[[1][]byte](), false},
		{"interface", tryType[any](), false},
		{"channel", tryType[chan int](), false},
		{"func", tryType[func()](), false},
		{"map", tryType[map[int]int](), false},
		{"empty", tryType[struct{}](), false},
		{"four bytes", tryType[uint32](), false},
		{"twelve bytes", tryType[[3]uint32](), false},
	} {
		if (tc.err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, tc.err)
		}
	}
}

func tryType[T any]() error {
	l, total := AppLayout(4, 64)
	_, err := NewProducer[T](make([]byte, total), l)
	return err
}

// TestSessionLayout lays two queues of different sizes into one memory and has
// each filled to the brim without touching the other.
func TestSessionLayout(t *testing.T) {
	sqLayout, cqLayout, total := SessionLayout(4, 256, 64, 32)
	if total%pageBytes != 0 {
		t.Fatalf("%d bytes are not whole pages", total)
	}
	mem := make([]byte, total)
	sq, err := NewProducer[entry](mem, sqLayout)
	if err != nil {
		t.Fatal(err)
	}
	cq, err := NewProducer[[4]uint64](mem, cqLayout)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := cq.Reserve(256)
	for i := range n {
		*cq.Slot(i) = [4]uint64{7, 7, 7, 7}
	}
	cq.Submit(n)
	m, _ := sq.Reserve(256)
	for i := range m {
		*sq.Slot(i) = makeEntry(uint64(i))
	}
	sq.Submit(m)
	if n != 256 || m != 4 {
		t.Fatalf("reserved %d and %d", n, m)
	}
	reader, err := NewConsumer[[4]uint64](mem, cqLayout)
	if err != nil {
		t.Fatal(err)
	}
	got, err := reader.Peek(300)
	if err != nil || got != 256 {
		t.Fatalf("Peek = %d, %v", got, err)
	}
	for i := range got {
		if reader.At(i) != [4]uint64{7, 7, 7, 7} {
			t.Fatalf("entry %d of the completion queue was overwritten", i)
		}
	}
}
