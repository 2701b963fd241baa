package transport

import (
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// dataPacket is a WRITE of one packet to b's connection cb, as its peer could
// make it.
func dataPacket(cb *Conn, psn wire.PSN, d wire.Data, flags wire.Flags, payload []byte) []byte {
	buf := make([]byte, 4096)
	if d.PacketCount == 0 {
		d.PacketCount = 1
	}
	d.Op = wire.OpWrite
	wire.PutData(buf[wire.HeaderSize:], &d)
	n := copy(buf[wire.HeaderSize+wire.DataSize:], payload)
	h := wire.Header{Type: wire.DATA, Flags: wire.FlagCRC | flags, DestConn: cb.id, Tag: cb.tag, PSN: psn}
	return buf[:finish(buf, &h, wire.DataSize+n)]
}

// A peer that ignores its credit cannot make this host keep more than was
// granted.
func TestPeerWithoutCreditIsNotKept(t *testing.T) {
	p := newPair(t, 1, 1, func(a, b *Config) { a.MessageDepth, b.MessageDepth = 16, 16 })
	p.b.taken = true
	_, cb := p.connect()
	p.region(p.b, keyB, 1000, RemoteWrite)
	for i := range uint32(1000) {
		d := wire.Data{DSN: wire.DSN(i), MSN: i, Key: keyB, Immediate: i}
		p.b.engine.HandlePacket(p.now, 0, p.a.addrs[0], false, dataPacket(cb, wire.PSN(i), d, wire.FlagImm, []byte("x")))
		p.b.engine.HandleDeadline(p.now)
	}
	p.flush()
	if n := p.b.count(EventReceived); n != 16 {
		t.Errorf("%d messages reached an application that took none, 16 were granted", n)
	}
	if got := p.b.engine.Counters.OutsideWindow; got != 1000-16 {
		t.Errorf("%d packets counted as outside the window", got)
	}
}

// A message that gets more packets than it has must not complete with them.
func TestMessageOfTooManyPackets(t *testing.T) {
	p := newPair(t, 1, 2, nil)
	_, cb := p.connect()
	mem := p.region(p.b, keyB, 1000, RemoteWrite)
	send := func(dsn wire.DSN, msn, index, count uint32) {
		d := wire.Data{DSN: dsn, MSN: msn, PacketIndex: index, PacketCount: count, Key: keyB}
		p.b.engine.HandlePacket(p.now, 0, p.a.addrs[0], false, dataPacket(cb, wire.PSN(dsn), d, wire.FlagImm, []byte("x")))
	}
	send(0, 1, 0, 1)
	send(1, 1, 0, 1) // the same packet under another DSN
	mem[0] = 0
	send(2, 1, 0, 1)
	if mem[0] != 0 {
		t.Error("a message that was complete was written again")
	}
	send(3, 0, 0, 1)
	p.flush()
	if n := p.b.count(EventReceived); n != 1 {
		t.Errorf("%d messages received, want the first only", n)
	}
	if p.b.engine.Counters.BadMessage != 1 {
		t.Errorf("BadMessage counted %d times", p.b.engine.Counters.BadMessage)
	}
}

// full posts until the credit of some streams is used up and one more waits on
// each; the application at b has taken nothing.
func (p *pair) full(ca *Conn, streams int) {
	p.t.Helper()
	p.region(p.a, keyA, 1000, 0)
	p.region(p.b, keyB, 1000, RemoteWrite)
	depth := int(ca.depth)
	post := func(times int) {
		for range times {
			for s := range streams {
				w := Work{Owner: testOwner, Stream: uint16(s), Length: 10, LocalKey: keyA, RemoteKey: keyB, HasImm: true}
				if got := ca.Post(p.now, &w); got != StatusOK {
					p.t.Fatal(got)
				}
			}
		}
	}
	post(depth)
	p.run("all credit used", 1e9, func() bool { return p.a.count(EventSent) == depth*streams })
	post(1)
	p.flush()
}

// Credits of more streams than fit into one acknowledgment go out at once.
func TestManyCreditsLeaveAtOnce(t *testing.T) {
	const streams = 40
	p := newPair(t, 2, 3, func(a, b *Config) { a.MessageDepth, b.MessageDepth = 4, 4 })
	p.b.taken = true
	ca, cb := p.connect()
	p.full(ca, streams)
	for s := range streams {
		cb.Consumed(uint16(s))
	}
	p.run("one more on every stream", 100_000, func() bool { return p.b.count(EventReceived) == 5*streams })
}

// Credit for one stream does not end the asking for another, whose news was
// lost.
func TestCreditOfOneStreamDoesNotHideAnother(t *testing.T) {
	p := newPair(t, 1, 3, func(a, b *Config) { a.MessageDepth, b.MessageDepth = 4, 4 })
	p.b.taken = true
	ca, cb := p.connect()
	p.full(ca, 2)
	p.tap = func(from *endpoint, _ []byte) bool { return from == p.a }
	cb.Consumed(0)
	p.idle(100_000)
	p.tap = nil
	cb.Consumed(1)
	p.run("one more on both", 300e6, func() bool { return p.b.count(EventReceived) == 10 })
}

// A mark right after a clean report is told at once, later ones with the next
// report.
func TestMarksDoNotCauseAnAcknowledgmentEach(t *testing.T) {
	p := newPair(t, 1, 4, nil)
	_, cb := p.connect()
	p.region(p.b, keyB, 1000, RemoteWrite)
	acks := 0
	buf := make([]byte, 4096)
	var tx Tx
	for i := range 320 {
		d := wire.Data{DSN: wire.DSN(i), MSN: uint32(i), Key: keyB}
		p.b.engine.HandlePacket(p.now, 0, p.a.addrs[0], true, dataPacket(cb, wire.PSN(i), d, 0, []byte("x")))
		for p.b.engine.Transmit(p.now, 0, buf, &tx) > 0 {
			acks++
		}
	}
	if acks < 10 || acks > 12 {
		t.Errorf("%d acknowledgments of 320 marked packets, one of 32 is due", acks)
	}
}

// No packet of a fenced operation leaves before everything in front of it in its
// stream has ended.
func TestFenceWaitsForItsStream(t *testing.T) {
	for _, fenced := range []uint32{0, 10, 50_000} {
		p := newPair(t, 2, 8, nil)
		p.faults.loss = 0.1
		ca, cb := p.connect()
		p.region(p.a, keyA, 100_000, 0)
		p.region(p.b, keyB, 100_000, RemoteWrite)
		ended := 0
		p.onEvent = func(_ *endpoint, ev *Event) {
			if ev.Kind == EventSent {
				ended++
			}
		}
		p.tap = func(from *endpoint, pkt []byte) bool {
			var h wire.Header
			var d wire.Data
			if from != p.a || wire.ParseHeader(pkt, &h) != 0 || h.Type != wire.DATA {
				return true
			}
			if _, r := wire.ParseData(h.Body(pkt), &d); r != 0 {
				t.Fatal(r)
			}
			if d.Stream == 0 && d.MSN > 0 && cb.recvS[0].next == 0 {
				t.Errorf("fenced operation of %d bytes left before the one in front of it was placed", fenced)
			}
			return true
		}
		for _, w := range []Work{
			{Stream: 0, Length: 100_000},
			{Stream: 0, Length: fenced, Fence: true},
			{Stream: 0, Length: 10},
			{Stream: 1, Length: 10, Fence: true},
		} {
			w.Owner, w.LocalKey, w.RemoteKey = testOwner, keyA, keyB
			if s := ca.Post(p.now, &w); s != StatusOK {
				t.Fatal(s)
			}
		}
		p.run("every completion", 10e9, func() bool { return ended == 4 })
	}
}
