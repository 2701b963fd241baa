package transport

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// TestClaimModel compares a claim table with a map of what every DSN is. The
// first DSNs lie around 0, around 2^32, where the bits that a word keeps wrap,
// and where their sign does.
func TestClaimModel(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 4))
		window := 1 << r.IntN(9)
		start := [...]wire.DSN{0, 1<<32 - 300, 1<<62 - 300, 1<<61 - 300, 1 << 63}[r.IntN(5)]
		var table claimTable
		table.init(window)
		table.cumulative.Store(uint64(start))
		model := map[wire.DSN]uint64{}
		next := start
		for range 1500 {
			d := next + wire.DSN(r.IntN(2*window+4))
			if back := wire.DSN(r.IntN(window + 2)); d-start >= back {
				d -= back
			}
			if r.IntN(50) == 0 {
				d = wire.DSN(r.Uint64())
			}
			want := claimNew
			switch {
			case d < next || model[d] == claimPlaced:
				want = claimDuplicate
			case d-next >= wire.DSN(window):
				want = claimOutside
			case model[d] == claimTaken:
				want = claimBusy
			}
			if got := table.claim(d); got != want {
				t.Fatalf("seed %d: claim(%d) with %d next and a window of %d is %d, want %d", seed, d, next, window, got, want)
			}
			if want == claimNew {
				model[d] = claimTaken
			}
			if (want == claimNew || want == claimBusy) && r.IntN(4) > 0 {
				table.placed(d)
				model[d] = claimPlaced
			}
			if r.IntN(3) == 0 {
				table.advance()
				for model[next] == claimPlaced {
					delete(model, next)
					next++
				}
			}
			if got := table.next(); got != next {
				t.Fatalf("seed %d: cumulative DSN is %d, want %d", seed, got, next)
			}
		}
	}
}

// TestClaimOnceAcrossWorkers has several workers claim the same DSNs at the
// same time, each more than once and far behind the others at times, while the
// owner moves the cumulative DSN. Every DSN is new exactly once, and who meets
// it as a duplicate sees what the one that placed it wrote.
func TestClaimOnceAcrossWorkers(t *testing.T) {
	const (
		workers = 4
		total   = 20_000
		window  = 16
		start   = 1<<32 - total/2
	)
	var table claimTable
	table.init(window)
	table.cumulative.Store(start)
	payload := make([]int, total) // plain: the race detector checks the order
	taken := make([]atomic.Int32, total)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 5))
			for i := 0; i < total; {
				d := wire.DSN(start + i)
				switch table.claim(d) {
				case claimNew:
					taken[i].Add(1)
					payload[i] = i + 1
					table.placed(d)
				case claimDuplicate:
					if payload[i] != i+1 {
						t.Errorf("DSN %d is a duplicate and its payload is not there", i)
					}
				default: // busy, or the owner is behind
					runtime.Gosched()
					continue
				}
				if i++; r.IntN(64) == 0 {
					i -= r.IntN(min(i, 3*window) + 1)
				}
			}
		})
	}
	wg.Go(func() {
		for table.next() < start+total {
			table.advance()
			runtime.Gosched()
		}
	})
	wg.Wait()
	for i := range taken {
		if n := taken[i].Load(); n != 1 {
			t.Fatalf("DSN %d was new %d times", i, n)
		}
	}
}

// TestClaimByALateWorker stops a worker between its look at the cumulative DSN
// and its look at the word: meanwhile the DSN is placed and its word taken by
// one a window later. The DSN must not be new again, nor the later one lost.
func TestClaimByALateWorker(t *testing.T) {
	for name, finish := range map[string]bool{"claimed": false, "placed": true} {
		t.Run(name, func(t *testing.T) {
			var table claimTable
			table.init(4)
			seen := table.next() // what the late worker has seen
			for d := range wire.DSN(4) {
				table.claim(d)
				table.placed(d)
			}
			table.advance()
			if table.claim(4) != claimNew {
				t.Fatal("DSN 4 is not new")
			}
			if finish {
				table.placed(4)
			}
			if got := table.claimFrom(seen, 0); got != claimDuplicate {
				t.Errorf("DSN 0 is %d for the late worker, want a duplicate", got)
			}
			if got := table.claim(4); finish && got != claimDuplicate || !finish && got != claimBusy {
				t.Errorf("DSN 4 is %d afterwards", got)
			}
		})
	}
}
