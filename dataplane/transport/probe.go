package transport

import (
	"math/bits"

	"github.com/metaroced/metaroced/dataplane/wire"
	"github.com/metaroced/metaroced/pathsel"
)

const (
	// maxProbeAcks bounds probe answers that wait on one plane.
	maxProbeAcks = 16
	// restartAnswers is how many answers from a host that does not know the
	// connection end it.
	restartAnswers = 3
)

// queueProbe lets a path be probed; a negative plane is none.
func (c *Conn) queueProbe(plane, path int) {
	if plane < 0 {
		return
	}
	c.tx[plane].probes |= 1 << path
	c.ready(plane)
}

// probeValue is what a probe of a path carries and its answer must echo: our
// connection, so that the answer of a host that does not know it finds back,
// and 32 bits that rest on a secret, so that nobody else can answer.
func (c *Conn) probeValue(plane, path uint8) uint64 {
	v := c.probeSecret ^ (uint64(plane)<<8 | uint64(path) + 1)
	v *= 0x9e3779b97f4a7c15
	return uint64(c.id)<<32 | v>>32
}

func (c *Conn) writeProbe(now int64, plane int, buf []byte, tx *Tx) int {
	t := &c.tx[plane]
	path := bits.TrailingZeros64(t.probes)
	t.probes &= t.probes - 1
	h := c.header(wire.PROBE, plane)
	h.Flags |= wire.FlagCRC // whoever does not know the connection can still check it
	info := c.table.Path(plane, path)
	h.Path, h.Epoch = uint8(path), info.Epoch
	tx.SourcePort = info.SourcePort
	p := wire.Probe{Value: c.probeValue(h.Plane, h.Path), TxTimestamp: uint32(now)}
	if t.fullAck {
		t.fullAck = false
		p.Flags = wire.ProbeFullAck
	}
	wire.PutProbe(buf[wire.HeaderSize:], &p)
	return finish(buf, &h, wire.ProbeSize)
}

func (c *Conn) handleProbe(now int64, plane int, h *wire.Header, body []byte) {
	var p wire.Probe
	if r := wire.ParseProbe(body, &p); r != 0 {
		c.e.Counters.Wire[r]++
		return
	}
	if plane >= c.planes || !c.state.carriesData() {
		c.e.Counters.WrongState++
		return
	}
	if bit := uint8(1) << plane; int(h.Plane) == plane && c.peerUp&bit == 0 {
		// The peer's link is up after all: the ACK that said so was lost, or
		// one that is older came later.
		c.peerPlanes(now, c.peerUp|bit)
	}
	q := &c.rx[plane].probeAcks
	if q.len() >= maxProbeAcks {
		c.e.Counters.RepliesDropped++
		return
	}
	if p.Flags&wire.ProbeFullAck != 0 {
		c.ackEverything(plane)
	}
	p.Flags = 0
	q.push(probeAck{path: h.Path, epoch: h.Epoch, probe: p})
	c.ready(plane)
}

func (c *Conn) writeProbeAck(plane int, buf []byte, tx *Tx) int {
	a := c.rx[plane].probeAcks.pop()
	h := c.header(wire.PROBE_ACK, plane)
	h.Path, h.Epoch = a.path, a.epoch
	if int(a.path) < c.paths {
		tx.SourcePort = c.table.Path(plane, int(a.path)).SourcePort
	}
	wire.PutProbe(buf[wire.HeaderSize:], &a.probe)
	return finish(buf, &h, wire.ProbeSize)
}

func (c *Conn) handleProbeAck(now int64, plane int, h *wire.Header, body []byte) {
	var p wire.Probe
	if r := wire.ParseProbe(body, &p); r != 0 {
		c.e.Counters.Wire[r]++
		return
	}
	if !c.state.carriesData() || int(h.Plane) >= c.planes || int(h.Path) >= c.paths || p.Value != c.probeValue(h.Plane, h.Path) {
		c.e.Counters.ProbeInvalid++
		return
	}
	path := int(h.Path)
	info := c.table.Path(int(h.Plane), path)
	if info.Epoch != h.Epoch {
		return
	}
	t := &c.tx[h.Plane]
	t.lastHeard, t.silent, t.backoff = now, 0, 0
	var rtt int64
	if int(h.Plane) == plane {
		rtt = int64(uint32(now) - p.TxTimestamp)
	}
	wasUsable := c.usable(int(h.Plane))
	if c.table.OnProbeAck(now, int(h.Plane), path, rtt) == pathsel.Probing {
		c.e.deadline.arm(c, max(c.table.ProbeDeadline(), now+1))
	}
	c.e.deadline.arm(c, c.runDeadline(int(h.Plane)))
	if !wasUsable && c.usable(int(h.Plane)) {
		c.e.deadline.arm(c, now) // what waits on planes that are not usable moves here
	}
	c.wake()
}

// peerUnknown counts answers that say the peer does not know this connection:
// it has restarted. The answer carries the tag and the probe's value, which
// only somebody who saw the probe can know.
func (c *Conn) peerUnknown(now int64) {
	if !c.state.carriesData() {
		c.e.Counters.WrongState++
		return
	}
	if c.restarts++; c.restarts >= restartAnswers {
		c.stats.RestartedAnswers++
		c.fail(now, StatusPeerRestarted, StatusPeerRestarted.String())
		return
	}
	c.keepAliveProbe() // to be sure without waiting for the next one
}
