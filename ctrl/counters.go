package ctrl

import (
	"sync/atomic"

	"github.com/metaroced/metaroced/ctrl/msg"
)

// reason is why a request was refused or a session ended, for the counters in
// Status.
type reason int

const (
	reasonBadLength reason = iota
	reasonBadVersion
	reasonBadType
	reasonBadReserved
	reasonBadField
	reasonBadState
	reasonNotARequest
	reasonDescriptorsDiscarded
	reasonLimitSessions
	reasonLimitSessionsPerUID
	reasonLimitServices
	reasonLimitRegions
	reasonHandshakeTimeout
	reasonRefusedByDataplane
	reasonSlowReader
	reasonPendingEvents
	reasonEndedByDataplane
	reasonBadEvent
	reasonSendFailed
	reasonCount
)

// reasonNames are the keys in Status.Counters.
var reasonNames = [reasonCount]string{
	reasonBadLength:            "ctrl_bad_length",
	reasonBadVersion:           "ctrl_bad_version",
	reasonBadType:              "ctrl_bad_type",
	reasonBadReserved:          "ctrl_bad_reserved",
	reasonBadField:             "ctrl_bad_field",
	reasonBadState:             "ctrl_bad_state",
	reasonNotARequest:          "ctrl_not_a_request",
	reasonDescriptorsDiscarded: "ctrl_descriptors_discarded",
	reasonLimitSessions:        "ctrl_limit_sessions",
	reasonLimitSessionsPerUID:  "ctrl_limit_sessions_per_uid",
	reasonLimitServices:        "ctrl_limit_services_per_session",
	reasonLimitRegions:         "ctrl_limit_regions_per_session",
	reasonHandshakeTimeout:     "ctrl_handshake_timeout",
	reasonRefusedByDataplane:   "ctrl_refused_by_dataplane",
	reasonSlowReader:           "ctrl_slow_reader",
	reasonPendingEvents:        "ctrl_limit_pending_events",
	reasonEndedByDataplane:     "ctrl_ended_by_dataplane",
	reasonBadEvent:             "ctrl_bad_event",
	reasonSendFailed:           "ctrl_send_failed",
}

var parseReasons = map[msg.Reason]reason{
	msg.ReasonLength:   reasonBadLength,
	msg.ReasonVersion:  reasonBadVersion,
	msg.ReasonType:     reasonBadType,
	msg.ReasonReserved: reasonBadReserved,
	msg.ReasonField:    reasonBadField,
}

// counters are added to by all sessions.
type counters [reasonCount]atomic.Uint64

func (c *counters) add(r reason) { c[r].Add(1) }

// addTo puts every counter into m under its name, the zeros too, so that a
// reader sees what is counted at all.
func (c *counters) addTo(m map[string]uint64) {
	for r := range c {
		m[reasonNames[r]] = c[r].Load()
	}
}
