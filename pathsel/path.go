package pathsel

// State is a path's health.
type State uint8

// States of a path, and of a plane as the best of its paths.
const (
	Active State = iota
	Suspect
	Probing
	Down
)

func (s State) String() string {
	switch s {
	case Active:
		return "active"
	case Suspect:
		return "suspect"
	case Probing:
		return "probing"
	case Down:
		return "down"
	}
	return "unknown"
}

// Path is what the sender knows of one path. Times are nanoseconds.
type Path struct {
	Plane, ID, Epoch     uint8
	State                State
	SourcePort           uint16
	SRTT, RTTVar, MinRTT int64 // 0: not measured
	CEFraction           float32
	LossFraction         float32
	InFlight             int32
	TxPackets            uint64
	Retransmissions      uint64
	LastHeard            int64
	restTill             int64 // a marked path rests
	silent               int   // timeouts in a row without hearing anything
	answers              int   // probe answers since it was down
	probeAt              int64 // when to probe next; 0: not
	probePause           int64
}

const (
	// averageShift: CE and loss fractions move by 1/16 per acknowledgment.
	averageGain = 1.0 / 16
	// SRTT and its variance as in RFC 6298: gains 1/8 and 1/4.
	srttShift   = 3
	rttvarShift = 2
)

// sample takes a round-trip time.
func (p *Path) sample(rtt int64) {
	if p.SRTT == 0 {
		p.SRTT, p.RTTVar, p.MinRTT = rtt, rtt/2, rtt
		return
	}
	d := rtt - p.SRTT
	p.SRTT += d >> srttShift
	if d < 0 {
		d = -d
	}
	p.RTTVar += (d - p.RTTVar) >> rttvarShift
	p.MinRTT = min(p.MinRTT, rtt)
}

// usable says whether data may go out on the path now.
func (p *Path) usable(now int64, limit int32) bool {
	return p.State == Active && p.InFlight < limit && p.restTill <= now
}
