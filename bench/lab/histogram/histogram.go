package histogram

import (
	"math"
	"math/bits"
)

const (
	subBits    = 7 // 2^7 linear buckets per power of two
	subBuckets = 1 << subBits
	buckets    = (64 - subBits + 1) * subBuckets
)

// Histogram is a set of durations in nanoseconds. The zero value is empty and
// ready. It is not safe for concurrent use.
type Histogram struct {
	counts [buckets]uint64
	total  uint64
	max    int64
}

// Record adds one sample; negative ones count as 0. It does not allocate.
func (h *Histogram) Record(nanos int64) {
	nanos = max(nanos, 0)
	h.counts[bucketOf(uint64(nanos))]++
	h.total++
	h.max = max(h.max, nanos)
}

// Count returns the number of samples.
func (h *Histogram) Count() uint64 { return h.total }

// Max returns the largest sample in nanoseconds, 0 when there is none.
func (h *Histogram) Max() int64 { return h.max }

// Quantile returns the value in nanoseconds below or at which the fraction q, in
// (0, 1], of the samples lies (nearest rank), 0 when there is none.
func (h *Histogram) Quantile(q float64) int64 {
	rank := max(uint64(math.Ceil(q*float64(h.total))), 1)
	var seen uint64
	for i := range h.counts {
		if seen += h.counts[i]; seen >= rank && h.total > 0 {
			return min(middleOf(i), h.max)
		}
	}
	return h.max
}

// bucketOf maps a value to its bucket: values below 2*subBuckets have one each,
// then every power of two is divided into subBuckets equal parts.
func bucketOf(value uint64) int {
	shift := max(bits.Len64(value)-subBits-1, 0)
	return shift<<subBits + int(value>>shift)
}

// middleOf returns the value halfway through a bucket.
func middleOf(bucket int) int64 {
	if bucket < 2*subBuckets {
		return int64(bucket)
	}
	shift := bucket>>subBits - 1
	low := uint64(bucket-shift<<subBits) << shift
	return int64(low + (uint64(1)<<shift-1)/2)
}

// Micros is a summary of latencies in microseconds, as reports print it.
type Micros struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Micros returns the summary of the samples.
func (h *Histogram) Micros() Micros {
	micros := func(nanos int64) float64 { return float64(nanos) / 1000 }
	return Micros{
		P50:  micros(h.Quantile(0.50)),
		P99:  micros(h.Quantile(0.99)),
		P999: micros(h.Quantile(0.999)),
		Max:  micros(h.max),
	}
}
