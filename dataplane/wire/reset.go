package wire

import "encoding/binary"

// Reset is the body of RESET: the connection is gone, at once.
//
//	0 reason u16 | 2 reserved u16 | 4 reserved u32 | 8 nonce u64 | 16 detail u64
type Reset struct {
	Reason CloseReason
	Nonce  uint64 // the receiver's: proves that the sender is the peer
	Detail uint64 // for diagnosis; 0 when there is nothing to say
}

// ParseReset reads the body of a RESET packet. Reasons that this package has
// no name for are passed on.
func ParseReset(body []byte, m *Reset) Reason {
	if len(body) != ResetSize {
		return ReasonBadLength
	}
	b := body[:ResetSize:ResetSize]
	m.Reason = CloseReason(binary.BigEndian.Uint16(b[0:2]))
	m.Nonce = binary.BigEndian.Uint64(b[8:16])
	m.Detail = binary.BigEndian.Uint64(b[16:24])
	if uint32(binary.BigEndian.Uint16(b[2:4]))|binary.BigEndian.Uint32(b[4:8]) != 0 {
		return ReasonReserved
	}
	return 0
}

// PutReset writes the body of a RESET packet, ResetSize bytes.
func PutReset(body []byte, m *Reset) {
	b := body[:ResetSize:ResetSize]
	binary.BigEndian.PutUint16(b[0:2], uint16(m.Reason))
	binary.BigEndian.PutUint16(b[2:4], 0)
	binary.BigEndian.PutUint32(b[4:8], 0)
	binary.BigEndian.PutUint64(b[8:16], m.Nonce)
	binary.BigEndian.PutUint64(b[16:24], m.Detail)
}
