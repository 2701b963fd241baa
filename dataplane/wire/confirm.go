package wire

import "encoding/binary"

// Confirm is the body of CONFIRM: the initiator has the ACCEPT.
//
//	0 nonce u64 | 8 peer's nonce u64
type Confirm struct {
	Nonce     uint64 // the sender's
	PeerNonce uint64 // the receiver's
}

// ParseConfirm reads the body of a CONFIRM packet.
func ParseConfirm(body []byte, c *Confirm) Reason {
	if len(body) != ConfirmSize {
		return ReasonBadLength
	}
	b := body[:ConfirmSize:ConfirmSize]
	c.Nonce = binary.BigEndian.Uint64(b[0:8])
	c.PeerNonce = binary.BigEndian.Uint64(b[8:16])
	return 0
}

// PutConfirm writes the body of a CONFIRM packet, ConfirmSize bytes.
func PutConfirm(body []byte, c *Confirm) {
	b := body[:ConfirmSize:ConfirmSize]
	binary.BigEndian.PutUint64(b[0:8], c.Nonce)
	binary.BigEndian.PutUint64(b[8:16], c.PeerNonce)
}
