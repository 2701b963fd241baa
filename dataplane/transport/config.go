package transport

import (
	"fmt"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// MaxPlanes and MaxPaths bound planes per connection and paths per plane.
const (
	MaxPlanes = 8
	MaxPaths  = 64
)

const (
	// shortBytes is the largest payload of a short operation, which overtakes
	// bulk (docs/PROTOCOL.md, "Short operations").
	shortBytes = 256
	// reservedDSNs is the end of the DSN window kept for short operations,
	// requests and control.
	reservedDSNs = 64
	// controlDSNs is the part of these that only control may use: when both
	// hosts' windows are full and wait for ERRORs, the ERRORs must get through.
	controlDSNs = 32
	// quantumPackets is how many packets one connection sends on a plane before
	// the next connection's turn.
	quantumPackets = 16
	// bitvectorPackets is how many PSNs one path report covers.
	bitvectorPackets = 256
	// minPayload is the smallest payload per packet a peer may agree to.
	minPayload = 1024
	// ipv4UDPBytes and ipv6UDPBytes are the headers between MTU and UDP payload.
	ipv4UDPBytes = 28
	ipv6UDPBytes = 48
	// frameBytes is what a packet occupies of its link beside the UDP payload:
	// IPv4 and UDP, Ethernet header and checksum, preamble and gap. Windows,
	// pace and shares count it, or a sender at its share would be above the rate.
	frameBytes = ipv4UDPBytes + 14 + 4 + 8 + 12
)

// PlaneConfig describes one local plane.
type PlaneConfig struct {
	Addr           wire.Addr // where peers reach this plane
	MTU            int       // bytes of the IP packet
	LinkBitsPerSec int64
}

// Config holds an Engine's limits and constants. Zero values mean the default
// named with each field; durations are nanoseconds.
type Config struct {
	Planes []PlaneConfig
	// MaxDatagramBytes is the largest UDP payload a transmit frame can carry.
	MaxDatagramBytes int
	Paths            int // per plane, 1 to 64; default 16
	RunPackets       int // packets in a row on one path; default 4
	PathInFlight     int // F, unresolved packets per path; default 256
	DSNWindow        int // unresolved DSNs per connection, power of two; default 8192
	MaxStreams       int // per connection; default 64
	MessageDepth     int // messages per stream and direction, power of two; default 1024
	AckEvery         int // packets per plane between acknowledgments; default 32
	AckDelayNanos    int64
	// RxPackets is how many packets per plane this host can hold before its
	// worker looks: what one sender may have in flight on a plane.
	RxPackets              int
	ReorderPackets         int // holes this close to the highest PSN are not yet loss; default 3
	MinRTONanos            int64
	ConnectTimeoutNanos    int64 // default 5 s
	ConnectionTimeoutNanos int64 // default 30 s
	KeepAliveNanos         int64 // default 5 s
	MaxConnections         int   // default 4096
	MaxRegions             int   // default 65536
	MaxPending             int   // connections being set up by peers; default 256
	NoCRC                  bool  // do not ask for the CRC-32C trailer
	BurstNanos             int64 // how far sending may run ahead of its pace; default 50 us
	DelayTargetNanos       int64 // queueing delay that counts as congestion; 0 = off
	// Random returns 64 unpredictable bits: crypto/rand in a daemon, seeded in
	// a simulation.
	Random func() uint64
}

func orDefault[T int | int64](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// normalize fills defaults and refuses what cannot work.
func (c *Config) normalize() error {
	orDefault(&c.Paths, 16)
	orDefault(&c.RunPackets, 4)
	orDefault(&c.PathInFlight, bitvectorPackets)
	orDefault(&c.DSNWindow, 8192)
	orDefault(&c.MaxStreams, 64)
	orDefault(&c.MessageDepth, 1024)
	orDefault(&c.AckEvery, 32)
	orDefault(&c.AckDelayNanos, 100_000)
	orDefault(&c.RxPackets, 1024)
	orDefault(&c.ReorderPackets, 3)
	orDefault(&c.MinRTONanos, 1_000_000)
	orDefault(&c.ConnectTimeoutNanos, 5_000_000_000)
	orDefault(&c.ConnectionTimeoutNanos, 30_000_000_000)
	orDefault(&c.KeepAliveNanos, 5_000_000_000)
	orDefault(&c.MaxConnections, 4096)
	orDefault(&c.MaxRegions, 65536)
	orDefault(&c.MaxPending, 256)
	check := func(name string, v, lo, hi int) error {
		if v < lo || v > hi {
			return fmt.Errorf("transport: %s = %d is outside %d to %d", name, v, lo, hi)
		}
		return nil
	}
	for _, err := range []error{
		check("planes", len(c.Planes), 1, MaxPlanes),
		check("paths", c.Paths, 1, MaxPaths),
		check("run_packets", c.RunPackets, 1, 64),
		check("path_in_flight", c.PathInFlight, 1, bitvectorPackets),
		check("dsn_window", c.DSNWindow, 256, 1<<20),
		check("max_streams", c.MaxStreams, 1, 65535),
		check("message_depth", c.MessageDepth, 1, 32768),
		check("ack_every", c.AckEvery, 1, bitvectorPackets/2),
		check("max_connections", c.MaxConnections, 1, 1<<20-1),
	} {
		if err != nil {
			return err
		}
	}
	if c.DSNWindow&(c.DSNWindow-1) != 0 || c.MessageDepth&(c.MessageDepth-1) != 0 {
		return fmt.Errorf("transport: dsn_window %d and message_depth %d must be powers of two", c.DSNWindow, c.MessageDepth)
	}
	if c.Random == nil {
		return fmt.Errorf("transport: Config.Random is not set")
	}
	if p := c.maxPayload(); p < minPayload {
		return fmt.Errorf("transport: planes' MTU leaves %d bytes of payload per packet, at least %d are needed; raise the MTU", p, minPayload)
	}
	return nil
}

// maxPayload is the payload every local plane can carry, rounded down so that
// packets start 8-byte aligned in their region.
func (c *Config) maxPayload() int {
	p := 1 << 16
	for i := range c.Planes {
		headers := ipv6UDPBytes
		if c.Planes[i].Addr.Is4() {
			headers = ipv4UDPBytes
		}
		p = min(p, c.Planes[i].MTU-headers)
	}
	if c.MaxDatagramBytes > 0 {
		p = min(p, c.MaxDatagramBytes)
	}
	return (p - wire.DataOverhead) &^ 7
}
