package pathsel

// State is what is believed about a path.
type State uint8

// States of a path.
const (
	Active  State = iota // carries packets
	Suspect              // its timer expired and nothing was heard: being asked
	Probing              // was Down, has answered once
	Down                 // carries nothing, asked now and then
)

var stateNames = [...]string{"active", "suspect", "probing", "down"}

// String returns the state's name in lower case.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "invalid"
}

// Path is one path and its telemetry. Others may read all fields; they may
// write Retransmissions only.
type Path struct {
	Plane, ID, Epoch uint8
	State            State
	SourcePort       uint16
	InFlight         int32  // packets
	Weight           uint16 // share of runs, 256 = full; cut by congestion marks
	probes           uint8  // unanswered since the path came under suspicion
	answers          uint8  // since it was Down
	SRTT             int64  // nanoseconds; 0: no sample, also for the next two
	RTTVar           int64
	MinRTT           int64 // least of the last 10 to 20 s
	CEFraction       float32
	LossFraction     float32
	TxPackets        uint64
	Retransmissions  uint64
	LastHeard        int64 // when something on this path was acknowledged

	probeAt   int64 // Suspect and Probing: next probe
	restUntil int64
	weighedAt int64 // last change of Weight
	deficit   uint16
	sample    sample
	base      windowedMin
}

// sample counts resolved packets until they are worth a step of the moving
// averages, which saves divisions.
type sample struct{ acked, marked, lost uint32 }

// fold moves the averages by a quarter of the way once there is a full sample.
func (p *Path) fold() {
	s := &p.sample
	total := s.acked + s.lost
	if total < sampleEvents {
		return
	}
	if s.acked > 0 {
		p.CEFraction += (float32(s.marked)/float32(s.acked) - p.CEFraction) / 4
	}
	p.LossFraction += (float32(s.lost)/float32(total) - p.LossFraction) / 4
	*s = sample{}
}

// measure adds an RTT sample to the path's estimates.
func (p *Path) measure(now, rtt int64) {
	p.SRTT, p.RTTVar = smooth(p.SRTT, p.RTTVar, rtt)
	p.MinRTT = p.base.add(now, rtt)
}

// smooth is the usual estimator: an eighth of the way for the mean, a quarter
// for the deviation.
func smooth(srtt, deviation, rtt int64) (newSRTT, newDeviation int64) {
	if srtt == 0 {
		return rtt, rtt / 2
	}
	d := rtt - srtt
	if d < 0 {
		deviation += (-d - deviation) / 4
	} else {
		deviation += (d - deviation) / 4
	}
	return max(srtt+d/8, 1), deviation
}

// windowedMin is the least sample of this and the previous baseNanos.
type windowedMin struct {
	current, previous int64
	since             int64
}

func (w *windowedMin) add(now, v int64) int64 {
	if w.current == 0 || now-w.since >= baseNanos {
		w.previous, w.current, w.since = w.current, v, now
	}
	w.current = min(w.current, v)
	if w.previous == 0 {
		return w.current
	}
	return min(w.current, w.previous)
}
