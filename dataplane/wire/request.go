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
	PacketIndex uint32 // below PacketCount
	PacketCount uint32 // at least 1
	Share       uint32 // rate at which the answers may start, in ShareUnitBits
	TxTimestamp uint32
	Tag         uint64 // Data.Key of the answer
	Key         uint64 // of the region at the responder
	Offset      uint64 // in that region
	Length      uint64 // READ: bytes; COMPARE-SWAP: expected value; FETCH-ADD: addend
	Operand2    uint64 // COMPARE-SWAP: new value; else 0
}

// atomicBytes is the size and alignment of what an atomic works on.
const atomicBytes = 8

// ParseRequest reads and checks a REQUEST body. Offset plus Length of a READ
// does not overflow; Offset of an atomic is aligned.
func ParseRequest(body []byte, r *Request) Reason {
	if len(body) != RequestSize {
		return ReasonBadLength
	}
	b := body[:RequestSize:RequestSize]
	*r = Request{
		DSN: DSN(binary.BigEndian.Uint64(b[0:8])), Stream: binary.BigEndian.Uint16(b[8:10]), Op: RequestOp(b[10]),
		MSN: binary.BigEndian.Uint32(b[12:16]), PacketIndex: binary.BigEndian.Uint32(b[16:20]),
		PacketCount: binary.BigEndian.Uint32(b[20:24]), Share: binary.BigEndian.Uint32(b[24:28]),
		TxTimestamp: binary.BigEndian.Uint32(b[28:32]), Tag: binary.BigEndian.Uint64(b[32:40]),
		Key: binary.BigEndian.Uint64(b[40:48]), Offset: binary.BigEndian.Uint64(b[48:56]),
		Length: binary.BigEndian.Uint64(b[56:64]), Operand2: binary.BigEndian.Uint64(b[64:72]),
	}
	if b[11] != 0 || r.Op != RequestCompareSwap && r.Operand2 != 0 {
		return ReasonReserved
	}
	if r.Op == 0 || r.Op > RequestFetchAdd || r.PacketIndex >= r.PacketCount {
		return ReasonBadField
	}
	// An aligned word cannot reach beyond 64 bits; a READ can.
	if r.Op != RequestRead && r.Offset%atomicBytes != 0 {
		return ReasonBadField
	}
	if r.Op == RequestRead && r.Offset+r.Length < r.Offset {
		return ReasonOverflow
	}
	return 0
}

// PutRequest writes a REQUEST body.
func PutRequest(body []byte, r *Request) {
	b := body[:RequestSize:RequestSize]
	binary.BigEndian.PutUint64(b[0:8], uint64(r.DSN))
	binary.BigEndian.PutUint16(b[8:10], r.Stream)
	b[10], b[11] = uint8(r.Op), 0
	binary.BigEndian.PutUint32(b[12:16], r.MSN)
	binary.BigEndian.PutUint32(b[16:20], r.PacketIndex)
	binary.BigEndian.PutUint32(b[20:24], r.PacketCount)
	binary.BigEndian.PutUint32(b[24:28], r.Share)
	binary.BigEndian.PutUint32(b[28:32], r.TxTimestamp)
	binary.BigEndian.PutUint64(b[32:40], r.Tag)
	binary.BigEndian.PutUint64(b[40:48], r.Key)
	binary.BigEndian.PutUint64(b[48:56], r.Offset)
	binary.BigEndian.PutUint64(b[56:64], r.Length)
	binary.BigEndian.PutUint64(b[64:72], r.Operand2)
}
