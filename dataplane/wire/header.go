package wire

import (
	"encoding/binary"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is the common header.
//
//	0 version u8 | 1 type u8 | 2 flags u16 | 4 destination connection u32 |
//	8 tag u32 | 12 plane u8 | 13 path u8 | 14 epoch u8 | 15 class u8 |
//	16 PSN u32 | 20 body length u16 | 22 reserved u16
type Header struct {
	Type     Type
	Flags    Flags
	DestConn ConnID
	Tag      uint32 // chosen by the destination
	Plane    uint8
	Path     uint8
	Epoch    uint8
	Class    uint8
	PSN      PSN
	Length   uint16 // of the body; Seal sets it
}

// ParseHeader reads and checks the common header, but neither tag nor
// checksum.
func ParseHeader(pkt []byte, h *Header) Reason {
	if len(pkt) < HeaderSize {
		return ReasonTruncated
	}
	b := pkt[:HeaderSize:HeaderSize]
	if b[0] != Version {
		return ReasonBadVersion
	}
	h.Type = Type(b[1])
	if h.Type == 0 || h.Type > PROBE_ACK {
		return ReasonBadType
	}
	h.Flags = Flags(binary.BigEndian.Uint16(b[2:]))
	if h.Flags&^knownFlags != 0 {
		return ReasonBadFlags
	}
	h.DestConn = ConnID(binary.BigEndian.Uint32(b[4:]))
	h.Tag = binary.BigEndian.Uint32(b[8:])
	h.Plane, h.Path, h.Epoch, h.Class = b[12], b[13], b[14], b[15]
	h.PSN = PSN(binary.BigEndian.Uint32(b[16:]))
	h.Length = binary.BigEndian.Uint16(b[20:])
	if h.Plane >= MaxPlanes || h.Path >= MaxPaths || h.Class > ClassControl || b[22]|b[23] != 0 {
		return ReasonBadField
	}
	want := HeaderSize + int(h.Length)
	if h.Flags&FlagCRC != 0 {
		want += TrailerSize
	}
	if len(pkt) != want {
		return ReasonBadLength
	}
	return 0
}

// VerifyCRC checks the trailer of a packet whose header was parsed. A packet
// without the flag has none.
func VerifyCRC(pkt []byte, h *Header) Reason {
	if h.Flags&FlagCRC == 0 {
		return 0
	}
	n := len(pkt) - TrailerSize
	if crc32.Checksum(pkt[:n], castagnoli) != binary.BigEndian.Uint32(pkt[n:]) {
		return ReasonBadCRC
	}
	return 0
}

// Body returns what lies between header and trailer.
func (h *Header) Body(pkt []byte) []byte {
	return pkt[HeaderSize : HeaderSize+int(h.Length)]
}

// PutHeader writes the common header but for the length, which Seal fills in.
func PutHeader(pkt []byte, h *Header) {
	b := pkt[:HeaderSize:HeaderSize]
	b[0], b[1] = Version, uint8(h.Type)
	binary.BigEndian.PutUint16(b[2:], uint16(h.Flags))
	binary.BigEndian.PutUint32(b[4:], uint32(h.DestConn))
	binary.BigEndian.PutUint32(b[8:], h.Tag)
	b[12], b[13], b[14], b[15] = h.Plane, h.Path, h.Epoch, h.Class
	binary.BigEndian.PutUint32(b[16:], uint32(h.PSN))
	binary.BigEndian.PutUint32(b[20:], 0)
}

// Seal finishes a packet that is exactly header, body and, with FlagCRC, room
// for the trailer: it fills in length and checksum.
func Seal(pkt []byte) {
	n := len(pkt)
	if Flags(binary.BigEndian.Uint16(pkt[2:]))&FlagCRC != 0 {
		n -= TrailerSize
	}
	binary.BigEndian.PutUint16(pkt[20:], uint16(n-HeaderSize))
	if n < len(pkt) {
		binary.BigEndian.PutUint32(pkt[n:], crc32.Checksum(pkt[:n], castagnoli))
	}
}
