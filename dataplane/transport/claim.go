package transport

import (
	"sync/atomic"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// claimTable is the exactly-once filter of one connection: a ring of words,
// one per DSN of the window, each holding the whole DSN and a state. Words are
// atomic so that any worker may claim; only the owner moves the cumulative DSN
// (docs/PROTOCOL.md, "Claim, place, acknowledge").
type claimTable struct {
	words      []atomic.Uint64
	cumulative wire.DSN // all below are placed
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
	t.cumulative = 0
}

func (t *claimTable) word(d wire.DSN) *atomic.Uint64 {
	return &t.words[uint64(d)&uint64(len(t.words)-1)]
}

// claim takes a DSN for placement.
func (t *claimTable) claim(d wire.DSN) claimResult {
	if d < t.cumulative {
		return claimDuplicate
	}
	if d-t.cumulative >= wire.DSN(len(t.words)) {
		return claimOutside
	}
	w := t.word(d)
	old := w.Load()
	switch old {
	case uint64(d)<<claimBits | claimPlaced:
		return claimDuplicate
	case uint64(d)<<claimBits | claimTaken:
		return claimBusy
	}
	if !w.CompareAndSwap(old, uint64(d)<<claimBits|claimTaken) {
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
	for t.word(t.cumulative).Load() == uint64(t.cumulative)<<claimBits|claimPlaced {
		t.cumulative++
	}
}
