package wire

import (
	"fmt"
	"strings"
	"testing"
)

func TestPSNOrder(t *testing.T) {
	for _, c := range []struct {
		p, q     PSN
		distance int32
	}{
		{0, 0, 0},
		{1, 0, 1},
		{0, 0xffffffff, 1},
		{5, 0xfffffffe, 7},
		{0x7fffffff, 0, 0x7fffffff},
		{0x80000010, 0x7ffffff0, 0x20},
	} {
		if c.p.Distance(c.q) != c.distance || c.q.Distance(c.p) != -c.distance {
			t.Errorf("distances of %d and %d: %d and %d", c.p, c.q, c.p.Distance(c.q), c.q.Distance(c.p))
		}
		if c.p.After(c.q) != (c.distance > 0) || c.q.Before(c.p) != (c.distance > 0) || c.p.Before(c.q) {
			t.Errorf("order of %d and %d", c.p, c.q)
		}
	}
}

func TestConnID(t *testing.T) {
	for _, c := range []struct {
		index      uint32
		generation uint16
		text       string
	}{{0, 0, "0.0"}, {1<<20 - 1, 0, "1048575.0"}, {0, 1<<12 - 1, "0.4095"}, {0x12345, 0x678, "74565.1656"}} {
		id := MakeConnID(c.index, c.generation)
		if id.Index() != c.index || id.Generation() != c.generation || id.String() != c.text {
			t.Errorf("%d and %d became %v", c.index, c.generation, id)
		}
	}
}

// Every value that has a constant has a name, and its neighbours have not.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		first, last int
		of          func(int) fmt.Stringer
	}{
		{1, int(PROBE_ACK), func(i int) fmt.Stringer { return Type(i) }},
		{1, int(OpAtomicResponse), func(i int) fmt.Stringer { return Op(i) }},
		{1, int(RequestFetchAdd), func(i int) fmt.Stringer { return RequestOp(i) }},
		{1, int(ControlShareResume), func(i int) fmt.Stringer { return ControlKind(i) }},
		{0, int(ReasonCount) - 1, func(i int) fmt.Stringer { return Reason(i) }},
		{1, int(RefuseRetryCookie), func(i int) fmt.Stringer { return RefuseReason(i) }},
		{1, int(ErrorBadMessage), func(i int) fmt.Stringer { return ErrorReason(i) }},
		{0, int(CloseStopping), func(i int) fmt.Stringer { return CloseReason(i) }},
	} {
		seen := map[string]bool{}
		for i := 0; i <= c.last+1; i++ {
			s := c.of(i).String()
			known := i >= c.first && i <= c.last
			if known == strings.HasPrefix(s, "unknown "+kindOf(c.of(i))) || seen[s] {
				t.Errorf("%T(%d) is called %q", c.of(i), i, s)
			}
			seen[s] = true
		}
	}
}

// kindOf is what nameOf calls a value without a name.
func kindOf(v fmt.Stringer) string {
	switch v.(type) {
	case Type:
		return "type "
	case Op:
		return "operation "
	case RequestOp:
		return "request "
	case ControlKind:
		return "control kind "
	}
	return "reason "
}

func TestFlagNames(t *testing.T) {
	for f, want := range map[Flags]string{
		0: "none", FlagCRC: "CRC", FlagCRC | FlagImm | FlagFence: "CRC|IMM|FENCE", 1<<15 | FlagEncrypted: "ENCRYPTED|0x8000",
	} {
		if f.String() != want {
			t.Errorf("flags %#x are called %q, want %q", uint16(f), f, want)
		}
	}
}
