package pathsel

import "math"

const never = math.MaxInt64

// Table holds every path of one connection. The zero value is unusable; call
// Init.
type Table struct {
	cfg    Config
	paths  []Path // plane by plane
	planes [MaxPlanes]plane
}

// plane is what the paths of a plane have in common. Sets of paths are bit
// masks.
type plane struct {
	linkUp  bool
	silent  bool   // all paths Down together: one answering returns all
	active  uint64 // State Active
	suspect uint64
	probing uint64
	down    uint64
	full    uint64 // F packets in flight
	resting uint64 // marked within about an RTT
	cut     uint64 // weight below full
	set     uint64 // the working set, a part of active

	current  int8  // path of the present run, or -1
	left     int32 // packets left of the run
	last     int8  // where the search for the next run starts
	inFlight int32 // packets, all paths

	restEnd     int64 // earliest restUntil of resting
	probeAt     int64 // earliest probe of Suspect and Probing paths
	downAt      int64 // next probe of a Down path
	downBackoff int64
	downLast    int8 // Down path probed last

	srtt, rttVar, minRTT int64
	base                 windowedMin
}

// Init makes all paths Active. The seed determines the source ports, all
// different within a plane.
func (t *Table) Init(cfg Config, seed uint64) {
	*t = Table{cfg: cfg.normalized()}
	n := t.cfg.PathsPerPlane
	t.paths = make([]Path, t.cfg.Planes*n)
	for i := range t.paths {
		p := &t.paths[i]
		p.Plane, p.ID, p.Weight = uint8(i/n), uint8(i%n), fullWeight
		siblings := t.paths[i-i%n : i]
		for {
			p.SourcePort = t.cfg.BasePort + uint16(next(&seed)%portRange)
			if !portTaken(siblings, p.SourcePort) {
				break
			}
		}
	}
	for i := range t.planes {
		t.planes[i] = plane{
			linkUp: true, active: lowBits(n), current: -1, last: int8(n - 1), downLast: -1,
			restEnd: never, probeAt: never, downAt: never, downBackoff: downMinNanos,
		}
	}
}

func portTaken(paths []Path, port uint16) bool {
	for i := range paths {
		if paths[i].SourcePort == port {
			return true
		}
	}
	return false
}

// next returns the next number of a splitmix64 sequence.
func next(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func lowBits(n int) uint64 { return ^uint64(0) >> (64 - n) }

// Path returns a path. The pointer stays valid for the table's life. Planes
// and identifiers out of range panic, here and everywhere.
func (t *Table) Path(plane, id int) *Path {
	return &t.paths[plane*t.cfg.PathsPerPlane+id]
}

// OnSent puts a packet in flight on a path.
func (t *Table) OnSent(_ int64, plane, id int) {
	pl, p := &t.planes[plane], t.Path(plane, id)
	p.InFlight++
	p.TxPackets++
	pl.inFlight++
	if int(p.InFlight) >= t.cfg.PathInFlight {
		pl.full |= 1 << id
	}
	if id == int(pl.current) {
		pl.left--
	}
}

// OnAcked takes what one report newly acknowledged on a path: packets, how
// many arrived with a congestion mark, and an RTT sample, 0 for none.
func (t *Table) OnAcked(now int64, plane, id, packets, cePackets int, rtt int64) {
	pl, p := &t.planes[plane], t.Path(plane, id)
	t.landed(pl, p, packets)
	if rtt > 0 {
		p.measure(now, rtt)
		pl.measure(now, rtt)
	}
	p.sample.acked += uint32(packets)
	p.sample.marked += uint32(cePackets)
	p.fold()
	if cePackets > 0 {
		t.marked(now, pl, p, packets, cePackets)
	} else if p.Weight < fullWeight && now-p.weighedAt >= p.SRTT {
		p.weighedAt = now
		p.Weight = min(p.Weight+weightStep, fullWeight)
		if p.Weight == fullWeight {
			pl.cut &^= 1 << id
		}
	}
	t.heard(now, pl, p)
}

// OnLost takes packets declared lost out of flight. Loss says nothing about the
// path's health.
func (t *Table) OnLost(_ int64, plane, id, packets int) {
	p := t.Path(plane, id)
	t.landed(&t.planes[plane], p, packets)
	p.sample.lost += uint32(packets)
	p.fold()
}

// OnRemoved takes packets out of flight without a verdict.
func (t *Table) OnRemoved(plane, id, packets int) {
	t.landed(&t.planes[plane], t.Path(plane, id), packets)
}

// Heard says that the peer has received something on this path that it had not
// reported before, though nothing of it was outstanding any more. A repeated
// report is not news and must not be passed on.
func (t *Table) Heard(now int64, plane, id int) {
	t.heard(now, &t.planes[plane], t.Path(plane, id))
}

// landed takes packets out of flight.
func (t *Table) landed(pl *plane, p *Path, packets int) {
	n := min(int32(packets), p.InFlight)
	p.InFlight -= n
	pl.inFlight -= n
	if int(p.InFlight) < t.cfg.PathInFlight {
		pl.full &^= 1 << p.ID
	}
}

// marked rests a path that saw congestion, and cuts its weight, both once per
// RTT.
func (t *Table) marked(now int64, pl *plane, p *Path, packets, cePackets int) {
	bit := uint64(1) << p.ID
	rtt := max(p.SRTT, pl.srtt)
	if now < p.restUntil || rtt == 0 {
		return
	}
	p.restUntil = now + rtt
	pl.resting |= bit
	pl.restEnd = min(pl.restEnd, p.restUntil)
	pl.set &^= bit
	pl.cut |= bit
	p.weighedAt = now
	ce := min(cePackets, packets)
	p.Weight = max(p.Weight-uint16(int(p.Weight)*ce/(2*max(packets, 1))), minWeight)
	if int8(p.ID) == pl.current {
		pl.left = 0
	}
}

// RTO returns the tail timeout of a plane: its smoothed RTT, four deviations
// and the peer's acknowledgment delay.
func (t *Table) RTO(plane int) int64 {
	pl := &t.planes[plane]
	if pl.srtt == 0 {
		return max(initialRTONanos, t.cfg.MinRTONanos)
	}
	return max(pl.srtt+4*pl.rttVar+t.cfg.AckDelayNanos, t.cfg.MinRTONanos)
}

// PlaneSRTT returns a plane's smoothed RTT in nanoseconds, 0 without a sample.
func (t *Table) PlaneSRTT(plane int) int64 { return t.planes[plane].srtt }

// PlaneMinRTT returns a plane's least RTT of the last 10 to 20 seconds in
// nanoseconds, 0 without a sample.
func (t *Table) PlaneMinRTT(plane int) int64 { return t.planes[plane].minRTT }

func (pl *plane) measure(now, rtt int64) {
	pl.srtt, pl.rttVar = smooth(pl.srtt, pl.rttVar, rtt)
	pl.minRTT = pl.base.add(now, rtt)
}
