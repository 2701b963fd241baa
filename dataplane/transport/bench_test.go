package transport

import (
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// direct carries packets between two engines without a network, in batches as
// a worker does.
type direct struct {
	a, b    *Engine
	now     int64
	bufs    [64][4096]byte
	lens    [64]int
	packets int
	from    wire.Addr
}

// pump moves up to one batch per plane each way and returns how many packets.
func (d *direct) pump(planes int) int {
	total := 0
	for _, dir := range [2][2]*Engine{{d.a, d.b}, {d.b, d.a}} {
		for plane := range planes {
			n := 0
			for n < len(d.bufs) {
				var tx Tx
				if d.lens[n] = dir[0].Transmit(d.now, plane, d.bufs[n][:], &tx); d.lens[n] == 0 {
					break
				}
				n++
			}
			for i := range n {
				dir[1].HandlePacket(d.now, plane, d.from, false, d.bufs[i][:d.lens[i]])
			}
			total += n
		}
	}
	d.now += 20_000
	d.a.HandleDeadline(d.now)
	d.b.HandleDeadline(d.now)
	return total
}

func newDirect(t testing.TB, planes int) (*direct, *Conn) {
	p := newPair(t, planes, 1, nil)
	ca, _ := p.connect()
	src := p.region(p.a, keyA, 8<<20, 0)
	p.region(p.b, keyB, 8<<20, RemoteWrite)
	fillRandom(p.rng, src[:4096])
	return &direct{a: p.a.engine, b: p.b.engine, now: p.now}, ca
}

// step keeps work posted and moves one batch.
func (d *direct) step(ca *Conn, planes int) int {
	w := Work{Owner: testOwner, Length: 1 << 20, LocalKey: keyA, RemoteKey: keyB}
	for ca.msgs.used < 8 {
		w.LocalOffset = (w.LocalOffset + 1<<20) % (8 << 20)
		w.RemoteOffset = w.LocalOffset
		if ca.Post(d.now, &w) != StatusOK {
			break
		}
	}
	n := d.pump(planes)
	var ev Event
	for d.a.PollEvent(&ev) || d.b.PollEvent(&ev) {
		d.packets++
	}
	return n
}

// BenchmarkEngine is the cost of one packet through sender and receiver, copy
// and checksum on both sides included.
func BenchmarkEngine(b *testing.B) {
	d, ca := newDirect(b, 4)
	for range 1000 {
		d.step(ca, 4)
	}
	b.ReportAllocs()
	packets := 0
	for b.Loop() {
		packets += d.step(ca, 4)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(packets), "ns/packet")
	b.ReportMetric(float64(packets)/float64(b.N), "packets/op")
}

func TestPacketsDoNotAllocate(t *testing.T) {
	d, ca := newDirect(t, 4)
	for range 2000 {
		d.step(ca, 4)
	}
	if n := testing.AllocsPerRun(200, func() { d.step(ca, 4) }); n > 0 {
		t.Errorf("%v allocations per batch of packets", n)
	}
}
