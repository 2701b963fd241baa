package xdp

import (
	"runtime"
	"testing"

	"github.com/metaroced/metaroced/dataplane/port"
	"github.com/metaroced/metaroced/internal/testenv"
	"github.com/metaroced/metaroced/umem"
)

// Two planes, four ports on one arena, packets of all lengths both ways, several
// times around every ring, with both modes a veth has.
func TestEveryByteArrives(t *testing.T) {
	for _, mode := range []Mode{Auto, Copy, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			g := newGroup(t, 4<<20)
			c := small
			c.Mode = mode
			var ends [2][2]*Port
			for number := range ends {
				p := newPlane(t, number, testenv.VethOpts{MTU: 3498})
				for end := range ends[number] {
					ends[number][end] = p.open(t, g, end, c)
				}
			}
			size := func(seed uint32) int { return headerBytes + 4 + int(seed*37%3466) }
			next := uint32(0)
			for range 30 {
				for _, pair := range ends {
					for end, from := range pair {
						n := send(t, from, next, 21, size)
						seeds := receive(t, pair[1-end], n)
						for i, seed := range seeds {
							if seed != next+uint32(i) {
								t.Fatalf("packet %d arrived in place of %d", seed, next+uint32(i))
							}
						}
						next += uint32(n)
					}
				}
			}
			want := "copy"
			if mode == Generic {
				want = "generic"
			}
			for _, pair := range ends {
				for _, p := range pair {
					if p.Mode() != want || p.Reason() == "" {
						t.Errorf("mode %q, reason %q", p.Mode(), p.Reason())
					}
				}
				checkAccounts(t, pair[:]...)
			}
			first := stats(ends[0][0])
			if first.TxPackets != 30*21 || first.RxPackets != 30*21 || first.TxBytes == 0 || first.RxBytes == 0 {
				t.Errorf("%+v", first)
			}
		})
	}
}

// With all frames in the caller's hands the kernel drops and counts, and goes on
// receiving as soon as frames come back.
func TestRecoversFromStarvation(t *testing.T) {
	g := newGroup(t, 2<<20)
	p := newPlane(t, 0, testenv.VethOpts{})
	from, to := p.open(t, g, 0, small), p.open(t, g, 1, small)
	var held []port.Desc
	waitFor(t, "starvation", func() bool {
		send(t, from, 0, 8, fixed(200))
		descs := make([]port.Desc, 16)
		held = append(held, descs[:to.Receive(descs)]...)
		return stats(to).FillEmpty > 0
	})
	if len(held) != 64 || stats(to).RxFrames[umem.Rx] != 64 || stats(to).RxDropped == 0 {
		t.Errorf("%d packets in hand, %+v", len(held), stats(to))
	}
	to.Release(held)
	to.Receive(nil)
	send(t, from, 7, 1, fixed(200))
	receive(t, to, 1)
	checkAccounts(t, from, to)
}

// A caller that does not take packets loses the newest, and they are counted.
func TestOverrunIsCounted(t *testing.T) {
	g := newGroup(t, 2<<20)
	p := newPlane(t, 0, testenv.VethOpts{})
	c := small
	c.RxFrames = 128
	from, to := p.open(t, g, 0, small), p.open(t, g, 1, c)
	waitFor(t, "overrun", func() bool {
		send(t, from, 0, 8, fixed(100))
		return stats(to).RxRingFull > 0
	})
	receive(t, to, 64)
	checkAccounts(t, from, to)
}

// What the caller hands over wrongly is refused, counted and sends nothing.
func TestMisuseIsRefused(t *testing.T) {
	g := newGroup(t, 2<<20)
	p := newPlane(t, 0, testenv.VethOpts{})
	from, to := p.open(t, g, 0, small), p.open(t, g, 1, small)
	frame := uint32(g.config.Arena.FrameSize())
	for name, change := range map[string]func(*port.Desc){
		"beyond the frame":    func(d *port.Desc) { d.Addr++; d.Len = frame },
		"too short":           func(d *port.Desc) { d.Len = minPacket - 1 },
		"empty":               func(d *port.Desc) { d.Len = 0 },
		"length overflow":     func(d *port.Desc) { d.Len = ^uint32(0) },
		"to be continued":     func(d *port.Desc) { d.Options = 1 },
		"outside of the pool": func(d *port.Desc) { from.FreeTx([]port.Desc{*d}); d.Addr = 0 },
		"outside the arena":   func(d *port.Desc) { from.FreeTx([]port.Desc{*d}); d.Addr = ^uint64(0) - 4095 },
		"not allocated":       func(d *port.Desc) { from.FreeTx([]port.Desc{*d}) },
	} {
		before := stats(from)
		descs := make([]port.Desc, 1)
		from.AllocTx(descs)
		descs[0].Len = 100
		change(&descs[0])
		if n := from.Send(descs); n != 1 {
			t.Errorf("%s: took %d", name, n)
		}
		if err := from.Kick(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		after := stats(from)
		if after.TxInvalid != before.TxInvalid+1 || after.TxPackets != before.TxPackets || after.TxFrames[umem.Free] != 64 {
			t.Errorf("%s: %+v", name, after)
		}
	}
	send(t, from, 1, 1, fixed(100))
	descs := make([]port.Desc, 4)
	waitFor(t, "packet", func() bool { return to.Receive(descs) == 1 })
	to.Release(descs[:1])
	to.Release(descs[:1])
	to.FreeTx(descs[:1])
	if s := stats(to); s.FrameErrors != 2 || s.RxFrames[umem.Free]+s.RxFrames[umem.Fill] != 64 {
		t.Errorf("%+v", s)
	}
}

// Collecting garbage must neither detach the program nor close a socket.
func TestSurvivesGarbageCollection(t *testing.T) {
	g := newGroup(t, 2<<20)
	p := newPlane(t, 0, testenv.VethOpts{})
	from, to := p.open(t, g, 0, small), p.open(t, g, 1, small)
	for seed := range uint32(4) {
		runtime.GC()
		runtime.GC()
		send(t, from, seed*8, 8, fixed(300))
		receive(t, to, 8)
	}
	checkAccounts(t, from, to)
}

// The path of a packet, all of it, does not allocate.
func TestNothingIsAllocatedPerBatch(t *testing.T) {
	g := newGroup(t, 2<<20)
	p := newPlane(t, 0, testenv.VethOpts{})
	c := small
	c.BusyPoll = BusyPoll{Micros: 1}
	from, to := p.open(t, g, 0, small), p.open(t, g, 1, c)
	out, in := make([]port.Desc, 33), make([]port.Desc, 33)
	received := 0
	var failed error
	perBatch := testing.AllocsPerRun(200, func() {
		n := from.AllocTx(out[:32])
		for i := range out[:n] {
			out[i].Len = 64
			fill(from.Bytes(out[i]), 1)
		}
		from.FreeTx(out[from.Send(out[:n]):n])
		if err := from.Kick(); err != nil {
			failed = err
		}
		if err := to.BusyPoll(); err != nil {
			failed = err
		}
		n = to.Receive(in)
		received += n
		to.Release(in[:n])
	})
	if perBatch != 0 || failed != nil || received == 0 {
		t.Errorf("%v allocations per batch, %d packets received, %v", perBatch, received, failed)
	}
}
