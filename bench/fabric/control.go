package fabric

import "fmt"

// FailMode says how a plane fails.
type FailMode int

// Ways to fail.
const (
	Silent   FailMode = iota // every frame vanishes in both directions, links stay up
	LinkDown                 // both hosts lose the carrier
)

// SetImpairments replaces the impairments of one plane and direction. It takes
// effect at once and restarts schedules.
func (f *Fabric) SetImpairments(plane int, direction Direction, i Impairments) error {
	if err := i.check(); err != nil {
		return fmt.Errorf("plane %d, %v: %w", plane, direction, err)
	}
	return f.change(plane, direction, func(s *portSettings) { s.impairments = i })
}

// SetRate limits one plane and direction. It takes effect at once, with an empty
// virtual queue.
func (f *Fabric) SetRate(plane int, direction Direction, r Rate) error {
	if err := r.check(); err != nil {
		return fmt.Errorf("plane %d, %v: %w", plane, direction, err)
	}
	return f.change(plane, direction, func(s *portSettings) { s.rate = r })
}

// FailPlane makes a plane fail in both directions until RestorePlane.
func (f *Fabric) FailPlane(plane int, mode FailMode) error {
	for _, d := range [...]Direction{AToB, BToA} {
		if err := f.change(plane, d, func(s *portSettings) {
			s.failed = true
			s.down = s.down || mode == LinkDown
		}); err != nil {
			return err
		}
	}
	if mode == LinkDown {
		return f.on(f.switches, func(ns *namespace) error {
			return ns.do(func() error { return setPorts(plane, false) })
		})
	}
	return nil
}

// RestorePlane ends what FailPlane began; impairments and rate are as before. After
// LinkDown it returns once the hosts have carrier again.
func (f *Fabric) RestorePlane(plane int) error {
	wasDown := false
	for _, d := range [...]Direction{AToB, BToA} {
		if err := f.change(plane, d, func(s *portSettings) {
			wasDown = wasDown || s.down
			s.failed, s.down = false, false
		}); err != nil {
			return err
		}
	}
	if !wasDown {
		return nil
	}
	if err := f.on(f.switches, func(ns *namespace) error {
		return ns.do(func() error { return setPorts(plane, true) })
	}); err != nil {
		return err
	}
	for _, host := range f.hosts {
		if err := f.on(host, func(ns *namespace) error {
			return ns.do(func() error { return waitCarrier([]string{Interface(plane)}) })
		}); err != nil {
			return err
		}
	}
	return nil
}

// change updates a port's settings and tells the program.
func (f *Fabric) change(plane int, direction Direction, update func(*portSettings)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	if plane < 0 || plane >= f.options.Planes {
		return fmt.Errorf("plane %d: there are planes 0 to %d", plane, f.options.Planes-1)
	}
	port := portOf(plane, direction)
	s := &f.settings[port]
	update(s)
	i := s.impairments.withDefaults()
	f.holder.setLimits(port, holdLimits{i.HoldPackets, i.HoldTime, s.failed || i.BlackHole})
	return f.program.configure(port, compileConfig(s.impairments, s.rate, s.failed))
}
