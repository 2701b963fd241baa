package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestBucketsCoverAllValuesInOrder(t *testing.T) {
	last := -1
	for _, v := range []uint64{
		0, 1, 127, 128, 255, 256, 257, 258, 511, 512, 1023, 1 << 20, 1<<20 + 1<<13,
		math.MaxInt64 / 2, math.MaxInt64, math.MaxUint64,
	} {
		b := bucketOf(v)
		if b < last || b >= buckets {
			t.Fatalf("value %d falls into bucket %d of %d, after %d", v, b, buckets, last)
		}
		last = b
		if v > math.MaxInt64 {
			continue
		}
		if m := middleOf(b); bucketOf(uint64(m)) != b {
			t.Errorf("the middle %d of bucket %d is in bucket %d", m, b, bucketOf(uint64(m)))
		}
	}
}

func TestQuantilesMatchSortedSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 10, 1000, 20000} {
		var h Histogram
		samples := make([]int64, n)
		for i := range samples {
			samples[i] = int64(math.Exp(r.Float64() * 20))
			h.Record(samples[i])
		}
		slices.Sort(samples)
		for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
			want := samples[int(math.Ceil(q*float64(n)))-1]
			got := h.Quantile(q)
			if math.Abs(float64(got-want)) > float64(want)/128+1 {
				t.Errorf("n=%d: quantile %v is %d, want %d", n, q, got, want)
			}
		}
		if h.Max() != samples[n-1] || h.Count() != uint64(n) {
			t.Errorf("n=%d: max %d count %d, want %d", n, h.Max(), h.Count(), samples[n-1])
		}
	}
}

func TestEmptyAndNegative(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Micros() != (Micros{}) {
		t.Error("an empty histogram has quantiles other than 0")
	}
	h.Record(-5)
	if h.Quantile(1) != 0 || h.Count() != 1 {
		t.Error("a negative sample is not counted as 0")
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.Record(12345) }); n != 0 {
		t.Errorf("%v allocations per sample", n)
	}
}
