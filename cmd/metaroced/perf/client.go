package perf

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/metaroced/metaroced/bench/lab/histogram"
	"github.com/metaroced/metaroced/client"
)

// Target is where a client finds its server.
type Target struct {
	Addresses []netip.Addr
	Service   string
}

// Measure is how long one size is measured: until the duration is over or, when
// it is not zero, until so many iterations are completed.
type Measure struct {
	Duration   time.Duration
	Iterations uint64
}

// over tells whether a measurement that has lasted so long with so many
// iterations is finished.
func (m Measure) over(elapsed time.Duration, iterations uint64) bool {
	if m.Iterations > 0 {
		return iterations >= m.Iterations
	}
	return elapsed >= m.Duration
}

// Row is the result for one size.
type Row struct {
	Size       int64            `json:"size"` // bytes
	Iterations uint64           `json:"iterations"`
	Gbps       float64          `json:"gbps"` // of payload
	Mops       float64          `json:"mops"` // million operations or round trips per second
	LatencyUs  histogram.Micros `json:"latency_us"`
}

func newRow(size int64, iterations uint64, elapsed time.Duration, latency *histogram.Histogram) Row {
	perSecond := float64(iterations) / max(elapsed.Seconds(), 1e-9)
	return Row{
		Size: size, Iterations: iterations, Mops: perSecond / 1e6, Gbps: perSecond * float64(size) * 8 / 1e9,
		LatencyUs: latency.Micros(),
	}
}

// connection is a client's connection with both sides' memory.
type connection struct {
	session *client.Session
	conn    *client.Conn
	region  *client.Region
	key     uint64 // of the server's region
}

// connect dials the server for a test with operations of up to size bytes.
func connect(ctx context.Context, session *client.Session, target Target, t test, size int64) (*connection, error) {
	access := client.Access(0)
	if t == testLatency {
		access = client.RemoteWrite
	}
	region, err := session.AllocRegion(size, access)
	if err != nil {
		return nil, err
	}
	h := hello{test: t, size: uint64(size), key: region.Key()}
	conn, err := session.Dial(ctx, target.Addresses, target.Service, h.encode())
	if err != nil {
		return nil, err
	}
	key, err := decodeKey(conn.Private())
	if err != nil {
		return nil, err
	}
	return &connection{session: session, conn: conn, region: region, key: key}, nil
}

// failed turns a completion that is not a success into an error.
func failed(c *client.Completion) error {
	if c.Op == client.OpConnClosed {
		return fmt.Errorf("the connection ended: %v", c.Status)
	}
	if err := c.Status.Err(); err != nil {
		return fmt.Errorf("%v: %w", c.Op, err)
	}
	return nil
}
