package transport

import (
	"fmt"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// numbers are where one direction of a connection starts to count.
type numbers struct {
	psn   wire.PSN
	dsn   wire.DSN
	msn   uint32
	count uint32 // packets, and marks, that a path has reported
}

const numberedStreams = 4

// start lets a new connection count from n on, towards its peer.
func (n numbers) start(from, to *Conn) {
	from.log.next, from.log.cumulative = n.dsn, n.dsn
	to.claims.cumulative.Store(uint64(n.dsn))
	for plane := range from.planes {
		for path := range from.paths {
			s, d := &from.tx[plane].paths[path], &to.rx[plane].paths[path]
			s.next, s.una, s.lastPackets, s.lastMarked = n.psn, n.psn, n.count, n.count
			d.start(0)
			d.highest, d.packets, d.marked, d.told = n.psn-1, n.count, n.count, n.count
		}
	}
	for id := range uint16(numberedStreams) {
		s := from.sendStream(id)
		s.next, s.oldest, s.limit = n.msn, n.msn, n.msn+from.depth
		d := to.recvStream(id)
		d.next, d.consumed, d.limit = n.msn, n.msn, n.msn+from.depth
	}
}

// A connection whose every number starts just below its wrap works as one that
// starts at 0: in a clean network without a retransmission, in a bad one with
// every byte in place, and with round trips measured right.
func TestEveryNumberWraps(t *testing.T) {
	for _, start := range []numbers{
		{psn: ^wire.PSN(0) - 5, dsn: 1<<32 - 6, msn: ^uint32(0) - 2, count: ^uint32(0) - 3},
		{psn: 1<<31 - 3, dsn: 1<<62 - 6, msn: 1<<31 - 2, count: 1<<31 - 3},
		{psn: ^wire.PSN(0), dsn: 1<<63 - 1, msn: ^uint32(0), count: ^uint32(0)},
	} {
		for name, f := range map[string]faults{
			"clean": {},
			"marks": {mark: 0.3},
			"bad":   {loss: 0.1, duplicate: 0.1, reorder: 0.1, mark: 0.1},
		} {
			for before := range 3 {
				t.Run(fmt.Sprintf("%s, %x, %d", name, start.dsn, before), func(t *testing.T) {
					p := newPair(t, 2, uint64(before), func(a, b *Config) { a.Paths, b.Paths = 3, 3 })
					p.now = 1<<32 - int64(before)*150_000 // of the timestamps
					ca, cb := p.connect()
					p.faults = f
					start.start(ca, cb)
					start.start(cb, ca)
					transfer(t, p, ca, 120)
					if name != "bad" && ca.stats.Retransmissions+ca.stats.ByTimer != 0 {
						t.Errorf("%d retransmissions, %d by timer, in a network that loses nothing", ca.stats.Retransmissions, ca.stats.ByTimer)
					}
					for plane := range ca.planes {
						if rtt := ca.table.PlaneSRTT(plane); rtt < 20_000 || rtt > 1_000_000 {
							t.Errorf("plane %d: a round trip of %d us, the network's is 20", plane, rtt/1000)
						}
					}
					if ca.log.next-start.dsn < 500 || int32(ca.sendS[0].next-start.msn) != 40 {
						t.Errorf("the numbers went from %+v to DSN %d and MSN %d only", start, ca.log.next, ca.sendS[0].next)
					}
					for _, e := range []*endpoint{p.a, p.b} {
						if k := &e.engine.Counters; k.AckInvalid+k.OutsideWindow+k.MessageOver+k.BadMessage != 0 {
							t.Errorf("%s refused what was right: %s", e.name, e.describe())
						}
					}
					p.closeBoth(ca, cb)
				})
			}
		}
	}
}

// Credit, refusals and voided messages across the wrap of MSNs and DSNs.
func TestRefusalAcrossTheWrap(t *testing.T) {
	p := newPair(t, 2, 4, func(a, b *Config) { a.MessageDepth, b.MessageDepth, a.DSNWindow, b.DSNWindow = 4, 4, 256, 256 })
	p.faults.loss = 0.1
	ca, cb := p.connect()
	start := numbers{psn: ^wire.PSN(0) - 9, dsn: 1<<32 - 9, msn: ^uint32(0) - 9, count: ^uint32(0) - 9}
	start.start(ca, cb)
	start.start(cb, ca)
	p.region(p.a, keyA, 10_000, 0)
	p.region(p.b, keyB, 10_000, RemoteWrite)
	for i := range uint64(60) {
		w := Work{Owner: testOwner, Length: 10_000, LocalKey: keyA, RemoteKey: keyB, UserData: i, HasImm: true, Imm: uint32(i)}
		if i%3 == 1 {
			w.RemoteKey = 0x999
		}
		p.run("a place for the next operation", 5e9, func() bool { return ca.Post(p.now, &w) == StatusOK })
	}
	p.run("sixty completions", 10e9, func() bool { return p.a.count(EventSent) == 60 })
	p.run("forty messages", 10e9, func() bool { return p.b.count(EventReceived) == 40 })
	for i, ev := range p.a.events {
		want := StatusOK
		if i%3 == 1 {
			want = StatusRemoteAccess
		}
		if ev.UserData != uint64(i) || ev.Status != want || ev.MSN != start.msn+uint32(i) {
			t.Errorf("operation %d ended as %+v, want %v", i, ev, want)
		}
	}
	transferAfter(t, p, ca)
	p.closeBoth(ca, cb)
}
