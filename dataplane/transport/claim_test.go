package transport

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// The claim table against a set of what was placed, over several turns of its
// ring and with DSNs far outside.
func TestClaimsAgainstASet(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		var table claimTable
		const window = 64
		table.init(window)
		placed := map[wire.DSN]bool{}
		taken := map[wire.DSN]bool{}
		for range 20_000 {
			d := table.cumulative + wire.DSN(r.IntN(3*window)) - window
			if r.IntN(50) == 0 {
				d = wire.DSN(r.Uint64())
			}
			want := claimNew
			switch {
			case placed[d] || d < table.cumulative:
				want = claimDuplicate
			case d-table.cumulative >= window:
				want = claimOutside
			case taken[d]:
				want = claimBusy
			}
			if got := table.claim(d); got != want {
				t.Fatalf("seed %d: DSN %d with cumulative %d: %d, want %d", seed, d, table.cumulative, got, want)
			}
			if want == claimNew {
				taken[d] = true
			}
			for d := range taken {
				if r.IntN(4) == 0 {
					table.placed(d)
					placed[d] = true
					delete(taken, d)
				}
			}
			table.advance()
			if placed[table.cumulative] || table.cumulative > 0 && !placed[table.cumulative-1] {
				t.Fatalf("seed %d: cumulative DSN %d is not the first that is missing", seed, table.cumulative)
			}
		}
		if len(placed) < 10*window {
			t.Fatalf("only %d DSNs were placed", len(placed))
		}
	}
}

// Several workers claim the same DSNs: each is given to one of them.
func TestClaimsOfManyWorkers(t *testing.T) {
	var table claimTable
	const window, workers = 1024, 4
	table.init(window)
	for turn := range 50 {
		var given [window]atomic.Int32
		var all sync.WaitGroup
		for worker := range workers {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(turn), uint64(worker)))
				first := table.cumulative
				for _, i := range r.Perm(window) {
					if d := first + wire.DSN(i); table.claim(d) == claimNew {
						given[i].Add(1)
						table.placed(d)
					}
				}
			})
		}
		all.Wait()
		for i := range given {
			if n := given[i].Load(); n != 1 {
				t.Fatalf("turn %d: DSN %d of the window was given %d times", turn, i, n)
			}
		}
		table.advance()
		if want := wire.DSN((turn + 1) * window); table.cumulative != want {
			t.Fatalf("cumulative DSN %d, want %d", table.cumulative, want)
		}
	}
}
