package lab

import (
	"fmt"

	"github.com/metaroced/metaroced/bench/lab/histogram"
	"github.com/metaroced/metaroced/dataplane"
)

// Result is what a run measured; its JSON is what metaroced lab --json prints,
// and its fields stay.
type Result struct {
	GoodputGbps          float64          `json:"goodput_gbps"` // verified bytes over the time from first post to last verification
	Operations           uint64           `json:"operations"`   // verified, every byte right
	Bytes                uint64           `json:"bytes"`        // of these operations
	MismatchedBytes      uint64           `json:"mismatched_bytes"`
	Errors               uint64           `json:"errors"` // operations that failed, and events that must not happen
	Retransmissions      uint64           `json:"retransmissions"`
	RetransmissionsTimer uint64           `json:"retransmissions_timer"` // of them, those a timer caused
	Duplicates           uint64           `json:"duplicates"`            // packets received again
	LatencyUs            histogram.Micros `json:"latency_us"`            // from post to completion at the writer
	Planes               []Plane          `json:"planes"`                // of host-a
	Paths                []Path           `json:"paths"`                 // of the writer's connection
	Switch               Switch           `json:"switch"`
	FramesLeaked         uint64           `json:"frames_leaked"` // both hosts
	SetupMs              float64          `json:"setup_ms"`      // start of the lab to the first completed WRITE
	CPUSeconds           CPUSeconds       `json:"cpu_seconds"`   // during the job
	Timeline             []TimelinePoint  `json:"timeline"`

	RecoveryMs      *float64 `json:"recovery_ms"`       // null: no plane failed, or goodput did not come back
	FaultMs         *float64 `json:"fault_ms"`          // when the first plane failed, on the timeline's clock; null: none did
	IdleCPUFraction *float64 `json:"idle_cpu_fraction"` // of one core, the busier daemon; null: not measured
	DurationMs      float64  `json:"duration_ms"`       // the time goodput_gbps is over
	Seed            uint64   `json:"seed"`
	Void            bool     `json:"void"`         // the switch did not do what it was asked to
	VoidReason      string   `json:"void_reason"`  // how it differed
	FirstError      string   `json:"first_error"`  // text of the first error or wrong byte, for people
	RateDropped     uint64   `json:"rate_dropped"` // dropped by --plane-rate or a failed plane, not by --loss
	Overflowed      uint64   `json:"overflowed"`   // frames that found a veth's receive ring full
	RateMarked      uint64   `json:"rate_marked"`  // marked by --plane-rate, not by --mark
}

// Plane is one plane of host-a at the end of the job.
type Plane struct {
	Name    string `json:"name"`
	Mode    string `json:"mode"`
	TxBytes uint64 `json:"tx_bytes"`
	RxBytes uint64 `json:"rx_bytes"`
	State   string `json:"state"`
}

// Path is one path of the writer's connection at the end of the job.
type Path struct {
	Plane           int     `json:"plane"`
	ID              int     `json:"id"`
	State           string  `json:"state"`
	SRTTUs          float64 `json:"srtt_us"`
	CEFraction      float64 `json:"ce_fraction"`
	LossFraction    float64 `json:"loss_fraction"`
	TxPackets       uint64  `json:"tx_packets"`
	Retransmissions uint64  `json:"retransmissions"`
}

// Switch is what the switch did to packets, all planes and both directions.
type Switch struct {
	Forwarded  uint64 `json:"forwarded"`
	Dropped    uint64 `json:"dropped"`
	Marked     uint64 `json:"marked"`
	Corrupted  uint64 `json:"corrupted"`
	Duplicated uint64 `json:"duplicated"`
	Held       uint64 `json:"held"`
}

// CPUSeconds is user and system time of the two daemons.
type CPUSeconds struct {
	DaemonA float64 `json:"daemon_a"`
	DaemonB float64 `json:"daemon_b"`
}

// Failure says why the run is not a success, "" when it is: every byte right, no
// operation failed, no frame leaked, and the switch did what it was asked to.
func (r *Result) Failure() string {
	switch {
	case r.MismatchedBytes > 0:
		return fmt.Sprintf("%d bytes were wrong: %s", r.MismatchedBytes, r.FirstError)
	case r.Errors > 0:
		return fmt.Sprintf("%d operations or checks failed: %s", r.Errors, r.FirstError)
	case r.Operations == 0:
		return "no operation was completed"
	case r.FramesLeaked > 0:
		return fmt.Sprintf("%d frames leaked", r.FramesLeaked)
	case r.Void:
		return "the run is void: " + r.VoidReason
	}
	return ""
}

// addFault judges a fault; both times are on the timeline's clock.
func (r *Result) addFault(faultMs, jobMs float64) {
	r.FaultMs = &faultMs
	if recovery, ok := RecoveryMs(r.Timeline, faultMs, jobMs); ok {
		r.RecoveryMs = &recovery
	}
}

// addStatus takes over what the daemons know; a is the writer's side.
func (r *Result) addStatus(a, b *dataplane.Status) {
	r.Planes = make([]Plane, 0, len(a.Planes))
	for _, p := range a.Planes {
		r.Planes = append(r.Planes, Plane{Name: p.Name, Mode: p.Mode, TxBytes: p.TxBytes, RxBytes: p.RxBytes, State: p.State})
	}
	r.Paths = []Path{}
	for _, c := range a.Connections {
		for _, p := range c.Paths {
			r.Paths = append(r.Paths, Path{
				Plane: p.Plane, ID: p.ID, State: p.State, SRTTUs: p.SRTTUs, CEFraction: p.CEFraction,
				LossFraction: p.LossFraction, TxPackets: p.TxPackets, Retransmissions: p.Retransmissions,
			})
		}
	}
	for _, s := range []*dataplane.Status{a, b} {
		r.FramesLeaked += s.FramesLeaked
		for _, c := range s.Connections {
			r.Retransmissions += c.Retransmissions
			r.RetransmissionsTimer += c.RetransmissionsTimer
			r.Duplicates += c.Duplicates
		}
	}
}
