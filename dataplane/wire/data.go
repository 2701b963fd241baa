package wire

import "encoding/binary"

// Data is the body of DATA before the payload.
//
//	0 DSN u64 | 8 stream u16 | 10 op u8 | 11 reserved u8 | 12 MSN u32 |
//	16 packet index u32 | 20 packet count u32 | 24 immediate u32 |
//	28 transmit timestamp u32 | 32 backlog u32 | 36 reserved u32 |
//	40 key u64 | 48 offset u64
type Data struct {
	DSN         DSN
	Stream      uint16
	Op          Op
	MSN         uint32
	PacketIndex uint32 // below PacketCount
	PacketCount uint32 // of the message, at least 1
	Immediate   uint32 // valid with FlagImm
	TxTimestamp uint32 // nanoseconds of the sender's clock, wraps; echoed as it is
	Backlog     uint32 // bytes waiting at the sender for this connection, saturates
	Key         uint64 // WRITE: region key; SEND: receive number; responses: request tag
	Offset      uint64 // of the payload in the region, buffer or answer
}

// ParseData reads and checks a DATA body and returns the payload in it, which
// aliases body. Offset plus the payload's length does not overflow.
func ParseData(body []byte, d *Data) ([]byte, Reason) {
	if len(body) < DataSize {
		return nil, ReasonTruncated
	}
	b := body[:DataSize:DataSize]
	d.DSN = DSN(binary.BigEndian.Uint64(b[0:8]))
	d.Stream = binary.BigEndian.Uint16(b[8:10])
	d.Op = Op(b[10])
	d.MSN = binary.BigEndian.Uint32(b[12:16])
	d.PacketIndex = binary.BigEndian.Uint32(b[16:20])
	d.PacketCount = binary.BigEndian.Uint32(b[20:24])
	d.Immediate = binary.BigEndian.Uint32(b[24:28])
	d.TxTimestamp = binary.BigEndian.Uint32(b[28:32])
	d.Backlog = binary.BigEndian.Uint32(b[32:36])
	d.Key = binary.BigEndian.Uint64(b[40:48])
	d.Offset = binary.BigEndian.Uint64(b[48:56])
	payload := body[DataSize:]
	if uint32(b[11])|binary.BigEndian.Uint32(b[36:40]) != 0 {
		return nil, ReasonReserved
	}
	if d.Op == 0 || d.Op > OpAtomicResponse || d.PacketIndex >= d.PacketCount {
		return nil, ReasonBadField
	}
	if d.Offset+uint64(len(payload)) < d.Offset {
		return nil, ReasonOverflow
	}
	return payload, 0
}

// PutData writes the DataSize bytes of a DATA body before its payload, which is
// the caller's to copy behind them.
func PutData(body []byte, d *Data) {
	b := body[:DataSize:DataSize]
	binary.BigEndian.PutUint64(b[0:8], uint64(d.DSN))
	binary.BigEndian.PutUint16(b[8:10], d.Stream)
	b[10], b[11] = uint8(d.Op), 0
	binary.BigEndian.PutUint32(b[12:16], d.MSN)
	binary.BigEndian.PutUint32(b[16:20], d.PacketIndex)
	binary.BigEndian.PutUint32(b[20:24], d.PacketCount)
	binary.BigEndian.PutUint32(b[24:28], d.Immediate)
	binary.BigEndian.PutUint32(b[28:32], d.TxTimestamp)
	binary.BigEndian.PutUint32(b[32:36], d.Backlog)
	binary.BigEndian.PutUint32(b[36:40], 0)
	binary.BigEndian.PutUint64(b[40:48], d.Key)
	binary.BigEndian.PutUint64(b[48:56], d.Offset)
}
