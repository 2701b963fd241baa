package wire

// Reason says why a packet was refused; 0 says that it was not. Counters are
// kept by reason.
type Reason uint8

// Reasons for refusing a packet.
const (
	ReasonTruncated  Reason = iota + 1 // shorter than its header says, or than a header is
	ReasonBadVersion                   // another framing
	ReasonBadType                      // a type this version does not have
	ReasonBadFlags                     // a flag this version or this type does not have
	ReasonBadLength                    // lengths and counts contradict each other
	ReasonBadCRC                       // changed on the way
	ReasonBadField                     // a value outside its range
	ReasonReserved                     // a reserved field that is not zero
	ReasonOverflow                     // offset plus length leaves 64 bits

	ReasonCount // one more than the largest reason
)

func (r Reason) String() string {
	if r == 0 {
		return "ok"
	}
	return nameOf(uint64(r), "reason", "packet truncated", "unknown version", "unknown packet type",
		"flags not allowed", "lengths contradict each other", "checksum wrong", "field out of range",
		"reserved field not zero", "offset and length overflow")
}

// RefuseReason is why a connection was not made.
type RefuseReason uint16

// Reasons of REFUSE.
const (
	RefuseNoService RefuseReason = iota + 1
	RefuseBusy
	RefuseIncompatible
	RefuseApplication
	RefuseTimeout
	RefuseRetryCookie // not a refusal yet: dial again with the cookie in Text
)

func (r RefuseReason) String() string {
	return nameOf(uint64(r), "reason", "no application listens on this service", "a limit of the peer is reached",
		"the two sides' offers do not fit together", "refused by the application", "no answer in time",
		"dial again with a cookie")
}

// ErrorReason is why an operation failed at the responder.
type ErrorReason uint16

// Reasons of CONTROL ERROR.
const (
	ErrorUnknownKey  ErrorReason = iota + 1 // no such region, or not for this peer
	ErrorBounds                             // offset and length leave the region
	ErrorPermission                         // the region does not allow the operation
	ErrorUnsupported                        // operation was not negotiated
	ErrorTooLong                            // payload or message longer than agreed, or than the receive buffer
	ErrorNoReceive                          // SEND without a posted receive
	ErrorBadMessage                         // packets of one message contradict each other
)

func (r ErrorReason) String() string {
	return nameOf(uint64(r), "reason", "remote key unknown", "beyond the remote region",
		"remote region does not allow this operation", "operation not supported by the peer",
		"longer than agreed", "no receive posted", "packets of a message contradict each other")
}

// CloseReason is why a connection ended.
type CloseReason uint16

// Reasons of CLOSE and RESET.
const (
	CloseNormal CloseReason = iota
	CloseApplicationGone
	CloseFailed
	CloseStopping
)

func (r CloseReason) String() string {
	return nameOf(uint64(r)+1, "reason", "closed by the application", "application has gone",
		"connection failed", "daemon is stopping")
}
