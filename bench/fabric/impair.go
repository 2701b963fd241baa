package fabric

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Chance says which packets meet an impairment. The zero value: none.
type Chance struct {
	// Probability in [0, 1] that a packet does, independent of all others.
	Probability float64

	// Period, when not 0, replaces the probability by a schedule that counts the
	// packets of the plane and direction from 0 at every change of configuration:
	// packet i is hit when bit i mod Period of Pattern is set. Positions from 64 on
	// are not hit. {Period: 100, Pattern: 1} hits every hundredth packet, the
	// first included; Once(3, 5) these two and no more.
	Period  uint32
	Pattern uint64
}

// Always hits every packet.
var Always = Chance{Probability: 1}

// Once returns a schedule that hits the packets at the given positions, counted
// from 0 and below 64, and no other of the first 4 billion.
func Once(positions ...uint) Chance {
	c := Chance{Period: math.MaxUint32}
	for _, p := range positions {
		c.Pattern |= 1 << p
	}
	return c
}

func (c Chance) zero() bool { return c == Chance{} }

// compile translates to what the program reads.
func (c Chance) compile() forwardChance {
	return forwardChance{
		Probability: uint64(math.Round(c.Probability * (1 << 32))),
		Pattern:     c.Pattern,
		Period:      c.Period,
	}
}

// Impairments is the damage done to UDP packets of the transport's port on one
// plane and in one direction, data and acknowledgments alike. Each packet meets
// each impairment once, in the order of the fields.
type Impairments struct {
	BlackHole bool   // drop every frame, ARP too
	Drop      Chance // drop the packet
	Mark      Chance // set CE, on ECT packets only
	Corrupt   Chance // flip one bit at a random place of the UDP payload
	Hold      Chance // keep the packet back, so that later ones overtake it
	Duplicate Chance // forward the packet twice

	// A held packet goes on when HoldPackets packets have come in behind it on the
	// same plane and direction, or HoldTime has passed, whichever is first; both
	// are looked at some 50 us apart. Zero: 16 packets, 1 ms.
	HoldPackets uint64
	HoldTime    time.Duration
}

// Defaults of hold-back.
const (
	DefaultHoldPackets = 16
	DefaultHoldTime    = time.Millisecond
	MaxHoldTime        = time.Second
)

// named are the impairments by chance with their names.
func (i *Impairments) named() [5]struct {
	name   string
	chance Chance
} {
	return [5]struct {
		name   string
		chance Chance
	}{{"drop", i.Drop}, {"mark", i.Mark}, {"corrupt", i.Corrupt}, {"hold", i.Hold}, {"duplicate", i.Duplicate}}
}

func (i *Impairments) check() error {
	for _, n := range i.named() {
		if p := n.chance.Probability; !(p >= 0 && p <= 1) {
			return fmt.Errorf("%s probability %v is outside 0 to 1", n.name, p)
		}
	}
	if i.HoldTime < 0 || i.HoldTime > MaxHoldTime {
		return fmt.Errorf("hold time %v is outside 0 to %v", i.HoldTime, MaxHoldTime)
	}
	return nil
}

func (i Impairments) withDefaults() Impairments {
	if i.HoldPackets == 0 {
		i.HoldPackets = DefaultHoldPackets
	}
	if i.HoldTime == 0 {
		i.HoldTime = DefaultHoldTime
	}
	return i
}

// any reports whether a packet may be treated otherwise than forwarded.
func (i *Impairments) any() bool {
	for _, n := range i.named() {
		if !n.chance.zero() {
			return true
		}
	}
	return i.BlackHole
}

// Rate limits one plane and direction. Packets are policed, not queued: switch.c
// describes the virtual queue.
type Rate struct {
	BitsPerSecond int64 // on the wire: frame, preamble, check sequence and gap; 0 = unlimited

	// Backlog of the virtual queue above which ECT packets are CE-marked, and above
	// which packets are dropped. Zero: see DefaultMarkBytes.
	MarkBacklog, DropBacklog time.Duration
}

// By default a packet is marked when the virtual queue holds DefaultMarkBytes or
// DefaultMarkBacklog, whichever is more, and dropped at four times that: shallow
// switch buffers, yet more than one flow's burst at a low rate.
const (
	DefaultMarkBytes   = 100_000
	DefaultMarkBacklog = 250 * time.Microsecond
	dropPerMark        = 4
)

// Limits of a rate: the program counts time per byte in 1/65536 ns, and a lab slower
// than 1 Mb/s would need minutes to move anything.
const (
	MinRate = 1_000_000
	MaxRate = 1_000_000_000_000
)

var errBacklog = errors.New("mark backlog must not be above drop backlog, and neither below 0")

func (r *Rate) check() error {
	if r.BitsPerSecond != 0 && (r.BitsPerSecond < MinRate || r.BitsPerSecond > MaxRate) {
		return fmt.Errorf("plane rate of %d b/s is neither 0 (unlimited) nor from %d to %d", r.BitsPerSecond, int64(MinRate), int64(MaxRate))
	}
	filled := r.withDefaults()
	if filled.MarkBacklog < 0 || filled.DropBacklog < filled.MarkBacklog {
		return fmt.Errorf("plane rate with backlogs %v, %v: %w", r.MarkBacklog, r.DropBacklog, errBacklog)
	}
	return nil
}

func (r Rate) withDefaults() Rate {
	if r.BitsPerSecond == 0 {
		return r
	}
	if r.MarkBacklog == 0 {
		bytes := time.Duration(DefaultMarkBytes * 8 * int64(time.Second) / r.BitsPerSecond)
		r.MarkBacklog = max(DefaultMarkBacklog, bytes)
	}
	if r.DropBacklog == 0 {
		r.DropBacklog = dropPerMark * r.MarkBacklog
	}
	return r
}

// compileConfig translates what a port shall do to what the program reads.
func compileConfig(i Impairments, r Rate, failed bool) forwardPortConfig {
	c := forwardPortConfig{
		Drop:      i.Drop.compile(),
		Mark:      i.Mark.compile(),
		Corrupt:   i.Corrupt.compile(),
		Hold:      i.Hold.compile(),
		Duplicate: i.Duplicate.compile(),
	}
	if i.BlackHole || failed {
		c.BlackHole = 1
	}
	if r.BitsPerSecond > 0 {
		r = r.withDefaults()
		c.WireNsPerByte = uint64(math.Round(8e9 * 65536 / float64(r.BitsPerSecond)))
		c.MarkBacklogNs = uint64(r.MarkBacklog)
		c.DropBacklogNs = uint64(r.DropBacklog)
	}
	if i.any() || failed || r.BitsPerSecond > 0 {
		c.Impaired = 1
	}
	return c
}
