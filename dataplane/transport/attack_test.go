package transport

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// attack is a pair with two connections: a hostile or broken peer, which knows
// everything that a holds, has one of them; a transfer runs on the other.
type attack struct {
	*pair
	bad, victim *Conn // at a
	target      *Conn // at b, the other end of bad
	arena       []byte
	dst         []byte // within arena, which is otherwise nobody's
	src         []byte
}

// Region keys at b.
const (
	keyOpen     = 0x50
	keyReadOnly = 0x51
	keyForeign  = 0x52
)

const attackGuard = 4096

func newAttack(t testing.TB, seed uint64) *attack {
	x := &attack{pair: newPair(t, 2, seed, nil)}
	x.bad, x.target = x.connect()
	x.victim, _ = x.connect()
	const size = 200_000
	x.arena = make([]byte, size+2*attackGuard)
	x.dst = x.arena[attackGuard:][:size:size]
	x.src = x.region(x.a, keyA, size, 0)
	fillRandom(x.rng, x.src)
	for _, r := range []Region{
		{Key: keyOpen, Mem: x.dst, Access: RemoteWrite, Owner: testOwner},
		{Key: keyReadOnly, Mem: make([]byte, 1000), Access: RemoteRead, Owner: testOwner},
		{Key: keyForeign, Mem: make([]byte, 1000), Access: RemoteWrite, Owner: testOwner + 1},
	} {
		if err := x.b.engine.AddRegion(r); err != nil {
			t.Fatal(err)
		}
	}
	if s := x.victim.Post(x.now, &Work{Owner: testOwner, Length: size, LocalKey: keyA, RemoteKey: keyOpen, HasImm: true}); s != StatusOK {
		t.Fatal(s)
	}
	x.step(x.now + x.latency)
	return x
}

// data is a DATA packet that the peer is able to make.
func (x *attack) data(payload int, adjust func(*wire.Header, *wire.Data)) []byte {
	h := x.bad.header(wire.DATA, 0)
	d := wire.Data{
		Op: wire.OpWrite, PacketCount: 1, DSN: x.bad.log.next, Key: keyOpen,
		Offset: uint64(len(x.dst) - payload),
	}
	adjust(&h, &d)
	pkt := make([]byte, wire.DataOverhead+payload)
	wire.PutData(pkt[wire.HeaderSize:], &d)
	return pkt[:finish(pkt, &h, wire.DataSize+payload)]
}

// ack is an ACK of one report and one credit, as b might send it to a.
func (x *attack) ack(adjust func(*wire.Ack, *wire.PathReport, *wire.Credit)) []byte {
	h := x.target.header(wire.ACK, 0)
	a := wire.Ack{PlanesUp: 3, ReportCount: 1, CreditCount: 1}
	r, k := wire.PathReport{}, wire.Credit{MSNLimit: 1}
	adjust(&a, &r, &k)
	pkt := make([]byte, 4096)
	body := pkt[wire.HeaderSize:]
	wire.PutAck(body, &a)
	wire.PutReport(body, 0, &r)
	wire.PutCredit(body, 1, 0, k)
	return pkt[:finish(pkt, &h, wire.AckSize+wire.ReportSize+wire.CreditSize)]
}

func (x *attack) control(adjust func(*wire.Control)) []byte {
	h := x.target.header(wire.CONTROL, 0)
	k := wire.Control{Kind: wire.ControlError, Reason: uint16(wire.ErrorBounds), DSN: x.target.log.next}
	adjust(&k)
	pkt := make([]byte, 200)
	wire.PutControl(pkt[wire.HeaderSize:], &k)
	return pkt[:finish(pkt, &h, wire.ControlSize)]
}

// refusals counts what an engine has refused, by reason.
func refusals(e *Engine) (all map[string]uint64, sum uint64) {
	all = map[string]uint64{}
	e.Counters.Each(func(name string, v uint64) {
		if reason, ok := strings.CutPrefix(name, "refused: "); ok {
			all[reason] = v
			sum += v
		}
	})
	return all, sum
}

// inject gives a packet to a host as its peer's.
func (x *attack) inject(to *endpoint, pkt []byte) {
	to.engine.HandlePacket(x.now, 0, x.other(to).addrs[0], false, pkt)
}

// undisturbed lets the running transfer end and compares all memory.
func (x *attack) undisturbed(what string) {
	x.t.Helper()
	x.run("the other connection's transfer after "+what, 5e9, func() bool { return x.a.find(EventSent) != nil })
	if !bytes.Equal(x.src, x.dst) {
		x.t.Errorf("%s: the other connection's bytes are wrong", what)
	}
	for _, guard := range [][]byte{x.arena[:attackGuard], x.arena[attackGuard+len(x.dst):]} {
		if !bytes.Equal(guard, make([]byte, attackGuard)) {
			x.t.Errorf("%s: memory outside the region changed", what)
		}
	}
	checkEngine(x.t, what+": a", x.a.engine, x.now)
	checkEngine(x.t, what+": b", x.b.engine, x.now)
}

// What a peer with the right tag and a right checksum says and must not: each
// is refused under one reason, once.
func TestHostilePeerIsRefused(t *testing.T) {
	type header = wire.Header
	type data = wire.Data
	for _, c := range []struct {
		reason string
		atA    bool
		packet func(x *attack) []byte
	}{
		{"unknown connection or tag", false, func(x *attack) []byte {
			return x.data(10, func(h *header, _ *data) { h.Tag++ })
		}},
		{"unknown connection or tag", false, func(x *attack) []byte {
			return x.data(10, func(h *header, _ *data) { h.DestConn = wire.MakeConnID(h.DestConn.Index(), h.DestConn.Generation()+1) })
		}},
		{"unknown connection or tag", false, func(x *attack) []byte {
			return x.data(10, func(h *header, _ *data) { h.DestConn = ^wire.ConnID(0) })
		}},
		{"checksum missing", false, func(x *attack) []byte {
			return x.data(10, func(h *header, _ *data) { h.Flags &^= wire.FlagCRC })
		}},
		{"field out of range", false, func(x *attack) []byte {
			return x.data(10, func(h *header, _ *data) { h.Plane = 5 })
		}},
		{"field out of range", false, func(x *attack) []byte {
			return x.data(10, func(h *header, _ *data) { h.Path = 60 })
		}},
		{"offset and length overflow", false, func(x *attack) []byte {
			return x.data(10, func(_ *header, d *data) { d.Offset = ^uint64(0) - 5 })
		}},
		{"region bounds", false, func(x *attack) []byte {
			return x.data(10, func(_ *header, d *data) { d.Offset++ })
		}},
		{"region bounds", false, func(x *attack) []byte {
			return x.data(10, func(_ *header, d *data) { d.Offset = 1 << 63 })
		}},
		{"region key", false, func(x *attack) []byte {
			return x.data(10, func(_ *header, d *data) { d.Key = 0 })
		}},
		{"region key", false, func(x *attack) []byte {
			return x.data(10, func(_ *header, d *data) { d.Key, d.Offset = keyForeign, 0 })
		}},
		{"region permission", false, func(x *attack) []byte {
			return x.data(10, func(_ *header, d *data) { d.Key, d.Offset = keyReadOnly, 0 })
		}},
		{"payload length", false, func(x *attack) []byte {
			return x.data(x.target.maxPayload+1, func(*header, *data) {})
		}},
		{"outside window", false, func(x *attack) []byte {
			return x.data(10, func(_ *header, d *data) { d.DSN += 1 << 20 })
		}},
		{"outside window", false, func(x *attack) []byte {
			return x.data(10, func(_ *header, d *data) { d.DSN = ^wire.DSN(0) })
		}},
		{"outside window", false, func(x *attack) []byte {
			return x.data(10, func(_ *header, d *data) { d.MSN = 1 << 30 })
		}},
		{"stream number", false, func(x *attack) []byte {
			return x.data(10, func(_ *header, d *data) { d.Stream = 60_000 })
		}},
		{"unsupported operation", false, func(x *attack) []byte {
			return x.data(10, func(_ *header, d *data) { d.Op = wire.OpSend })
		}},
		{"field out of range", false, func(x *attack) []byte {
			return x.data(10, func(_ *header, d *data) { d.PacketIndex = d.PacketCount })
		}},
		{"acknowledgment of the unsent", true, func(x *attack) []byte {
			return x.ack(func(a *wire.Ack, _ *wire.PathReport, _ *wire.Credit) { a.CumulativeDSN = x.bad.log.next + 1 })
		}},
		{"acknowledgment of the unsent", true, func(x *attack) []byte {
			return x.ack(func(a *wire.Ack, _ *wire.PathReport, _ *wire.Credit) { a.CumulativeDSN = ^wire.DSN(0) })
		}},
		{"acknowledgment of the unsent", true, func(x *attack) []byte {
			return x.ack(func(_ *wire.Ack, r *wire.PathReport, _ *wire.Credit) { r.Plane = 7 })
		}},
		{"acknowledgment of the unsent", true, func(x *attack) []byte {
			return x.ack(func(_ *wire.Ack, r *wire.PathReport, _ *wire.Credit) {
				r.Epoch, r.HighestPSN = x.bad.table.Path(0, 0).Epoch, x.bad.tx[0].paths[0].next+5
			})
		}},
		{"outside window", true, func(x *attack) []byte {
			return x.control(func(k *wire.Control) { k.DSN = 1 << 40 })
		}},
		{"field out of range", true, func(x *attack) []byte {
			return x.control(func(k *wire.Control) { k.Kind, k.Detail = wire.ControlPlaneDown, 1<<40 })
		}},
	} {
		x := newAttack(t, 4)
		pkt, to := c.packet(x), x.b
		if c.atA {
			to = x.a
		}
		before, sumBefore := refusals(to.engine)
		x.inject(to, pkt)
		after, sumAfter := refusals(to.engine)
		if after[c.reason] != before[c.reason]+1 || sumAfter != sumBefore+1 {
			t.Errorf("%s: counters were %v and are %v", c.reason, before, after)
		}
		x.undisturbed(c.reason)
	}
}

// Everything that was ever sent comes again, many times and in any order, while
// a transfer runs and when it is over.
func TestReplays(t *testing.T) {
	x := newAttack(t, 6)
	type packet struct {
		to  *endpoint
		pkt []byte
	}
	var old []packet
	x.tap = func(from *endpoint, pkt []byte) bool {
		old = append(old, packet{x.other(from), bytes.Clone(pkt)})
		return true
	}
	replay := func() {
		for range 500 {
			o := old[x.rng.IntN(len(old))]
			o.to.engine.HandlePacket(x.now, x.rng.IntN(2), x.other(o.to).addrs[0], true, o.pkt)
		}
		checkEngine(t, "a", x.a.engine, x.now)
		checkEngine(t, "b", x.b.engine, x.now)
	}
	for x.a.count(EventSent) == 0 {
		if !x.step(x.now+1e9) && x.a.count(EventSent) == 0 {
			t.Fatal("the transfer stopped")
		}
		replay()
	}
	x.undisturbed("replays")
	clear(x.dst)
	replay()
	if !bytes.Equal(x.dst, make([]byte, len(x.dst))) {
		t.Error("a replay wrote memory again")
	}
	if got := x.b.count(EventReceived); got != 1 {
		t.Errorf("%d messages received, 1 was sent", got)
	}
}

// FuzzHandlePacket changes real packets, seals them again and hands them to a
// live pair. Whatever arrives, memory outside the region stays, what both
// engines count stays consistent, and they end.
func FuzzHandlePacket(f *testing.F) {
	for seed := range uint64(8) {
		script := make([]byte, 64)
		fillRandom(rand.New(rand.NewPCG(seed, 1)), script)
		f.Add(seed, script)
	}
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		x := newAttack(t, seed)
		at := 0
		next := func() byte {
			if at == len(script) {
				return 0
			}
			at++
			return script[at-1]
		}
		x.tap = func(_ *endpoint, pkt []byte) bool {
			if at == len(script) || pkt[1] == byte(wire.CONNECT) {
				return true
			}
			for range next() % 4 {
				// Headers and bodies are where the decisions are.
				pkt[int(next())%min(len(pkt)-wire.TrailerSize, 128)] ^= next()
			}
			wire.Seal(pkt)
			return true
		}
		for range 40 {
			x.step(x.now + 1e6)
			checkEngine(t, "a", x.a.engine, x.now)
			checkEngine(t, "b", x.b.engine, x.now)
		}
		for _, guard := range [][]byte{x.arena[:attackGuard], x.arena[attackGuard+len(x.dst):]} {
			if !bytes.Equal(guard, make([]byte, attackGuard)) {
				t.Fatal("memory outside the region changed")
			}
		}
		x.tap = nil
		for _, e := range []*endpoint{x.a, x.b} {
			e.engine.Connections(func(c *Conn) { c.Abort(x.now, wire.CloseApplicationGone) })
		}
		x.run("both engines empty", 10e9, func() bool { return x.a.engine.active+x.b.engine.active == 0 })
	})
}
