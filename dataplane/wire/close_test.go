package wire

import "testing"

func TestCloseRefusals(t *testing.T) {
	refuseEach(t, "close", []damage{
		{"reserved", 10, u16(1), ReasonReserved},
		{"reserved", 12, u32(1 << 31), ReasonReserved},
	})
}
