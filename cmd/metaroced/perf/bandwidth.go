package perf

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/metaroced/metaroced/bench/lab/histogram"
	"github.com/metaroced/metaroced/client"
)

// warmUpShare is the part of a measurement that comes first and does not count.
const warmUpShare = 0.1

// warmUp is the part of m that comes first. A number of iterations stays one: zero
// would mean a time, in which a few large operations become many.
func (m Measure) warmUp() Measure {
	return Measure{
		Duration:   time.Duration(float64(m.Duration) * warmUpShare),
		Iterations: uint64(math.Ceil(float64(m.Iterations) * warmUpShare)),
	}
}

// Bandwidth measures each size in turn with depth operations outstanding and
// hands each row to report as soon as it is known.
func Bandwidth(ctx context.Context, session *client.Session, target Target, sizes []int64, depth int, m Measure, report func(Row)) error {
	largest := int64(0)
	for _, size := range sizes {
		largest = max(largest, size)
	}
	c, err := connect(ctx, session, target, testBandwidth, largest)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	for _, size := range sizes {
		warmUp := &window{connection: c, size: size, depth: depth}
		if err := warmUp.run(ctx, m.warmUp()); err != nil {
			return err
		}
		measured := &window{connection: c, size: size, depth: depth}
		if err := measured.run(ctx, m); err != nil {
			return err
		}
		report(newRow(size, measured.completed, measured.elapsed, &measured.latency))
	}
	return nil
}

// window keeps depth writes of one size outstanding.
type window struct {
	*connection
	size      int64
	depth     int
	completed uint64
	elapsed   time.Duration // from the first post to the last completion
	latency   histogram.Histogram
}

// run posts until the measurement is over and waits for what is outstanding.
func (w *window) run(ctx context.Context, m Measure) error {
	start := time.Now()
	postedAt := make([]time.Duration, w.depth) // by slot
	free := make([]uint64, 0, w.depth)
	for slot := range w.depth {
		free = append(free, uint64(slot))
	}
	var completions [64]client.Completion
	posted := uint64(0)
	for {
		w.elapsed = time.Since(start)
		over := m.over(w.elapsed, posted)
		for !over && len(free) > 0 {
			slot := free[len(free)-1]
			err := w.conn.Write(client.Write{Local: w.region, Length: uint32(w.size), RemoteKey: w.key, UserData: slot})
			if errors.Is(err, client.ErrQueueFull) {
				break
			}
			if err != nil {
				return err
			}
			free = free[:len(free)-1]
			postedAt[slot] = w.elapsed
			posted++
			over = m.over(w.elapsed, posted)
		}
		if over && len(free) == w.depth {
			return nil
		}
		n, err := w.session.Wait(ctx, completions[:])
		if err != nil {
			return err
		}
		now := time.Since(start)
		for i := range completions[:n] {
			if err := failed(&completions[i]); err != nil {
				return err
			}
			slot := completions[i].UserData
			w.latency.Record(int64(now - postedAt[slot]))
			w.completed++
			free = append(free, slot)
		}
	}
}
