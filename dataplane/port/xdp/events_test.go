package xdp

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/dataplane/port"
	"github.com/metaroced/metaroced/internal/testenv"
	"github.com/metaroced/metaroced/umem"
)

func (p plane) waitCarrier(t *testing.T, end int) {
	t.Helper()
	waitFor(t, "carrier", func() (up bool) {
		p.change(t, end, func(l netlink.Link) error {
			up = l.Attrs().OperState == netlink.OperUp
			return nil
		})
		return up
	})
}

// Kick says that the link is down; what was published goes out when it is up.
func TestOwnLinkDownAndUp(t *testing.T) {
	g := newGroup(t, 2<<20)
	p := newPlane(t, 0, testenv.VethOpts{})
	from, to := p.open(t, g, 0, small), p.open(t, g, 1, small)
	for round := range uint32(3) {
		p.change(t, 0, netlink.LinkSetDown)
		descs := make([]port.Desc, 3)
		from.AllocTx(descs)
		for i := range descs {
			descs[i].Len = 500
			fill(from.Bytes(descs[i]), round+uint32(i))
		}
		from.Send(descs)
		err := from.Kick()
		if !errors.Is(err, port.ErrLinkDown) || !strings.Contains(err.Error(), "plane a0") {
			t.Fatalf("Kick on a link that is down: %v", err)
		}
		if from.Unsent() != 3 {
			t.Errorf("%d unsent", from.Unsent())
		}
		p.change(t, 0, netlink.LinkSetUp)
		p.waitCarrier(t, 0)
		p.waitCarrier(t, 1)
		if err := from.Kick(); err != nil {
			t.Fatal(err)
		}
		if seeds := receive(t, to, 3); seeds[0] != round || from.Unsent() != 0 {
			t.Errorf("received %v, %d unsent", seeds, from.Unsent())
		}
		checkAccounts(t, from, to)
	}
}

// Without carrier packets are dropped one by one; the frames come back, no Kick
// takes for ever, and the ring does not jam.
func TestPeerLinkDownAndUp(t *testing.T) {
	g := newGroup(t, 2<<20)
	p := newPlane(t, 0, testenv.VethOpts{})
	from, to := p.open(t, g, 0, small), p.open(t, g, 1, small)
	p.change(t, 1, netlink.LinkSetDown)
	for range 5 {
		if n := send(t, from, 0, 64, fixed(500)); n != 64 {
			t.Fatalf("room for %d packets", n)
		}
		waitFor(t, "completions", func() bool {
			if err := from.Kick(); err != nil {
				t.Fatal(err)
			}
			return from.Unsent() == 0 && stats(from).TxFrames[umem.Tx] == 0
		})
	}
	if s := stats(from); s.TxKickErrors == 0 {
		t.Errorf("%+v", s)
	}
	p.change(t, 1, netlink.LinkSetUp)
	p.waitCarrier(t, 0)
	p.waitCarrier(t, 1)
	send(t, from, 9, 16, fixed(500))
	receive(t, to, 16)
	checkAccounts(t, from, to)
}

// The first socket's device vanishes: the others go on, new ones share from them,
// and when all are gone the arena is registered again.
func TestDeviceVanishes(t *testing.T) {
	g := newGroup(t, 4<<20)
	var planes [4]plane
	var ends [4][2]*Port
	open := func(number int) {
		planes[number] = newPlane(t, number, testenv.VethOpts{})
		for end := range 2 {
			ends[number][end] = planes[number].open(t, g, end, small)
		}
	}
	works := func(number int) {
		t.Helper()
		send(t, ends[number][0], 5, 20, fixed(700))
		receive(t, ends[number][1], 20)
		checkAccounts(t, ends[number][:]...)
	}
	vanish := func(number int) {
		t.Helper()
		planes[number].change(t, 0, netlink.LinkDel)
		from := ends[number][0]
		waitFor(t, "ErrDeviceGone", func() bool {
			descs := make([]port.Desc, 1)
			if from.AllocTx(descs) == 1 {
				descs[0].Len = 64
				from.Send(descs)
			}
			err := from.Kick()
			return errors.Is(err, port.ErrDeviceGone)
		})
	}
	open(0)
	open(1)
	works(1)
	vanish(0)
	works(1)
	open(2)
	works(2)
	vanish(1)
	vanish(2)
	open(3)
	works(3)
	for _, pair := range ends[:3] {
		for _, p := range pair {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	works(3)
}

// The kernel releases a queue late; opening it again at once must work.
func TestReopenAtOnce(t *testing.T) {
	g := newGroup(t, 2<<20)
	p := newPlane(t, 0, testenv.VethOpts{})
	from := p.open(t, g, 0, small)
	for round := range uint32(6) {
		to := p.open(t, g, 1, small)
		send(t, from, round, 10, fixed(400))
		receive(t, to, 10)
		checkAccounts(t, from, to)
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
		if err := to.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
	}
}

// What the caller still has when the port closes is leaked, and the counters stay
// readable.
func TestCloseCountsLeaks(t *testing.T) {
	g := newGroup(t, 2<<20)
	p := newPlane(t, 0, testenv.VethOpts{})
	from, to := p.open(t, g, 0, small), p.open(t, g, 1, small)
	send(t, from, 0, 5, fixed(100))
	descs := make([]port.Desc, 5)
	got := 0
	waitFor(t, "packets", func() bool {
		got += to.Receive(descs[got:])
		return got == 5
	})
	to.Release(descs[:2])
	to.AllocTx(descs[:4])
	if err := errors.Join(from.Close(), to.Close()); err != nil {
		t.Fatal(err)
	}
	if s := stats(to); s.FramesLeaked != 3+4 || s.RxPackets != 5 {
		t.Errorf("%+v", s)
	}
	if s := stats(from); s.FramesLeaked != 0 || s.TxPackets != 5 {
		t.Errorf("%+v", s)
	}
}

// A queue somebody else has is tried for a while, then refused with the names of
// who may have it; nothing of ours stays.
func TestBusyQueueNamesHolder(t *testing.T) {
	g := newGroup(t, 2<<20)
	p := newPlane(t, 0, testenv.VethOpts{})
	c := small.withDefaults()
	c.BindTimeout = 20 * time.Millisecond
	var holder *socket
	err := p.spaces[1].Do(func() (err error) {
		if holder, err = newSocket(opener{}, &c, 4096); err != nil {
			return err
		}
		return errors.Join(
			holder.register(g.config.Arena.Bytes(), 4096),
			holder.bind(p.index[1], &c, unix.XDP_COPY, 0))
	})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err = p.tryOpen(g, 1, c)
	if !errors.Is(err, ErrQueueBusy) || !strings.Contains(err.Error(), "pid "+strconv.Itoa(os.Getpid())) ||
		!strings.Contains(err.Error(), "plane b0") || time.Since(start) < c.BindTimeout {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
	if err := holder.close(); err != nil {
		t.Fatal(err)
	}
	from, to := p.open(t, g, 0, small), p.open(t, g, 1, small)
	send(t, from, 0, 4, fixed(100))
	receive(t, to, 4)
	if _, err := p.tryOpen(g, 1, small); !errors.Is(err, ErrQueueBusy) {
		t.Errorf("own queue opened twice: %v", err)
	}
}

// Queues of one device are ports of their own.
func TestTwoQueuesOfOneDevice(t *testing.T) {
	g := newGroup(t, 2<<20)
	p := newPlane(t, 0, testenv.VethOpts{Queues: 2})
	var ends [2][2]*Port
	for queue := range uint32(2) {
		c := small
		c.Queue = queue
		ends[queue] = [2]*Port{p.open(t, g, 0, c), p.open(t, g, 1, c)}
	}
	if _, err := p.tryOpen(g, 0, Config{Mode: Generic, RxRing: 64, TxRing: 64}); !errors.Is(err, ErrQueueBusy) {
		t.Errorf("queue opened twice: %v", err)
	}
	for queue, pair := range ends {
		send(t, pair[0], uint32(queue), 12, fixed(300))
		receive(t, pair[1], 12)
	}
	if err := ends[0][1].Close(); err != nil {
		t.Fatal(err)
	}
	send(t, ends[1][0], 77, 12, fixed(300))
	receive(t, ends[1][1], 12)
	checkAccounts(t, ends[1][:]...)
	if _, err := p.tryOpen(g, 1, Config{Mode: Generic, RxRing: 64, TxRing: 64}); err == nil || !strings.Contains(err.Error(), "one mode") {
		t.Errorf("generic beside native: %v", err)
	}
}

// A sleeper on Fd wakes for packets, and only for them.
func TestSleepsUntilPacketsCome(t *testing.T) {
	g := newGroup(t, 2<<20)
	p := newPlane(t, 0, testenv.VethOpts{})
	from, to := p.open(t, g, 0, small), p.open(t, g, 1, small)
	wait := func(limit int) bool {
		fds := []unix.PollFd{{Fd: int32(to.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, limit)
		if err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
		return n == 1 && fds[0].Revents == unix.POLLIN
	}
	if wait(5) {
		t.Error("awake without packets")
	}
	send(t, from, 0, 3, fixed(100))
	waitFor(t, "wake-up", func() bool { return wait(100) })
	receive(t, to, 3)
	if wait(5) {
		t.Error("awake after all packets were taken")
	}
}
