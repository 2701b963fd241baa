package queue

import (
	"strings"
	"testing"
	"unsafe"
)

func TestEntryOffsetsAreStable(t *testing.T) {
	var s SQE
	var c CQE
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		{"SQE.Op", unsafe.Offsetof(s.Op), 0},
		{"SQE.Flags", unsafe.Offsetof(s.Flags), 1},
		{"SQE.Stream", unsafe.Offsetof(s.Stream), 2},
		{"SQE.Conn", unsafe.Offsetof(s.Conn), 4},
		{"SQE.Region", unsafe.Offsetof(s.Region), 8},
		{"SQE.Length", unsafe.Offsetof(s.Length), 12},
		{"SQE.LocalOffset", unsafe.Offsetof(s.LocalOffset), 16},
		{"SQE.RemoteKey", unsafe.Offsetof(s.RemoteKey), 24},
		{"SQE.RemoteOffset", unsafe.Offsetof(s.RemoteOffset), 32},
		{"SQE.UserData", unsafe.Offsetof(s.UserData), 40},
		{"SQE.Imm", unsafe.Offsetof(s.Imm), 48},
		{"SQE.Reserved", unsafe.Offsetof(s.Reserved), 52},
		{"CQE.UserData", unsafe.Offsetof(c.UserData), 0},
		{"CQE.Conn", unsafe.Offsetof(c.Conn), 8},
		{"CQE.Op", unsafe.Offsetof(c.Op), 12},
		{"CQE.Status", unsafe.Offsetof(c.Status), 13},
		{"CQE.Stream", unsafe.Offsetof(c.Stream), 14},
		{"CQE.Bytes", unsafe.Offsetof(c.Bytes), 16},
		{"CQE.Imm", unsafe.Offsetof(c.Imm), 24},
		{"CQE.MSN", unsafe.Offsetof(c.MSN), 28},
	} {
		if f.got != f.want {
			t.Errorf("%s lies at byte %d, documented as %d", f.name, f.got, f.want)
		}
	}
}

func TestLayoutRefusesBadCounts(t *testing.T) {
	for _, c := range []struct {
		sq, cq uint32
		want   string
	}{
		{0, 4096, "sq_entries 0"},
		{1000, 4096, "sq_entries 1000"},
		{8, 4096, "sq_entries 8"},
		{1 << 17, 1 << 17, "sq_entries 131072"},
		{1024, 3, "cq_entries 3"},
		{1024, 1 << 31, "cq_entries 2147483648"},
		{1024, 512, "cq_entries 512 is smaller"},
	} {
		_, err := NewLayout(c.sq, c.cq)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewLayout(%d, %d): error %v, want one with %q", c.sq, c.cq, err, c.want)
		}
	}
}

func TestEntriesCrossBothQueues(t *testing.T) {
	for _, n := range []struct{ sq, cq uint32 }{{16, 16}, {1024, 4096}, {64, 128}} {
		l, err := NewLayout(n.sq, n.cq)
		if err != nil {
			t.Fatal(err)
		}
		if l.Bytes%4096 != 0 {
			t.Errorf("layout of %v is %d bytes, not whole pages", n, l.Bytes)
		}
		words := make([]uint64, l.Bytes/8) // 8-byte aligned memory
		mem := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), l.Bytes)
		sqp, cqc, err := l.ClientSide(mem)
		if err != nil {
			t.Fatal(err)
		}
		sqc, cqp, err := l.WorkerSide(mem)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := sqp.Reserve(n.sq + 1); err != nil || got != n.sq {
			t.Fatalf("reserved %d (%v), want %d", got, err, n.sq)
		}
		for i := range n.sq {
			*sqp.Slot(i) = SQE{Op: OpWrite, UserData: uint64(i), Imm: ^uint32(0)}
		}
		sqp.Submit(n.sq)
		if got, err := sqc.Peek(n.sq); err != nil || got != n.sq {
			t.Fatalf("worker sees %d (%v), want %d", got, err, n.sq)
		}
		if got, err := cqp.Reserve(n.sq); err != nil || got != n.sq {
			t.Fatalf("reserved %d completions (%v), want %d", got, err, n.sq)
		}
		for i := range n.sq {
			*cqp.Slot(i) = CQE{Op: CompletionWrite, UserData: sqc.At(i).UserData, MSN: ^uint32(0)}
		}
		sqc.Release(n.sq)
		cqp.Submit(n.sq)
		if got, err := cqc.Peek(n.cq); err != nil || got != n.sq {
			t.Fatalf("client sees %d (%v), want %d", got, err, n.sq)
		}
		for i := range n.sq {
			if e := cqc.At(i); e.UserData != uint64(i) {
				t.Fatalf("completion %d is of submission %d", i, e.UserData)
			}
		}
	}
}

func TestEveryStatusHasAText(t *testing.T) {
	if StatusOK.Err() != nil || StatusOK.String() != "ok" {
		t.Error("StatusOK is an error")
	}
	seen := map[string]bool{}
	for s := StatusLocalAccess; s <= StatusBadRequest; s++ {
		text := s.String()
		if s.Err() == nil || seen[text] {
			t.Errorf("status %d has no text of its own: %q", s, text)
		}
		seen[text] = true
	}
	if err := Status(200).Err(); err == nil || !strings.Contains(err.Error(), "200") {
		t.Errorf("unknown status: %v", err)
	}
}
