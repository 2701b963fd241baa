package lab

import (
	"slices"
	"time"
)

// bucketNanos is the step of the goodput timeline.
const bucketNanos = int64(10 * time.Millisecond)

// maxTimelineBuckets bounds the timeline's memory: ten minutes.
const maxTimelineBuckets = 10 * 60 * 100

// Timeline is the number of verified bytes in each step of 10 ms since the start
// of the job.
//
// An operation is verified as a whole, when its last byte is there, though its
// bytes arrived all the time since the operation before. Counting them into one
// step would make goodput of large operations jump by a step's worth; Add
// therefore spreads them evenly over that time.
type Timeline struct {
	start   int64 // monotonic nanoseconds
	last    int64 // when the previous operation was verified
	buckets []float64
}

// NewTimeline starts a timeline at a monotonic time in nanoseconds, with room for
// the duration given; later bytes make it grow, up to ten minutes.
func NewTimeline(start int64, expected time.Duration) *Timeline {
	room := min(int64(expected)/bucketNanos+100, maxTimelineBuckets)
	return &Timeline{start: start, last: start, buckets: make([]float64, 0, room)}
}

// Add counts bytes of an operation that was verified at now.
func (t *Timeline) Add(now int64, bytes int64) {
	from := min(t.last, now)
	t.last = max(now, t.last)
	if now == from {
		t.addTo((now-t.start)/bucketNanos, float64(bytes))
		return
	}
	perNano := float64(bytes) / float64(now-from)
	for from < now {
		bucket := (from - t.start) / bucketNanos
		end := min(now, t.start+(bucket+1)*bucketNanos)
		t.addTo(bucket, float64(end-from)*perNano)
		from = end
	}
}

func (t *Timeline) addTo(bucket int64, bytes float64) {
	if bucket < 0 || bucket >= maxTimelineBuckets {
		return
	}
	for int64(len(t.buckets)) <= bucket {
		t.buckets = append(t.buckets, 0)
	}
	t.buckets[bucket] += bytes
}

// Points returns the timeline as goodput per step, until the job's end.
func (t *Timeline) Points() []TimelinePoint {
	points := make([]TimelinePoint, len(t.buckets))
	for i, bytes := range t.buckets {
		points[i] = TimelinePoint{
			TimeMs:      int64(i) * bucketNanos / int64(time.Millisecond),
			GoodputGbps: bytes * 8 / float64(bucketNanos),
		}
	}
	return points
}

// TimelinePoint is the goodput during the step of 10 ms that starts at TimeMs.
type TimelinePoint struct {
	TimeMs      int64   `json:"t_ms"`
	GoodputGbps float64 `json:"goodput_gbps"`
}

// stepMs is the length of a step in milliseconds.
const stepMs = float64(bucketNanos) / float64(time.Millisecond)

// How recovery from a fault is judged: the goodput is back at the first of
// recoveredSteps steps in a row that each reach recoveredFraction of the median
// before the fault. The first startUpMs of the job, when windows still grow, do
// not count as "before" while there is anything else.
const (
	recoveredSteps    = 5
	recoveredFraction = 0.70
	startUpMs         = 200
)

// RecoveryMs returns how long after a fault at faultMs (milliseconds on the
// timeline's clock) goodput was back: the start of the first of five steps in a
// row at 0.70 of the median before or more. ok is false when goodput did not come
// back before jobMs, when the job ended, or there was none before.
func RecoveryMs(points []TimelinePoint, faultMs, jobMs float64) (recovery float64, ok bool) {
	return SteadyMs(points, faultMs, 0, jobMs)
}

// SteadyMs is RecoveryMs that looks only at steps from graceMs after the fault on;
// what it returns counts from the fault too.
func SteadyMs(points []TimelinePoint, faultMs, graceMs, jobMs float64) (start float64, ok bool) {
	threshold := recoveredFraction * GoodputBefore(points, faultMs)
	if threshold <= 0 {
		return 0, false
	}
	inARow := 0
	for _, p := range points {
		at := float64(p.TimeMs)
		if at+stepMs > jobMs {
			break
		}
		if at < faultMs+graceMs || p.GoodputGbps < threshold {
			inARow = 0
			continue
		}
		if inARow++; inARow == recoveredSteps {
			return at - (recoveredSteps-1)*stepMs - faultMs, true
		}
	}
	return 0, false
}

// GoodputBefore returns the median goodput of the steps before a fault.
func GoodputBefore(points []TimelinePoint, faultMs float64) float64 {
	if settled := MedianGoodput(points, startUpMs, faultMs); settled > 0 {
		return settled
	}
	return MedianGoodput(points, 0, faultMs)
}

// MedianGoodput returns the median goodput of the steps that lie between two
// times, 0 when there is none.
func MedianGoodput(points []TimelinePoint, fromMs, toMs float64) float64 {
	var between []float64
	for _, p := range points {
		if at := float64(p.TimeMs); at >= fromMs && at+stepMs <= toMs {
			between = append(between, p.GoodputGbps)
		}
	}
	return Median(between)
}

// Median returns the middle value, the mean of the two middle ones of an even
// number, and 0 of none. It does not change values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
