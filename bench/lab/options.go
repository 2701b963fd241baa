package lab

import (
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/metaroced/metaroced/bench/fabric"
)

// Limits of a job.
const (
	MaxPlanes    = 8
	MaxPaths     = 64
	MaxDepth     = 1024
	MaxSize      = 1 << 30
	MaxSlotBytes = 4 << 30 // depth times size
	MinMTU       = 1280
	MaxMTU       = 3498 // one UMEM frame, and the limit of XDP in native mode on veth
	MaxDuration  = 10 * time.Minute
)

var pollModes = []string{"adaptive", "busy", "interrupt"}

// FailMode says how a plane fails.
type FailMode string

// Ways to fail: silent drops every packet of the plane in both directions and
// leaves the links up, link-down takes the carrier away from both hosts.
const (
	FailSilent   FailMode = "silent"
	FailLinkDown FailMode = "link-down"
)

// mode returns the fabric's name of it.
func (m FailMode) mode() fabric.FailMode {
	if m == FailLinkDown {
		return fabric.LinkDown
	}
	return fabric.Silent
}

// PlaneEvent is a moment at which a plane fails or is restored.
type PlaneEvent struct {
	Plane int           // counted from 0
	At    time.Duration // since the start of the job
}

// Options describes one run of the lab.
type Options struct {
	Planes, Paths int // planes per host, paths per plane

	// Chances in [0, 1] that a packet of either direction, data or
	// acknowledgment, meets the impairment in the switch.
	Loss, Mark, Corrupt, Duplicate, Reorder float64

	FailPlanes, RestorePlanes []PlaneEvent
	FailMode                  FailMode

	Op       string // "write"
	Size     int64  // bytes per operation
	Depth    int    // operations outstanding
	Duration time.Duration

	MTU       int
	PlaneRate int64 // bits per second of each plane and direction; 0: unlimited

	Seed uint64        // of the byte pattern
	Idle time.Duration // measure the daemons' CPU time over this long after the job; 0: not

	CPUA, CPUB, CPUApps int // where workers and applications run; -1: anywhere

	Poll string // the daemons' poll mode: adaptive, busy or interrupt

	Started time.Time // what Result.SetupMs counts from; zero: the call of Run

	Executable string    // metaroced binary that is started as daemons and applications
	Live       io.Writer // a terminal for the live table; nil: none
	Log        io.Writer // what daemons and applications write to stderr
}

// Validate checks what a caller may have got from a person. Errors name the flag.
func (o *Options) Validate() error {
	type bound struct {
		flag           string
		value, low, up int64
	}
	for _, b := range []bound{
		{"planes", int64(o.Planes), 1, MaxPlanes},
		{"paths", int64(o.Paths), 1, MaxPaths},
		{"depth", int64(o.Depth), 1, MaxDepth},
		{"size", o.Size, 1, MaxSize},
		{"mtu", int64(o.MTU), MinMTU, MaxMTU},
		{"cpu-a", int64(o.CPUA), -1, 8191},
		{"cpu-b", int64(o.CPUB), -1, 8191},
		{"cpu-apps", int64(o.CPUApps), -1, 8191},
	} {
		if b.value < b.low || b.value > b.up {
			return fmt.Errorf("--%s %d is outside %d to %d", b.flag, b.value, b.low, b.up)
		}
	}
	if o.Op != "write" {
		return fmt.Errorf("--op %q is not there yet; this version runs write", o.Op)
	}
	if total := o.Size * int64(o.Depth); total > MaxSlotBytes {
		return fmt.Errorf("--depth %d times --size %d is more than %d bytes of memory", o.Depth, o.Size, int64(MaxSlotBytes))
	}
	if o.Duration <= 0 || o.Duration > MaxDuration {
		return fmt.Errorf("--duration %v is outside 0 to %v", o.Duration, MaxDuration)
	}
	if o.PlaneRate != 0 && (o.PlaneRate < fabric.MinRate || o.PlaneRate > fabric.MaxRate) {
		return fmt.Errorf("--plane-rate %d b/s is neither 0 (unlimited) nor within %d to %d", o.PlaneRate, fabric.MinRate, int64(fabric.MaxRate))
	}
	if o.FailMode != FailSilent && o.FailMode != FailLinkDown {
		return fmt.Errorf("--fail-mode %q is not one of %s, %s", o.FailMode, FailSilent, FailLinkDown)
	}
	if !slices.Contains(pollModes, o.Poll) {
		return fmt.Errorf("--poll %q is not one of %s", o.Poll, strings.Join(pollModes, ", "))
	}
	if o.Idle < 0 || o.Idle > MaxDuration {
		return fmt.Errorf("--idle %v is outside 0 to %v", o.Idle, MaxDuration)
	}
	return o.validateEvents()
}

func (o *Options) validateEvents() error {
	for _, list := range []struct {
		flag   string
		events []PlaneEvent
	}{{"fail-plane", o.FailPlanes}, {"restore-plane", o.RestorePlanes}} {
		for _, e := range list.events {
			if e.Plane < 0 || e.Plane >= o.Planes {
				return fmt.Errorf("--%s %d@%v: there are planes 0 to %d", list.flag, e.Plane, e.At, o.Planes-1)
			}
			if e.At >= o.Duration {
				return fmt.Errorf("--%s %d@%v: the job ends at %v", list.flag, e.Plane, e.At, o.Duration)
			}
		}
	}
	for _, restored := range o.RestorePlanes {
		if !failsBefore(o.FailPlanes, restored) {
			return fmt.Errorf("--restore-plane %d@%v: that plane does not fail before", restored.Plane, restored.At)
		}
	}
	return nil
}

func failsBefore(fails []PlaneEvent, restored PlaneEvent) bool {
	for _, f := range fails {
		if f.Plane == restored.Plane && f.At < restored.At {
			return true
		}
	}
	return false
}

// queueEntries returns submission queue entries that hold all an application may
// have outstanding: its operations or its slot returns, and as many again.
func queueEntries(depth int) uint32 {
	return max(64, uint32(1)<<bits.Len32(uint32(2*depth-1)))
}
