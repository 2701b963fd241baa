package xdp

import (
	"errors"
	"testing"

	"github.com/metaroced/metaroced/dataplane/port"
	"github.com/metaroced/metaroced/rings"
	"github.com/metaroced/metaroced/umem"
)

// fakeKernel is the other side of a port's rings, over ordinary memory so that the
// race detector sees it, too.
type fakeKernel struct {
	rx         *rings.Producer[port.Desc]
	completion *rings.Producer[uint64]
	fill       *rings.Consumer[uint64]
	words      []byte // of the completion ring
}

func newFakeKernel(t *testing.T) (*fakeKernel, *Port) {
	t.Helper()
	arena, err := umem.NewArena(umem.Config{FrameBytes: 64 << 10, SlabBytes: umem.NoSlabs})
	if err != nil {
		t.Fatal(err)
	}
	const entries = 16
	k, s := &fakeKernel{}, &socket{fd: -1}
	p := &Port{sock: s, device: &device{name: "fake"}}
	var errs [9]error
	ring := func() ([]byte, rings.Layout) {
		l, total := rings.AppLayout(entries, descBytes)
		return make([]byte, total), l
	}
	mem, l := ring()
	s.rx, errs[0] = rings.NewConsumer[port.Desc](mem, l)
	k.rx, errs[1] = rings.NewProducer[port.Desc](mem, l)
	mem, l = ring()
	s.tx, errs[2] = rings.NewProducer[port.Desc](mem, l)
	mem, l = ring()
	s.fill, errs[3] = rings.NewProducer[uint64](mem, l)
	k.fill, errs[4] = rings.NewConsumer[uint64](mem, l)
	k.words, l = ring()
	s.completion, errs[5] = rings.NewConsumer[uint64](k.words, l)
	k.completion, errs[6] = rings.NewProducer[uint64](k.words, l)
	p.rxPool, errs[7] = arena.NewPool(8)
	p.txPool, errs[8] = arena.NewPool(8)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	c := Config{Interface: "fake"}
	p.prepare(arena, &c)
	t.Cleanup(func() {
		if err := errors.Join(p.free(), arena.Close()); err != nil {
			t.Error(err)
		}
	})
	return k, p
}

func (k *fakeKernel) complete(addrs ...uint64) {
	n, _ := k.completion.Reserve(uint32(len(addrs)))
	for i := range n {
		*k.completion.Slot(i) = addrs[i]
	}
	k.completion.Submit(n)
}

func (k *fakeKernel) deliver(descs ...port.Desc) {
	n, _ := k.rx.Reserve(uint32(len(descs)))
	for i := range n {
		*k.rx.Slot(i) = descs[i]
	}
	k.rx.Submit(n)
}

// Completions in any order are fine; of frames that are not being sent, twice, or
// of no frame at all they are counted and free nothing.
func TestCompletionsAreNotBelieved(t *testing.T) {
	k, p := newFakeKernel(t)
	descs := make([]port.Desc, 8)
	if n := p.AllocTx(descs); n != 8 {
		t.Fatalf("%d frames", n)
	}
	for i := range descs {
		descs[i].Len = 60
	}
	p.Send(descs[:6])
	k.complete(descs[5].Addr, descs[0].Addr, descs[0].Addr, descs[7].Addr, 0, ^uint64(0), 1<<40)
	if n := p.AllocTx(make([]port.Desc, 8)); n != 2 {
		t.Errorf("%d frames were free, want 2", n)
	}
	if p.stats.CompletionForeign != 5 {
		t.Errorf("%d foreign completions, want 5", p.stats.CompletionForeign)
	}
	if counts := p.txPool.Counts(); counts != [umem.NumStates]uint64{umem.Tx: 4, umem.Pending: 4} {
		t.Errorf("%v", counts)
	}
}

// Received descriptors that lie anywhere but in a frame of the fill ring never
// reach the caller.
func TestReceivedDescriptorsAreNotBelieved(t *testing.T) {
	k, p := newFakeKernel(t)
	p.Receive(nil)
	if n, err := k.fill.Peek(16); n != 8 || err != nil {
		t.Fatalf("%d frames to receive into, %v", n, err)
	}
	frame := k.fill.At(0)
	k.deliver(
		port.Desc{Addr: frame + 256, Len: 4096 - 256},            // right
		port.Desc{Addr: frame + 256, Len: 60},                    // twice
		port.Desc{Addr: k.fill.At(1) + 256, Len: 4096 - 255},     // too long
		port.Desc{Addr: k.fill.At(2) + 256, Len: ^uint32(0)},     // far too long
		port.Desc{Addr: k.fill.At(3) + 256, Len: 60, Options: 1}, // in several frames
		port.Desc{Addr: 8 * 4096, Len: 60},                       // a transmit frame
		port.Desc{Addr: ^uint64(0) - 4095, Len: 60},              // outside
		port.Desc{Addr: k.fill.At(4) + 4095, Len: 1},             // right
	)
	k.fill.Release(5)
	descs := make([]port.Desc, 16)
	n := p.Receive(descs)
	if n != 2 || descs[0].Addr != frame+256 || len(p.Bytes(descs[0])) != 4096-256 || len(p.Bytes(descs[1])) != 1 {
		t.Errorf("%d packets: %v", n, descs[:n])
	}
	if p.stats.RxInvalid != 6 || p.stats.RxPackets != 2 {
		t.Errorf("%+v", p.stats)
	}
	p.Release(descs[:n])
	p.Receive(nil)
	if counts := p.rxPool.Counts(); counts[umem.Fill] != 8 {
		t.Errorf("%v", counts)
	}
}

// After an impossible index the port is dead and says so, and no call harms.
func TestImpossibleIndexKillsThePort(t *testing.T) {
	k, p := newFakeKernel(t)
	copy(k.words, []byte{255, 255, 255, 127})
	descs := make([]port.Desc, 4)
	for range 2 {
		p.AllocTx(descs)
		p.FreeTx(descs)
		p.Receive(descs)
		if err := p.Kick(); !errors.Is(err, rings.ErrCorrupt) {
			t.Errorf("Kick: %v", err)
		}
	}
}

// A frame that the kernel never completes is a leak as soon as two calls without
// traffic agree.
func TestLostFramesAreLeaked(t *testing.T) {
	k, p := newFakeKernel(t)
	p.Receive(nil)
	n, _ := k.fill.Peek(16)
	k.fill.Release(n) // taken, and never heard of again
	for call, want := range []uint64{0, uint64(n), uint64(n)} {
		if got := p.leaked(); got != want {
			t.Errorf("call %d: %d leaked, want %d", call, got, want)
		}
	}
	p.stats.RxPackets++
	if got := p.leaked(); got != 0 {
		t.Errorf("%d leaked while packets come in", got)
	}
}
