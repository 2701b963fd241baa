package congestion

// Fixed-point scale of pacing.costPerByte: 2^20 keeps 100 Gb/s exact to one in
// 80,000 and the slowest pace inside 64 bits.
const costShift = 20

const (
	// minPaceBits is the slowest pace, the unit of shares on the wire.
	minPaceBits = 10_000
	// maxPaceBits bounds shares, so that the arithmetic cannot overflow.
	maxPaceBits = 10_000_000_000_000
	// A share lives shareRTTs round trips or shareGaps packet gaps at its own
	// rate, whichever is longer: the time in which an acknowledgment must come
	// if anything is sent and arrives.
	shareRTTs = 8
	shareGaps = 4
)

// pacing is a virtual clock: each packet moves due by the time it takes at the
// current pace; a packet may go while due is at most burst ahead of now.
type pacing struct {
	share       int64 // bits/s, halved by expiry; 0: none, unpaced
	allowance   int64 // start allowance in packets
	expires     int64 // when share halves; never without one
	stale       bool  // expired at least once since the last OnShare
	costPerByte int64 // nanoseconds << costShift
	due         int64
	dueFraction int64 // nanoseconds << costShift, below one nanosecond
	burst       int64 // nanoseconds
	gapEnd      int64 // end of the gap that windows under one packet impose
}

// spend moves the clock by what bytes take.
func (s *pacing) spend(now, bytes int64) {
	cost := bytes*s.costPerByte + s.dueFraction
	s.due = max(s.due, now) + cost>>costShift
	s.dueFraction = cost & (1<<costShift - 1)
}

// OnShare takes the receiver's share for this sender, in bits per second on
// the wire, and the start allowance in packets. A share of zero or less is no
// news. Shares only raise the pace, never the window.
func (p *Plane) OnShare(now, bitsPerSec, startAllowancePackets int64) {
	if bitsPerSec <= 0 {
		return
	}
	s := &p.pace
	s.allowance = max(1, startAllowancePackets)
	bitsPerSec = min(max(bitsPerSec, minPaceBits), maxPaceBits)
	if bitsPerSec != s.share || s.stale {
		s.share = bitsPerSec
		s.stale = false
		p.setPace(now)
		p.updateRampCap()
	}
	s.expires = now + p.shareLife()
}

// shareLife is how long the present share holds without news.
func (p *Plane) shareLife() int64 {
	gap := p.cfg.PacketBytes * p.pace.costPerByte >> costShift
	return max(shareRTTs*p.rtt(), shareGaps*gap)
}

// startRate is the pace expiry does not go below: the start allowance, one
// packet at least, in every RTT.
func (p *Plane) startRate() int64 {
	return max(mulDiv(8*p.pace.allowance*p.cfg.PacketBytes, nanosPerSec, p.rtt()), minPaceBits)
}

// expireShare halves the share for every lifetime that passed without news,
// down to the start rate. It never raises it.
func (p *Plane) expireShare(now int64) {
	s := &p.pace
	floor := p.startRate()
	for now >= s.expires {
		s.stale = true
		if s.share <= floor {
			s.expires = now + p.shareLife()
			break
		}
		s.share = max(s.share/2, floor)
		p.setPace(now)
		s.expires += p.shareLife()
	}
	p.setPace(now)
	p.updateRampCap()
}

// setPace computes the pace from the share. The share counts arrivals, so what
// the network loses is sent on top. What was sent ahead of the old pace is
// owed at the new one, as far as the new burst goes.
func (p *Plane) setPace(now int64) {
	s := &p.pace
	if s.share == 0 {
		return
	}
	before := s.costPerByte
	lost := min(p.loss.average, maxLossCompensation)
	rate := s.share * fractionOne / (fractionOne - lost)
	s.costPerByte = (8 * nanosPerSec << costShift) / rate
	packet := p.cfg.PacketBytes * s.costPerByte >> costShift
	s.burst = max(p.cfg.BurstNanos, (burstPackets-1)*packet)
	if s.stale {
		// Nobody vouches for this pace: no burst above the start allowance.
		s.burst = (s.allowance - 1) * packet
	}
	if owed := s.due - now; owed > 0 && before > 0 {
		s.due = now + min(mulDiv(owed, s.costPerByte, before), s.burst)
	}
}

// updateRampCap bounds doubling by what the share can use: twice its
// bandwidth-delay product.
func (p *Plane) updateRampCap() {
	p.rampCap = p.cfg.MaxWindowBytes
	if p.pace.share > 0 {
		use := 2 * bytesIn(p.pace.share, p.rtt()+rampSlackNanos)
		p.rampCap = min(p.rampCap, max(use, p.initialWindow()))
	}
}
