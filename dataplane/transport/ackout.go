package transport

import (
	"math/bits"

	"github.com/metaroced/metaroced/dataplane/wire"
	"github.com/metaroced/metaroced/pathsel"
)

const (
	maxReports    = 40 // path reports in one acknowledgment
	maxCredits    = 8  // credits in one acknowledgment
	shareUnitBits = 10_000
	maxHoldNanos  = 1<<32 - 1
)

// usable says whether packets on a plane have a chance to arrive.
func (c *Conn) usable(plane int) bool {
	return c.e.planeUp>>plane&1 != 0 && c.peerUp>>plane&1 != 0 && c.table.PlaneState(plane) != pathsel.Down
}

// otherPlane returns a usable plane other than one, or that one when there is
// none. Calls go round the planes.
func (c *Conn) otherPlane(not int) int {
	for range c.planes {
		c.nextPlane++
		if c.nextPlane >= c.planes {
			c.nextPlane = 0
		}
		if c.nextPlane != not && c.usable(c.nextPlane) {
			return c.nextPlane
		}
	}
	return not
}

// scheduleAck has a plane acknowledged now: on itself while it works, else on
// another.
func (c *Conn) scheduleAck(plane int) {
	on := plane
	if !c.usable(plane) {
		on = c.otherPlane(plane)
	}
	c.rx[on].ackMask |= 1 << plane
	c.ready(on)
}

// ackEverything reports every path and every credit, for a peer that has lost
// track.
func (c *Conn) ackEverything(on int) {
	if on >= c.planes || !c.usable(on) {
		on = c.otherPlane(0)
	}
	for p := range c.planes {
		r := &c.rx[p]
		for i := range r.paths {
			if r.paths[i].used {
				r.dirty |= 1 << i
			}
		}
	}
	for id, s := range c.recvS {
		if s != nil && !s.queued {
			s.queued = true
			c.creditQ.push(uint16(id))
		}
	}
	c.rx[on].ackMask |= uint8(1<<c.planes - 1)
	c.ready(on)
}

// announcePlanes tells the peer at once which of our links are up: on a usable
// plane, or on the one that has just come up while none is yet.
func (c *Conn) announcePlanes() {
	on := c.otherPlane(-1)
	if on < 0 {
		on = bits.TrailingZeros8(c.e.planeUp)
	}
	if on >= c.planes {
		return
	}
	c.rx[on].ackMask |= 1 << on
	c.ready(on)
}

// writeAck writes one ACK packet with the reports that wait for this plane.
func (c *Conn) writeAck(now int64, plane int, buf []byte, tx *Tx) int {
	h := c.header(wire.ACK, plane)
	on := &c.rx[plane]
	h.Path = on.lastPath
	tx.SourcePort = c.table.Path(plane, int(on.lastPath)).SourcePort
	body := buf[wire.HeaderSize : len(buf)-wire.TrailerSize]
	room := min(maxReports, (len(body)-wire.AckSize-maxCredits*wire.CreditSize)/wire.ReportSize)
	n := 0
	for mask := on.ackMask; mask != 0; mask &= mask - 1 {
		q := bits.TrailingZeros8(mask)
		n = c.reportPlane(now, q, body, n, room)
		if c.rx[q].dirty == 0 {
			on.ackMask &^= 1 << q
		}
	}
	if n < room && c.planes > 1 {
		n = c.reportOther(now, plane, body, n)
	}
	credits := 0
	for credits < maxCredits && c.creditQ.len() > 0 {
		id := c.creditQ.pop()
		s := c.recvS[id]
		s.queued = false
		s.limit = s.consumed + c.depth
		wire.PutCredit(body, n, credits, wire.Credit{Stream: id, MSNLimit: s.limit})
		credits++
	}
	if c.creditQ.len() > 0 {
		on.ackMask |= 1 << plane // the rest goes with another one at once
	}
	wire.PutAck(body, &wire.Ack{
		CumulativeDSN:  c.claims.next(),
		StartAllowance: uint16(c.e.alloc[plane].StartAllowance(now)),
		PlanesUp:       c.e.planeUp,
		ReportCount:    uint8(n),
		CreditCount:    uint8(credits),
	})
	return finish(buf, &h, wire.AckSize+n*wire.ReportSize+credits*wire.CreditSize)
}

// reportPlane appends reports of a plane's paths that have news.
func (c *Conn) reportPlane(now int64, plane int, body []byte, n, room int) int {
	r := &c.rx[plane]
	share := c.share(now, plane)
	for r.dirty != 0 && n < room {
		path := bits.TrailingZeros64(r.dirty)
		r.dirty &= r.dirty - 1
		c.putReport(now, plane, path, share, body, n)
		n++
	}
	r.unacked = 0
	r.ackAt = never
	return n
}

// reportOther appends the newest report of one path of another plane, in turn:
// the peer learns of a plane whose way back is broken.
func (c *Conn) reportOther(now int64, plane int, body []byte, n int) int {
	c.reportRR++
	if c.reportRR >= c.planes {
		c.reportRR = 0
	}
	q := c.reportRR
	if r := &c.rx[q]; q != plane && r.paths[r.lastPath].used {
		c.putReport(now, q, int(r.lastPath), c.share(now, q), body, n)
		n++
	}
	return n
}

func (c *Conn) putReport(now int64, plane, path int, share uint32, body []byte, n int) {
	p := &c.rx[plane].paths[path]
	p.wasClean, p.told = p.marked == p.told, p.marked
	wire.PutReport(body, n, &wire.PathReport{
		Plane: uint8(plane), Path: uint8(path), Epoch: p.epoch,
		HighestPSN: p.highest, PacketCount: p.packets, CECount: p.marked,
		EchoTimestamp: p.echo, HoldTime: uint32(min(now-p.echoAt, maxHoldNanos)),
		Bits: p.bits, Share: share,
	})
}

// share is what this receiver allots to this sender on a plane, in units of
// 10 kb/s. It first tells the allocator what has arrived.
func (c *Conn) share(now int64, plane int) uint32 {
	r := &c.rx[plane]
	a := &c.e.alloc[plane]
	if !r.allocated {
		if r.bytes == 0 {
			return 0
		}
		r.sender, r.allocated = a.Add(now)
		if !r.allocated {
			return 0
		}
	}
	if r.bytes > 0 {
		a.OnArrival(now, r.sender, r.bytes, r.backlog)
		r.bytes = 0
	}
	return uint32(min(a.Share(now, r.sender)/shareUnitBits, 1<<32-1))
}
