package wire

import "testing"

func TestControlRefusals(t *testing.T) {
	kind := func(k ControlKind) []byte { return []byte{uint8(k)} }
	refuseEach(t, "control-error", []damage{
		{"no kind", 8, kind(0), ReasonBadField},
		{"unknown kind", 8, kind(ControlShareResume + 1), ReasonBadField},
		{"reserved", 9, []byte{1}, ReasonReserved},
		{"error without a reason", 10, u16(0), ReasonBadField},
		{"reserved", 14, u16(1), ReasonReserved},
		{"reserved", 28, u32(1), ReasonReserved},
		{"credit beyond MSNs", 8, kind(ControlCredit), ReasonBadField},
		{"plane out of range", 8, kind(ControlPlaneDown), ReasonBadField},
		{"plane out of range", 8, kind(ControlPlaneUp), ReasonBadField},
		{"plane out of range", 8, kind(ControlShareResume), ReasonBadField},
	})
	refuseEach(t, "control-credit", []damage{
		{"plane out of range", 8, kind(ControlPlaneUp), ReasonBadField},
	})
}

func TestControlKinds(t *testing.T) {
	for _, k := range []Control{
		{Kind: ControlPlaneDown, Detail: 7},
		{Kind: ControlPlaneUp, Detail: 0},
		{Kind: ControlShareResume, Detail: 7, Detail2: 1<<32 - 1},
		{Kind: ControlCredit, Detail: 1<<32 - 1},
		{Kind: ControlError, Reason: 999, Detail: 1<<64 - 1, Detail2: 1<<64 - 1},
	} {
		p := decoded{header: header(CONTROL, FlagCRC), control: k}
		if got, r := decode(p.encode()); r != 0 || got.control != k {
			t.Errorf("%v: %v, %+v", k.Kind, r, got)
		}
	}
}
