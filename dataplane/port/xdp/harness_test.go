package xdp

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/bpf"
	"github.com/metaroced/metaroced/dataplane/port"
	"github.com/metaroced/metaroced/internal/testenv"
	"github.com/metaroced/metaroced/umem"
)

// patience bounds every wait; nothing here takes more than some milliseconds.
const patience = 10 * time.Second

// plane is a veth pair with each end in a namespace of its own.
type plane struct {
	names  [2]string
	spaces [2]*testenv.NetNS
	index  [2]int
}

func newPlane(t testing.TB, number int, opts testenv.VethOpts) plane {
	t.Helper()
	p := plane{
		names:  [2]string{fmt.Sprintf("a%d", number), fmt.Sprintf("b%d", number)},
		spaces: [2]*testenv.NetNS{testenv.NewNetNS(t), testenv.NewNetNS(t)},
	}
	veth := testenv.VethPair(t, p.spaces[0], p.spaces[1], p.names[0], p.names[1], opts)
	p.index = [2]int{veth.IndexA, veth.IndexB}
	return p
}

func newGroup(t testing.TB, arenaBytes int64) *Group {
	t.Helper()
	testenv.RequireRoot(t)
	arena, err := umem.NewArena(umem.Config{FrameBytes: arenaBytes, SlabBytes: umem.NoSlabs})
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGroup(GroupConfig{Arena: arena})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if err := arena.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// tryOpen opens a port at one end of the plane.
func (p plane) tryOpen(g *Group, end int, c Config) (opened *Port, err error) {
	c.Interface = p.names[end]
	err = p.spaces[end].Do(func() (err error) {
		opened, err = g.Open(c)
		return err
	})
	return opened, err
}

func (p plane) open(t testing.TB, g *Group, end int, c Config) *Port {
	t.Helper()
	opened, err := p.tryOpen(g, end, c)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// change does something to the link at one end.
func (p plane) change(t testing.TB, end int, do func(netlink.Link) error) {
	t.Helper()
	err := p.spaces[end].Do(func() error {
		link, err := netlink.LinkByIndex(p.index[end])
		if err != nil {
			return err
		}
		return do(link)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// small is enough for most tests and quick to set up.
var small = Config{RxRing: 64, TxRing: 64}

const headerBytes = 14 + 20 + 8

// fill makes buf a UDP packet to our port whose payload depends on seed.
func fill(buf []byte, seed uint32) {
	clear(buf[:headerBytes])
	for i := range 12 {
		buf[i] = 2
	}
	binary.BigEndian.PutUint16(buf[12:], 0x0800)
	buf[14], buf[22], buf[23] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(buf[16:], uint16(len(buf)-14))
	binary.BigEndian.PutUint16(buf[36:], bpf.DefaultUDPPort)
	binary.BigEndian.PutUint16(buf[38:], uint16(len(buf)-34))
	x := seed*2654435761 + 1
	for i := headerBytes; i < len(buf); i++ {
		x = x*1664525 + 1013904223
		buf[i] = byte(x >> 24)
	}
	binary.LittleEndian.PutUint32(buf[headerBytes:], seed)
}

// check compares a received packet with what fill made for the seed it carries.
func check(buf []byte) (seed uint32, err error) {
	if len(buf) < headerBytes+4 {
		return 0, fmt.Errorf("%d bytes received", len(buf))
	}
	seed = binary.LittleEndian.Uint32(buf[headerBytes:])
	want := make([]byte, len(buf))
	fill(want, seed)
	for i := range want {
		if buf[i] != want[i] {
			return seed, fmt.Errorf("packet %d of %d bytes: byte %d is %#x, want %#x", seed, len(buf), i, buf[i], want[i])
		}
	}
	return seed, nil
}

// send transmits up to count packets, seeds from seed on, lengths by sizeOf, and
// returns how many there were frames for.
func send(t testing.TB, p *Port, seed uint32, count int, sizeOf func(uint32) int) int {
	t.Helper()
	descs := make([]port.Desc, count)
	descs = descs[:p.AllocTx(descs)]
	for i := range descs {
		descs[i].Len = uint32(sizeOf(seed + uint32(i)))
		fill(p.Bytes(descs[i]), seed+uint32(i))
	}
	sent := p.Send(descs)
	p.FreeTx(descs[sent:])
	if err := p.Kick(); err != nil {
		t.Fatal(err)
	}
	return sent
}

// receive takes packets until count are there, checks every byte and returns the
// seeds in order.
func receive(t testing.TB, p *Port, count int) []uint32 {
	t.Helper()
	var seeds []uint32
	descs := make([]port.Desc, 32)
	waitFor(t, fmt.Sprintf("%d packets", count), func() bool {
		n := p.Receive(descs)
		for _, d := range descs[:n] {
			seed, err := check(p.Bytes(d))
			if err != nil {
				t.Fatal(err)
			}
			seeds = append(seeds, seed)
		}
		p.Release(descs[:n])
		return len(seeds) >= count
	})
	return seeds
}

// waitFor polls until done; the kernel delivers on its own threads.
func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("no %s after %v", what, patience)
		}
		_, _ = unix.Poll(nil, 1)
	}
}

func fixed(size int) func(uint32) int { return func(uint32) int { return size } }

func stats(p *Port) port.Stats {
	var s port.Stats
	p.Stats(&s)
	return s
}

// checkAccounts waits until the kernel has let go of everything sent and then
// wants every frame free or waiting to be received into.
func checkAccounts(t testing.TB, ports ...*Port) {
	t.Helper()
	for _, p := range ports {
		waitFor(t, "completion of all transmissions", func() bool {
			p.Receive(nil)
			return stats(p).TxFrames[umem.Tx] == 0
		})
		stats(p) // the second in a row without traffic judges
		s := stats(p)
		wantRx := [umem.NumStates]uint64{umem.Fill: uint64(p.rxPool.Frames())}
		wantTx := [umem.NumStates]uint64{umem.Free: uint64(p.txPool.Frames())}
		if s.RxFrames != wantRx || s.TxFrames != wantTx {
			t.Errorf("%s: receive frames %v, want %v; transmit frames %v, want %v", p.device.name, s.RxFrames, wantRx, s.TxFrames, wantTx)
		}
		if s.FramesLeaked+s.FrameErrors+s.CompletionForeign+s.RxInvalid+s.TxInvalid != 0 {
			t.Errorf("%s: %+v", p.device.name, s)
		}
	}
}
