package transport

import (
	"math/bits"

	"github.com/metaroced/metaroced/congestion"
	"github.com/metaroced/metaroced/dataplane/wire"
	"github.com/metaroced/metaroced/pathsel"
)

// maxRTTNanos is the longest round trip that a sample may claim.
const maxRTTNanos = 4_000_000_000

// handleAck takes one ACK packet: cumulative DSN, planes, path reports,
// credits.
func (c *Conn) handleAck(now int64, plane int, body []byte) {
	e := c.e
	a := &e.scratch.ack
	if r := wire.ParseAck(body, a); r != 0 {
		e.Counters.Wire[r]++
		return
	}
	if a.CumulativeDSN > c.log.next {
		e.Counters.AckInvalid++
		return
	}
	c.advanceCumulative(a.CumulativeDSN)
	if a.PlanesUp != c.peerUp {
		c.peerPlanes(now, a.PlanesUp)
	}
	for i := range int(a.ReportCount) {
		r := &e.scratch.report
		a.Report(i, r)
		c.handleReport(now, plane, r, int64(a.StartAllowance))
	}
	for i := range int(a.CreditCount) {
		k := a.Credit(i)
		c.credit(k.Stream, k.MSNLimit)
	}
	if c.closing.wanted {
		c.maybeClose(now)
	}
	c.wake()
}

// advanceCumulative resolves every DSN the peer has placed.
func (c *Conn) advanceCumulative(to wire.DSN) {
	for c.log.cumulative < to {
		r := c.log.at(c.log.cumulative)
		if r.state != recordAcked {
			r.state = recordAcked
			c.acknowledged(r.msg)
		}
		c.log.cumulative++
	}
}

// handleReport takes the news of one path.
func (c *Conn) handleReport(now int64, arrival int, r *wire.PathReport, allowance int64) {
	e := c.e
	if int(r.Plane) >= c.planes || int(r.Path) >= c.paths {
		e.Counters.AckInvalid++
		return
	}
	plane, path := int(r.Plane), int(r.Path)
	t := &c.tx[plane]
	s := &t.paths[path]
	info := c.table.Path(plane, path)
	if r.Epoch != info.Epoch {
		return // drains: nothing is inferred across epochs
	}
	if int32(r.HighestPSN-s.next) >= 0 {
		e.Counters.AckInvalid++
		return
	}
	if r.Share != 0 {
		t.cc.OnShare(now, int64(r.Share)*shareUnitBits, allowance)
	}
	var ack congestion.Ack
	lost, lostBytes := c.resolve(now, plane, path, r, &ack)
	if fresh := int32(r.PacketCount - s.lastPackets); fresh > 0 {
		if marked := int32(r.CECount - s.lastMarked); marked > 0 {
			ack.CEPackets = int64(min(marked, fresh))
		}
		s.lastPackets, s.lastMarked = r.PacketCount, r.CECount
		// Only news counts as a sign of life: old reports are repeated on
		// other planes.
		t.lastHeard, t.silent, t.backoff = now, 0, 0
		c.table.Heard(now, plane, path)
	}
	if ack.Packets > 0 || ack.CEPackets > 0 {
		if arrival == plane && r.HoldTime != maxHoldNanos {
			if rtt := int64(uint32(now) - r.EchoTimestamp - r.HoldTime); rtt > 0 && rtt < maxRTTNanos {
				ack.RTT = rtt
			}
		}
		c.table.OnAcked(now, plane, path, int(ack.Packets), int(ack.CEPackets), ack.RTT)
		ack.SRTT, ack.MinRTT = c.table.PlaneSRTT(plane), c.table.PlaneMinRTT(plane)
		t.cc.OnAck(now, ack)
	}
	if lost > 0 {
		c.table.OnLost(now, plane, path, lost)
		t.cc.OnLoss(now, lostBytes, int64(lost))
	}
	s.settle()
	c.popRuns(plane)
	e.deadline.arm(c, c.runDeadline(plane)) // news ends the doublings of the timer
}

// resolve goes over the path's unresolved PSNs up to the highest reported: a
// set bit is an arrival; a clear one further below the highest than the
// reordering allowance is a loss; one below the vector is unknown.
func (c *Conn) resolve(now int64, plane, path int, r *wire.PathReport, ack *congestion.Ack) (lost int, lostBytes int64) {
	s := &c.tx[plane].paths[path]
	allowance := uint32(c.e.cfg.ReorderPackets)
	for psn := s.una; int32(r.HighestPSN-psn) >= 0; psn++ {
		p := s.at(psn)
		if p.state != sentOut {
			continue
		}
		behind := uint32(r.HighestPSN - psn)
		switch {
		case behind < bitvectorPackets && r.Bits[behind>>6]>>(behind&63)&1 != 0:
			p.state = sentAcked
			ack.Packets++
			ack.Bytes += int64(p.bytes)
			c.arrivedAtPeer(p.dsn, plane, path, psn)
		case behind >= bitvectorPackets:
			// Unknown: done if the cumulative DSN covers it, else sent again;
			// no loss sample.
			p.state = sentLost
			c.tx[plane].cc.OnRemoved(int64(p.bytes))
			c.table.OnRemoved(plane, path, 1)
			c.resend(p.dsn, plane, path, psn, false)
		case behind > allowance:
			p.state = sentLost
			lost++
			lostBytes += int64(p.bytes)
			c.resend(p.dsn, plane, path, psn, false)
		}
	}
	return lost, lostBytes
}

// arrivedAtPeer resolves the DSN that a transmission carried.
func (c *Conn) arrivedAtPeer(d wire.DSN, plane, path int, psn wire.PSN) {
	if d < c.log.cumulative {
		return
	}
	r := c.log.at(d)
	if r.state == recordAcked {
		return
	}
	if r.losses > 0 && (r.psn != psn || int(r.path) != path || int(r.plane) != plane || r.state == recordQueued) {
		// An earlier copy arrived after all: the repair was not needed.
		c.stats.Spurious++
		c.e.Counters.Spurious++
	}
	r.state = recordAcked
	c.acknowledged(r.msg)
}

// resend queues a DSN whose newest copy is gone: on the path that lost it, or
// on another plane when it was lost before or its path is in doubt. It returns
// whether the DSN was still missing.
func (c *Conn) resend(d wire.DSN, plane, path int, psn wire.PSN, elsewhere bool) bool {
	if d < c.log.cumulative {
		return false
	}
	r := c.log.at(d)
	if r.state != recordSent || r.psn != psn || int(r.path) != path || int(r.plane) != plane {
		return false // acknowledged, queued, or a newer copy is on its way
	}
	r.state = recordQueued
	if r.losses < 255 {
		r.losses++
	}
	on := plane
	if elsewhere || r.losses > 1 || !c.usable(plane) || c.table.Path(plane, path).State != pathsel.Active {
		on = c.otherPlane(plane)
	}
	c.tx[on].resend.push(d)
	c.ready(on)
	return true
}

// popRuns takes resolved runs out of the tail timer's view.
func (c *Conn) popRuns(plane int) {
	t := &c.tx[plane]
	for t.runs.len() > 0 {
		f := t.runs.front()
		if int32(t.paths[f.path].una-f.last) <= 0 {
			return
		}
		t.runs.pop()
	}
}

// peerPlanes notes which of the peer's links are up.
func (c *Conn) peerPlanes(now int64, up uint8) {
	changed := (c.peerUp ^ up) & uint8(1<<c.planes-1)
	c.peerUp = up
	for ; changed != 0; changed &= changed - 1 {
		c.planeChanged(now, bits.TrailingZeros8(changed))
	}
}

// planeChanged follows a plane whose link, here or at the peer, came or went.
func (c *Conn) planeChanged(now int64, plane int) {
	up := c.e.planeUp>>plane&1 != 0 && c.peerUp>>plane&1 != 0
	c.table.SetPlaneUp(plane, up)
	if !up {
		c.stats.PlaneFailures++
		c.evacuate(plane)
	}
	c.e.deadline.arm(c, min(c.table.ProbeDeadline(), now+c.e.cfg.MinRTONanos))
	c.wake()
}

// evacuate moves everything outstanding on a plane to others.
func (c *Conn) evacuate(plane int) {
	t := &c.tx[plane]
	for path := range t.paths {
		c.evacuatePath(plane, path)
	}
	t.runs = fifo[run]{}
	if on := c.otherPlane(plane); on != plane {
		for t.resend.len() > 0 {
			c.tx[c.otherPlane(plane)].resend.push(t.resend.pop())
		}
	}
	r := &c.rx[plane]
	if mask := r.ackMask | uint8(1)<<plane; r.dirty != 0 || r.ackMask != 0 {
		on := c.otherPlane(plane)
		r.ackMask = 0
		c.rx[on].ackMask |= mask
	}
	c.wake()
}

// evacuatePath resends what one path has outstanding elsewhere.
func (c *Conn) evacuatePath(plane, path int) {
	t := &c.tx[plane]
	s := &t.paths[path]
	removed := 0
	for psn := s.una; psn != s.next; psn++ {
		p := s.at(psn)
		if p.state != sentOut {
			continue
		}
		p.state = sentLost
		t.cc.OnRemoved(int64(p.bytes))
		removed++
		c.resend(p.dsn, plane, path, psn, true)
	}
	s.settle()
	if removed > 0 {
		c.table.OnRemoved(plane, path, removed)
	}
}

// forgetFlight drops everything outstanding: the connection is over.
func (c *Conn) forgetFlight() {
	for plane := range c.planes {
		t := &c.tx[plane]
		for path := range t.paths {
			s := &t.paths[path]
			for ; s.una != s.next; s.una++ {
				if p := s.at(s.una); p.state == sentOut {
					p.state = sentNone
					t.cc.OnRemoved(int64(p.bytes))
					c.table.OnRemoved(plane, path, 1)
				}
			}
		}
		t.runs = fifo[run]{}
		t.resend = fifo[wire.DSN]{}
	}
	c.log.cumulative = c.log.next
}
