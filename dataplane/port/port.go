package port

import (
	"errors"

	"github.com/metaroced/metaroced/umem"
)

// Errors that callers distinguish with errors.Is. The errors returned name the
// interface in front.
var (
	// ErrLinkDown: the interface is down. Frames already sent stay queued and may
	// go out, stale, when it comes up again.
	ErrLinkDown = errors.New("interface is down")
	// ErrDeviceGone: the interface no longer exists. Close the port.
	ErrDeviceGone = errors.New("interface is gone")
)

// Desc describes one packet in a frame of the arena. It has the kernel's layout
// of struct xdp_desc (linux/if_xdp.h).
type Desc struct {
	Addr    uint64 // first byte of the packet, as an offset in the arena
	Len     uint32 // bytes from the Ethernet header on, without frame check sequence
	Options uint32 // 0: the packet ends in this frame
}

// Stats counts since the port was opened. Packets and bytes are of Ethernet
// frames.
type Stats struct {
	RxPackets, RxBytes uint64 // handed to the caller
	TxPackets, TxBytes uint64 // published for transmission

	TxKicks      uint64 // wake-up calls
	TxKickErrors uint64 // wake-ups that failed for want of buffers, or after which a packet was dropped
	TxInvalid    uint64 // descriptors Send refused, or the kernel
	RxInvalid    uint64 // descriptors of the kernel that Receive refused

	RxDropped  uint64 // by the kernel: no frame to receive into, or too long for one
	RxRingFull uint64 // by the kernel: the caller did not take packets fast enough
	FillEmpty  uint64 // times the kernel found no frame to receive into

	CompletionForeign uint64 // completions of frames that were not being sent
	FrameErrors       uint64 // frames the caller gave back without having them
	FramesLeaked      uint64 // frames nobody accounts for; see Port.Stats

	RxFrames, TxFrames [umem.NumStates]uint64 // frames of each pool by state
}

// Port sends and receives packets of one queue of one interface. All methods are
// for one goroutine at a time, do not block, and but for Stats and Close do not
// allocate.
type Port interface {
	// Receive first gives free frames to the kernel, then takes up to len(descs)
	// received packets, the oldest first, and returns how many. The caller owns
	// their frames until Release.
	Receive(descs []Desc) int

	// Release gives frames of Receive back.
	Release(descs []Desc)

	// Bytes returns the memory that d describes. It is valid while the caller
	// owns the frame.
	Bytes(d Desc) []byte

	// AllocTx first takes back frames whose transmission is complete, then fills
	// descs with free ones and returns how many there were. Addr is where the
	// packet has to start and Len the room for it. The caller owns them until
	// Send or FreeTx.
	AllocTx(descs []Desc) int

	// FreeTx gives frames of AllocTx back unused.
	FreeTx(descs []Desc)

	// Send publishes packets for transmission, in order, and returns how many of
	// descs it took; the caller still owns the rest. A descriptor that does not
	// lie inside its frame is counted in TxInvalid, taken and dropped. Nothing
	// need be transmitted before Kick.
	Send(descs []Desc) int

	// Kick makes the kernel transmit what Send published, if it has to be told.
	// A shortage that passes is no error; packets may then be left (Unsent).
	// Errors are ErrLinkDown, ErrDeviceGone and unexpected ones.
	Kick() error

	// Unsent returns how many published packets the kernel has not yet taken.
	// While there are any the caller must Kick again before it sleeps for long.
	Unsent() int

	// BusyPoll runs the interface's receive processing once when the port was
	// opened for busy polling, else does nothing. Errors are those of Kick.
	BusyPoll() error

	// Fd is the descriptor to sleep on, for reading (POLLIN) only: it is always
	// writable. Neither a lost link nor a lost device wakes a sleeper.
	Fd() int

	// Stats writes the counters to s. It makes a system call: at most once per
	// 10 ms. FramesLeaked counts frames that were unaccounted for in two calls in
	// a row with no traffic between them and, after Close, frames the caller
	// never gave back and transmissions that never completed. It may be called
	// after Close.
	Stats(s *Stats)

	// Mode is "zerocopy", "copy", or "generic".
	Mode() string

	// Close ends reception, waits a little for transmissions to complete, and
	// gives queue and frames back. Of all methods only Stats and Mode may follow.
	Close() error
}
