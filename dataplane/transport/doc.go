// Package transport is the protocol: connections, sequence spaces, selective
// acknowledgment, loss recovery, placement and verbs, as a pure state machine.
// It has no I/O, no clock, no goroutine and no global state. Time comes in as
// an argument (int64 nanoseconds of any monotonic clock), packets come in and
// go out as byte slices, so the same code runs over AF_XDP, over sockets and
// in a simulation.
//
// An [Engine] belongs to one caller at a time (a worker); it is not safe for
// concurrent use. Its surface is five verbs:
//
//	HandlePacket, HandlePlane and the requests (Dial, Accept, Post, …)
//	Transmit        what to send next on one plane
//	Deadline        when to call HandleDeadline
//	HandleDeadline
//	PollEvent       what applications must hear
//
// Three number spaces keep the protocol sound (docs/PROTOCOL.md, "Numbers"):
//
//	          per path              per connection           per stream
//	sender    sendPath: PSN ring    dsnLog: DSN -> packet    sendStream: MSN
//	             │ a gap is loss       │ what to resend          │ completion order
//	receiver  recvPath: bitvector   claimTable: exactly once recvStream: MSN
//
// The sender's state lives in txPlane (window, paths, runs under the tail
// timer, retransmission queue), the receiver's in rxPlane (bitvectors, what is
// still to be acknowledged). A connection appears in a plane's ready list only
// while it has something to send there, and in the deadline heap once, so work
// is proportional to what is active.
package transport
