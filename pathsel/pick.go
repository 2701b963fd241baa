package pathsel

import "math/bits"

// Pick returns the path of a plane that the next packet takes, or -1 when none
// can take one now: all have F packets in flight, or the plane is not to be
// used. The plane's window, in packets, sets how many paths are in use. Nothing
// is counted until OnSent, so Pick may be called again without sending.
func (t *Table) Pick(now int64, plane int, windowPackets int64) int {
	pl := &t.planes[plane]
	if c := pl.current; c >= 0 && pl.left > 0 && (pl.active&^pl.full)>>uint(c)&1 != 0 {
		return int(c)
	}
	return t.nextRun(now, pl, plane, windowPackets)
}

// PickOther returns a path of the plane other than one, for a packet that must
// leave that, or -1. It ends that path's run.
func (t *Table) PickOther(now int64, plane, notPath int) int {
	pl := &t.planes[plane]
	if int(pl.current) == notPath {
		pl.left = 0
	}
	pl.wake(now, t.planePaths(plane))
	not := ^(uint64(1) << uint(notPath))
	open := pl.active &^ pl.full & not
	if clean := open &^ pl.resting; clean != 0 {
		open = clean
	}
	if open == 0 {
		open = t.trickle(pl, plane) & not
	}
	if open == 0 {
		return -1
	}
	return after(open, notPath)
}

// nextRun starts a run on the next path of the working set.
func (t *Table) nextRun(now int64, pl *plane, plane int, windowPackets int64) int {
	if pl.active == 0 {
		return t.lastResort(pl, plane)
	}
	paths := t.planePaths(plane)
	pl.wake(now, paths)
	width := int(min(max(windowPackets/int64(2*t.cfg.RunPackets), 1), int64(t.cfg.PathsPerPlane)))
	pl.resize(width)
	open := pl.active &^ pl.full
	id := pl.choose(pl.set&open, paths, t.pile(pl))
	if id < 0 {
		// The whole working set is full or piled up: a path outside it may not be.
		id = pl.choose(open&^pl.set&^pl.resting, paths, t.pile(pl))
	}
	if id < 0 && open != 0 {
		id = after(open, int(pl.last))
	}
	if id < 0 {
		return -1
	}
	pl.current, pl.last, pl.left = int8(id), int8(id), int32(t.cfg.RunPackets)
	return id
}

// pile is how many packets in flight make a path passed over: twice the
// average of the working set and a run more. Spraying then follows the rate at
// which each path delivers, and a slow one cannot gather the whole window.
func (t *Table) pile(pl *plane) int32 {
	n := max(bits.OnesCount64(pl.set), 1)
	return int32(2*uint32(pl.inFlight)/uint32(n)) + 2*int32(t.cfg.RunPackets)
}

// choose goes round the candidates from the last run's path on. A path whose
// weight was cut is passed over now and then: it gathers its weight at each
// visit and is taken when that makes a whole one. Each candidate is visited at
// most once; when all were passed over, the first one not piled up is taken.
func (pl *plane) choose(candidates uint64, paths []Path, pile int32) int {
	first := -1
	for id := int(pl.last); candidates != 0; {
		id = after(candidates, id)
		candidates &^= 1 << uint(id)
		p := &paths[id]
		if p.InFlight >= pile {
			continue
		}
		if p.Weight == fullWeight {
			return id
		}
		if p.deficit += p.Weight; p.deficit >= fullWeight {
			p.deficit -= fullWeight
			return id
		}
		if first < 0 {
			first = id
		}
	}
	return first
}

// resize moves the working set one path towards its width: in come paths with
// full weight first, then others; none that rest. Out goes the path whose run
// has just ended. A set up to a quarter too large is left alone, since a path
// that leaves has no later packets to show its last losses.
func (pl *plane) resize(width int) {
	pl.set &= pl.active &^ pl.resting
	n := bits.OnesCount64(pl.set)
	switch {
	case n < width:
		in := pl.active &^ pl.resting &^ pl.set
		if clean := in &^ pl.cut; clean != 0 {
			in = clean
		}
		if in == 0 {
			if pl.set == 0 {
				pl.set = pl.active // all rest: the window must do it
			}
			return
		}
		pl.set |= 1 << uint(after(in, int(pl.last)))
	case n > width+width/4 && pl.current >= 0:
		pl.set &^= 1 << uint(pl.current)
	}
}

// wake ends the rest of paths whose time has come.
func (pl *plane) wake(now int64, paths []Path) {
	if now < pl.restEnd {
		return
	}
	pl.restEnd = never
	for m := pl.resting; m != 0; m &= m - 1 {
		id := bits.TrailingZeros64(m)
		if until := paths[id].restUntil; until <= now {
			pl.resting &^= 1 << uint(id)
		} else {
			pl.restEnd = min(pl.restEnd, until)
		}
	}
}

// lastResort picks among suspect paths when a plane has no active one. Each
// gets one packet at a time, so that retransmissions test all of them.
func (t *Table) lastResort(pl *plane, plane int) int {
	open := t.trickle(pl, plane)
	if open == 0 {
		return -1
	}
	id := after(open, int(pl.last))
	pl.current, pl.last, pl.left = -1, int8(id), 0
	return id
}

// trickle is the set of suspect paths that may take a packet.
func (t *Table) trickle(pl *plane, plane int) uint64 {
	if pl.active != 0 {
		return 0
	}
	var open uint64
	paths := t.planePaths(plane)
	for m := pl.suspect &^ pl.full; m != 0; m &= m - 1 {
		id := bits.TrailingZeros64(m)
		if paths[id].InFlight < suspectPackets {
			open |= 1 << uint(id)
		}
	}
	return open
}

func (t *Table) planePaths(plane int) []Path {
	n := t.cfg.PathsPerPlane
	return t.paths[plane*n : plane*n+n]
}

// after returns the first bit of a non-empty mask above position i, going
// round; i from -1 to 63.
func after(mask uint64, i int) int {
	if above := mask &^ (1<<uint(i+1) - 1); above != 0 {
		return bits.TrailingZeros64(above)
	}
	return bits.TrailingZeros64(mask)
}
