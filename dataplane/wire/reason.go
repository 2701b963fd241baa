package wire

// Reason says why a packet was refused; 0 is no reason.
type Reason uint8

// Reasons for refusing a packet.
const (
	ReasonTruncated Reason = iota + 1
	ReasonBadVersion
	ReasonBadType
	ReasonBadFlags
	ReasonBadLength
	ReasonBadCRC
	ReasonBadField
	ReasonReserved
	ReasonOverflow
	// ReasonCount is one more than the largest reason.
	ReasonCount
)

func (r Reason) String() string {
	switch r {
	case 0:
		return "ok"
	case ReasonTruncated:
		return "packet truncated"
	case ReasonBadVersion:
		return "unknown version"
	case ReasonBadType:
		return "unknown packet type"
	case ReasonBadFlags:
		return "unknown flags"
	case ReasonBadLength:
		return "length contradicts itself"
	case ReasonBadCRC:
		return "checksum wrong"
	case ReasonBadField:
		return "field out of range"
	case ReasonReserved:
		return "reserved field not zero"
	case ReasonOverflow:
		return "offset and length overflow"
	}
	return "unknown reason"
}

// RefuseReason is why a connection was not made.
type RefuseReason uint16

// Reasons for refusing a connection.
const (
	RefuseNoService RefuseReason = iota + 1
	RefuseBusy
	RefuseIncompatible
	RefuseApplication
	RefuseTimeout
	RefuseRetryCookie
)

func (r RefuseReason) String() string {
	switch r {
	case RefuseNoService:
		return "no such service"
	case RefuseBusy:
		return "a limit is reached"
	case RefuseIncompatible:
		return "offers do not fit together"
	case RefuseApplication:
		return "refused by the application"
	case RefuseTimeout:
		return "no answer in time"
	case RefuseRetryCookie:
		return "try again with this cookie"
	}
	return "unknown reason"
}

// ErrorReason is why an operation failed at the responder.
type ErrorReason uint16

// Reasons of ERROR.
const (
	ErrorUnknownKey ErrorReason = iota + 1
	ErrorBounds
	ErrorPermission
	ErrorUnsupported
	ErrorTooLong
	ErrorNoReceive
	ErrorBadMessage
)

func (r ErrorReason) String() string {
	switch r {
	case ErrorUnknownKey:
		return "region key unknown"
	case ErrorBounds:
		return "beyond the region"
	case ErrorPermission:
		return "region does not allow this"
	case ErrorUnsupported:
		return "operation not supported"
	case ErrorTooLong:
		return "packet longer than agreed"
	case ErrorNoReceive:
		return "no receive posted"
	case ErrorBadMessage:
		return "packets of a message contradict each other"
	}
	return "unknown reason"
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
	switch r {
	case CloseNormal:
		return "closed by the application"
	case CloseApplicationGone:
		return "application has gone"
	case CloseFailed:
		return "connection failed"
	case CloseStopping:
		return "daemon is stopping"
	}
	return "unknown reason"
}
