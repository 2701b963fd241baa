package pathsel

import "math"

// set moves a path to a state and keeps the plane's counts.
func (t *Table) set(p *Path, s State) {
	pl := &t.planes[p.Plane]
	if p.State == Active {
		pl.notActive++
	}
	if p.State == Down {
		pl.down--
	}
	p.State = s
	if s == Active {
		pl.notActive--
	}
	if s == Down {
		pl.down++
	}
}

// Heard notes an acknowledgment of the path: a suspect is cleared.
func (t *Table) Heard(now int64, pl, id int) {
	p := t.Path(pl, id)
	p.LastHeard = now
	p.silent = 0
	if p.State == Suspect {
		t.set(p, Active)
		p.probeAt = 0
		t.schedule(pl)
	}
}

// OnTimeout says that a tail timer expired and nothing was heard of the path
// since. It returns the path's new state.
func (t *Table) OnTimeout(now int64, pl, id int) State {
	p := t.Path(pl, id)
	if p.State == Active {
		t.set(p, Suspect)
		p.silent = 0
		p.probeAt = now
		p.probePause = t.RTO(pl)
		t.schedule(pl)
	}
	t.countSilence(now, p)
	return p.State
}

// countSilence takes a suspect down that stays silent.
func (t *Table) countSilence(now int64, p *Path) {
	p.silent++
	if p.State == Suspect && p.silent > suspectLimit {
		t.takeDown(now, p)
	}
}

func (t *Table) takeDown(now int64, p *Path) {
	t.set(p, Down)
	p.answers = 0
	p.probePause = probeMinNanos
	p.probeAt = now + probeMinNanos
	t.schedule(int(p.Plane))
}

// PlaneSilent says that nothing is heard on a whole plane: all its paths are
// down at once, and one path at a time is probed.
func (t *Table) PlaneSilent(now int64, pl int) {
	for id := range t.cfg.PathsPerPlane {
		p := t.Path(pl, id)
		if p.State != Down {
			t.set(p, Down)
		}
		p.answers, p.probeAt = 0, 0
	}
	s := &t.planes[pl]
	s.silent = true
	s.run = 0
	s.probePause = probeMinNanos
	s.probeAt = now + probeMinNanos
	t.schedule(pl)
}

// OnProbeAck notes an answered probe and returns the path's new state. When a
// plane was silent its answer brings back every path of it.
func (t *Table) OnProbeAck(now int64, pl, id int, rtt int64) State {
	p := t.Path(pl, id)
	if rtt > 0 && p.State != Suspect {
		p.sample(rtt)
		t.planes[pl].sample(rtt)
	}
	p.LastHeard = now
	p.silent = 0
	s := &t.planes[pl]
	switch p.State {
	case Suspect:
		t.set(p, Active)
		p.probeAt = 0
	case Down:
		p.answers = 1
		t.set(p, Probing)
		p.probeAt, p.probePause = now, t.RTO(pl)
		s.silent, s.probeAt = false, 0
		for other := range t.cfg.PathsPerPlane {
			if q := t.Path(pl, other); q.State == Down && q.probeAt == 0 {
				q.probeAt, q.probePause = now+int64(other)*probeMinNanos/MaxPaths, probeMinNanos
			}
		}
	case Probing:
		if p.answers++; p.answers >= answersNeeded {
			t.set(p, Active)
			p.probeAt = 0
		} else {
			p.probeAt = now
		}
	}
	t.schedule(pl)
	return p.State
}

// SetPlaneUp follows a link, here or at the peer. Without it nothing is picked
// and nothing is probed.
func (t *Table) SetPlaneUp(pl int, up bool) {
	s := &t.planes[pl]
	if s.linkUp == up {
		return
	}
	s.linkUp = up
	s.run = 0
	for id := range t.cfg.PathsPerPlane {
		p := t.Path(pl, id)
		p.silent, p.probeAt = 0, 0
		if up && p.State != Active {
			t.set(p, Active) // the link says that it works: find out by using it
		}
	}
	s.silent, s.probeAt = false, 0
	t.schedule(pl)
}

// PlaneState is Down when no path of the plane can be used.
func (t *Table) PlaneState(pl int) State {
	s := &t.planes[pl]
	switch {
	case !s.linkUp || s.down == t.cfg.PathsPerPlane:
		return Down
	case s.notActive < t.cfg.PathsPerPlane:
		return Active
	}
	best := Down
	for id := range t.cfg.PathsPerPlane {
		best = min(best, t.Path(pl, id).State)
	}
	if best == Probing {
		return Down // answers are being counted, no data yet
	}
	return best
}

// schedule finds when the plane's next probe is due. It runs only when a path's
// health changes.
func (t *Table) schedule(pl int) {
	s := &t.planes[pl]
	s.probeDue = math.MaxInt64
	if !s.linkUp {
		return
	}
	if s.silent {
		s.probeDue = s.probeAt
		return
	}
	if s.notActive == 0 {
		return
	}
	for id := range t.cfg.PathsPerPlane {
		if p := t.Path(pl, id); p.probeAt != 0 {
			s.probeDue = min(s.probeDue, p.probeAt)
		}
	}
}

// ProbeDeadline is when NextProbe has something, or very late.
func (t *Table) ProbeDeadline() int64 {
	at := int64(math.MaxInt64)
	for pl := range t.cfg.Planes {
		at = min(at, t.planes[pl].probeDue)
	}
	return at
}

// NextProbe returns a path whose probe is due; call it until it has none.
func (t *Table) NextProbe(now int64) (pl, id int, ok bool) {
	for pl := range t.cfg.Planes {
		s := &t.planes[pl]
		if s.probeDue > now {
			continue
		}
		if s.silent {
			s.nextProbe = (s.nextProbe + 1) % t.cfg.PathsPerPlane
			s.probeAt = now + s.probePause
			s.probePause = min(2*s.probePause, probeMaxNanos)
			t.schedule(pl)
			return pl, s.nextProbe, true
		}
		for id := range t.cfg.PathsPerPlane {
			if p := t.Path(pl, id); p.probeAt != 0 && p.probeAt <= now {
				t.probed(now, p)
				return pl, id, true
			}
		}
		t.schedule(pl)
	}
	return 0, 0, false
}

// probed notes that a probe goes out and when the next one will.
func (t *Table) probed(now int64, p *Path) {
	switch p.State {
	case Suspect:
		p.probeAt = now + p.probePause
		t.countSilence(now, p)
	case Probing:
		p.silent++
		p.probeAt = now + p.probePause
		if p.silent > suspectLimit {
			t.takeDown(now, p)
		}
	default:
		p.probePause = min(2*p.probePause, probeMaxNanos)
		p.probeAt = now + p.probePause
	}
	t.schedule(int(p.Plane))
}
