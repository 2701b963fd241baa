package wire

import "encoding/binary"

// Request is the body of REQUEST: READ and 64-bit atomics.
//
//	0 DSN u64 | 8 stream u16 | 10 op u8 | 11 reserved u8 | 12 MSN u32 |
//	16 packet index u32 | 20 packet count u32 | 24 share u32 |
//	28 transmit timestamp u32 | 32 tag u64 | 40 key u64 | 48 offset u64 |
//	56 length or operand u64 | 64 second operand u64
type Request struct {
	DSN         DSN
	Stream      uint16
	Op          RequestOp
	MSN         uint32
	PacketIndex uint32
	PacketCount uint32
	Share       uint32 // what the responder may send at, 10 kb/s units
	TxTimestamp uint32
	Tag         uint64 // the answer carries it
	Key         uint64
	Offset      uint64
	Length      uint64 // READ: bytes; atomics: operand
	Operand2    uint64
}

// ParseRequest reads and checks a REQUEST body.
func ParseRequest(body []byte, r *Request) Reason {
	if len(body) != RequestSize {
		return ReasonBadLength
	}
	b := body[:RequestSize:RequestSize]
	*r = Request{
		DSN: DSN(binary.BigEndian.Uint64(b)), Stream: binary.BigEndian.Uint16(b[8:]), Op: RequestOp(b[10]),
		MSN: binary.BigEndian.Uint32(b[12:]), PacketIndex: binary.BigEndian.Uint32(b[16:]),
		PacketCount: binary.BigEndian.Uint32(b[20:]), Share: binary.BigEndian.Uint32(b[24:]),
		TxTimestamp: binary.BigEndian.Uint32(b[28:]), Tag: binary.BigEndian.Uint64(b[32:]),
		Key: binary.BigEndian.Uint64(b[40:]), Offset: binary.BigEndian.Uint64(b[48:]),
		Length: binary.BigEndian.Uint64(b[56:]), Operand2: binary.BigEndian.Uint64(b[64:]),
	}
	if r.Op == 0 || r.Op > RequestFetchAdd || r.PacketIndex >= r.PacketCount || b[11] != 0 ||
		(r.Op == RequestRead && r.Offset+r.Length < r.Offset) {
		return ReasonBadField
	}
	return 0
}

// PutRequest writes a REQUEST body.
func PutRequest(body []byte, r *Request) {
	b := body[:RequestSize:RequestSize]
	binary.BigEndian.PutUint64(b, uint64(r.DSN))
	binary.BigEndian.PutUint16(b[8:], r.Stream)
	b[10], b[11] = uint8(r.Op), 0
	binary.BigEndian.PutUint32(b[12:], r.MSN)
	binary.BigEndian.PutUint32(b[16:], r.PacketIndex)
	binary.BigEndian.PutUint32(b[20:], r.PacketCount)
	binary.BigEndian.PutUint32(b[24:], r.Share)
	binary.BigEndian.PutUint32(b[28:], r.TxTimestamp)
	binary.BigEndian.PutUint64(b[32:], r.Tag)
	binary.BigEndian.PutUint64(b[40:], r.Key)
	binary.BigEndian.PutUint64(b[48:], r.Offset)
	binary.BigEndian.PutUint64(b[56:], r.Length)
	binary.BigEndian.PutUint64(b[64:], r.Operand2)
}
