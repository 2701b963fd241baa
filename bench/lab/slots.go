package lab

import "bytes"

const (
	guardBytes   = 1024 // at least this much on each side of a slot
	guardByte    = 0xA5
	slotAlign    = 64
	foreignByte  = 0x5A
	foreignBytes = 64 << 10
)

// SlotLayout says where the slots of a region are. Everything that is not a slot
// is a guard area:
//
//	guard │ slot 0 │ guard │ slot 1 │ guard … │ slot n-1 │ guard
type SlotLayout struct {
	Size  int64 // bytes of a slot
	Count int
}

// Stride is the distance between the starts of two slots.
func (l SlotLayout) Stride() int64 {
	return (l.Size+guardBytes+slotAlign-1)/slotAlign*slotAlign + guardBytes
}

// Offset is where slot i starts.
func (l SlotLayout) Offset(i int) int64 { return guardBytes + int64(i)*l.Stride() }

// Bytes is the size of the whole region.
func (l SlotLayout) Bytes() int64 { return int64(l.Count)*l.Stride() + guardBytes }

// Slot returns slot i of a region's memory.
func (l SlotLayout) Slot(memory []byte, i int) []byte {
	start := l.Offset(i)
	return memory[start : start+l.Size : start+l.Size]
}

// gap returns the guard area before slot i; Count is the one after the last.
func (l SlotLayout) gap(memory []byte, i int) []byte {
	start, end := int64(0), l.Bytes()
	if i > 0 {
		start = l.Offset(i-1) + l.Size
	}
	if i < l.Count {
		end = l.Offset(i)
	}
	return memory[start:end]
}

// FillGuards writes the guard areas.
func (l SlotLayout) FillGuards(memory []byte) {
	for i := range l.Count + 1 {
		fillByte(l.gap(memory, i), guardByte)
	}
}

// CheckGuards returns how many bytes of the guard areas are wrong and where in
// the region the first one is, -1 when none.
func (l SlotLayout) CheckGuards(memory []byte) (wrong, first int64) {
	first = -1
	for i := range l.Count + 1 {
		gap := l.gap(memory, i)
		w, f := checkByte(gap, guardByte)
		if w > 0 && first < 0 {
			first = f
			if i > 0 {
				first += l.Offset(i-1) + l.Size
			}
		}
		wrong += w
	}
	return wrong, first
}

func fillByte(memory []byte, value byte) {
	for i := range memory {
		memory[i] = value
	}
}

// checkByte returns how many bytes of memory differ from value and the offset of
// the first, -1 when none.
func checkByte(memory []byte, value byte) (wrong, first int64) {
	first = -1
	var want [4096]byte
	fillByte(want[:min(len(memory), len(want))], value)
	for offset := 0; offset < len(memory); offset += len(want) {
		piece := memory[offset:min(offset+len(want), len(memory))]
		if bytes.Equal(piece, want[:len(piece)]) {
			continue
		}
		w, f := countDifferences(piece, want[:len(piece)])
		if first < 0 {
			first = int64(offset) + f
		}
		wrong += w
	}
	return wrong, first
}
