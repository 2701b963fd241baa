package transport

import (
	"bytes"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// link takes a link down or up, at one end as the engine sees it and for every
// packet.
func (p *pair) link(e *endpoint, plane int, up bool) {
	p.faults.black[plane] = !up
	e.engine.HandlePlane(p.now, plane, up)
}

// write posts one WRITE of length bytes from a to b and returns the source.
func (p *pair) write(ca *Conn, length int) (src, dst []byte) {
	p.t.Helper()
	key := p.rng.Uint64() | 1
	src, dst = p.region(p.a, key, length, 0), p.region(p.b, key^2, length, RemoteWrite)
	fillRandom(p.rng, src)
	if s := ca.Post(p.now, &Work{Owner: testOwner, Length: uint32(length), LocalKey: key, RemoteKey: key ^ 2}); s != StatusOK {
		p.t.Fatal(s)
	}
	return src, dst
}

// The peer's links change while it has no plane left to say so on. Its
// announcement must get through all the same, or both sides wait for ever: one
// for a plane that is up and not known to be, the other for data.
func TestLinksChangeWhileNothingCanBeSaid(t *testing.T) {
	for _, lose := range []bool{false, true} {
		p := newPair(t, 2, 1, nil)
		ca, _ := p.connect()
		p.link(p.b, 0, false)
		p.idle(1e6)
		if ca.usable(0) {
			t.Fatal("a does not know that plane 0 is down at b")
		}
		p.link(p.b, 1, false)
		p.idle(1e6)
		if lose {
			n := 0
			p.tap = func(from *endpoint, _ []byte) bool { n++; return from == p.a || n > 3 }
		}
		p.link(p.b, 0, true)
		src, dst := p.write(ca, 100_000)
		p.run("the write on plane 0", 2e9, func() bool { return p.a.count(EventSent) == 1 })
		if !bytes.Equal(src, dst) {
			t.Error("bytes differ")
		}
	}
}

// Both sides believe the other's only working plane is down.
func TestBothSidesMissAnAnnouncement(t *testing.T) {
	p := newPair(t, 2, 2, nil)
	ca, cb := p.connect()
	for _, e := range []*endpoint{p.a, p.b} {
		p.link(e, 0, false)
	}
	p.idle(1e6)
	for _, e := range []*endpoint{p.a, p.b} {
		p.link(e, 1, false)
	}
	for _, e := range []*endpoint{p.a, p.b} {
		p.link(e, 0, true)
	}
	p.faults.black[0] = true // the switch forwards a little later
	p.idle(100e6)
	p.faults.black[0] = false
	src, dst := p.write(ca, 100_000)
	p.run("the write on plane 0", 12e9, func() bool { return p.a.count(EventSent) == 1 })
	if !bytes.Equal(src, dst) {
		t.Error("bytes differ")
	}
	p.closeBoth(ca, cb)
}

// A plane comes back between CONNECT and the application's answer.
func TestLinkComesUpBeforeAccept(t *testing.T) {
	p := newPair(t, 2, 3, nil)
	p.link(p.b, 1, false)
	p.dial()
	p.run("incoming", 1e9, func() bool { return p.b.count(EventIncoming) == 1 })
	p.link(p.b, 1, true)
	cb := p.b.engine.Conn(p.b.find(EventIncoming).Conn)
	if err := cb.Accept(p.now, nil); err != nil {
		t.Fatal(err)
	}
	p.run("plane 1 in use", 2e9, func() bool { return cb.usable(1) })
}

// What was outstanding when every link went down moves to the first plane that
// comes back, at once.
func TestDataMovesToThePlaneThatReturns(t *testing.T) {
	for back := range 2 {
		p := newPair(t, 2, 4, nil)
		ca, _ := p.connect()
		src, dst := p.write(ca, 1<<20)
		p.step(p.now + 20_000)
		for plane := range 2 {
			for _, e := range []*endpoint{p.a, p.b} {
				p.link(e, plane, false)
			}
		}
		p.idle(10e6)
		for _, e := range []*endpoint{p.a, p.b} {
			p.link(e, back, true)
		}
		p.run("the write on the plane that is back", 100e6, func() bool { return p.a.count(EventSent) == 1 })
		if !bytes.Equal(src, dst) {
			t.Error("bytes differ")
		}
	}
}

// An acknowledgment that is older than the newest must not leave a plane
// unused for ever.
func TestOldMaskOfPlanes(t *testing.T) {
	p := newPair(t, 1, 5, nil)
	ca, _ := p.connect()
	src, dst := p.write(ca, 1000)
	p.run("completion", 1e9, func() bool { return p.a.count(EventSent) == 1 })
	ca.peerPlanes(p.now, 0)
	p.a.events = nil
	p.idle(20e9)
	src2, dst2 := p.write(ca, 1000)
	p.run("completion", 1e9, func() bool { return p.a.count(EventSent) == 1 })
	if !bytes.Equal(src, dst) || !bytes.Equal(src2, dst2) {
		t.Error("bytes differ")
	}
}

// Reports show life but resolve nothing, while the cumulative DSN says that all
// is placed. When the packets expire, the window is free and the next ones must
// leave without any other event.
func TestExpiredPacketsFreeTheWindow(t *testing.T) {
	p := newPair(t, 1, 6, nil)
	ca, _ := p.connect()
	p.write(ca, 1<<20)
	p.tap = func(from *endpoint, pkt []byte) bool {
		if from == p.b && wire.Type(pkt[1]) == wire.ACK {
			var h wire.Header
			wire.ParseHeader(pkt, &h)
			var a wire.Ack
			wire.ParseAck(h.Body(pkt), &a)
			for i := range int(a.ReportCount) {
				var r wire.PathReport
				a.Report(i, &r)
				r.HighestPSN = ^wire.PSN(0) // before the first
				wire.PutReport(h.Body(pkt), i, &r)
			}
			wire.Seal(pkt)
		}
		return true
	}
	p.run("completion with the timer alone", 20e9, func() bool { return p.a.count(EventSent) == 1 })
}

// An RTT is no sample when the hold time is saturated.
func TestSaturatedHoldTimeIsNoSample(t *testing.T) {
	p := newPair(t, 1, 7, func(a, b *Config) { a.KeepAliveNanos, b.KeepAliveNanos = 20e9, 20e9 })
	ca, _ := p.connect()
	p.write(ca, 1000)
	p.run("completion", 1e9, func() bool { return p.a.count(EventSent) == 1 })
	before := ca.table.PlaneSRTT(0)
	path := &ca.tx[0].paths[0]
	for i := range ca.tx[0].paths {
		if ca.tx[0].paths[i].next > path.next {
			path = &ca.tx[0].paths[i]
		}
	}
	id := uint8(0)
	for i := range ca.tx[0].paths {
		if &ca.tx[0].paths[i] == path {
			id = uint8(i)
		}
	}
	psn := path.push(sentPacket{state: sentOut, bytes: 1000})
	r := wire.PathReport{Path: id, HighestPSN: psn, PacketCount: path.lastPackets + 1, EchoTimestamp: 1, HoldTime: maxHoldNanos, Bits: [4]uint64{1}}
	ca.handleReport(p.now+10e9, 0, &r, 1)
	if after := ca.table.PlaneSRTT(0); after != before {
		t.Errorf("SRTT went from %d to %d us", before/1000, after/1000)
	}
}
