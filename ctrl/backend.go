package ctrl

import (
	"os"

	"github.com/metaroced/metaroced/dataplane"
)

// Backend is what the control plane is in front of. Both methods are called
// from many goroutines at once.
type Backend interface {
	OpenSession(dataplane.SessionSpec) (Session, error)
	Status() *dataplane.Status
}

// Session is one application inside the dataplane. Its methods are called by
// one goroutine; Events is received from by another. Errors go to the
// application as text. Close is called once, after all other calls.
type Session interface {
	RingFile() *os.File // memory of the two queues, laid out by queue.NewLayout
	WakeFile() *os.File // the application's end of the wake socket
	AllocRegion(size int64, access dataplane.Access) (dataplane.RegionInfo, error)
	FreeRegion(id uint32) error
	Listen(service string) error
	Unlisten(service string) error
	Dial(dataplane.DialSpec) error // answered by an event with its token
	Accept(conn uint32, private []byte) error
	Refuse(conn uint32, text string) error
	CloseConn(conn uint32) error
	// Events is received from until it is closed or the session ends. Closing it
	// ends the session, for instance because its rings were scribbled over.
	Events() <-chan dataplane.SessionEvent
	Close()
}
