package congestion

import "math/bits"

// Config holds the constants of one Plane. Zero values mean the default named
// with each field.
type Config struct {
	// PacketBytes is the size of a full packet on the wire. Default 4096.
	PacketBytes int64
	// InitialPackets is the window before anything is known of the plane:
	// small enough that 64 senders which start together do not overflow a
	// shallow port. Default 4, at least 2.
	InitialPackets int64
	// MaxWindowBytes is the largest window: what the receiver can hold before
	// its worker looks. Default 1024 packets.
	MaxWindowBytes int64
	// LinkBitsPerSec is the speed of the local link. Default 100 Gb/s.
	LinkBitsPerSec int64
	// IncreaseBitsPerSec is the additive increase per RTT. Default 1 % of the
	// link: a hundred rounds from nothing to the link's speed.
	IncreaseBitsPerSec int64
	// DelayTargetNanos is the queueing delay, over the plane's least RTT, that
	// counts as congestion; 0 turns the signal off. On hosts whose scheduling
	// adds milliseconds it must exceed that noise.
	DelayTargetNanos int64
	// BurstNanos is how far sending may run ahead of its pace, since workers
	// send in batches and wake late. At least burstPackets may always go
	// together. Default 50 us.
	BurstNanos int64
}

const (
	defaultPacketBytes    = 4096
	defaultInitialPackets = 4
	minInitialPackets     = 2
	defaultMaxPackets     = 1024
	defaultLinkBits       = 100_000_000_000
	defaultBurstNanos     = 50_000

	// burstPackets is the smallest burst: half of a worker's batch turn.
	burstPackets = 8
	// minWindowFraction: the window goes down to 1/64 of a packet, one packet
	// in 64 RTTs, so that thousands of senders can share one slow link.
	minWindowFraction = 64
	// unknownRTTNanos stands in for the RTT until there is a sample.
	unknownRTTNanos = 1_000_000
	// idleNanos and idleRTTs: what was learnt of the network is forgotten when
	// nothing was sent for longer than both.
	idleNanos = 10_000_000
	idleRTTs  = 16
	// lossSamplePackets is the least number of resolved packets loss is judged
	// by: at 10 % random loss one such sample exceeds heavyLoss with 1 % chance,
	// two in a row with 1 in 10,000.
	lossSamplePackets = 64
	// heavyLoss is the reciprocal of the loss fraction (1/5) that means
	// congestion when it persists and marks or delay agree; ruinousLoss the
	// one (1/2) that needs no witness, since a network without ECN has none.
	heavyLoss   = 5
	ruinousLoss = 2
	// heavySamples is how many samples in a row, each at least an RTT, make
	// loss persistent.
	heavySamples = 2
	// fractionOne is 1.0 in the fixed-point fractions of loss.
	fractionOne = 1024
	// maxLossCompensation bounds the pace raise for loss to 1 / (1 - 1/4).
	maxLossCompensation = fractionOne / 4
	// rampSlackNanos covers acknowledgment delay and batching, which RTT
	// samples do not contain, in the window that sustains a share.
	rampSlackNanos = 250_000
)

// normalized returns the configuration with defaults filled in.
func (c *Config) normalized() Config {
	n := *c
	orDefault(&n.PacketBytes, defaultPacketBytes)
	orDefault(&n.InitialPackets, defaultInitialPackets)
	orDefault(&n.MaxWindowBytes, defaultMaxPackets*n.PacketBytes)
	orDefault(&n.LinkBitsPerSec, defaultLinkBits)
	orDefault(&n.IncreaseBitsPerSec, n.LinkBitsPerSec/100)
	orDefault(&n.BurstNanos, defaultBurstNanos)
	n.InitialPackets = max(n.InitialPackets, minInitialPackets)
	n.MaxWindowBytes = max(n.MaxWindowBytes, n.PacketBytes)
	return n
}

func orDefault(v *int64, def int64) {
	if *v <= 0 {
		*v = def
	}
}

// mulDiv returns a x b / c for non-negative a, b and positive c, saturating at
// the largest int64.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return never
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, uint64(never)))
}

// bytesIn returns how many bytes a rate carries in a time.
func bytesIn(bitsPerSec, nanos int64) int64 {
	return mulDiv(bitsPerSec, nanos, 8*nanosPerSec)
}
