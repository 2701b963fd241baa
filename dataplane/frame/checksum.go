package frame

import (
	"encoding/binary"
	"math/bits"
)

// sum adds the 16-bit big-endian words of b, an odd last byte as the high half of a
// word: the ones' complement sum of RFC 1071, not yet folded. It takes eight bytes
// at a time, which RFC 1071 section 2 allows because carries wrap around.
func sum(b []byte) uint64 {
	var total, carry uint64
	for len(b) >= 32 {
		total, carry = bits.Add64(total, binary.BigEndian.Uint64(b), carry)
		total, carry = bits.Add64(total, binary.BigEndian.Uint64(b[8:]), carry)
		total, carry = bits.Add64(total, binary.BigEndian.Uint64(b[16:]), carry)
		total, carry = bits.Add64(total, binary.BigEndian.Uint64(b[24:]), carry)
		b = b[32:]
	}
	for len(b) >= 8 {
		total, carry = bits.Add64(total, binary.BigEndian.Uint64(b), carry)
		b = b[8:]
	}
	var rest uint64
	if len(b) >= 4 {
		rest = uint64(binary.BigEndian.Uint32(b))
		b = b[4:]
	}
	if len(b) >= 2 {
		rest += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		rest += uint64(b[0]) << 8
	}
	// 32 bits are left of the 64, so that callers may add a few words to the result.
	total, carry = bits.Add64(total, rest, carry)
	total, carry = bits.Add64(total, 0, carry)
	return total>>32 + total&0xffff_ffff + carry
}

// fold reduces a sum to 16 bits. The checksum is its complement.
func fold(total uint64) uint16 {
	total = total>>32 + total&0xffff_ffff
	total = total>>16 + total&0xffff
	total = total>>16 + total&0xffff
	return uint16(total>>16 + total)
}
