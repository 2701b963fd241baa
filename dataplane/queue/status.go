package queue

import (
	"errors"
	"fmt"
)

// Status is the outcome of an operation.
type Status uint8

// Statuses of completions. The numbers are part of the interface to
// applications in other languages; new ones are added at the end.
const (
	StatusOK           Status = 0
	StatusLocalAccess  Status = 1 // the local region, offset or length is wrong
	StatusRemoteAccess Status = 2 // the peer refused the key, the bounds or the permission
	StatusPeerClosed   Status = 3 // the peer closed the connection
	StatusConnFailed   Status = 4 // the peer stayed silent on every path
	StatusFlushed      Status = 5 // the connection ended before this operation did
	StatusPeerRestart  Status = 6 // the peer runs, but does not know the connection any more
	StatusBadRequest   Status = 7 // the submission itself makes no sense
)

// Errors that Status.Err returns, one per status, for errors.Is.
var (
	ErrLocalAccess  = errors.New("local region, offset or length is not valid for this session")
	ErrRemoteAccess = errors.New("peer refused the region key, the bounds or the access right")
	ErrPeerClosed   = errors.New("connection closed by the peer")
	ErrConnFailed   = errors.New("connection failed: the peer stayed silent on every path until the connection timeout")
	ErrFlushed      = errors.New("operation flushed: the connection ended before it completed")
	ErrPeerRestart  = errors.New("connection failed: the peer's daemon restarted")
	ErrBadRequest   = errors.New("submission refused: unknown operation, flag, stream or connection, or reserved bits set")
)

var statusErrors = [...]error{
	StatusOK:           nil,
	StatusLocalAccess:  ErrLocalAccess,
	StatusRemoteAccess: ErrRemoteAccess,
	StatusPeerClosed:   ErrPeerClosed,
	StatusConnFailed:   ErrConnFailed,
	StatusFlushed:      ErrFlushed,
	StatusPeerRestart:  ErrPeerRestart,
	StatusBadRequest:   ErrBadRequest,
}

// Err returns nil for StatusOK and otherwise an error an operator can read.
// It does not allocate for the statuses listed here.
func (s Status) Err() error {
	if int(s) < len(statusErrors) {
		return statusErrors[s]
	}
	return fmt.Errorf("unknown completion status %d: the daemon is newer than this client", uint8(s))
}

// String returns "ok" or the text of the error.
func (s Status) String() string {
	if err := s.Err(); err != nil {
		return err.Error()
	}
	return "ok"
}
