package transport

import "github.com/metaroced/metaroced/dataplane/wire"

// Status is how an operation ended.
type Status uint8

// Statuses of completions; applications see these numbers.
const (
	StatusOK Status = iota
	StatusLocalAccess
	StatusRemoteAccess
	StatusPeerClosed
	StatusSilent
	StatusFlushed
	StatusPeerRestarted
	StatusBadRequest
)

func (s Status) String() string {
	switch s {
	case StatusOK:
		return "ok"
	case StatusLocalAccess:
		return "local region is gone or too small"
	case StatusRemoteAccess:
		return "peer refused the access (region key, bounds or permission)"
	case StatusPeerClosed:
		return "peer closed the connection"
	case StatusSilent:
		return "peer silent on every path"
	case StatusFlushed:
		return "connection was closed here before the operation ended"
	case StatusPeerRestarted:
		return "peer restarted and does not know the connection"
	case StatusBadRequest:
		return "request is malformed"
	}
	return "unknown status"
}

// EventKind tells what an Event reports.
type EventKind uint8

// Kinds of events.
const (
	EventIncoming    EventKind = iota + 1 // a peer asks for a service; Accept or Refuse it
	EventEstablished                      // a connection is up
	EventRefused                          // a Dial failed; Text says why
	EventSent                             // an operation of ours ended
	EventReceived                         // a peer's message with immediate data is complete
	EventClosed                           // a connection is over; Text says why
)

// Event is something an application or operator must hear of. Private aliases
// memory that is never written again.
type Event struct {
	Kind     EventKind
	Conn     wire.ConnID
	Owner    uint32 // the session the connection or listener belongs to
	Token    uint64 // of the Dial
	UserData uint64 // of the operation
	Bytes    uint64
	MSN      uint32
	Imm      uint32
	Stream   uint16
	Reason   uint16
	Status   Status
	Peer     wire.Addr
	Service  string
	Text     string
	Private  []byte
}
