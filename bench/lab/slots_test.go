package lab

import "testing"

func TestSlotsDoNotOverlapAndGuardsCoverTheRest(t *testing.T) {
	for _, l := range []SlotLayout{{1, 1}, {64, 3}, {1000, 16}, {1 << 20, 2}, {63, MaxDepth}} {
		memory := make([]byte, l.Bytes())
		l.FillGuards(memory)
		for i := range l.Count {
			slot := l.Slot(memory, i)
			if l.Offset(i)%slotAlign != 0 || int64(len(slot)) != l.Size {
				t.Fatalf("%+v: slot %d at %d has %d bytes", l, i, l.Offset(i), len(slot))
			}
			for j := range slot {
				if slot[j] != 0 {
					t.Fatalf("%+v: slot %d overlaps a guard or another slot", l, i)
				}
				slot[j] = 1
			}
		}
		guards := int64(0)
		for _, b := range memory {
			if b == guardByte {
				guards++
			}
		}
		if want := l.Bytes() - int64(l.Count)*l.Size; guards != want {
			t.Errorf("%+v: %d guard bytes, want %d", l, guards, want)
		}
		if wrong, first := l.CheckGuards(memory); wrong != 0 || first != -1 {
			t.Errorf("%+v: %d guard bytes wrong from %d", l, wrong, first)
		}
	}
}

func TestEveryDamagedGuardByteIsFound(t *testing.T) {
	l := SlotLayout{Size: 100, Count: 3}
	memory := make([]byte, l.Bytes())
	l.FillGuards(memory)
	for i := range memory {
		if memory[i] != guardByte {
			continue
		}
		memory[i] = 0
		if wrong, first := l.CheckGuards(memory); wrong != 1 || first != int64(i) {
			t.Fatalf("damaged byte %d: found %d from %d", i, wrong, first)
		}
		memory[i] = guardByte
	}
	memory[0], memory[l.Bytes()-1] = 1, 1
	if wrong, first := l.CheckGuards(memory); wrong != 2 || first != 0 {
		t.Errorf("both ends: found %d from %d", wrong, first)
	}
}
