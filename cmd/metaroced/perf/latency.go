package perf

import (
	"context"
	"time"

	"github.com/metaroced/metaroced/bench/lab/histogram"
	"github.com/metaroced/metaroced/client"
)

// WarmUpTrips come before the first round trip that counts.
const WarmUpTrips = 100

// Latency measures round trips of one size; see the package comment.
func Latency(ctx context.Context, session *client.Session, target Target, size int64, m Measure) (Row, error) {
	c, err := connect(ctx, session, target, testLatency, size)
	if err != nil {
		return Row{}, err
	}
	defer c.conn.Close()
	for range WarmUpTrips {
		if err := c.roundTrip(ctx, size); err != nil {
			return Row{}, err
		}
	}
	var latency histogram.Histogram
	start := time.Now()
	last := time.Duration(0)
	for !m.over(last, latency.Count()) {
		if err := c.roundTrip(ctx, size); err != nil {
			return Row{}, err
		}
		now := time.Since(start)
		latency.Record(int64(now - last))
		last = now
	}
	return newRow(size, latency.Count(), last, &latency), nil
}

// roundTrip writes once and waits for the answer. The completion of the write
// itself comes before or after it and is only checked.
func (c *connection) roundTrip(ctx context.Context, size int64) error {
	err := c.conn.Write(client.Write{
		Local: c.region, Length: uint32(size), RemoteKey: c.key, HasImm: true,
	})
	if err != nil {
		return err
	}
	var completions [8]client.Completion
	for {
		n, err := c.session.Wait(ctx, completions[:])
		if err != nil {
			return err
		}
		answered := false
		for i := range completions[:n] {
			if err := failed(&completions[i]); err != nil {
				return err
			}
			answered = answered || completions[i].Op == client.OpWriteImmReceived
		}
		if answered {
			return nil
		}
	}
}
