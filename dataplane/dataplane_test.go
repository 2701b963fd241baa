package dataplane

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/metaroced/metaroced/dataplane/queue"
)

func TestWritesLandByteForByte(t *testing.T) {
	for _, planes := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d planes", planes), func(t *testing.T) {
			h := newHosts(t, planes)
			a, b := h.attach(h.a), h.attach(h.b)
			h.connect(a, b, "bytes")
			writeAndCompare(t, a, b, 40, 200_000)
		})
	}
}

// writeAndCompare writes random pieces and compares source and destination.
func writeAndCompare(t *testing.T, a, b *app, operations int, size int) {
	t.Helper()
	from, src := a.region(int64(operations*size), 0)
	to, dst := b.region(int64(operations*size), AccessRemoteWrite)
	defer a.session.FreeRegion(from.ID)
	defer b.session.FreeRegion(to.ID)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	for i := range operations {
		e := queue.SQE{
			Op: queue.OpWrite, Flags: queue.FlagImmediate, Conn: a.conn, Region: from.ID, Length: uint32(size),
			LocalOffset: uint64(i * size), RemoteKey: to.Key, RemoteOffset: uint64(i * size), UserData: uint64(i), Imm: uint32(i),
		}
		for !a.post(&e) {
			yield()
		}
	}
	for i := range operations {
		if e := a.completion(); e.Status != 0 || e.UserData != uint64(i) {
			t.Fatalf("operation %d: %+v", i, e)
		}
		if e := b.completion(); e.Op != queue.CompletionWriteImmReceived || e.Imm != uint32(i) || e.Bytes != uint64(size) {
			t.Fatalf("message %d: %+v", i, e)
		}
	}
	if !bytes.Equal(src, dst) {
		t.Fatal("bytes differ")
	}
}

// A worker's whole path - ports, frames, engine, queues, both directions -
// allocates nothing once it runs.
func TestPacketsDoNotAllocate(t *testing.T) {
	h := newHosts(t, 2)
	a, b := h.attach(h.a), h.attach(h.b)
	h.connect(a, b, "bytes")
	from, _ := a.region(1<<20, 0)
	to, _ := b.region(1<<20, AccessRemoteWrite)
	e := queue.SQE{Op: queue.OpWrite, Flags: queue.FlagImmediate, Conn: a.conn, Region: from.ID, Length: 1 << 20, RemoteKey: to.Key}
	outstanding, completed := 0, 0
	round := func() {
		for outstanding < 4 && a.post(&e) {
			outstanding++
		}
		h.loop()
		n := a.reap(false)
		outstanding -= n
		completed += n
		b.reap(false)
	}
	h.paused(func() {
		for range 3000 {
			round()
		}
		completed = 0
		if n := testing.AllocsPerRun(500, round); n != 0 {
			t.Errorf("%v allocations per round of both workers", n)
		}
		if completed < 10 {
			t.Errorf("only %d operations of 1 MiB completed: too little happened to say anything", completed)
		}
	})
}

func TestRefusedWritesFailAlone(t *testing.T) {
	h := newHosts(t, 1)
	a, b, other := h.attach(h.a), h.attach(h.b), h.attach(h.b)
	h.connect(a, b, "bytes")
	from, _ := a.region(1<<16, 0)
	to, dst := b.region(1<<16, AccessRemoteWrite)
	readOnly, _ := b.region(1<<16, AccessRemoteRead)
	foreign, secret := other.region(1<<16, AccessRemoteWrite)
	for _, c := range []struct {
		name string
		e    queue.SQE
		want string
	}{
		{"unknown key", queue.SQE{RemoteKey: 12345}, "refused the region"},
		{"beyond the region", queue.SQE{RemoteKey: to.Key, RemoteOffset: 1<<16 - 10}, "refused the region"},
		{"no permission", queue.SQE{RemoteKey: readOnly.Key}, "refused the region"},
		{"another session's region", queue.SQE{RemoteKey: foreign.Key}, "refused the region"},
		{"local offset", queue.SQE{RemoteKey: to.Key, LocalOffset: 1 << 16}, "local"},
		{"unknown local region", queue.SQE{RemoteKey: to.Key, Region: 99}, "local"},
		{"offset overflows", queue.SQE{RemoteKey: to.Key, RemoteOffset: ^uint64(0)}, ""},
		{"operation", queue.SQE{Op: 77, RemoteKey: to.Key}, ""},
		{"flags", queue.SQE{Flags: 0x80, RemoteKey: to.Key}, ""},
		{"reserved", queue.SQE{Reserved: [3]uint32{1}, RemoteKey: to.Key}, ""},
		{"connection", queue.SQE{Conn: 4242, RemoteKey: to.Key}, ""},
	} {
		e := c.e
		if e.Op == 0 {
			e.Op = queue.OpWrite
		}
		if e.Conn == 0 {
			e.Conn = a.conn
		}
		if e.Region == 0 {
			e.Region = from.ID
		}
		e.Length, e.UserData = 100, 7
		a.post(&e)
		got := a.completion()
		if got.Status == 0 || got.UserData != 7 || !strings.Contains(strings.ToLower(fmt.Sprint(got.Status)), c.want) {
			t.Errorf("%s: status %v, want %q", c.name, got.Status, c.want)
		}
	}
	for _, mem := range [][]byte{dst, secret} {
		if !bytes.Equal(mem, make([]byte, len(mem))) {
			t.Error("a refused write changed memory")
		}
	}
	writeAndCompare(t, a, b, 4, 50_000)
}

// A session that scribbles over its queues ends, or has its entries refused;
// another one of the same daemon does not notice.
func TestScribblingClientDisturbsNobody(t *testing.T) {
	h := newHosts(t, 1)
	b := h.attach(h.b)
	good := h.attach(h.a)
	h.connect(good, b, "bytes")
	for seed := range uint64(12) {
		bad := h.attach(h.a)
		r := rand.New(rand.NewPCG(seed, 5))
		mem := bad.session.ringMem
		for range 2000 {
			mem[r.IntN(len(mem))] = byte(r.Uint32())
			if r.IntN(4) == 0 {
				mem[r.IntN(256)] = byte(r.Uint32()) // the indices
			}
		}
		h.a.worker.wake()
		writeAndCompare(t, good, b, 4, 50_000)
		bad.session.Close()
	}
	if n := len(h.a.Status().Connections); n != 1 {
		t.Errorf("%d connections are left, want the good one", n)
	}
}

// Sessions that end under traffic leave no region, connection or descriptor.
func TestDeathAtAnyInstantLeavesNothing(t *testing.T) {
	h := newHosts(t, 1)
	descriptors := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := 0
	for seed := range 13 {
		if seed == 1 {
			before = descriptors()
		}
		a, b := h.attach(h.a), h.attach(h.b)
		h.connect(a, b, fmt.Sprintf("death-%d", seed))
		from, _ := a.region(1<<20, 0)
		to, _ := b.region(1<<20, AccessRemoteWrite)
		for range 8 {
			a.post(&queue.SQE{Op: queue.OpWrite, Conn: a.conn, Region: from.ID, Length: 1 << 20, RemoteKey: to.Key})
		}
		for range seed {
			h.paused(func() {})
		}
		first, second := a, b
		if seed%2 == 1 {
			first, second = b, a
		}
		first.session.Close()
		second.event(EventClosed)
		second.session.Close()
	}
	if after := descriptors(); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	for _, d := range []*Dataplane{h.a, h.b} {
		if s := d.Status(); s.Sessions != 0 || s.Regions != 0 {
			t.Errorf("%d sessions and %d regions are left", s.Sessions, s.Regions)
		}
	}
}

func TestLimitsNameThemselves(t *testing.T) {
	h := newHosts(t, 1)
	a := h.attach(h.a)
	for range 8 {
		a.region(4096, 0)
	}
	_, err := a.session.AllocRegion(4096, 0)
	if err == nil || !strings.Contains(err.Error(), "8 regions") || !strings.Contains(err.Error(), "limits.regions_per_session") {
		t.Errorf("ninth region: %v", err)
	}
	big := h.attach(h.a)
	_, err = big.session.AllocRegion(65<<20, 0)
	if err == nil || !strings.Contains(err.Error(), "limits.region_bytes_per_session") {
		t.Errorf("region above the limit: %v", err)
	}
}

// A stream that takes no more messages leaves submissions in the queue. They must
// not keep the worker from sleeping: the peer may be slow, or gone for long.
func TestFullStreamLetsTheWorkerSleep(t *testing.T) {
	const entries = 2048 // more than a stream holds
	h := newHosts(t, 1)
	a, b := h.attachSized(h.a, entries, entries), h.attach(h.b)
	h.connect(a, b, "full")
	target, _ := b.region(8, AccessRemoteWrite)
	source, _ := a.region(8, 0)
	h.paused(func() { // b does not run, so nothing ends
		for i := range entries {
			if !a.post(&queue.SQE{Op: queue.OpWrite, Conn: a.conn, Region: source.ID, Length: 8, RemoteKey: target.Key}) {
				t.Errorf("submission %d: queue full", i)
				return // Fatal is not for the workers' goroutine
			}
		}
		w := h.a.worker
		w.lookAtSockets() // takes the wake that the first submission may have sent
		for range entries / sqBatch {
			w.clock()
			w.loop()
		}
		if n, err := w.active[0].sq.Peek(1); n == 0 || err != nil {
			t.Errorf("the stream took everything: %d left, %v", n, err)
		}
		if !w.waitingOnlyForRoom() {
			t.Error("the worker spins while a stream is full")
		}
	})
	for i := range entries {
		if e := a.completion(); e.Status != queue.StatusOK {
			t.Fatalf("completion %d: %v", i, e.Status.Err())
		}
	}
}
