package fabric

import (
	"fmt"
	"math"

	"github.com/vishvananda/netlink"
)

// PortCounters is what the switch did to packets of one plane and direction since
// Open. It counts UDP packets of the transport's port, but for Overflowed and
// OtherFrames.
type PortCounters struct {
	Packets     uint64 // that reached the switch
	Bytes       uint64 // of them, Ethernet header on, first buffer
	Forwarded   uint64 // passed on, held ones included, duplicates counted once
	BlackHoled  uint64 // dropped by BlackHole or a failed plane
	Dropped     uint64 // by Drop
	RateDropped uint64 // by Rate
	RateMarked  uint64 // by Rate
	NotECT      uint64 // met Mark, which an endpoint without ECN must not see
	Marked      uint64 // by Mark
	Corrupted   uint64
	Held        uint64
	HoldMissed  uint64 // should have been held, but there was no room: forwarded
	Duplicated  uint64

	Reinjected uint64 // held packets that went on
	HoldFailed uint64 // held packets whose plane failed meanwhile
	HoldLost   uint64 // held packets that found the link full

	OtherFrames uint64 // ARP, other UDP and so on
	Overflowed  uint64 // frames of any kind lost because a veth's ring was full or its peer down, on the way to the switch or from it
}

// Counters are all counters by plane and direction.
type Counters [][2]PortCounters

// Sum returns the counters of all planes and both directions added up.
func (c Counters) Sum() PortCounters {
	var sum PortCounters
	for _, plane := range c {
		for _, p := range plane {
			sum.combine(&p, func(a, b uint64) uint64 { return a + b })
		}
	}
	return sum
}

// Since returns the counters of the time since before was read.
func (c Counters) Since(before Counters) Counters {
	delta := make(Counters, len(c))
	copy(delta, c)
	for plane := range delta {
		for d := range delta[plane] {
			delta[plane][d].combine(&before[plane][d], func(a, b uint64) uint64 { return a - b })
		}
	}
	return delta
}

func (p *PortCounters) combine(other *PortCounters, operation func(a, b uint64) uint64) {
	mine, others := p.fields(), other.fields()
	for i, field := range mine {
		*field = operation(*field, *others[i])
	}
}

func (p *PortCounters) fields() [18]*uint64 {
	return [...]*uint64{
		&p.Packets, &p.Bytes, &p.Forwarded, &p.BlackHoled, &p.Dropped, &p.RateDropped, &p.RateMarked, &p.NotECT,
		&p.Marked, &p.Corrupted, &p.Held, &p.HoldMissed, &p.Duplicated, &p.Reinjected, &p.HoldFailed, &p.HoldLost, &p.OtherFrames,
		&p.Overflowed,
	}
}

// Counters reads all counters. It takes some hundred microseconds.
func (f *Fabric) Counters() (Counters, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	counters := make(Counters, f.options.Planes)
	for plane := range counters {
		for _, d := range [...]Direction{AToB, BToA} {
			port := portOf(plane, d)
			c, err := f.program.counters(port)
			if err != nil {
				return nil, err
			}
			p := &counters[plane][d]
			*p = PortCounters{
				Packets: c.Packets, Bytes: c.Bytes, Forwarded: c.Forwarded, BlackHoled: c.BlackHoled, Dropped: c.Dropped,
				RateDropped: c.RateDropped, RateMarked: c.RateMarked, NotECT: c.NotEct, Marked: c.Marked,
				Corrupted: c.Corrupted, Held: c.Held, HoldMissed: c.HoldMissed, Duplicated: c.Duplicated,
				OtherFrames: c.OtherFrames,
			}
			h := &f.holder.counts[port]
			p.Reinjected, p.HoldFailed, p.HoldLost = h.reinjected.Load(), h.failed.Load(), h.lost.Load()
		}
	}
	return counters, f.addOverflows(counters)
}

// addOverflows asks the sending end of each hop: a veth counts what its peer's ring
// did not take as its own dropped transmissions.
func (f *Fabric) addOverflows(counters Counters) error {
	add := func(ns *namespace, name string, field *uint64) error {
		return ns.do(func() error {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return fmt.Errorf("find %s: %w", name, err)
			}
			if s := link.Attrs().Statistics; s != nil {
				*field += s.TxDropped
			}
			return nil
		})
	}
	for plane := range counters {
		for _, d := range [...]Direction{AToB, BToA} {
			p := &counters[plane][d]
			if err := add(f.hosts[d], Interface(plane), &p.Overflowed); err != nil {
				return err
			}
			if err := add(f.switches, portName(portOf(plane, d)^1), &p.Overflowed); err != nil {
				return err
			}
		}
	}
	return nil
}

// An observed share may differ from the asked probability by a tenth of it, plus
// four standard deviations of what chance alone does: one good run in 16,000 fails.
const (
	verifyTolerance  = 0.10
	verifyDeviations = 4
	holdLossAllowed  = 1000 // one held packet in so many may find the link full
)

// Verify says whether packets met the impairments that were asked for, nil if so.
// Counted must be of a time throughout which they were in force; several planes
// and directions may be summed. Schedules are not judged. An error makes a
// measurement void.
func Verify(asked Impairments, counted PortCounters) error {
	past := counted.Packets - counted.BlackHoled // met Drop
	left := past - counted.Dropped - counted.RateDropped
	hits := map[string]struct{ hit, met uint64 }{
		"drop":      {counted.Dropped, past},
		"mark":      {counted.Marked, left - counted.NotECT},
		"corrupt":   {counted.Corrupted, left},
		"hold":      {counted.Held, left},
		"duplicate": {counted.Duplicated, left},
	}
	for _, n := range asked.named() {
		if n.chance.Period != 0 {
			continue
		}
		h := hits[n.name]
		if err := verify(n.name, n.chance.Probability, h.hit, h.met); err != nil {
			return err
		}
	}
	if lost := counted.HoldLost; lost > counted.Held/holdLossAllowed {
		return fmt.Errorf("%d of %d held packets were lost", lost, counted.Held)
	}
	return nil
}

func verify(name string, asked float64, hit, met uint64) error {
	if met == 0 {
		if asked > 0 {
			return fmt.Errorf("no packet could meet %s", name)
		}
		return nil
	}
	observed := float64(hit) / float64(met)
	chance := math.Sqrt(asked * (1 - asked) / float64(met))
	if math.Abs(observed-asked) > verifyTolerance*asked+verifyDeviations*chance {
		return fmt.Errorf("%s of %.4g%% was asked, %.4g%% observed (%d of %d packets)", name, asked*100, observed*100, hit, met)
	}
	return nil
}
