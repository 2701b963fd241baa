package congestion

import "fmt"

// Allocator divides the inbound bandwidth of one plane of a receiver among the
// senders heard on it: equally among those heard within heardNanos. It is
// O(1) per arrival; the number of active senders is kept by an intrusive list
// in order of last arrival.
type Allocator struct {
	rate    int64 // bits per second that are given out
	senders []sender
	free    []int32
	limit   int
	first   int32 // heard longest ago, -1: none
	last    int32
	active  int64
}

// sender is one sender's place in the list.
type sender struct {
	heardAt    int64
	backlog    int64
	prev, next int32
	listed     bool
	share      int64 // last told, for hysteresis
}

const (
	defaultHeadroom = 98 // percent of the link that is given out
	// heardNanos is how long a sender counts after its last packet.
	heardNanos = 2_000_000
	// startBytes is what a shallow port takes from senders that start together.
	startBytes = 500_000
	// maxStartPackets bounds what one sender may start with.
	maxStartPackets = 16
	startPacket     = 4096
	// shareFloorPackets: a share is never below one packet per 8 ms.
	shareFloor = startPacket * 8 * 125
)

// Init starts an allocator for a link. headroomPercent 0 means 98.
func (a *Allocator) Init(linkBitsPerSec int64, headroomPercent, maxSenders int) {
	if headroomPercent == 0 {
		headroomPercent = defaultHeadroom
	}
	*a = Allocator{rate: linkBitsPerSec / 100 * int64(headroomPercent), limit: maxSenders, first: -1, last: -1}
}

// Add registers a sender. It returns false when there are too many.
func (a *Allocator) Add(now int64) (id int, ok bool) {
	if n := len(a.free); n > 0 {
		id = int(a.free[n-1])
		a.free = a.free[:n-1]
	} else {
		if len(a.senders) >= a.limit {
			return 0, false
		}
		id = len(a.senders)
		a.senders = append(a.senders, sender{})
	}
	a.senders[id] = sender{heardAt: now, prev: -1, next: -1}
	return id, true
}

// Remove forgets a sender.
func (a *Allocator) Remove(id int) {
	a.unlink(int32(id))
	a.free = append(a.free, int32(id))
}

func (a *Allocator) unlink(i int32) {
	s := &a.senders[i]
	if !s.listed {
		return
	}
	if s.prev >= 0 {
		a.senders[s.prev].next = s.next
	} else {
		a.first = s.next
	}
	if s.next >= 0 {
		a.senders[s.next].prev = s.prev
	} else {
		a.last = s.prev
	}
	s.listed = false
	a.active--
}

func (a *Allocator) append(i int32) {
	s := &a.senders[i]
	s.prev, s.next, s.listed = a.last, -1, true
	if a.last >= 0 {
		a.senders[a.last].next = i
	} else {
		a.first = i
	}
	a.last = i
	a.active++
}

// OnArrival notes wire bytes of a sender and what it says is waiting.
func (a *Allocator) OnArrival(now int64, id int, _, backlogBytes int64) {
	s := &a.senders[id]
	s.heardAt, s.backlog = now, backlogBytes
	if i := int32(id); a.last != i {
		a.unlink(i)
		a.append(i)
	}
	a.expire(now)
}

// expire takes senders out that were not heard for a while.
func (a *Allocator) expire(now int64) {
	for a.first >= 0 && now-a.senders[a.first].heardAt > heardNanos {
		a.unlink(a.first)
	}
}

// Share is what a sender may send at, in bits per second. A change of less
// than 3 % is not reported as one.
func (a *Allocator) Share(now int64, id int) int64 {
	a.expire(now)
	s := &a.senders[id]
	n := a.active
	if !s.listed {
		n++
	}
	share := max(a.rate/max(n, 1), shareFloor)
	if d := share - s.share; d > s.share/32 || -d > s.share/32 {
		s.share = share
	}
	return s.share
}

// StartAllowance is how many packets a sender may start with: what a shallow
// port takes, divided by those that send now, from 1 to 16.
func (a *Allocator) StartAllowance(now int64) int64 {
	a.expire(now)
	return min(max(startBytes/startPacket/max(a.active, 1), 1), maxStartPackets)
}

// String shows the allocator to people.
func (a *Allocator) String() string {
	return fmt.Sprintf("%d of %d senders share %d b/s", a.active, len(a.senders)-len(a.free), a.rate)
}
