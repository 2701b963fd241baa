package wire

import "encoding/binary"

// Confirm is the body of CONFIRM: 0 nonce u64 | 8 peer nonce u64.
type Confirm struct{ Nonce, PeerNonce uint64 }

// ParseConfirm reads a CONFIRM body.
func ParseConfirm(body []byte, c *Confirm) Reason {
	if len(body) != ConfirmSize {
		return ReasonBadLength
	}
	c.Nonce, c.PeerNonce = binary.BigEndian.Uint64(body), binary.BigEndian.Uint64(body[8:])
	return 0
}

// PutConfirm writes a CONFIRM body.
func PutConfirm(body []byte, c *Confirm) {
	binary.BigEndian.PutUint64(body, c.Nonce)
	binary.BigEndian.PutUint64(body[8:], c.PeerNonce)
}

// Refuse is the body of REFUSE: 0 peer nonce u64 | 8 reason u16 |
// 10 text length u16 | 12 reserved u32 | text. With RefuseRetryCookie the text
// is the cookie. Text aliases the packet.
type Refuse struct {
	PeerNonce uint64
	Reason    RefuseReason
	Text      []byte
}

// ParseRefuse reads and checks a REFUSE body.
func ParseRefuse(body []byte, r *Refuse) Reason {
	if len(body) < RefuseSize {
		return ReasonTruncated
	}
	n := int(binary.BigEndian.Uint16(body[10:]))
	if n > MaxRefuseText || binary.BigEndian.Uint32(body[12:]) != 0 {
		return ReasonBadField
	}
	if len(body) != RefuseSize+n {
		return ReasonBadLength
	}
	r.PeerNonce = binary.BigEndian.Uint64(body)
	r.Reason = RefuseReason(binary.BigEndian.Uint16(body[8:]))
	r.Text = body[RefuseSize:]
	return 0
}

// PutRefuse writes a REFUSE body and returns its length; the text must not be
// longer than MaxRefuseText.
func PutRefuse(body []byte, r *Refuse) int {
	binary.BigEndian.PutUint64(body, r.PeerNonce)
	binary.BigEndian.PutUint16(body[8:], uint16(r.Reason))
	binary.BigEndian.PutUint16(body[10:], uint16(len(r.Text)))
	binary.BigEndian.PutUint32(body[12:], 0)
	return RefuseSize + copy(body[RefuseSize:], r.Text)
}

// Close is the body of CLOSE: 0 final DSN u64 | 8 reason u16 | 10 reserved u16 |
// 12 reserved u32 | 16 nonce u64.
type Close struct {
	FinalDSN DSN // first DSN that was not used
	Reason   CloseReason
	Nonce    uint64 // the receiver's, which proves that the sender is the peer
}

// ParseClose reads and checks a CLOSE body.
func ParseClose(body []byte, c *Close) Reason {
	if len(body) != CloseSize {
		return ReasonBadLength
	}
	c.FinalDSN = DSN(binary.BigEndian.Uint64(body))
	c.Reason = CloseReason(binary.BigEndian.Uint16(body[8:]))
	c.Nonce = binary.BigEndian.Uint64(body[16:])
	if binary.BigEndian.Uint16(body[10:]) != 0 || binary.BigEndian.Uint32(body[12:]) != 0 {
		return ReasonBadField
	}
	return 0
}

// PutClose writes a CLOSE body.
func PutClose(body []byte, c *Close) {
	clear(body[:CloseSize])
	binary.BigEndian.PutUint64(body, uint64(c.FinalDSN))
	binary.BigEndian.PutUint16(body[8:], uint16(c.Reason))
	binary.BigEndian.PutUint64(body[16:], c.Nonce)
}

// Reset is the body of RESET: 0 reason u16 | 2 reserved 6 B | 8 nonce u64 |
// 16 detail u64.
type Reset struct {
	Reason CloseReason
	Nonce  uint64 // the receiver's
	Detail uint64
}

// ParseReset reads and checks a RESET body.
func ParseReset(body []byte, r *Reset) Reason {
	if len(body) != ResetSize {
		return ReasonBadLength
	}
	r.Reason = CloseReason(binary.BigEndian.Uint16(body))
	r.Nonce, r.Detail = binary.BigEndian.Uint64(body[8:]), binary.BigEndian.Uint64(body[16:])
	if binary.BigEndian.Uint16(body[2:]) != 0 || binary.BigEndian.Uint32(body[4:]) != 0 {
		return ReasonBadField
	}
	return 0
}

// PutReset writes a RESET body.
func PutReset(body []byte, r *Reset) {
	clear(body[:ResetSize])
	binary.BigEndian.PutUint16(body, uint16(r.Reason))
	binary.BigEndian.PutUint64(body[8:], r.Nonce)
	binary.BigEndian.PutUint64(body[16:], r.Detail)
}

// Probe is the body of PROBE and PROBE-ACK: 0 value u64 | 8 transmit timestamp
// u32 | 12 flags u32 | 16 reserved 16 B. A PROBE may be padded with zeros.
type Probe struct {
	Value       uint64 // echoed
	TxTimestamp uint32 // echoed
	Flags       uint32
}

// ParseProbe reads and checks a PROBE or PROBE-ACK body.
func ParseProbe(body []byte, p *Probe) Reason {
	if len(body) < ProbeSize {
		return ReasonTruncated
	}
	p.Value = binary.BigEndian.Uint64(body)
	p.TxTimestamp, p.Flags = binary.BigEndian.Uint32(body[8:]), binary.BigEndian.Uint32(body[12:])
	if p.Flags&^(ProbeFullAck|ProbeUnknown) != 0 {
		return ReasonBadFlags
	}
	for _, v := range body[16:] {
		if v != 0 {
			return ReasonBadField
		}
	}
	return 0
}

// PutProbe writes a PROBE or PROBE-ACK body.
func PutProbe(body []byte, p *Probe) {
	clear(body[:ProbeSize])
	binary.BigEndian.PutUint64(body, p.Value)
	binary.BigEndian.PutUint32(body[8:], p.TxTimestamp)
	binary.BigEndian.PutUint32(body[12:], p.Flags)
}
