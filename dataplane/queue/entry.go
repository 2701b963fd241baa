package queue

import "unsafe"

// Op tells what a submission asks for or what a completion reports.
type Op uint8

// OpWrite in a submission places Length bytes of a local region into a remote
// one.
const OpWrite Op = 1

// Operations of completions.
const (
	CompletionWrite            Op = 1 // a submitted OpWrite is over
	CompletionWriteImmReceived Op = 2 // a peer's write with immediate has been placed here
	CompletionConnClosed       Op = 3 // the connection is gone; no more completions name it
)

// String returns the operation of a completion in words.
func (o Op) String() string {
	switch o {
	case CompletionWrite:
		return "write"
	case CompletionWriteImmReceived:
		return "write-immediate-received"
	case CompletionConnClosed:
		return "connection-closed"
	}
	return "unknown"
}

// Flags of a submission. Unknown bits are refused with StatusBadRequest.
const (
	FlagImmediate uint8 = 1 << 0 // Imm is delivered to the peer's completion queue
	FlagFence     uint8 = 1 << 1 // starts after all earlier submissions of the stream are placed
	FlagsKnown    uint8 = FlagImmediate | FlagFence
)

// SQE is one submission. The application may change it until it is published,
// so the worker copies it out first and checks afterwards.
type SQE struct {
	Op           Op
	Flags        uint8
	Stream       uint16 // order of immediates and of fences is per stream
	Conn         uint32 // as given when the connection was established
	Region       uint32 // local region: RegionInfo.ID; not looked at when Length is 0
	Length       uint32 // bytes; 0 is allowed, with an immediate too
	LocalOffset  uint64 // bytes into the local region
	RemoteKey    uint64 // names the peer's region
	RemoteOffset uint64 // bytes into the peer's region
	UserData     uint64 // comes back in the completion, never interpreted
	Imm          uint32 // with FlagImmediate
	Reserved     [3]uint32
}

// CQE is one completion.
type CQE struct {
	UserData uint64 // CompletionWrite: as submitted; otherwise 0
	Conn     uint32
	Op       Op
	Status   Status
	Stream   uint16
	Bytes    uint64 // CompletionWrite, CompletionWriteImmReceived: payload bytes of the message
	Imm      uint32 // CompletionWriteImmReceived
	MSN      uint32 // message number within its stream
}

// Entry sizes in bytes; they are part of the interface to applications in
// other languages.
const (
	SQESize = 64
	CQESize = 32
)

// The layout is shared with other processes: these fail to compile when it
// changes.
var (
	_ [SQESize]byte = [unsafe.Sizeof(SQE{})]byte{}
	_ [CQESize]byte = [unsafe.Sizeof(CQE{})]byte{}
)
