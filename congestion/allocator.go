package congestion

const (
	defaultHeadroom = 0.98
	// hungryNanos is how long a sender that reported a backlog keeps its share
	// while nothing comes: longer than a host is off its CPU.
	hungryNanos = 10_000_000
	// quietNanos is how long a sender whose backlog is gone keeps its share, and
	// after that how long it counts as present.
	quietNanos = 2_000_000
	// recomputeNanos is the least time between recomputations that no sender's
	// coming or going causes.
	recomputeNanos = 100_000
	// modestNanos is the interval over which the senders that are limited
	// elsewhere are measured.
	modestNanos = 1_000_000
	// hysteresis is the reciprocal of the change that counts as one, 3 %.
	hysteresis = 33
	// minShareBits is the smallest share: a packet of 4 KiB in 33 ms, so that an
	// acknowledgment with a better one comes soon.
	minShareBits = 1_000_000
	// startBytes is what all senders that start together may send unasked, and
	// maxStartPackets what one may.
	startBytes       = 512 << 10
	startPacketBytes = 4096
	maxStartPackets  = 16
)

// class is what a sender currently wants.
type class uint8

const (
	absent    class = iota // not heard recently
	hungry                 // its newest packet reported a backlog
	fed                    // its newest packet reported none, its share is still kept
	modest                 // sends, but less than its share
	classes                // number of lists
	unclaimed              // identifier not in use
)

// counted says whether senders of this class divide the link.
func (c class) counted() bool { return c == hungry || c == fed }

// lifeNanos is how long a sender stays in a class.
var lifeNanos = [classes]int64{hungry: hungryNanos, fed: quietNanos, modest: quietNanos}

// sender is one entry of the allocator; prev and next link the senders of a
// class in the order of their since.
type sender struct {
	since      int64
	prev, next int32
	class      class
}

// list is a queue of senders, oldest first. Since every sender of a class has
// the same life there, only the front can be due.
type list struct {
	front, back int32
	count       int64
}

const none = -1

// Allocator divides the inbound bandwidth of one plane between the senders it
// hears. Senders with backlog get equal parts of what the modest ones leave:
// max-min fairness with the demand of a modest sender taken as what it sends.
// The parts add up to the link's speed less a headroom. The zero value is
// unusable; call Init.
//
//	            backlog              no backlog, 2 ms        2 ms
//	absent ────────────► hungry ◄──────────► fed ──────► modest ──────► absent
//	   └───────────────────│── no backlog ──────────────────▲
//	                       └── silent for 10 ms ──────────────────────► absent
type Allocator struct {
	capacity    int64 // bits/s
	senders     []sender
	free        int32 // list of unclaimed entries, by next
	lists       [classes]list
	hungryShare int64
	modestShare int64
	computedAt  int64
	changed     bool // someone came or went
	modestBytes int64
	modestSince int64
	modestRate  int64 // bits/s
}

// Init sets the link's speed in bits per second, the part of it to be handed
// out (0: 0.98) and the largest number of senders, for which it allocates.
func (a *Allocator) Init(linkBitsPerSec int64, headroom float64, maxSenders int) {
	if headroom <= 0 || headroom > 1 {
		headroom = defaultHeadroom
	}
	if linkBitsPerSec <= 0 {
		linkBitsPerSec = defaultLinkBits
	}
	*a = Allocator{
		capacity: max(int64(float64(linkBitsPerSec)*headroom), minShareBits),
		senders:  make([]sender, max(maxSenders, 0)),
		free:     none,
		changed:  true,
	}
	for i := range a.lists {
		a.lists[i] = list{front: none, back: none}
	}
	for i := len(a.senders) - 1; i >= 0; i-- {
		a.senders[i] = sender{next: a.free, class: unclaimed}
		a.free = int32(i)
	}
}

// Add registers a sender and returns its identifier. It is false when
// maxSenders are registered.
func (a *Allocator) Add(now int64) (id int, ok bool) {
	if a.free == none {
		return 0, false
	}
	i := a.free
	s := &a.senders[i]
	a.free = s.next
	*s = sender{since: now, prev: none, next: none, class: absent}
	return int(i), true
}

// Remove forgets a sender. Its identifier may be given to another. An unknown
// one is ignored.
func (a *Allocator) Remove(id int) {
	if !a.known(id) {
		return
	}
	i := int32(id)
	if a.senders[i].class.counted() {
		a.changed = true
	}
	a.unlink(i)
	a.senders[i] = sender{next: a.free, class: unclaimed}
	a.free = i
}

// OnArrival counts bytes that arrived from a sender, and the backlog it
// reported with the newest of them. An unknown identifier is ignored.
func (a *Allocator) OnArrival(now int64, id int, wireBytes, backlogBytes int64) {
	if !a.known(id) {
		return
	}
	i := int32(id)
	s := &a.senders[i]
	switch {
	case backlogBytes > 0:
		a.move(i, hungry, now)
	case s.class == hungry:
		a.move(i, fed, now)
	case s.class != fed: // a fed one becomes modest when its time is over
		a.move(i, modest, now)
	}
	if s.class == modest {
		a.modestBytes += wireBytes
	}
}

// Share returns the bits per second this sender may send.
func (a *Allocator) Share(now int64, id int) int64 {
	a.expire(now)
	if a.changed || now-a.computedAt >= recomputeNanos {
		a.recompute(now)
	}
	if a.known(id) && a.senders[id].class.counted() {
		return a.hungryShare
	}
	return a.modestShare
}

// StartAllowance returns how many packets a sender without a valid share may
// send at once: its part of what senders that start together may send, from 1
// to 16.
func (a *Allocator) StartAllowance(now int64) int64 {
	a.expire(now)
	present := a.lists[hungry].count + a.lists[fed].count + a.lists[modest].count
	if present <= startBytes/startPacketBytes/maxStartPackets {
		return maxStartPackets
	}
	return max(1, startBytes/startPacketBytes/present)
}

func (a *Allocator) known(id int) bool {
	return uint(id) < uint(len(a.senders)) && a.senders[id].class != unclaimed
}

// expire moves on the senders whose time in their class is over.
func (a *Allocator) expire(now int64) {
	for c := hungry; c < classes; c++ {
		for {
			i := a.lists[c].front
			if i == none || now-a.senders[i].since < lifeNanos[c] {
				break
			}
			to := absent
			if c == fed {
				to = modest
			}
			a.move(i, to, now)
		}
	}
}

// recompute divides the link anew.
func (a *Allocator) recompute(now int64) {
	a.computedAt = now
	a.changed = false
	if elapsed := now - a.modestSince; elapsed >= modestNanos {
		a.modestRate = mulDiv(a.modestBytes, 8*nanosPerSec, elapsed)
		a.modestBytes, a.modestSince = 0, now
	}
	count := a.lists[hungry].count + a.lists[fed].count
	// Modest senders never take more than half from the hungry: they would
	// report a backlog if they wanted it.
	left := a.capacity - min(a.modestRate, a.capacity/2)
	settle(&a.hungryShare, left/max(count, 1))
	// One that is modest now gets what it would get as one more hungry sender.
	settle(&a.modestShare, a.capacity/(count+1))
}

// settle moves a share unless the change is too small to be one.
func settle(share *int64, to int64) {
	to = max(to, minShareBits)
	if d := to - *share; d > *share/hysteresis || -d > *share/hysteresis {
		*share = to
	}
}

// move puts a sender at the end of a class's list.
func (a *Allocator) move(i int32, to class, now int64) {
	s := &a.senders[i]
	s.since = now
	if s.class == to && (to == absent || a.lists[to].back == i) {
		return
	}
	if s.class.counted() != to.counted() {
		a.changed = true
	}
	a.unlink(i)
	s.class = to
	if to == absent {
		return
	}
	l := &a.lists[to]
	s.prev, s.next = l.back, none
	if l.back == none {
		l.front = i
	} else {
		a.senders[l.back].next = i
	}
	l.back = i
	l.count++
}

// unlink takes a sender out of its class's list.
func (a *Allocator) unlink(i int32) {
	s := &a.senders[i]
	if s.class == absent {
		return
	}
	l := &a.lists[s.class]
	if s.prev == none {
		l.front = s.next
	} else {
		a.senders[s.prev].next = s.next
	}
	if s.next == none {
		l.back = s.prev
	} else {
		a.senders[s.next].prev = s.prev
	}
	l.count--
	s.class = absent
}
