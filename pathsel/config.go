package pathsel

// Config sizes a Table. Zero values mean the default named with each field;
// durations are nanoseconds.
type Config struct {
	Planes        int // 1 to 8; default 1
	PathsPerPlane int // 1 to 64; default 16
	// RunPackets is how many packets in a row take one path: enough that most
	// losses are followed by a later packet on the same path. Default 4.
	RunPackets int
	// PathInFlight is F, the most packets a path has in flight: as many as one
	// report covers. Default 256.
	PathInFlight int
	// MinRTONanos is the least tail timeout: the granularity of the host's
	// timers and scheduling. Default 0, for simulations.
	MinRTONanos int64
	// AckDelayNanos is how long the peer may hold an acknowledgment.
	AckDelayNanos int64
	// SuspectLimit is how many probes in a row, an RTO apart, a suspect path
	// leaves unanswered before it is Down. Default 12: at 10 % loss each way one
	// probe in five is lost, twelve in a row are once in 450 million.
	SuspectLimit int
	// BasePort is the first of portRange UDP source ports; default 49152, the
	// start of the dynamic ones.
	BasePort uint16
}

// MaxPlanes and MaxPaths bound planes of a table and paths of a plane.
const (
	MaxPlanes = 8
	MaxPaths  = 64
)

const (
	defaultPaths        = 16
	defaultRunPackets   = 4
	defaultPathInFlight = 256
	defaultSuspectLimit = 12
	defaultBasePort     = 49152
	portRange           = 16384

	// initialRTONanos is the tail timeout until there is an RTT sample.
	initialRTONanos = 10_000_000
	// downMinNanos is the pause after the first unanswered probe of a plane's
	// Down paths; it doubles up to downMaxNanos, so that a plane that was away
	// for t is back within t more, and a dead one costs five probes a second.
	downMinNanos = 2_000_000
	downMaxNanos = 200_000_000
	// probingLimit is how many unanswered probes send a Probing path back.
	probingLimit = 4
	// answersNeeded is how many answers make a Down path Active: one could be
	// an echo from before.
	answersNeeded = 2
	// suspectPackets is what a suspect path may have in flight when its plane
	// has no active one: retransmissions of a few packets are probes too.
	suspectPackets = 4

	// fullWeight is the weight of a path without marks, and minWeight the
	// least, so that a path is always tried again.
	fullWeight = 256
	minWeight  = 32
	// weightStep is what a weight regains per clean RTT: from least to full in
	// fourteen.
	weightStep = 16
	// sampleEvents is how many resolved packets one step of the moving averages
	// takes in.
	sampleEvents = 64
	// baseNanos is how long a least RTT holds: routes change.
	baseNanos = 10_000_000_000
)

func (c *Config) normalized() Config {
	n := *c
	orDefault(&n.Planes, 1, MaxPlanes)
	orDefault(&n.PathsPerPlane, defaultPaths, MaxPaths)
	orDefault(&n.RunPackets, defaultRunPackets, 1<<16)
	orDefault(&n.PathInFlight, defaultPathInFlight, 1<<16)
	orDefault(&n.SuspectLimit, defaultSuspectLimit, 1<<16)
	if n.BasePort == 0 || int(n.BasePort)+portRange > 1<<16 {
		n.BasePort = defaultBasePort
	}
	return n
}

// orDefault fills in a default and bounds the value.
func orDefault(v *int, def, most int) {
	if *v <= 0 {
		*v = def
	}
	*v = min(*v, most)
}
