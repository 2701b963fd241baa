package wire

import "testing"

func TestRequestRefusals(t *testing.T) {
	refuseEach(t, "request-read", []damage{
		{"no operation", 10, []byte{0}, ReasonBadField},
		{"unknown operation", 10, []byte{uint8(RequestFetchAdd) + 1}, ReasonBadField},
		{"reserved", 11, []byte{1}, ReasonReserved},
		{"index equals count", 16, u32(1), ReasonBadField},
		{"end beyond 64 bits", 56, u64(1<<64 - 4096), ReasonOverflow},
		{"second operand of a READ", 64, u64(1), ReasonReserved},
	})
	refuseEach(t, "request-compare-swap", []damage{
		{"unaligned word", 48, u64(12), ReasonBadField},
		{"second operand of a FETCH-ADD", 10, []byte{uint8(RequestFetchAdd)}, ReasonReserved},
	})
}

// Operands of atomics are values, not lengths.
func TestAtomicOperandsAreNotLengths(t *testing.T) {
	pkt := goldenPacket(t, "request-compare-swap")
	copy(pkt[HeaderSize+56:], u64(1<<64-1))
	Seal(pkt)
	if _, r := decode(pkt); r != 0 {
		t.Errorf("refused: %v", r)
	}
}
