package transport

import "github.com/metaroced/metaroced/dataplane/wire"

// recvPath is what the receiver knows of one path: which of the newest 256
// PSNs arrived, and what it reports about them.
type recvPath struct {
	highest  wire.PSN
	bits     [4]uint64 // bit i: highest-i arrived and its DSN is placed
	packets  uint32
	marked   uint32 // with a congestion mark
	told     uint32 // marked in the last report
	echo     uint32 // sender's timestamp of the newest packet
	echoAt   int64  // when that arrived
	epoch    uint8
	used     bool
	wasClean bool // the last report had no new mark
}

// psnResult says what recording a PSN showed.
type psnResult uint8

const (
	psnInOrder psnResult = iota
	psnHole              // PSNs below it are missing
	psnFilled            // it fills a hole
	psnDuplicate
	psnOld // below what the bitvector reaches
)

// start begins a new epoch of the path: nothing is carried over.
func (r *recvPath) start(epoch uint8) {
	*r = recvPath{epoch: epoch, used: true, wasClean: true, highest: ^wire.PSN(0)}
}

// record notes an arrived PSN.
func (r *recvPath) record(psn wire.PSN) psnResult {
	d := int32(psn - r.highest)
	switch {
	case d == 1:
		r.shift(1)
		r.highest = psn
		r.bits[0] |= 1
		return psnInOrder
	case d > 1:
		r.shift(uint(d))
		r.highest = psn
		r.bits[0] |= 1
		return psnHole
	case d <= -bitvectorPackets:
		return psnOld
	}
	i := uint(-d)
	if r.bits[i>>6]>>(i&63)&1 != 0 {
		return psnDuplicate
	}
	r.bits[i>>6] |= 1 << (i & 63)
	return psnFilled
}

// shift moves the bitvector up by n PSNs.
func (r *recvPath) shift(n uint) {
	if n >= bitvectorPackets {
		r.bits = [4]uint64{}
		return
	}
	for ; n >= 64; n -= 64 {
		r.bits[3], r.bits[2], r.bits[1], r.bits[0] = r.bits[2], r.bits[1], r.bits[0], 0
	}
	if n == 0 {
		return
	}
	for i := 3; i > 0; i-- {
		r.bits[i] = r.bits[i]<<n | r.bits[i-1]>>(64-n)
	}
	r.bits[0] <<= n
}
