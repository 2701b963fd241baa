package transport

import (
	"fmt"
	"testing"
)

// checkEngine compares everything an engine counts twice. It is called between
// any two events, so a leak shows where it happens.
func checkEngine(t testing.TB, name string, e *Engine, now int64) {
	t.Helper()
	active, pending, inHeap := 0, 0, 0
	queued := map[*Conn][MaxPlanes]int{}
	for plane := range e.ready {
		q := &e.ready[plane]
		for i := range q.n {
			c := q.buf[(q.head+i)&(len(q.buf)-1)]
			counts := queued[c]
			counts[plane]++
			queued[c] = counts
		}
	}
	for _, c := range e.conns {
		if c == nil {
			continue
		}
		active++
		if c.state == stateIncoming || c.state == stateAccepting {
			pending++
		}
		if c.heapIndex >= 0 {
			inHeap++
			if e.deadline.conns[c.heapIndex] != c {
				t.Fatalf("%s: heap index of connection %v is wrong", name, c.id)
			}
		}
		if at := c.nextDeadline(now); at != never && (c.heapIndex < 0 || c.deadline > max(at, now+1)) {
			t.Fatalf("%s: connection %v (%v) wants attention in %d us and is not in the heap for that", name, c.id, c.state, (at-now)/1000)
		}
		for plane := range c.tx {
			if n := queued[c][plane]; n > 1 || (n == 1) != c.tx[plane].queued {
				t.Fatalf("%s: connection %v is %d times in the ready list of plane %d, queued is %v", name, c.id, n, plane, c.tx[plane].queued)
			}
		}
		if err := checkConn(c); err != nil {
			t.Fatalf("%s: connection %v (%v): %v", name, c.id, c.state, err)
		}
	}
	if active != e.active || pending != e.pending || inHeap != len(e.deadline.conns) {
		t.Fatalf("%s: %d connections, counted %d; %d pending, counted %d; %d in the heap of %d", name,
			active, e.active, pending, e.pending, inHeap, len(e.deadline.conns))
	}
	for i := 1; i < len(e.deadline.conns); i++ {
		if e.deadline.conns[(i-1)/2].deadline > e.deadline.conns[i].deadline {
			t.Fatalf("%s: the heap is out of order", name)
		}
	}
}

func checkConn(c *Conn) error {
	if !c.state.carriesData() {
		return nil
	}
	if err := checkFlight(c); err != nil {
		return err
	}
	if err := checkLog(c); err != nil {
		return err
	}
	used, backlog := 0, uint64(0)
	for i := range c.msgs.slots {
		m := &c.msgs.slots[i]
		if m.kind == messageFree {
			continue
		}
		used++
		if m.kind == messageWrite && m.next < m.count {
			backlog += m.length - uint64(m.next)*uint64(c.maxPayload)
		}
		if m.failed && m.mem != nil {
			return fmt.Errorf("a failed message still refers to memory")
		}
	}
	if used != c.msgs.used || used+len(c.msgs.free) != len(c.msgs.slots) {
		return fmt.Errorf("%d messages, counted %d, %d slots free of %d", used, c.msgs.used, len(c.msgs.free), len(c.msgs.slots))
	}
	if backlog != c.backlog {
		return fmt.Errorf("backlog %d, counted %d", backlog, c.backlog)
	}
	for id, s := range c.recvS {
		if s != nil && int32(s.next-s.consumed) < 0 {
			return fmt.Errorf("stream %d: consumed more than was complete", id)
		}
	}
	return nil
}

// checkFlight compares packets in flight with what congestion control and the
// path table count.
func checkFlight(c *Conn) error {
	for plane := range c.planes {
		bytes := int64(0)
		for path := range c.paths {
			s := &c.tx[plane].paths[path]
			if s.span() > c.pathInFlight {
				return fmt.Errorf("path %d/%d: %d PSNs unresolved, F is %d", plane, path, s.span(), c.pathInFlight)
			}
			packets := int32(0)
			for psn := s.una; psn != s.next; psn++ {
				if p := s.at(psn); p.state == sentOut {
					packets++
					bytes += int64(p.bytes)
				}
			}
			if got := c.table.Path(plane, path).InFlight; got != packets {
				return fmt.Errorf("path %d/%d: %d packets in flight, the table counts %d", plane, path, packets, got)
			}
		}
		if got := c.tx[plane].cc.InFlight(); got != bytes {
			return fmt.Errorf("plane %d: %d bytes in flight, congestion control counts %d", plane, bytes, got)
		}
		// Whatever is in flight is under the tail timer.
		watched := 0
		q := &c.tx[plane].runs
		for i := range q.n {
			r := &q.buf[(q.head+i)&(len(q.buf)-1)]
			watched += int(r.last - r.first + 1)
		}
		if bytes > 0 && watched == 0 {
			return fmt.Errorf("plane %d: %d bytes in flight and no timer", plane, bytes)
		}
	}
	return nil
}

// checkLog follows every DSN that is not yet placed: it is in flight once, or
// waits once to be sent again.
func checkLog(c *Conn) error {
	waiting := map[uint64]int{}
	for plane := range c.tx {
		q := &c.tx[plane].resend
		for i := range q.n {
			waiting[uint64(q.buf[(q.head+i)&(len(q.buf)-1)])]++
		}
	}
	if c.log.next-c.log.cumulative > c.log.window {
		return fmt.Errorf("%d DSNs outstanding, the window is %d", c.log.next-c.log.cumulative, c.log.window)
	}
	for d := c.log.cumulative; d < c.log.next; d++ {
		r := c.log.at(d)
		switch r.state {
		case recordSent:
			s := &c.tx[r.plane].paths[r.path]
			if p := s.at(r.psn); int32(r.psn-s.una) < 0 || p.state != sentOut || p.dsn != d {
				return fmt.Errorf("DSN %d is said to be in flight as PSN %d of path %d/%d and is not", d, r.psn, r.plane, r.path)
			}
		case recordQueued:
			if waiting[uint64(d)] != 1 {
				return fmt.Errorf("DSN %d waits %d times to be sent again", d, waiting[uint64(d)])
			}
		case recordAcked:
		default:
			return fmt.Errorf("DSN %d has no state", d)
		}
	}
	return nil
}

// checkNothingLeft is what must hold when every connection is gone.
func checkNothingLeft(t testing.TB, name string, e *Engine) {
	t.Helper()
	left := 0
	e.Connections(func(*Conn) { left++ })
	ready, replies := 0, 0
	for i := range e.ready {
		ready += e.ready[i].len()
		replies += e.replies[i].len()
	}
	if left+e.active+e.pending+len(e.dialed)+len(e.deadline.conns)+ready+replies+e.events.len() != 0 {
		t.Errorf("%s: left over: %d connections, %d active, %d pending, %d dialled, %d deadlines, %d ready, %d replies, %d events", name,
			left, e.active, e.pending, len(e.dialed), len(e.deadline.conns), ready, replies, e.events.len())
	}
}
