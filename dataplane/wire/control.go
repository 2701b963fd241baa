package wire

import "encoding/binary"

// Control is the body of CONTROL, which is reliable like DATA.
//
//	0 DSN u64 | 8 kind u8 | 9 reserved u8 | 10 reason u16 | 12 stream u16 |
//	14 reserved u16 | 16 MSN u32 | 20 packet index u32 |
//	24 transmit timestamp u32 | 28 reserved u32 | 32 detail u64 | 40 detail2 u64
type Control struct {
	DSN         DSN
	Kind        ControlKind
	Reason      uint16 // ERROR: an ErrorReason, not 0; else 0
	Stream      uint16 // CREDIT, ERROR
	MSN         uint32 // ERROR: of the refused message
	PacketIndex uint32 // ERROR: of the refused packet
	TxTimestamp uint32 // as in Data
	Detail      uint64 // CREDIT: MSN limit; ERROR: region key; PLANE-*, SHARE-RESUME: plane
	Detail2     uint64 // ERROR: DSN of the refused packet; SHARE-RESUME: share in ShareUnitBits
}

// ParseControl reads and checks a CONTROL body.
func ParseControl(body []byte, c *Control) Reason {
	if len(body) != ControlSize {
		return ReasonBadLength
	}
	b := body[:ControlSize:ControlSize]
	*c = Control{
		DSN: DSN(binary.BigEndian.Uint64(b[0:8])), Kind: ControlKind(b[8]), Reason: binary.BigEndian.Uint16(b[10:12]),
		Stream: binary.BigEndian.Uint16(b[12:14]), MSN: binary.BigEndian.Uint32(b[16:20]),
		PacketIndex: binary.BigEndian.Uint32(b[20:24]), TxTimestamp: binary.BigEndian.Uint32(b[24:28]),
		Detail: binary.BigEndian.Uint64(b[32:40]), Detail2: binary.BigEndian.Uint64(b[40:48]),
	}
	if b[9]|b[14]|b[15] != 0 || binary.BigEndian.Uint32(b[28:32]) != 0 {
		return ReasonReserved
	}
	ok := false
	switch c.Kind {
	case ControlCredit:
		ok = c.Detail < 1<<32
	case ControlError:
		ok = c.Reason != 0
	case ControlPlaneDown, ControlPlaneUp:
		ok = c.Detail < MaxPlanes
	case ControlShareResume:
		ok = c.Detail < MaxPlanes && c.Detail2 < 1<<32
	}
	if !ok {
		return ReasonBadField
	}
	return 0
}

// PutControl writes a CONTROL body.
func PutControl(body []byte, c *Control) {
	b := body[:ControlSize:ControlSize]
	clear(b)
	binary.BigEndian.PutUint64(b[0:8], uint64(c.DSN))
	b[8] = uint8(c.Kind)
	binary.BigEndian.PutUint16(b[10:12], c.Reason)
	binary.BigEndian.PutUint16(b[12:14], c.Stream)
	binary.BigEndian.PutUint32(b[16:20], c.MSN)
	binary.BigEndian.PutUint32(b[20:24], c.PacketIndex)
	binary.BigEndian.PutUint32(b[24:28], c.TxTimestamp)
	binary.BigEndian.PutUint64(b[32:40], c.Detail)
	binary.BigEndian.PutUint64(b[40:48], c.Detail2)
}
