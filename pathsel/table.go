package pathsel

import "math"

// MaxPlanes and MaxPaths bound the table.
const (
	MaxPlanes = 8
	MaxPaths  = 64
)

// Config sizes a Table; zero values mean the default named with each field.
type Config struct {
	Planes        int
	PathsPerPlane int
	RunPackets    int   // packets in a row on one path; default 4
	PathInFlight  int   // F; default 256
	MinRTONanos   int64 // default 1 ms
	AckDelayNanos int64 // what the peer may wait before it acknowledges
}

const (
	// suspectLimit is how many silent timeouts or unanswered probes in a row
	// take a path down. At 10 % loss each way one exchange fails with 19 %; five
	// in a row happen to one in 4,000 incidents.
	suspectLimit = 5
	// basePort is the lowest source port of a path; ports below are left to the
	// host's ephemeral range and our destination port.
	basePort  = 49152
	portRange = 65536 - basePort
	// Probes of what is down start at 2 ms and back off to 200 ms.
	probeMinNanos = 2_000_000
	probeMaxNanos = 200_000_000
	// answersNeeded brings a path back.
	answersNeeded = 2
)

// Table is the paths of one connection.
type Table struct {
	cfg    Config
	planes [MaxPlanes]plane
	paths  []Path
}

// plane is what the paths of a plane share.
type plane struct {
	linkUp       bool
	silent       bool // declared so: one path at a time is probed
	run          int  // packets left of the run on current
	current      int
	active       int // paths in use, of those that are Active
	notActive    int // paths that are not Active
	down         int
	srtt, rttvar int64
	minRTT       int64
	nextProbe    int
	probeAt      int64
	probePause   int64
	probeDue     int64
}

// Init makes the paths with source ports that follow from seed.
func (t *Table) Init(c Config, seed uint64) {
	if c.RunPackets == 0 {
		c.RunPackets = 4
	}
	if c.PathInFlight == 0 {
		c.PathInFlight = 256
	}
	if c.MinRTONanos == 0 {
		c.MinRTONanos = 1_000_000
	}
	*t = Table{cfg: c, paths: make([]Path, c.Planes*c.PathsPerPlane)}
	for i := range t.paths {
		p := &t.paths[i]
		p.Plane, p.ID = uint8(i/c.PathsPerPlane), uint8(i%c.PathsPerPlane)
		seed = mix(seed + 1)
		p.SourcePort = uint16(basePort + seed%portRange)
	}
	for i := range c.Planes {
		t.planes[i].linkUp = true
		t.planes[i].probeDue = math.MaxInt64
	}
}

// mix is the finalizer of splitmix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Path returns a path of the table.
func (t *Table) Path(plane, id int) *Path { return &t.paths[plane*t.cfg.PathsPerPlane+id] }

// Pick chooses the path of a plane's next packet, or -1. Packets stay on a path
// for a run, then go to the next; the number of paths in use follows the
// window, so that each is revisited within half a round trip and a gap, not a
// timer, shows a loss.
func (t *Table) Pick(now int64, pl int, windowPackets int64) int {
	p := &t.planes[pl]
	limit := int32(t.cfg.PathInFlight)
	if p.run > 0 {
		if t.Path(pl, p.current).usable(now, limit) {
			p.run--
			return p.current
		}
		p.run = 0
	}
	p.active = int(min(max(windowPackets/int64(2*t.cfg.RunPackets), 1), int64(t.cfg.PathsPerPlane)))
	if id := t.next(now, pl, p.current, p.active); id >= 0 {
		p.current, p.run = id, t.cfg.RunPackets-1
		return id
	}
	if p.linkUp {
		return t.restless(pl, limit)
	}
	return -1
}

// next goes round the first n usable paths, starting behind current.
func (t *Table) next(now int64, pl, current, n int) int {
	limit := int32(t.cfg.PathInFlight)
	if !t.planes[pl].linkUp {
		return -1
	}
	id := current
	for range t.cfg.PathsPerPlane {
		id++
		if id >= n {
			id = 0
		}
		if t.Path(pl, id).usable(now, limit) {
			return id
		}
		if id == n-1 && n < t.cfg.PathsPerPlane {
			n++ // a path in use is resting or full: take a fresh one
		}
	}
	return -1
}

// restless takes a resting path when nothing else is left: a mark slows a
// connection down, through its window, but never stops it.
func (t *Table) restless(pl int, limit int32) int {
	best := -1
	for id := range t.cfg.PathsPerPlane {
		p := t.Path(pl, id)
		if p.State != Active && p.State != Suspect || p.InFlight >= limit {
			continue
		}
		if best < 0 || t.better(p, t.Path(pl, best)) {
			best = id
		}
	}
	return best
}

func (t *Table) better(a, b *Path) bool {
	if a.State != b.State {
		return a.State < b.State
	}
	return a.restTill < b.restTill
}

// PickOther chooses a path other than one, or -1.
func (t *Table) PickOther(now int64, pl, not int) int {
	if id := t.next(now, pl, not, t.cfg.PathsPerPlane); id >= 0 && id != not {
		return id
	}
	return -1
}

// OnSent notes a packet on a path.
func (t *Table) OnSent(_ int64, pl, id int) {
	p := t.Path(pl, id)
	p.InFlight++
	p.TxPackets++
}

// OnAcked notes packets that arrived, how many of them were marked, and a
// round-trip time (0: none).
func (t *Table) OnAcked(now int64, pl, id, packets, cePackets int, rtt int64) {
	p := t.Path(pl, id)
	p.InFlight = max(p.InFlight-int32(packets), 0)
	p.CEFraction += (float32(cePackets)/float32(packets) - p.CEFraction) * averageGain
	p.LossFraction -= p.LossFraction * min(float32(packets)*averageGain/4, 1)
	if rtt > 0 {
		p.sample(rtt)
		t.planes[pl].sample(rtt)
	}
	if cePackets > 0 {
		p.restTill = now + max(p.SRTT, t.cfg.MinRTONanos/8)
	}
	t.Heard(now, pl, id)
}

func (p *plane) sample(rtt int64) {
	if p.srtt == 0 {
		p.srtt, p.rttvar, p.minRTT = rtt, rtt/2, rtt
		return
	}
	d := rtt - p.srtt
	p.srtt += d >> srttShift
	if d < 0 {
		d = -d
	}
	p.rttvar += (d - p.rttvar) >> rttvarShift
	p.minRTT = min(p.minRTT, rtt)
}

// OnLost notes lost packets. Loss is remembered but condemns nothing.
func (t *Table) OnLost(_ int64, pl, id, packets int) {
	p := t.Path(pl, id)
	p.InFlight = max(p.InFlight-int32(packets), 0)
	for range min(packets, 64) {
		p.LossFraction += (1 - p.LossFraction) * averageGain / 4
	}
}

// OnRemoved takes packets out of flight without a verdict.
func (t *Table) OnRemoved(pl, id, packets int) {
	p := t.Path(pl, id)
	p.InFlight = max(p.InFlight-int32(packets), 0)
}

// RTO is a plane's tail timeout: SRTT and four deviations and what the peer may
// delay an acknowledgment.
func (t *Table) RTO(pl int) int64 {
	p := &t.planes[pl]
	if p.srtt == 0 {
		return max(10*t.cfg.MinRTONanos, t.cfg.AckDelayNanos)
	}
	return max(p.srtt+4*p.rttvar+t.cfg.AckDelayNanos, t.cfg.MinRTONanos)
}

// PlaneSRTT and PlaneMinRTT are a plane's round-trip times, 0 when unknown.
func (t *Table) PlaneSRTT(pl int) int64 { return t.planes[pl].srtt }

// PlaneMinRTT is the smallest round trip a plane has shown, 0 when unknown.
func (t *Table) PlaneMinRTT(pl int) int64 { return t.planes[pl].minRTT }
