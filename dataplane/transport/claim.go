package transport

import (
	"sync/atomic"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// claimTable is the exactly-once filter of one connection: a ring of words,
// one per DSN of the window, each holding the whole DSN and a state. Words are
// atomic so that any worker may claim; only the owner moves the cumulative DSN
// (docs/PROTOCOL.md, "Claim, place, acknowledge"). A word only ever grows, in
// serial order: the top bits of a DSN do not fit, nor are they needed, since all
// that meet in a word are multiples of the window apart.
type claimTable struct {
	words      []atomic.Uint64
	cumulative atomic.Uint64 // all DSNs below are placed
}

const (
	claimFree   = 0
	claimTaken  = 1
	claimPlaced = 2
	claimBits   = 2
)

// claimResult says what an arriving DSN is.
type claimResult uint8

const (
	claimNew       claimResult = iota // the caller must place and then call placed
	claimDuplicate                    // placed before: acknowledge, do not place
	claimBusy                         // being placed by another worker: drop, do not acknowledge
	claimOutside                      // beyond the window: drop, do not acknowledge
)

func (t *claimTable) init(window int) {
	t.words = make([]atomic.Uint64, window)
	t.cumulative.Store(0)
}

// next is the cumulative DSN: all below are placed.
func (t *claimTable) next() wire.DSN { return wire.DSN(t.cumulative.Load()) }

func (t *claimTable) word(d wire.DSN) *atomic.Uint64 {
	return &t.words[uint64(d)&uint64(len(t.words)-1)]
}

// claim takes a DSN for placement.
func (t *claimTable) claim(d wire.DSN) claimResult { return t.claimFrom(t.next(), d) }

// claimFrom is claim for a worker that has seen a cumulative DSN, which may
// have moved on since.
func (t *claimTable) claimFrom(cumulative, d wire.DSN) claimResult {
	if d < cumulative {
		return claimDuplicate
	}
	if d-cumulative >= wire.DSN(len(t.words)) {
		return claimOutside
	}
	w := t.word(d)
	old, taken := w.Load(), uint64(d)<<claimBits|claimTaken
	switch {
	case old == taken:
		return claimBusy
	case old != claimFree && int64(old-taken) > 0:
		// Placed; or the word went to a later DSN, so this one was placed
		// before.
		return claimDuplicate
	}
	if !w.CompareAndSwap(old, taken) {
		return claimBusy
	}
	return claimNew
}

// placed publishes that the payload of a claimed DSN is in memory.
func (t *claimTable) placed(d wire.DSN) {
	t.word(d).Store(uint64(d)<<claimBits | claimPlaced)
}

// advance moves the cumulative DSN over everything placed. Owner only.
func (t *claimTable) advance() {
	d := t.next()
	for t.word(d).Load() == uint64(d)<<claimBits|claimPlaced {
		d++
	}
	t.cumulative.Store(uint64(d))
}
