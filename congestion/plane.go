package congestion

import "math"

// never is a time that does not come.
const never = int64(math.MaxInt64)

// Config is what a Plane needs to know. Sizes are bytes on the wire.
type Config struct {
	PacketBytes    int64 // of a full packet
	InitialPackets int64 // window at the start
	MaxWindowBytes int64 // what the receiver can hold
	LinkBitsPerSec int64
	// DelayTargetNanos is how far the round trip may rise above its minimum
	// before that counts as a mild sign of congestion; 0 turns it off.
	DelayTargetNanos int64
}

const (
	// alphaShift is the gain of the moving average of the marked fraction, 1/16
	// per round trip (DCTCP, RFC 8257, section 3.3).
	alphaShift = 4
	alphaOne   = 1 << 16 // fixed point 1.0
	// increaseShift: the additive increase per round trip is 1/128 of the bytes
	// the link carries in one round trip (about 1 % of the link's rate), the same
	// rate for every round-trip time, and at least one packet.
	increaseShift = 7
	// burstPackets and burstNanos bound what pacing lets go at once; workers send
	// in batches.
	burstPackets = 8
	burstNanos   = 50_000
	// lossPersistent is the fraction of lost packets, in 1/256, over a round
	// trip that together with marks or delay counts as congestion.
	lossPersistent = 51 // 20 %
	// minWindowDivisor: the window falls to 1/64 packet per round trip at least.
	minWindowDivisor = 64
	// Shares live for shareRTTs round trips, or four gaps between packets.
	shareRTTs    = 8
	minShareLife = 1_000_000
	// defaultRTT stands in until one is measured.
	defaultRTT = 1_000_000
)

// Ack is what one acknowledgment says of one plane.
type Ack struct {
	Bytes, Packets, CEPackets int64
	RTT                       int64 // 0: no sample
	SRTT, MinRTT              int64 // 0: not known yet
}

// Plane is the sender's congestion state of one plane of one connection.
type Plane struct {
	cfg      Config
	window   int64
	inFlight int64
	slow     bool  // doubling per round trip: no mark yet
	alpha    int64 // marked fraction, fixed point

	// The current round: one SRTT.
	roundEnd  int64
	acked     int64 // packets
	marked    int64
	lost      int64
	lossRuns  int   // rounds in a row with persistent loss
	cutAt     int64 // when the window was last cut
	delayed   bool  // a sample above the delay target in this round
	srtt      int64
	share     int64 // bits per second; 0: none
	shareTill int64
	shareFrom int64 // what a share may halve down to

	nanosPerByte int64 // 1/256 ns, of the pacing rate; 0: not paced
	nextAt       int64 // pacing: when the next packet is due
}

// Init starts a plane.
func (p *Plane) Init(c *Config, now int64) {
	*p = Plane{cfg: *c, slow: true, srtt: defaultRTT, cutAt: math.MinInt64 / 2}
	p.window = min(max(c.InitialPackets, 1)*c.PacketBytes, p.maxWindow())
	p.roundEnd = now + p.srtt
}

func (p *Plane) maxWindow() int64 { return max(p.cfg.MaxWindowBytes, p.cfg.PacketBytes) }

// Window is how many bytes may be in flight.
func (p *Plane) Window() int64 { return p.window }

// InFlight is how many bytes are in flight.
func (p *Plane) InFlight() int64 { return p.inFlight }

// Allowed says whether a packet of the given size may go now.
func (p *Plane) Allowed(now, bytes int64) bool {
	if p.inFlight+bytes > p.window && p.inFlight > 0 {
		return false
	}
	if p.window < p.cfg.PacketBytes {
		return p.inFlight == 0 && now >= p.nextAt
	}
	return p.rate(now) == 0 || p.nextAt <= now+p.burst()
}

// burst is how far ahead of its pace a sender may get.
func (p *Plane) burst() int64 {
	return max(burstNanos, burstPackets*p.cfg.PacketBytes*p.nanosPerByte>>8)
}

// NextAllowed is when pacing lets the next packet go; it is very late when only
// the window holds it back.
func (p *Plane) NextAllowed(now int64) int64 {
	if p.inFlight > 0 && p.inFlight+p.cfg.PacketBytes > p.window {
		return never
	}
	if p.window < p.cfg.PacketBytes {
		return p.nextAt
	}
	return max(p.nextAt-p.burst(), now)
}

// rate is the share in force, after its expiry was looked at.
func (p *Plane) rate(now int64) int64 {
	if p.share != 0 && now > p.shareTill {
		// No acknowledgment for a while: halve per lifetime, never below the
		// start rate (docs/PROTOCOL.md, "Expiry of a share").
		p.setShare(max(p.share/2, p.shareFrom), now)
	}
	return p.share
}

func (p *Plane) setShare(share, now int64) {
	p.share = share
	p.nanosPerByte = 8 * 1_000_000_000 * 256 / max(share, 1)
	gap := p.cfg.PacketBytes * p.nanosPerByte >> 8
	p.shareTill = now + max(shareRTTs*p.srtt, 4*gap, minShareLife)
}

// OnSent notes a packet that left.
func (p *Plane) OnSent(now, bytes int64) {
	p.inFlight += bytes
	if p.window < p.cfg.PacketBytes {
		// Less than a packet per round trip: the gap stretches.
		p.nextAt = now + p.srtt*p.cfg.PacketBytes/max(p.window, p.cfg.PacketBytes/minWindowDivisor)
		return
	}
	if p.nanosPerByte != 0 {
		p.nextAt = max(p.nextAt, now) + bytes*p.nanosPerByte>>8
	}
}

// OnRemoved takes bytes out of flight without judging: their path is gone.
func (p *Plane) OnRemoved(bytes int64) { p.inFlight = max(p.inFlight-bytes, 0) }

// OnLoss takes lost packets out of flight.
func (p *Plane) OnLoss(now, bytes, packets int64) {
	p.inFlight = max(p.inFlight-bytes, 0)
	p.lost += packets
	p.round(now)
}

// OnAck takes what an acknowledgment says.
func (p *Plane) OnAck(now int64, a Ack) {
	limited := p.inFlight*2 >= p.window // a window that is not used does not grow
	p.inFlight = max(p.inFlight-a.Bytes, 0)
	if a.SRTT > 0 {
		p.srtt = a.SRTT
	}
	p.acked += a.Packets
	p.marked += a.CEPackets
	if t := p.cfg.DelayTargetNanos; t > 0 && a.RTT > 0 && a.RTT > a.MinRTT+t {
		p.delayed = true
	}
	if a.CEPackets > 0 {
		p.slow = false
		p.cut(now, max(p.alpha, alphaOne*p.marked/max(p.acked, 1)/2))
	}
	if limited {
		if p.slow && !p.delayed {
			p.grow(a.Bytes)
		} else {
			p.grow(p.increase() * a.Bytes / max(p.window, 1))
		}
	}
	p.round(now)
}

// increase is how many bytes the window grows per round trip.
func (p *Plane) increase() int64 {
	perRTT := p.cfg.LinkBitsPerSec / 8 * min(p.srtt, 1_000_000_000) / 1_000_000_000
	return max(perRTT>>increaseShift, p.cfg.PacketBytes)
}

func (p *Plane) grow(bytes int64) { p.window = min(p.window+bytes, p.maxWindow()) }

// cut shrinks the window by half of a fraction, at most once per round trip.
func (p *Plane) cut(now, fraction int64) {
	if now-p.cutAt < p.srtt {
		return
	}
	p.cutAt = now
	p.window -= p.window * fraction / (2 * alphaOne)
	p.window = max(p.window, p.cfg.PacketBytes/minWindowDivisor)
}

// round ends a round trip: it moves the average of the marked fraction and
// judges loss and delay.
func (p *Plane) round(now int64) {
	if now < p.roundEnd {
		return
	}
	p.roundEnd = now + p.srtt
	if total := p.acked; total > 0 {
		p.alpha += (alphaOne*min(p.marked, total)/total - p.alpha) >> alphaShift
	}
	lossy := p.lost*256 > (p.acked+p.lost)*lossPersistent && p.lost > 2
	if lossy {
		p.lossRuns++
	} else {
		p.lossRuns = 0
	}
	switch {
	case p.lossRuns >= 2 && (p.marked > 0 || p.delayed):
		p.slow = false
		p.cut(now, alphaOne/2)
	case p.delayed:
		p.slow = false
		p.cut(now, alphaOne/8)
	}
	p.acked, p.marked, p.lost, p.delayed = 0, 0, 0, false
}

// OnShare takes the receiver's share for this sender on this plane, and how
// many packets a sender may start with after being idle.
func (p *Plane) OnShare(now, bitsPerSec, startAllowancePackets int64) {
	if bitsPerSec <= 0 {
		return
	}
	p.shareFrom = min(startAllowancePackets*p.cfg.PacketBytes*8*1_000_000_000/max(p.srtt, 1), bitsPerSec)
	if d := bitsPerSec - p.share; d > p.share/32 || -d > p.share/32 {
		p.setShare(bitsPerSec, now)
		return
	}
	gap := p.cfg.PacketBytes * p.nanosPerByte >> 8
	p.shareTill = now + max(shareRTTs*p.srtt, 4*gap, minShareLife)
}
