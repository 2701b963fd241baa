package wire

import "testing"

func TestProbeRefusals(t *testing.T) {
	refuseEach(t, "probe", []damage{
		{"flag", 12, u32(4), ReasonBadFlags},
		{"reserved", 16, []byte{1}, ReasonReserved},
		{"reserved", 31, []byte{1}, ReasonReserved},
		{"padding", ProbeSize + 3, []byte{1}, ReasonReserved},
	})
}

// Only the question may be padded: the answer is never longer, so probing
// cannot be used to multiply traffic.
func TestProbePadding(t *testing.T) {
	p := decoded{header: header(PROBE, FlagCRC), padding: 9000}
	if got, r := decode(p.encode()); r != 0 || got.padding != 9000 {
		t.Errorf("PROBE with padding: %v", r)
	}
	p.header.Type, p.padding = PROBE_ACK, 1
	if _, r := decode(p.encode()); r != ReasonBadLength {
		t.Errorf("PROBE-ACK with padding: %v", r)
	}
}
