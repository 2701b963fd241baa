package wire

import "encoding/binary"

// Refuse is the body of REFUSE: no connection, and why.
//
//	0 peer's nonce u64 | 8 reason u16 | 10 text length u16 | 12 reserved u32 |
//	16 text
type Refuse struct {
	PeerNonce uint64 // of the CONNECT
	Reason    RefuseReason
	Text      []byte // UTF-8 for people; with RefuseRetryCookie the cookie
}

// ParseRefuse reads the body of a REFUSE packet. Text aliases body and comes
// from the network: make it printable before showing it. Reasons that this
// package has no name for are passed on.
func ParseRefuse(body []byte, m *Refuse) Reason {
	if len(body) < RefuseSize {
		return ReasonTruncated
	}
	b := body[:RefuseSize:RefuseSize]
	m.PeerNonce = binary.BigEndian.Uint64(b[0:8])
	m.Reason = RefuseReason(binary.BigEndian.Uint16(b[8:10]))
	text := int(binary.BigEndian.Uint16(b[10:12]))
	if binary.BigEndian.Uint32(b[12:16]) != 0 {
		return ReasonReserved
	}
	if text > MaxRefuseText || m.Reason == 0 || m.Reason == RefuseRetryCookie && text > MaxCookie {
		return ReasonBadField
	}
	if len(body) != RefuseSize+text {
		return ReasonBadLength
	}
	m.Text = body[RefuseSize:]
	return 0
}

// PutRefuse writes the body of a REFUSE packet and returns its length. It
// panics when the text is longer than MaxRefuseText.
func PutRefuse(body []byte, m *Refuse) int {
	if len(m.Text) > MaxRefuseText {
		panic("wire: PutRefuse: text longer than MaxRefuseText")
	}
	b := body[:RefuseSize:RefuseSize]
	binary.BigEndian.PutUint64(b[0:8], m.PeerNonce)
	binary.BigEndian.PutUint16(b[8:10], uint16(m.Reason))
	binary.BigEndian.PutUint16(b[10:12], uint16(len(m.Text)))
	binary.BigEndian.PutUint32(b[12:16], 0)
	return RefuseSize + copy(body[RefuseSize:RefuseSize+len(m.Text)], m.Text)
}
