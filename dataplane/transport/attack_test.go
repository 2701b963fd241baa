package transport

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// attack is a pair with two connections, and a transfer on one of them.
type attack struct {
	*pair
	arena []byte
	dst   []byte // within arena, which is otherwise nobody's
}

const attackGuard = 4096

func newAttack(t testing.TB, seed uint64) *attack {
	x := &attack{pair: newPair(t, 2, seed, nil)}
	x.connect()
	busy, _ := x.connect()
	const size = 200_000
	x.arena = make([]byte, size+2*attackGuard)
	x.dst = x.arena[attackGuard:][:size:size]
	fillRandom(x.rng, x.region(x.a, keyA, size, 0))
	if err := x.b.engine.AddRegion(Region{Key: keyB, Mem: x.dst, Access: RemoteWrite, Owner: testOwner}); err != nil {
		t.Fatal(err)
	}
	if s := busy.Post(x.now, &Work{Owner: testOwner, Length: size, LocalKey: keyA, RemoteKey: keyB, HasImm: true}); s != StatusOK {
		t.Fatal(s)
	}
	x.step(x.now + x.latency)
	return x
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
