package congestion

import "math/rand/v2"

const simPacket = 4096

// bottleneck is a FIFO link: a packet leaves when those before it have, is
// marked when it waits longer than markNanos and dropped beyond dropNanos.
type bottleneck struct {
	bitsPerSec           int64
	markNanos, dropNanos int64
	freeAt               int64
	lossPerMille         int // random, before the queue
	rng                  *rand.Rand
	drops, carried       int64
}

// pass returns when the packet has crossed; dropped ones never do.
func (b *bottleneck) pass(now, bytes int64) (at int64, ce, ok bool) {
	if b.lossPerMille > 0 && b.rng.IntN(1000) < b.lossPerMille {
		return 0, false, false
	}
	wait := max(0, b.freeAt-now)
	if wait > b.dropNanos {
		b.drops++
		return 0, false, false
	}
	b.freeAt = now + wait + bytes*8*nanosPerSec/b.bitsPerSec
	b.carried++
	return b.freeAt, wait > b.markNanos, true
}

// arrival is a packet on its way, or the news that it is not.
type arrival struct {
	sentAt, ackAt int64
	ce, lost      bool
}

// flow is a greedy sender with a constant base RTT, all of it behind the link.
type flow struct {
	Plane
	baseRTT   int64
	startAt   int64
	flying    []arrival // in the order of their acknowledgment
	delivered int64     // packets
	srtt      int64
	id        int // in the allocator, if any
	joined    bool
	backlog   int64 // packets left; negative: endless
	doneAt    int64
}

// step takes what is due and sends what is allowed.
func (f *flow) step(now int64, b *bottleneck, a *Allocator) {
	if now < f.startAt {
		return
	}
	f.receive(now, a)
	for f.backlog != 0 && f.Allowed(now, simPacket) {
		at, ce, ok := b.pass(now, simPacket)
		f.OnSent(now, simPacket)
		n := arrival{sentAt: now, ackAt: at + f.baseRTT, ce: ce}
		if !ok {
			// A later packet of the path shows the gap: about an RTT.
			n.ackAt, n.lost = now+max(f.srtt, f.baseRTT), true
			if k := len(f.flying); k > 0 {
				n.ackAt = max(n.ackAt, f.flying[k-1].ackAt)
			}
		} else {
			f.backlog--
		}
		f.flying = append(f.flying, n)
	}
}

// receive acknowledges what is due in one report.
func (f *flow) receive(now int64, a *Allocator) {
	var ack Ack
	var lost int64
	n := 0
	for ; n < len(f.flying) && f.flying[n].ackAt <= now; n++ {
		p := &f.flying[n]
		if p.lost {
			lost++
			continue
		}
		ack.Packets++
		ack.Bytes += simPacket
		ack.RTT = now - p.sentAt
		if p.ce {
			ack.CEPackets++
		}
	}
	f.flying = f.flying[n:]
	if ack.Packets > 0 {
		if f.srtt == 0 {
			f.srtt = ack.RTT
		}
		f.srtt += (ack.RTT - f.srtt) / 8
		ack.SRTT, ack.MinRTT = f.srtt, f.baseRTT
		f.delivered += ack.Packets
		if a != nil {
			if !f.joined {
				f.id, f.joined = a.Add(now)
			}
			a.OnArrival(now, f.id, ack.Bytes, max(f.backlog, -f.backlog)*simPacket)
			f.OnShare(now, a.Share(now, f.id), a.StartAllowance(now))
		}
		f.OnAck(now, ack)
		if f.backlog == 0 && len(f.flying) == 0 && f.doneAt == 0 {
			f.doneAt = now
		}
	}
	if lost > 0 {
		f.OnLoss(now, lost*simPacket, lost)
	}
}

// run advances all flows through one bottleneck in steps of one microsecond.
func run(from, to int64, b *bottleneck, a *Allocator, flows []*flow) {
	for now := from; now < to; now += 1000 {
		for i := range flows {
			// Whoever is asked first must not always win.
			flows[(i+int(now/1000))%len(flows)].step(now, b, a)
		}
	}
}

func newFlow(rtt int64, cfg Config) *flow {
	f := &flow{baseRTT: rtt, backlog: -1}
	cfg.PacketBytes = simPacket
	f.Init(&cfg, 0)
	return f
}

// jain is Jain's fairness index of what the flows delivered: 1 is equal.
func jain(delivered []int64) float64 {
	var sum, squares float64
	for _, d := range delivered {
		sum += float64(d)
		squares += float64(d) * float64(d)
	}
	return sum * sum / (squares * float64(len(delivered)))
}
