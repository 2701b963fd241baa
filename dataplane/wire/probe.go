package wire

import "encoding/binary"

// Probe is the body of PROBE and PROBE-ACK.
//
//	0 value u64 | 8 transmit timestamp u32 | 12 flags u32 | 16 reserved 16 bytes |
//	32 padding (PROBE only)
type Probe struct {
	Value       uint64 // unpredictable; the answer repeats it
	TxTimestamp uint32 // of the prober's clock; the answer repeats it
	Flags       uint32 // ProbeFullAck, ProbeUnknown
}

// ParseProbe reads the body of a PROBE or PROBE-ACK packet. What lies behind
// ProbeSize bytes is padding of zeros, for finding out how large packets may be.
func ParseProbe(body []byte, p *Probe) Reason {
	if len(body) < ProbeSize {
		return ReasonTruncated
	}
	b := body[:ProbeSize:ProbeSize]
	p.Value = binary.BigEndian.Uint64(b[0:8])
	p.TxTimestamp = binary.BigEndian.Uint32(b[8:12])
	p.Flags = binary.BigEndian.Uint32(b[12:16])
	if p.Flags&^(ProbeFullAck|ProbeUnknown) != 0 {
		return ReasonBadFlags
	}
	for _, v := range body[16:] {
		if v != 0 {
			return ReasonReserved
		}
	}
	return 0
}

// PutProbe writes the body of a PROBE or PROBE-ACK packet, ProbeSize bytes.
// Padding behind it is the caller's to clear.
func PutProbe(body []byte, p *Probe) {
	b := body[:ProbeSize:ProbeSize]
	binary.BigEndian.PutUint64(b[0:8], p.Value)
	binary.BigEndian.PutUint32(b[8:12], p.TxTimestamp)
	binary.BigEndian.PutUint32(b[12:16], p.Flags)
	binary.BigEndian.PutUint64(b[16:24], 0)
	binary.BigEndian.PutUint64(b[24:32], 0)
}
