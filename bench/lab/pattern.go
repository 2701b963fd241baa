package lab

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
)

// Pattern generates and verifies the content of operations.
//
// The content depends on the seed, the operation and the offset, and is made of
// blocks of 1 KiB. A block is a piece of a fixed pseudo-random template, taken at
// a position that depends on operation and block, with a stamp of operation and
// block over its first eight bytes:
//
//	block:    ┌ stamp 8 B ┬ template[position(operation, block) + 8 …] ┐
//
// So bytes of another operation or of another block differ from the expected
// ones, wherever a block is cut. No byte is ever zero, which makes zero a poison
// that shows every byte that was not written. Both directions are one memory
// copy or compare per block: generating and verifying run at memory speed, and
// the lab measures the transport rather than its own checks.
//
// A Pattern is immutable and safe for concurrent use.
type Pattern struct {
	template [templateBytes + blockBytes]byte // the first block again at the end
	offset   uint64                           // seed's contribution to positions
}

const (
	blockBytes    = 1024
	stampBytes    = 8
	templateBytes = 1 << 16
)

// NewPattern returns the pattern of a seed.
func NewPattern(seed uint64) *Pattern {
	// The generator is named by its algorithm, so both processes, also of
	// different builds, derive the same template from a seed.
	random := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	p := &Pattern{offset: random.Uint64()}
	for i := range templateBytes {
		p.template[i] = byte(1 + random.UintN(255))
	}
	copy(p.template[templateBytes:], p.template[:blockBytes])
	return p
}

// position is where in the template a block starts. The factors are odd, so
// consecutive operations of one block, and consecutive blocks of one operation,
// run through all positions before one comes back.
func (p *Pattern) position(operation, block uint64) uint64 {
	return (p.offset + operation*40503 + block*25717) % templateBytes
}

// stamp holds 28 bits each of block and operation, seven per byte, so that no
// byte is zero.
func stamp(operation, block uint64) uint64 {
	return spread(operation) | spread(block)<<32 | 0x8080_8080_8080_8080
}

func spread(v uint64) uint64 {
	return v&0x7f | v<<1&0x7f00 | v<<2&0x7f_0000 | v<<3&0x7f00_0000
}

// Fill writes the content of an operation of len(dst) bytes to dst.
func (p *Pattern) Fill(dst []byte, operation uint64) {
	for block := uint64(0); len(dst) > 0; block++ {
		n := min(len(dst), blockBytes)
		start := p.position(operation, block)
		copy(dst[:n], p.template[start:start+uint64(n)])
		putStamp(dst[:n], stamp(operation, block))
		dst = dst[n:]
	}
}

func putStamp(block []byte, value uint64) {
	if len(block) >= stampBytes {
		binary.LittleEndian.PutUint64(block, value)
		return
	}
	var full [stampBytes]byte
	binary.LittleEndian.PutUint64(full[:], value)
	copy(block, full[:])
}

// VerifyAndPoison compares got with the content of an operation and overwrites it
// with zeros, block by block while the block is still in the cache. It returns
// how many bytes were wrong and the offset of the first one, -1 when all are
// right.
func (p *Pattern) VerifyAndPoison(got []byte, operation uint64) (wrong, first int64) {
	first = -1
	offset := int64(0)
	for block := uint64(0); len(got) > 0; block++ {
		n := min(len(got), blockBytes)
		if w, f := p.verifyBlock(got[:n], operation, block); w != 0 {
			if first < 0 {
				first = offset + f
			}
			wrong += w
		}
		clear(got[:n])
		got = got[n:]
		offset += int64(n)
	}
	return wrong, first
}

// verifyBlock returns the number of wrong bytes of one block and the first one's
// offset within it.
func (p *Pattern) verifyBlock(got []byte, operation, block uint64) (wrong, first int64) {
	start := p.position(operation, block)
	want := p.template[start : start+uint64(len(got))]
	if len(got) >= stampBytes &&
		binary.LittleEndian.Uint64(got) == stamp(operation, block) &&
		bytes.Equal(got[stampBytes:], want[stampBytes:]) {
		return 0, -1
	}
	// Rare: something is wrong, or the block is shorter than its stamp.
	var exact [blockBytes]byte
	copy(exact[:], want)
	putStamp(exact[:len(got)], stamp(operation, block))
	return countDifferences(got, exact[:len(got)])
}

// countDifferences compares two slices of equal length byte by byte.
func countDifferences(got, want []byte) (wrong, first int64) {
	first = -1
	for i := range got {
		if got[i] != want[i] {
			if wrong++; first < 0 {
				first = int64(i)
			}
		}
	}
	return wrong, first
}
