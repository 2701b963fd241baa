package wire

import "encoding/binary"

// Ack is the body of ACK; reports and credits follow the fixed part.
//
//	0 cumulative DSN u64 | 8 start allowance u16 | 10 planes up u8 |
//	11 report count u8 | 12 credit count u8 | 13 flags u8 | 14 reserved u16 |
//	reports (64 B each) | credits (8 B each)
type Ack struct {
	CumulativeDSN  DSN    // all DSN below are placed
	StartAllowance uint16 // packets a sender may start with
	PlanesUp       uint8  // mask of the receiver's links that are up
	ReportCount    uint8
	CreditCount    uint8
	Flags          uint8 // AckFull

	body []byte // of the packet it was parsed from
}

// PathReport is what the receiver says of one path.
//
//	0 plane u8 | 1 path u8 | 2 epoch u8 | 3 reserved u8 | 4 highest PSN u32 |
//	8 packet count u32 | 12 CE count u32 | 16 echo timestamp u32 |
//	20 hold time u32 | 24 bitvector 4 x u64 | 56 share u32 | 60 reserved u32
type PathReport struct {
	Plane         uint8
	Path          uint8
	Epoch         uint8
	HighestPSN    PSN
	PacketCount   uint32    // packets arrived since the epoch began, wraps
	CECount       uint32    // of these, with a congestion mark, wraps
	EchoTimestamp uint32    // of the newest packet
	HoldTime      uint32    // nanoseconds since it arrived, saturates
	Bits          [4]uint64 // bit i%64 of word i/64: HighestPSN - i arrived and is placed
	Share         uint32    // of this plane for this sender, in ShareUnitBits; 0: none said
}

// Credit is how many messages of a stream may be sent.
//
//	0 stream u16 | 2 reserved u16 | 4 MSN limit u32
type Credit struct {
	Stream   uint16
	MSNLimit uint32 // MSN below it may be sent
}

// ParseAck reads and checks an ACK body, its reports and credits included. a
// refers to body until it is parsed into again.
func ParseAck(body []byte, a *Ack) Reason {
	if len(body) < AckSize {
		return ReasonTruncated
	}
	b := body[:AckSize:AckSize]
	a.CumulativeDSN = DSN(binary.BigEndian.Uint64(b[0:8]))
	a.StartAllowance = binary.BigEndian.Uint16(b[8:10])
	a.PlanesUp, a.ReportCount, a.CreditCount, a.Flags = b[10], b[11], b[12], b[13]
	if len(body) != AckSize+int(a.ReportCount)*ReportSize+int(a.CreditCount)*CreditSize {
		return ReasonBadLength
	}
	if a.Flags&^AckFull != 0 {
		return ReasonBadFlags
	}
	if b[14]|b[15] != 0 {
		return ReasonReserved
	}
	a.body = body
	for i := range int(a.ReportCount) {
		r := body[AckSize+i*ReportSize:]
		if uint32(r[3])|binary.BigEndian.Uint32(r[60:64]) != 0 {
			return ReasonReserved
		}
		if r[0] >= MaxPlanes || r[1] >= MaxPaths {
			return ReasonBadField
		}
	}
	for i := range int(a.CreditCount) {
		if binary.BigEndian.Uint16(a.credit(i)[2:]) != 0 {
			return ReasonReserved
		}
	}
	return 0
}

// Report reads report i, below ReportCount, of a parsed ACK.
func (a *Ack) Report(i int, r *PathReport) {
	b := a.body[AckSize+i*ReportSize:][:ReportSize:ReportSize]
	r.Plane, r.Path, r.Epoch = b[0], b[1], b[2]
	r.HighestPSN = PSN(binary.BigEndian.Uint32(b[4:8]))
	r.PacketCount = binary.BigEndian.Uint32(b[8:12])
	r.CECount = binary.BigEndian.Uint32(b[12:16])
	r.EchoTimestamp = binary.BigEndian.Uint32(b[16:20])
	r.HoldTime = binary.BigEndian.Uint32(b[20:24])
	for w := range r.Bits {
		r.Bits[w] = binary.BigEndian.Uint64(b[24+8*w:])
	}
	r.Share = binary.BigEndian.Uint32(b[56:60])
}

func (a *Ack) credit(i int) []byte {
	return a.body[AckSize+int(a.ReportCount)*ReportSize+i*CreditSize:][:CreditSize]
}

// Credit reads credit i, below CreditCount, of a parsed ACK.
func (a *Ack) Credit(i int) Credit {
	b := a.credit(i)
	return Credit{Stream: binary.BigEndian.Uint16(b[0:2]), MSNLimit: binary.BigEndian.Uint32(b[4:8])}
}

// PutAck writes the fixed part of an ACK body.
func PutAck(body []byte, a *Ack) {
	b := body[:AckSize:AckSize]
	binary.BigEndian.PutUint64(b[0:8], uint64(a.CumulativeDSN))
	binary.BigEndian.PutUint16(b[8:10], a.StartAllowance)
	b[10], b[11], b[12], b[13] = a.PlanesUp, a.ReportCount, a.CreditCount, a.Flags
	b[14], b[15] = 0, 0
}

// PutReport writes report i of an ACK body.
func PutReport(body []byte, i int, r *PathReport) {
	b := body[AckSize+i*ReportSize:][:ReportSize:ReportSize]
	b[0], b[1], b[2], b[3] = r.Plane, r.Path, r.Epoch, 0
	binary.BigEndian.PutUint32(b[4:8], uint32(r.HighestPSN))
	binary.BigEndian.PutUint32(b[8:12], r.PacketCount)
	binary.BigEndian.PutUint32(b[12:16], r.CECount)
	binary.BigEndian.PutUint32(b[16:20], r.EchoTimestamp)
	binary.BigEndian.PutUint32(b[20:24], r.HoldTime)
	for w, v := range r.Bits {
		binary.BigEndian.PutUint64(b[24+8*w:], v)
	}
	binary.BigEndian.PutUint32(b[56:60], r.Share)
	binary.BigEndian.PutUint32(b[60:64], 0)
}

// PutCredit writes credit i of an ACK body with the given number of reports.
func PutCredit(body []byte, reports, i int, c Credit) {
	b := body[AckSize+reports*ReportSize+i*CreditSize:][:CreditSize]
	binary.BigEndian.PutUint16(b[0:2], c.Stream)
	binary.BigEndian.PutUint16(b[2:4], 0)
	binary.BigEndian.PutUint32(b[4:8], c.MSNLimit)
}
