package transport

import "math"

// never is a deadline that does not come.
const never = int64(math.MaxInt64)

// deadlineHeap orders connections by their next deadline. A connection is in
// it once; moving a deadline later is done lazily, when the old one comes.
type deadlineHeap struct{ conns []*Conn }

func (h *deadlineHeap) next() int64 {
	if len(h.conns) == 0 {
		return never
	}
	return h.conns[0].deadline
}

// arm makes sure c is looked at no later than at.
func (h *deadlineHeap) arm(c *Conn, at int64) {
	if c.heapIndex < 0 {
		if at == never {
			return
		}
		c.deadline = at
		c.heapIndex = len(h.conns)
		h.conns = append(h.conns, c)
		h.up(c.heapIndex)
		return
	}
	if at < c.deadline {
		c.deadline = at
		h.up(c.heapIndex)
	}
}

// pop takes the earliest connection out.
func (h *deadlineHeap) pop() *Conn {
	c := h.conns[0]
	h.remove(c)
	return c
}

func (h *deadlineHeap) remove(c *Conn) {
	i := c.heapIndex
	if i < 0 {
		return
	}
	last := len(h.conns) - 1
	h.swap(i, last)
	h.conns[last] = nil
	h.conns = h.conns[:last]
	c.heapIndex = -1
	if i < last {
		h.up(i)
		h.down(i)
	}
}

func (h *deadlineHeap) swap(i, j int) {
	h.conns[i], h.conns[j] = h.conns[j], h.conns[i]
	h.conns[i].heapIndex, h.conns[j].heapIndex = i, j
}

func (h *deadlineHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h.conns[parent].deadline <= h.conns[i].deadline {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *deadlineHeap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.conns) {
			return
		}
		if r := child + 1; r < len(h.conns) && h.conns[r].deadline < h.conns[child].deadline {
			child = r
		}
		if h.conns[i].deadline <= h.conns[child].deadline {
			return
		}
		h.swap(i, child)
		i = child
	}
}
