package wire

import "testing"

func ackVectors() []vector {
	return []vector{
		{
			name: "ack", about: "two paths and one credit",
			value: decoded{
				header: header(ACK, FlagCRC),
				ack:    Ack{CumulativeDSN: 0x1122334400, StartAllowance: 16, PlanesUp: 0b1011},
				reports: []PathReport{
					{
						Plane: 3, Path: 17, Epoch: 2, HighestPSN: 0xfffffffe, PacketCount: 1000, CECount: 10,
						EchoTimestamp: 0x89abcdef, HoldTime: 20_000,
						Bits: [4]uint64{0xfffffffffffffffb, 1<<64 - 1, 1<<64 - 1, 1<<64 - 1}, Share: 9_800_000,
					},
					{
						Plane: 0, Path: 63, HighestPSN: 4, PacketCount: 4, EchoTimestamp: 5, HoldTime: 6,
						Bits: [4]uint64{0b10111}, Share: 1,
					},
				},
				credits: []Credit{{Stream: 7, MSNLimit: 1065}},
			},
		},
		{
			name: "ack-empty", about: "nothing to report, answering a probe for a full acknowledgment",
			value: decoded{header: header(ACK, FlagCRC), ack: Ack{CumulativeDSN: 1, PlanesUp: 0xff, Flags: AckFull}},
		},
	}
}

func TestAckRefusals(t *testing.T) {
	report, credit := AckSize+ReportSize, AckSize+2*ReportSize
	refuseEach(t, "ack", []damage{
		{"one report more than there is", 11, []byte{3}, ReasonBadLength},
		{"one report less", 11, []byte{1}, ReasonBadLength},
		{"every report there can be", 11, []byte{255}, ReasonBadLength},
		{"one credit more", 12, []byte{2}, ReasonBadLength},
		{"flag", 13, []byte{2}, ReasonBadFlags},
		{"reserved", 14, u16(1), ReasonReserved},
		{"plane of the second report", report, []byte{MaxPlanes}, ReasonBadField},
		{"path of the second report", report + 1, []byte{MaxPaths}, ReasonBadField},
		{"reserved of a report", report + 3, []byte{1}, ReasonReserved},
		{"reserved at a report's end", report + 60, u32(1), ReasonReserved},
		{"reserved of a credit", credit + 2, u16(1), ReasonReserved},
	})
}

// The largest acknowledgment that counts can express is read whole.
func TestAckOfEveryCount(t *testing.T) {
	p := decoded{header: header(ACK, FlagCRC), reports: make([]PathReport, 255), credits: make([]Credit, 255)}
	p.reports[254].HighestPSN, p.credits[254].MSNLimit = 3, 4
	got, r := decode(p.encode())
	if r != 0 {
		t.Fatal(r)
	}
	if got.reports[254].HighestPSN != 3 || got.credits[254].MSNLimit != 4 {
		t.Errorf("last report %+v and credit %+v", got.reports[254], got.credits[254])
	}
}
