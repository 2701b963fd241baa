package wire

import "testing"

func TestDataRefusals(t *testing.T) {
	refuseEach(t, "data-write", []damage{
		{"no operation", 10, []byte{0}, ReasonBadField},
		{"unknown operation", 10, []byte{uint8(OpAtomicResponse) + 1}, ReasonBadField},
		{"reserved", 11, []byte{1}, ReasonReserved},
		{"index equals count", 16, u32(2), ReasonBadField},
		{"count of zero", 20, u32(0), ReasonBadField},
		{"reserved word", 36, u32(1), ReasonReserved},
		{"end one beyond 64 bits", 48, u64(1<<64 - 8), ReasonOverflow},
		{"offset at the very end", 48, u64(1<<64 - 1), ReasonOverflow},
	})
}

// The last byte that 64 bits can address may be written.
func TestDataReachesTheEnd(t *testing.T) {
	pkt := goldenPacket(t, "data-write")
	copy(pkt[HeaderSize+48:], u64(1<<64-9))
	Seal(pkt)
	if _, r := decode(pkt); r != 0 {
		t.Errorf("refused: %v", r)
	}
}

func TestDataShorterThanItsFixedPart(t *testing.T) {
	var d Data
	for n := range DataSize {
		if _, r := ParseData(make([]byte, n), &d); r != ReasonTruncated {
			t.Fatalf("%d bytes: %v", n, r)
		}
	}
}
