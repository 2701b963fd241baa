package transport

import (
	"fmt"

	"github.com/metaroced/metaroced/pathsel"
)

const (
	maxBackoff        = 6           // doublings of a plane's timer
	maxTimeoutNanos   = 500_000_000 // longest tail timeout
	creditMinNanos    = 1_000_000   // first pause before asking for credit
	creditMaxNanos    = 100_000_000
	silentPlanePacket = 8 // packets without any answer that condemn a plane others outlive
)

// runDeadline is when the oldest run of a plane counts as lost.
func (c *Conn) runDeadline(plane int) int64 {
	t := &c.tx[plane]
	if t.runs.len() == 0 {
		return never
	}
	return t.runs.front().sentAt + min(c.table.RTO(plane)<<t.backoff, maxTimeoutNanos)
}

// nextDeadline is the earliest time at which this connection wants attention.
func (c *Conn) nextDeadline(now int64) int64 {
	at := never
	switch c.state {
	case stateConnecting, stateIncoming, stateAccepting:
		at = min(c.setup.at, c.setup.until)
	case stateClosing:
		at = c.closing.at
	case stateDead:
		if c.closing.reset {
			at = c.closing.at
		}
		return min(at, c.closing.freeAt)
	}
	if !c.state.carriesData() {
		return at
	}
	for p := range c.planes {
		at = min(at, c.rx[p].ackAt, c.runDeadline(p), c.tx[p].wakeAt)
	}
	at = min(at, c.table.ProbeDeadline(), c.creditAt)
	cfg := &c.e.cfg
	return min(at, max(c.lastHeard, c.keepAlive)+cfg.KeepAliveNanos, c.lastHeard+cfg.ConnectionTimeoutNanos)
}

// handleDeadline does everything of this connection that is due.
func (c *Conn) handleDeadline(now int64) {
	switch c.state {
	case stateConnecting, stateIncoming, stateAccepting:
		c.setupDeadline(now)
	case stateClosing, stateDead:
		c.closeDeadline(now)
	}
	if !c.state.carriesData() {
		return
	}
	cfg := &c.e.cfg
	if now-c.lastHeard >= cfg.ConnectionTimeoutNanos {
		c.fail(now, StatusSilent, fmt.Sprintf("peer silent on every path for %d ms (connection_timeout)", (now-c.lastHeard)/1_000_000))
		return
	}
	for p := range c.planes {
		if c.rx[p].ackAt <= now {
			c.rx[p].ackAt = never
			c.scheduleAck(p)
		}
		if c.tx[p].wakeAt <= now {
			c.tx[p].wakeAt = never
			c.ready(p)
		}
		c.expireRuns(now, p)
	}
	c.probeDue(now)
	for p := range c.planes {
		// Paths can go down one by one until a plane has none left.
		if t := &c.tx[p]; !c.usable(p) && t.runs.len()+t.resend.len() > 0 && c.otherPlane(p) != p {
			c.evacuate(p)
		}
	}
	if c.creditAt <= now {
		c.askCredit(now)
	}
	if now-max(c.lastHeard, c.keepAlive) >= cfg.KeepAliveNanos {
		c.keepAlive = now
		c.keepAliveProbe()
	}
}

// keepAliveProbe asks whether the peer is there: on a usable plane, or on every
// plane whose link is up here when none is, since what is known of the peer's
// links may be out of date.
func (c *Conn) keepAliveProbe() {
	if on := c.otherPlane(-1); on >= 0 {
		c.queueProbe(on, 0)
		return
	}
	for p := range c.planes {
		if c.e.planeUp>>p&1 != 0 {
			c.queueProbe(p, 0)
		}
	}
}

// probeDue queues the probes that the path table asks for.
func (c *Conn) probeDue(now int64) {
	for {
		plane, path, ok := c.table.NextProbe(now)
		if !ok {
			break
		}
		c.queueProbe(plane, path)
	}
}

// expireRuns gives up runs that were not acknowledged in time: their packets
// go out again elsewhere, and the silent path is probed.
func (c *Conn) expireRuns(now int64, plane int) {
	t := &c.tx[plane]
	c.popRuns(plane)
	expired, freed := false, false
	for t.runs.len() > 0 && c.runDeadline(plane) <= now {
		f := t.runs.pop()
		unheard := t.lastHeard < f.sentAt
		n := c.expireRun(now, plane, &f)
		freed = freed || n > 0
		if n > 0 && unheard {
			t.silent += n
			expired = true
		}
	}
	if freed {
		c.ready(plane) // what expired has left the window
	}
	if expired && t.backoff < maxBackoff {
		t.backoff++
	}
	if t.silent >= silentPlanePacket && c.otherPlaneAlive(plane) {
		t.silent = 0
		c.table.PlaneSilent(now, plane)
		c.stats.PlaneFailures++
		c.evacuate(plane)
	}
}

// expireRun declares what is left of a run lost and returns how many packets
// that were.
func (c *Conn) expireRun(now int64, plane int, f *run) int {
	t := &c.tx[plane]
	path := int(f.path)
	s := &t.paths[path]
	lost := 0
	var bytes int64
	for psn := f.first; int32(f.last-psn) >= 0; psn++ {
		p := s.at(psn)
		if int32(psn-s.una) < 0 || p.state != sentOut {
			continue
		}
		p.state = sentLost
		lost++
		bytes += int64(p.bytes)
		if c.resend(p.dsn, plane, path, psn, true) {
			c.stats.ByTimer++
			c.e.Counters.RetransmissionTimer++
		}
	}
	if lost == 0 {
		return 0
	}
	s.settle()
	t.cc.OnLoss(now, bytes, int64(lost))
	c.table.OnLost(now, plane, path, lost)
	if c.table.Path(plane, path).LastHeard < f.sentAt && c.table.OnTimeout(now, plane, path) == pathsel.Down {
		c.evacuatePath(plane, path)
	}
	return lost
}

// otherPlaneAlive says whether some other plane was heard from since this one
// fell silent. When every plane is silent it is the peer that is, and
// condemning planes would not help.
func (c *Conn) otherPlaneAlive(plane int) bool {
	t := &c.tx[plane]
	for p := range c.planes {
		if p != plane && c.usable(p) && c.tx[p].lastHeard > t.lastHeard+c.table.RTO(plane) {
			return true
		}
	}
	return false
}

// waitForCredit arranges to ask when the peer's credit does not come.
func (c *Conn) waitForCredit(now int64) {
	if c.creditAt != never {
		return
	}
	c.creditWait = max(4*c.table.PlaneSRTT(0), creditMinNanos)
	c.creditAt = now + c.creditWait
	c.e.deadline.arm(c, c.creditAt)
}

// askCredit asks for a full acknowledgment, which carries every credit.
func (c *Conn) askCredit(now int64) {
	c.creditAt = never
	blocked := false
	for _, s := range c.sendS {
		if s != nil && s.waiting.len() > 0 && !s.active {
			blocked = true
		}
	}
	if !blocked {
		return
	}
	c.creditWait = min(2*c.creditWait, creditMaxNanos)
	c.creditAt = now + c.creditWait
	plane := c.otherPlane(-1)
	c.queueProbe(plane, 0)
	if plane >= 0 {
		c.tx[plane].fullAck = true
	}
}
