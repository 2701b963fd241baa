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
	Reason      uint16 // ERROR: ErrorReason
	Stream      uint16
	MSN         uint32
	PacketIndex uint32
	TxTimestamp uint32
	Detail      uint64 // ERROR: region key; CREDIT: MSN limit; PLANE: plane
	Detail2     uint64 // ERROR: DSN of the refused packet
}

// ParseControl reads and checks a CONTROL body.
func ParseControl(body []byte, c *Control) Reason {
	if len(body) != ControlSize {
		return ReasonBadLength
	}
	b := body[:ControlSize:ControlSize]
	*c = Control{
		DSN: DSN(binary.BigEndian.Uint64(b)), Kind: ControlKind(b[8]), Reason: binary.BigEndian.Uint16(b[10:]),
		Stream: binary.BigEndian.Uint16(b[12:]), MSN: binary.BigEndian.Uint32(b[16:]),
		PacketIndex: binary.BigEndian.Uint32(b[20:]), TxTimestamp: binary.BigEndian.Uint32(b[24:]),
		Detail: binary.BigEndian.Uint64(b[32:]), Detail2: binary.BigEndian.Uint64(b[40:]),
	}
	if c.Kind == 0 || c.Kind > ControlShareResume || b[9] != 0 ||
		binary.BigEndian.Uint16(b[14:]) != 0 || binary.BigEndian.Uint32(b[28:]) != 0 {
		return ReasonBadField
	}
	return 0
}

// PutControl writes a CONTROL body.
func PutControl(body []byte, c *Control) {
	b := body[:ControlSize:ControlSize]
	clear(b)
	binary.BigEndian.PutUint64(b, uint64(c.DSN))
	b[8] = uint8(c.Kind)
	binary.BigEndian.PutUint16(b[10:], c.Reason)
	binary.BigEndian.PutUint16(b[12:], c.Stream)
	binary.BigEndian.PutUint32(b[16:], c.MSN)
	binary.BigEndian.PutUint32(b[20:], c.PacketIndex)
	binary.BigEndian.PutUint32(b[24:], c.TxTimestamp)
	binary.BigEndian.PutUint64(b[32:], c.Detail)
	binary.BigEndian.PutUint64(b[40:], c.Detail2)
}
