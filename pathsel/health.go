package pathsel

import "math/bits"

// enter moves a path into a state.
func (pl *plane) enter(p *Path, s State) {
	bit := uint64(1) << p.ID
	pl.active &^= bit
	pl.suspect &^= bit
	pl.probing &^= bit
	pl.down &^= bit
	switch s {
	case Active:
		pl.active |= bit
	case Suspect:
		pl.suspect |= bit
	case Probing:
		pl.probing |= bit
	case Down:
		pl.down |= bit
	}
	p.State = s
	pl.set &= pl.active
	p.probes, p.answers = 0, 0
}

// heard takes a sign of life: suspicion ends. A path that is Down must answer
// probes, since what arrives now may have left before.
func (t *Table) heard(now int64, pl *plane, p *Path) {
	p.LastHeard = now
	if p.State == Suspect {
		pl.enter(p, Active)
	}
}

// OnTimeout says that a path's tail timer expired and nothing was heard on it
// since. An active path becomes Suspect and is probed at once. How many timers
// expire does not matter, since the runs of one outage expire together; how
// many probes stay unanswered does. It returns the path's state.
func (t *Table) OnTimeout(now int64, plane, id int) State {
	pl, p := &t.planes[plane], t.Path(plane, id)
	if p.State == Active {
		pl.enter(p, Suspect)
		p.probeAt = now
		pl.probeAt = min(pl.probeAt, now)
	}
	return p.State
}

// PlaneSilent says that nothing at all is heard on a plane while others are:
// all its paths are Down at once.
func (t *Table) PlaneSilent(now int64, plane int) {
	pl := &t.planes[plane]
	if pl.silent {
		return
	}
	t.allDown(plane)
	if pl.linkUp {
		pl.downAt = now
	}
}

// SetPlaneUp says whether the plane's links, here and at the peer, are up.
// While they are not, its paths are Down and not probed; afterwards they are
// probed at once. Repeating what is known changes nothing.
func (t *Table) SetPlaneUp(plane int, up bool) {
	pl := &t.planes[plane]
	if pl.linkUp == up {
		return
	}
	pl.linkUp = up
	t.allDown(plane)
	if up {
		pl.downAt = 0
	}
}

// allDown puts every path of a plane Down, unprobed for now.
func (t *Table) allDown(plane int) {
	pl := &t.planes[plane]
	for i := range t.planePaths(plane) {
		pl.enter(t.Path(plane, i), Down)
	}
	pl.silent = true
	pl.current, pl.left = -1, 0
	pl.probeAt, pl.downAt, pl.downBackoff = never, never, downMinNanos
}

// allActive returns every path of a plane to service.
func (t *Table) allActive(plane int) {
	pl := &t.planes[plane]
	for i := range t.planePaths(plane) {
		pl.enter(t.Path(plane, i), Active)
	}
	pl.silent = false
	pl.probeAt, pl.downAt, pl.downBackoff = never, never, downMinNanos
}

// OnProbeAck takes the answer to a probe with its RTT, 0 for none, and returns
// the path's state: Suspect becomes Active; Down becomes Probing and is asked
// again at once; the second answer makes it Active, and with it, when the whole
// plane was Down, all paths of the plane. An answer over a link that is not up
// counts for nothing.
func (t *Table) OnProbeAck(now int64, plane, id int, rtt int64) State {
	pl, p := &t.planes[plane], t.Path(plane, id)
	if !pl.linkUp {
		return p.State
	}
	if rtt > 0 {
		p.measure(now, rtt)
		pl.measure(now, rtt)
	}
	p.LastHeard = now
	switch p.State {
	case Suspect:
		pl.enter(p, Active)
	case Down:
		pl.enter(p, Probing)
		p.answers = 1
		p.probeAt = now
		pl.probeAt = min(pl.probeAt, now)
		pl.downBackoff = downMinNanos
		pl.scheduleDown(now)
	case Probing:
		if p.answers++; p.answers < answersNeeded {
			p.probes = 0
			break
		}
		if pl.silent {
			t.allActive(plane)
		} else {
			pl.enter(p, Active)
		}
	}
	return p.State
}

// scheduleDown sets when the next Down path is probed. While one path speaks
// for a silent plane no other is asked.
func (pl *plane) scheduleDown(now int64) {
	switch {
	case pl.down == 0 || !pl.linkUp || (pl.silent && pl.probing != 0):
		pl.downAt = never
	case pl.downAt == never || pl.downAt <= now:
		pl.downAt = now + pl.downBackoff
	}
}

// PlaneState returns the best state of a plane's paths, but Down rather than
// Probing: until a second answer no packet may take the plane.
func (t *Table) PlaneState(plane int) State {
	pl := &t.planes[plane]
	switch {
	case pl.active != 0:
		return Active
	case pl.suspect != 0:
		return Suspect
	default:
		return Down
	}
}

// UsablePlanes returns the mask of planes that are not Down.
func (t *Table) UsablePlanes() uint8 {
	var m uint8
	for i := range t.cfg.Planes {
		if t.PlaneState(i) != Down {
			m |= 1 << i
		}
	}
	return m
}

// ProbeDeadline returns when NextProbe has the next probe, the largest int64
// for never.
func (t *Table) ProbeDeadline() int64 {
	at := int64(never)
	for i := range t.cfg.Planes {
		at = min(at, t.planes[i].probeAt, t.planes[i].downAt)
	}
	return at
}

// NextProbe returns a path to be probed now, and counts the probe as sent. Call
// it until ok is false. Suspect and Probing paths are asked once per RTO, the
// Down paths of a plane in turn, one at a time, with growing pauses.
func (t *Table) NextProbe(now int64) (plane, id int, ok bool) {
	for i := range t.cfg.Planes {
		pl := &t.planes[i]
		if pl.probeAt <= now {
			if id := t.nextSuspect(now, i); id >= 0 {
				return i, id, true
			}
		}
		if pl.downAt <= now {
			pl.downLast = int8(after(pl.down, int(pl.downLast)))
			pl.scheduleDown(now)
			pl.downBackoff = min(2*pl.downBackoff, downMaxNanos)
			return i, int(pl.downLast), true
		}
	}
	return 0, 0, false
}

// nextSuspect returns a Suspect or Probing path whose probe is due, or -1, and
// sends down those that left too many unanswered.
func (t *Table) nextSuspect(now int64, plane int) int {
	pl := &t.planes[plane]
	pause := t.RTO(plane)
	found := -1
	pl.probeAt = never
	for m := pl.suspect | pl.probing; m != 0; m &= m - 1 {
		p := t.Path(plane, bits.TrailingZeros64(m))
		if p.probeAt <= now && found < 0 {
			limit := t.cfg.SuspectLimit
			if p.State == Probing {
				limit = probingLimit
			}
			if int(p.probes) >= limit {
				pl.enter(p, Down)
				pl.silent = pl.silent || pl.active|pl.suspect|pl.probing == 0
				pl.scheduleDown(now)
				continue
			}
			p.probes++
			p.probeAt = now + pause
			found = int(p.ID)
		}
		pl.probeAt = min(pl.probeAt, p.probeAt)
	}
	return found
}
