package umem

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
)

// TestSlabsAgainstModel allocates and frees at random for three tenants and
// compares with the simplest description of the rule: a slab is taken or not, and
// belongs for good to the first tenant that had it.
func TestSlabsAgainstModel(t *testing.T) {
	for seed := range uint64(30) {
		a := newArena(t)
		random := rand.New(rand.NewPCG(seed, 7))
		var owner [8]int // 0: nobody yet
		var taken [8]bool
		var regions []*Region
		for range 200 {
			if len(regions) > 0 && random.IntN(2) == 0 {
				i := random.IntN(len(regions))
				r := regions[i]
				for s := range r.slabs {
					taken[r.firstSlab+s] = false
				}
				freeAll(t, r)
				regions[i] = regions[len(regions)-1]
				regions = regions[:len(regions)-1]
				continue
			}
			uid, count := 1+random.IntN(3), 1+random.IntN(4)
			r, err := a.AllocSlabs(int64(count)*testSlab, Tenant{UID: uint32(uid)})
			if possible := anyRun(owner, taken, uid, count); possible != (err == nil) || (err != nil && !errors.Is(err, ErrNoSlabs)) {
				t.Fatalf("seed %d: %d slabs for %d, possible: %v: %v", seed, count, uid, possible, err)
			}
			if err != nil {
				continue
			}
			for s := r.firstSlab; s < r.firstSlab+count; s++ {
				if taken[s] || (owner[s] != 0 && owner[s] != uid) {
					t.Fatalf("seed %d: slab %d given to %d, taken %v, owned by %d", seed, s, uid, taken[s], owner[s])
				}
				taken[s], owner[s] = true, uid
			}
			for i := 0; i < len(r.Mem()); i += testSlab {
				if r.Mem()[i] != 0 {
					t.Fatalf("seed %d: slab not cleared", seed)
				}
				r.Mem()[i] = byte(uid)
			}
			regions = append(regions, r)
		}
		freeAll(t, regions...)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// anyRun reports whether count neighbouring slabs are open to uid.
func anyRun(owner [8]int, taken [8]bool, uid, count int) bool {
	run := 0
	for s := range owner {
		if taken[s] || (owner[s] != 0 && owner[s] != uid) {
			run = 0
			continue
		}
		if run++; run == count {
			return true
		}
	}
	return false
}

// TestSlabsConcurrently has tenants allocate at once; none may meet the other's
// memory.
func TestSlabsConcurrently(t *testing.T) {
	a := newArena(t)
	var tenants sync.WaitGroup
	for uid := range byte(4) {
		tenants.Go(func() {
			for range 200 {
				r, err := a.AllocSlabs(testSlab, Tenant{UID: uint32(uid)})
				if err != nil {
					continue // the others were first
				}
				if r.Mem()[0] != 0 {
					t.Errorf("slab of uid %d holds %d", uid, r.Mem()[0])
				}
				r.Mem()[0] = uid + 1
				if err := r.Free(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	tenants.Wait()
}
