package congestion

import "math"

const (
	never       = math.MaxInt64
	nanosPerSec = 1_000_000_000
)

// Ack is what one acknowledgment report resolved on the plane.
type Ack struct {
	Bytes     int64 // on the wire, newly acknowledged; they leave the flight
	Packets   int64 // newly acknowledged
	CEPackets int64 // of these, or of duplicates: arrived with a congestion mark
	RTT       int64 // nanoseconds; 0: no sample
	SRTT      int64 // the plane's smoothed RTT; 0: unknown
	MinRTT    int64 // the plane's least recent RTT; 0: unknown
}

// Plane is the sender's congestion state of one connection on one plane. The
// zero value is unusable; call Init.
type Plane struct {
	cfg      Config
	window   int64
	inFlight int64
	peak     int64 // largest flight of this round
	lastSent int64
	ramping  bool // no mark yet: double per RTT
	rampCap  int64
	srtt     int64
	baseRTT  int64
	round    round
	loss     lossSample
	pace     pacing
}

// round collects what one RTT brought.
type round struct {
	end                 int64
	acked, marked, lost int64 // packets
	leastRTT            int64 // 0: no sample
}

// lossSample collects rounds until they hold enough packets to judge loss by.
type lossSample struct {
	acked, lost int64
	witnessed   bool  // marks or delay in the same time
	heavyRun    int   // heavy samples in a row
	average     int64 // moving average in 1/fractionOne
}

// Init starts the plane with the initial window and no share. The
// configuration is copied.
func (p *Plane) Init(c *Config, now int64) {
	*p = Plane{cfg: c.normalized(), ramping: true, lastSent: now}
	p.window = min(p.initialWindow(), p.cfg.MaxWindowBytes)
	p.round.end = now + unknownRTTNanos
	p.pace.expires = never
	p.rampCap = p.cfg.MaxWindowBytes
}

// Window returns the current window in bytes, from 1/64 of a packet up.
func (p *Plane) Window() int64 { return p.window }

// InFlight returns the bytes sent and neither acknowledged, lost nor removed.
func (p *Plane) InFlight() int64 { return p.inFlight }

// Allowed says whether a packet of that many bytes may be sent now. With
// nothing in flight a packet is always allowed but for pacing: the window never
// blocks for ever.
func (p *Plane) Allowed(now, bytes int64) bool {
	if now >= p.pace.expires {
		p.expireShare(now)
	}
	if p.inFlight+bytes > p.window && p.inFlight > 0 {
		return false
	}
	if p.pace.due-p.pace.burst > now {
		return false
	}
	return p.window >= p.cfg.PacketBytes || now >= p.pace.gapEnd
}

// NextAllowed returns the earliest time at which pacing allows a full packet,
// now if it does already, and the largest int64 when the window blocks: then
// only an acknowledgment or a loss can open it.
func (p *Plane) NextAllowed(now int64) int64 {
	if p.inFlight+p.cfg.PacketBytes > p.window && p.inFlight > 0 {
		return never
	}
	at := max(now, p.pace.due-p.pace.burst)
	if p.window < p.cfg.PacketBytes {
		at = max(at, p.pace.gapEnd)
	}
	return at
}

// OnSent puts a packet in flight.
func (p *Plane) OnSent(now, bytes int64) {
	if p.inFlight == 0 && now-p.lastSent > idleNanos {
		p.restart(now)
	}
	p.lastSent = now
	p.inFlight += bytes
	p.peak = max(p.peak, p.inFlight)
	p.pace.spend(now, bytes)
	if p.window < p.cfg.PacketBytes {
		p.pace.gapEnd = now + mulDiv(p.rtt(), p.cfg.PacketBytes, p.window)
	}
}

// OnRemoved takes bytes out of flight without a verdict: their path went down,
// or a newer copy supersedes them.
func (p *Plane) OnRemoved(bytes int64) {
	p.inFlight = max(0, p.inFlight-bytes)
}

// OnAck takes one acknowledgment report; call it once per report, not per
// packet.
func (p *Plane) OnAck(now int64, a Ack) {
	p.inFlight = max(0, p.inFlight-a.Bytes)
	r := &p.round
	r.acked += a.Packets
	r.marked += a.CEPackets
	if a.SRTT > 0 {
		if p.srtt == 0 {
			r.end = min(r.end, now+a.SRTT)
		}
		p.srtt = a.SRTT
	}
	if a.MinRTT > 0 {
		p.baseRTT = a.MinRTT
	}
	if a.RTT > 0 && (r.leastRTT == 0 || a.RTT < r.leastRTT) {
		r.leastRTT = a.RTT
	}
	if p.ramping {
		if r.marked > 0 {
			p.ramping = false
		} else if p.window < p.rampCap && p.mayGrow() {
			p.window = min(p.window+a.Bytes, p.rampCap)
		}
	}
	if now >= r.end {
		p.endRound(now)
	}
}

// OnLoss takes lost bytes out of flight. Loss is repaired, not punished: the
// window shrinks only when more than a fifth of the packets is lost in two
// samples in a row, each at least an RTT and 64 packets, while marks or delay
// say that a queue is full; or more than half, whatever they say, since a
// network may have no marks and a host no delay target. Without marks or delay
// it does not shrink below one packet.
func (p *Plane) OnLoss(now, bytes, packets int64) {
	p.inFlight = max(0, p.inFlight-bytes)
	p.round.lost += packets
	if now >= p.round.end {
		p.endRound(now)
	}
}

func (p *Plane) initialWindow() int64 { return p.cfg.InitialPackets * p.cfg.PacketBytes }

// mayGrow says whether the window, not the application or the pace, limited
// this round: only then has it proved too small. Under persistent loss it has
// proved large enough.
func (p *Plane) mayGrow() bool { return 2*p.peak >= p.window && p.loss.heavyRun == 0 }

// rtt is the round's length.
func (p *Plane) rtt() int64 {
	if p.srtt == 0 {
		return unknownRTTNanos
	}
	return p.srtt
}

// restart forgets a window that is too old to say anything: the first round
// after idling is like the first of all.
func (p *Plane) restart(now int64) {
	if now-p.lastSent <= idleRTTs*p.rtt() {
		return
	}
	p.window = min(p.window, p.initialWindow())
	p.ramping = true
	p.round = round{end: now + p.rtt()}
	p.loss = lossSample{average: p.loss.average}
	p.peak = 0
}

// endRound moves the window by what the round brought.
func (p *Plane) endRound(now int64) {
	r := &p.round
	rtt := p.rtt()
	delayed := p.decreaseForDelay()
	if r.marked > 0 {
		p.ramping = false
		seen := max(r.acked, r.marked)
		p.window -= mulDiv(p.window, r.marked, 2*seen)
	}
	if !p.ramping && !delayed && p.mayGrow() {
		step := bytesIn(p.cfg.IncreaseBitsPerSec, rtt)
		if r.marked > 0 {
			seen := max(r.acked, r.marked)
			step = mulDiv(step, seen-r.marked, seen)
		}
		p.window += step
	}
	p.judgeLoss(now, delayed)
	p.window = min(max(p.window, p.cfg.PacketBytes/minWindowFraction, 1), p.cfg.MaxWindowBytes)
	*r = round{end: now + rtt}
	p.peak = p.inFlight
	p.updateRampCap()
}

// decreaseForDelay is the milder signal: when even the round's least RTT is
// above the target, the window loses up to a quarter. The least, since noise
// only ever adds.
func (p *Plane) decreaseForDelay() bool {
	target := p.cfg.DelayTargetNanos
	if target == 0 || p.round.leastRTT == 0 || p.baseRTT == 0 {
		return false
	}
	delay := p.round.leastRTT - p.baseRTT
	if delay <= target {
		return false
	}
	p.ramping = false
	p.window -= mulDiv(p.window, delay-target, 4*delay)
	return true
}

// judgeLoss adds the round to the loss sample, and judges it once it is large
// enough.
func (p *Plane) judgeLoss(now int64, delayed bool) {
	s := &p.loss
	s.acked += p.round.acked
	s.lost += p.round.lost
	s.witnessed = s.witnessed || delayed || p.round.marked > 0
	total := s.acked + s.lost
	if total < lossSamplePackets {
		return
	}
	fraction := s.lost * fractionOne / total
	before := s.average
	s.average += (fraction - s.average) / 4
	heavy := s.lost*heavyLoss > total && (s.witnessed || s.lost*ruinousLoss > total)
	if !heavy {
		s.heavyRun = 0
	} else if s.heavyRun++; s.heavyRun >= heavySamples {
		p.ramping = false
		shrunk := p.window - mulDiv(p.window, fraction, 2*fractionOne)
		if !s.witnessed {
			shrunk = max(shrunk, min(p.window, p.cfg.PacketBytes))
		}
		p.window = shrunk
	}
	s.acked, s.lost, s.witnessed = 0, 0, false
	if s.average != before {
		p.setPace(now)
	}
}
