package wire

import "testing"

func TestResetRefusals(t *testing.T) {
	refuseEach(t, "reset", []damage{
		{"reserved", 2, u16(1), ReasonReserved},
		{"reserved", 4, u32(1), ReasonReserved},
	})
}
