package wire

import "encoding/binary"

// Close is the body of CLOSE: one direction of a connection has ended.
//
//	0 final DSN u64 | 8 reason u16 | 10 reserved u16 | 12 reserved u32 |
//	16 nonce u64
type Close struct {
	FinalDSN DSN // the first that was not used
	Reason   CloseReason
	Nonce    uint64 // the receiver's
}

// ParseClose reads the body of a CLOSE packet. Reasons that this package has
// no name for are passed on.
func ParseClose(body []byte, m *Close) Reason {
	if len(body) != CloseSize {
		return ReasonBadLength
	}
	b := body[:CloseSize:CloseSize]
	m.FinalDSN = DSN(binary.BigEndian.Uint64(b[0:8]))
	m.Reason = CloseReason(binary.BigEndian.Uint16(b[8:10]))
	m.Nonce = binary.BigEndian.Uint64(b[16:24])
	if uint32(binary.BigEndian.Uint16(b[10:12]))|binary.BigEndian.Uint32(b[12:16]) != 0 {
		return ReasonReserved
	}
	return 0
}

// PutClose writes the body of a CLOSE packet, CloseSize bytes.
func PutClose(body []byte, m *Close) {
	b := body[:CloseSize:CloseSize]
	binary.BigEndian.PutUint64(b[0:8], uint64(m.FinalDSN))
	binary.BigEndian.PutUint16(b[8:10], uint16(m.Reason))
	binary.BigEndian.PutUint16(b[10:12], 0)
	binary.BigEndian.PutUint32(b[12:16], 0)
	binary.BigEndian.PutUint64(b[16:24], m.Nonce)
}
