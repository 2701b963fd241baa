package client

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/metaroced/metaroced/ctrl/ctrltest"
	"github.com/metaroced/metaroced/dataplane/queue"
)

// publish puts completions into the CQ and wakes the application if it asks.
func publish(t testing.TB, worker *ctrltest.Session, entries ...queue.CQE) {
	t.Helper()
	n, err := worker.CQ.Reserve(uint32(len(entries)))
	if err != nil || int(n) != len(entries) {
		t.Fatalf("room for %d of %d completions: %v", n, len(entries), err)
	}
	for i, e := range entries {
		*worker.CQ.Slot(uint32(i)) = e
	}
	worker.CQ.Submit(n)
	if worker.CQ.NeedWakeup() {
		_ = worker.Wake() // a full socket has wakes enough
	}
}

// echo completes up to n submissions and returns how many there were.
func echo(t testing.TB, worker *ctrltest.Session, n uint32) uint32 {
	t.Helper()
	n, err := worker.SQ.Peek(n)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		e := worker.SQ.At(i)
		publish(t, worker, queue.CQE{Op: queue.CompletionWrite, Conn: e.Conn, UserData: e.UserData, Bytes: uint64(e.Length), Stream: e.Stream})
	}
	worker.SQ.Release(n)
	return n
}

func TestWriteReachesTheWorkerWhole(t *testing.T) {
	s, c, worker := connect(t, Options{})
	r, err := s.AllocRegion(1<<16, 0)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Write(Write{
		Stream: 3, Local: r, LocalOffset: 64, Length: 1000, RemoteKey: 1<<63 + 5, RemoteOffset: 1 << 40,
		Imm: 77, HasImm: true, Fence: true, UserData: ^uint64(0),
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := worker.SQ.Peek(8); n != 1 || err != nil {
		t.Fatalf("worker sees %d entries, %v", n, err)
	}
	want := queue.SQE{
		Op: queue.OpWrite, Flags: queue.FlagImmediate | queue.FlagFence, Stream: 3, Conn: c.ID(), Region: r.ID(), Length: 1000,
		LocalOffset: 64, RemoteKey: 1<<63 + 5, RemoteOffset: 1 << 40, UserData: ^uint64(0), Imm: 77,
	}
	if got := worker.SQ.At(0); got != want {
		t.Errorf("entry %+v, want %+v", got, want)
	}
	if worker.Woken() {
		t.Error("a worker that does not sleep was woken")
	}
	worker.SQ.Release(1)

	worker.SQ.SetNeedWakeup(true)
	if err := c.Write(Write{}); err != nil {
		t.Fatal(err)
	}
	if !worker.Woken() {
		t.Error("a sleeping worker was not woken")
	}
}

func TestWriteChecksTheLocalSide(t *testing.T) {
	s, c, worker := connect(t, Options{})
	r, err := s.AllocRegion(1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.AllocRegion(1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	for _, w := range []Write{
		{Length: 1},
		{Length: 1, Local: other},
		{Length: 1, Local: &Region{}},
		{Length: 1001, Local: r},
		{Length: 1, LocalOffset: 1000, Local: r},
		{Length: 1, LocalOffset: -1, Local: r},
		{Length: ^uint32(0), LocalOffset: 1<<63 - 1, Local: r},
	} {
		if err := c.Write(w); !errors.Is(err, queue.ErrLocalAccess) {
			t.Errorf("%+v: %v", w, err)
		}
	}
	if n, _ := worker.SQ.Peek(1); n != 0 {
		t.Error("a refused write was posted")
	}
	if err := c.Write(Write{Length: 1000, Local: r}); err != nil {
		t.Error(err)
	}
}

func TestQueuesNeverOverflow(t *testing.T) {
	s, c, worker := connect(t, Options{SQEntries: 16, CQEntries: 64})
	for i := range 16 {
		if err := c.Write(Write{UserData: uint64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Write(Write{}); !errors.Is(err, ErrQueueFull) {
		t.Fatalf("17th entry in a queue of 16: %v", err)
	}
	posted := 16
	for { // the worker takes all, the application reaps none
		echo(t, worker, 16)
		err := c.Write(Write{})
		if errors.Is(err, ErrQueueFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		posted++
	}
	if posted != 64 {
		t.Errorf("%d writes under way with 64 completion entries", posted)
	}
	out := make([]Completion, 100)
	if n := s.Poll(out); n != 64 {
		t.Fatalf("reaped %d", n)
	}
	for i := range 16 {
		if out[i].UserData != uint64(i) || out[i].Op != OpWrite || out[i].Status.Err() != nil {
			t.Fatalf("completion %d: %+v", i, out[i])
		}
	}
	if err := c.Write(Write{}); err != nil {
		t.Errorf("write after reaping: %v", err)
	}
}

func TestPostAndPollDoNotAllocate(t *testing.T) {
	s, c, worker := connect(t, Options{})
	r, err := s.AllocRegion(4096, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]Completion, 16)
	worker.SQ.SetNeedWakeup(true) // with the wake, which is the longest way
	if n := testing.AllocsPerRun(1000, func() {
		for range 4 {
			if err := c.Write(Write{Local: r, Length: 64}); err != nil {
				t.Fatal(err)
			}
		}
		for worker.Woken() {
		}
		echo(t, worker, 16)
		if n := s.Poll(out); n != 4 {
			t.Fatalf("reaped %d of 4", n)
		}
		Yield()
	}); n > 5 { // of the test's own Woken: one per receive
		t.Errorf("%v allocations", n)
	}
	worker.SQ.SetNeedWakeup(false)
	if n := testing.AllocsPerRun(1000, func() {
		if err := c.Write(Write{Local: r, Length: 64}); err != nil {
			t.Fatal(err)
		}
		echo(t, worker, 16)
		if n := s.Poll(out); n != 1 {
			t.Fatalf("reaped %d of 1", n)
		}
	}); n != 0 {
		t.Errorf("%v allocations without a wake", n)
	}
}

// TestNoWakeIsLost lets both sides sleep and wake each other thousands of times;
// one lost wake and it hangs.
func TestNoWakeIsLost(t *testing.T) {
	const rounds = 20000
	s, c, worker := connect(t, Options{SQEntries: 16, CQEntries: 16})
	ctx := testContext(t)
	workerDone := make(chan struct{})
	go func() {
		defer close(workerDone)
		for done := uint32(0); done < rounds && ctx.Err() == nil; {
			n := echo(t, worker, 3)
			done += n
			if n == 0 {
				runtime.Gosched() // not Yield: the two sides may share a thread here
			}
		}
	}()
	out := make([]Completion, 2)
	posted, reaped := 0, 0
	for reaped < rounds {
		for posted < rounds && posted-reaped < 7 {
			if err := c.Write(Write{UserData: uint64(posted)}); err != nil {
				t.Fatal(err)
			}
			posted++
		}
		n, err := s.Wait(ctx, out)
		if err != nil {
			t.Fatalf("after %d of %d: %v", reaped, rounds, err)
		}
		for _, e := range out[:n] {
			if e.UserData != uint64(reaped) {
				t.Fatalf("completion %d came as number %d", e.UserData, reaped)
			}
			reaped++
		}
	}
	<-workerDone
}

func TestWaitEnds(t *testing.T) {
	s, _, worker := connect(t, Options{Spin: time.Microsecond})
	ctx, cancel := context.WithCancel(testContext(t))
	var out [1]Completion
	result := make(chan error, 1)
	wait := func(ctx context.Context) {
		_, err := s.Wait(ctx, out[:])
		result <- err
	}

	go wait(ctx)
	eventually(t, "Wait is about to sleep", worker.CQ.NeedWakeup)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}

	go wait(context.Background())
	eventually(t, "Wait is about to sleep", worker.CQ.NeedWakeup)
	publish(t, worker, queue.CQE{Op: queue.CompletionWriteImmReceived, Imm: 9})
	if err := <-result; err != nil || out[0].Imm != 9 || out[0].Op != OpWriteImmReceived {
		t.Errorf("woken with %+v, %v", out[0], err)
	}

	if _, err := s.Wait(ctx, nil); err == nil {
		t.Error("waiting without room")
	}

	go wait(context.Background())
	eventually(t, "Wait is about to sleep", worker.CQ.NeedWakeup)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-result; !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if n := s.Poll(out[:]); n != 0 {
		t.Errorf("poll of a closed session: %d", n)
	}
}

func TestScribbledQueuesEndTheSession(t *testing.T) {
	s, c, _ := connect(t, Options{SQEntries: 16, CQEntries: 64})
	for i := range s.memory[:4096] {
		s.memory[i] = 0x55
	}
	var err error
	for range 17 { // the index is read when the known room is used up
		if err = c.Write(Write{}); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "impossible index") {
		t.Errorf("write: %v", err)
	}
	if s.Err() == nil {
		t.Error("session goes on")
	}
}
