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

// rule is what the header of one packet type may say.
type rule struct {
	flags            Flags
	bodyMin, bodyMax uint16
}

const reliableFlags = FlagCRC | FlagAckNow | FlagRetransmission

// rules by type. Each body's parser checks lengths again where they depend on
// the body's own fields.
var rules = [PROBE_ACK + 1]rule{
	DATA:      {reliableFlags | FlagVoid | FlagImm | FlagLast, DataSize, 1<<16 - 1},
	REQUEST:   {reliableFlags | FlagLast | FlagFence, RequestSize, RequestSize},
	CONTROL:   {reliableFlags, ControlSize, ControlSize},
	ACK:       {FlagCRC, AckSize, AckSize + 255*(ReportSize+CreditSize)},
	CONNECT:   {FlagCRC, SetupSize + PlaneAddrSize, MaxSetupSize},
	ACCEPT:    {FlagCRC, SetupSize + PlaneAddrSize, MaxSetupSize},
	CONFIRM:   {FlagCRC, ConfirmSize, ConfirmSize},
	REFUSE:    {FlagCRC, RefuseSize, RefuseSize + MaxRefuseText},
	CLOSE:     {FlagCRC | FlagReply, CloseSize, CloseSize},
	RESET:     {FlagCRC, ResetSize, ResetSize},
	PROBE:     {FlagCRC, ProbeSize, 1<<16 - 1},
	PROBE_ACK: {FlagCRC, ProbeSize, ProbeSize},
}

// ParseHeader reads and checks the common header of a UDP payload, all but tag
// and checksum. After it, Body lies within pkt. h is not valid when the result
// is not 0.
func ParseHeader(pkt []byte, h *Header) Reason {
	if len(pkt) < HeaderSize {
		return ReasonTruncated
	}
	b := pkt[:HeaderSize:HeaderSize]
	if b[0] != Version {
		return ReasonBadVersion
	}
	if b[1] == 0 || b[1] > uint8(PROBE_ACK) {
		return ReasonBadType
	}
	h.Type = Type(b[1])
	allowed := &rules[h.Type]
	h.Flags = Flags(binary.BigEndian.Uint16(b[2:4]))
	if h.Flags&^allowed.flags != 0 {
		return ReasonBadFlags
	}
	h.DestConn = ConnID(binary.BigEndian.Uint32(b[4:8]))
	h.Tag = binary.BigEndian.Uint32(b[8:12])
	h.Plane, h.Path, h.Epoch, h.Class = b[12], b[13], b[14], b[15]
	h.PSN = PSN(binary.BigEndian.Uint32(b[16:20]))
	h.Length = binary.BigEndian.Uint16(b[20:22])
	if b[22]|b[23] != 0 {
		return ReasonReserved
	}
	if h.Plane >= MaxPlanes || h.Path >= MaxPaths || h.Class > ClassControl {
		return ReasonBadField
	}
	want := HeaderSize + int(h.Length)
	if h.Flags&FlagCRC != 0 {
		want += TrailerSize
	}
	switch {
	case len(pkt) < want:
		return ReasonTruncated
	case len(pkt) > want, h.Length < allowed.bodyMin, h.Length > allowed.bodyMax,
		h.Flags&FlagVoid != 0 && h.Length != DataSize:
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

// Body returns what lies between header and trailer of the packet that h was
// parsed from.
func (h *Header) Body(pkt []byte) []byte {
	return pkt[HeaderSize : HeaderSize+int(h.Length)]
}

// PutHeader writes the common header except for the length: Seal does that.
// h.Length is ignored.
func PutHeader(pkt []byte, h *Header) {
	b := pkt[:HeaderSize:HeaderSize]
	b[0], b[1] = Version, uint8(h.Type)
	binary.BigEndian.PutUint16(b[2:4], uint16(h.Flags))
	binary.BigEndian.PutUint32(b[4:8], uint32(h.DestConn))
	binary.BigEndian.PutUint32(b[8:12], h.Tag)
	b[12], b[13], b[14], b[15] = h.Plane, h.Path, h.Epoch, h.Class
	binary.BigEndian.PutUint32(b[16:20], uint32(h.PSN))
	binary.BigEndian.PutUint32(b[20:24], 0)
}

// Seal finishes a packet that is exactly header, body and, with FlagCRC, room
// for the trailer: it fills in length and checksum. Header and body must be
// written before.
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
