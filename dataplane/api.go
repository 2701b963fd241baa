package dataplane

import (
	"net/netip"
	"time"

	"github.com/metaroced/metaroced/umem"
)

// Access says what a remote peer may do to a region. It is a bit mask.
type Access uint32

// Permissions a region can carry. A region without any may still be the local
// side of an operation.
const (
	AccessRemoteRead Access = 1 << iota
	AccessRemoteWrite
	AccessRemoteAtomic
)

// SessionSpec describes the application that opens a session, as the control
// plane learned it from the kernel (SO_PEERCRED) and from its HELLO.
type SessionSpec struct {
	UID, PID  uint32
	SQEntries uint32 // power of two
	CQEntries uint32 // power of two
}

// RegionInfo is what an application needs to use a region it asked for.
type RegionInfo struct {
	ID   uint32
	Key  uint64
	Size int64
	FDs  []umem.SlabFD // to be mapped one behind the other
}

// DialSpec asks for a connection to a service at a peer.
type DialSpec struct {
	Peers   []netip.Addr // one or more of the peer's plane addresses
	Service string
	Private []byte // handed to the accepting application, at most 256 bytes
	Token   uint64 // chosen by the caller, comes back in the answering event
}

// SessionEventKind tells what a SessionEvent reports.
type SessionEventKind uint8

// Kinds of session events.
const (
	EventIncoming    SessionEventKind = iota + 1 // somebody dialled a service this session listens on
	EventEstablished                             // a dialled or accepted connection is up
	EventRefused                                 // a dial failed; Text says why
	EventClosed                                  // a connection ended; Text says why
)

// SessionEvent is something the application must hear of through the control
// socket. Completions do not come this way: they go through the CQ.
type SessionEvent struct {
	Kind    SessionEventKind
	Token   uint64 // EventEstablished and EventRefused of a dial: DialSpec.Token
	Conn    uint32
	Service string
	Peer    netip.AddrPort
	Private []byte
	Reason  uint16
	Text    string
}

// Status is a snapshot of the daemon for `metaroced status` and the lab.
type Status struct {
	Version      string            `json:"version"`
	UptimeMs     int64             `json:"uptime_ms"`
	PID          int               `json:"pid"`
	CPUSeconds   float64           `json:"cpu_seconds"`
	Sessions     int               `json:"sessions"`
	Regions      int               `json:"regions"`
	Planes       []PlaneStatus     `json:"planes"`
	Connections  []ConnStatus      `json:"connections"`
	Counters     map[string]uint64 `json:"counters"` // refusals and anomalies, by reason
	FramesLeaked uint64            `json:"frames_leaked"`
}

// PlaneStatus is one local plane: an interface and queue the daemon serves.
type PlaneStatus struct {
	Name         string `json:"name"`
	Address      string `json:"address"`
	Mode         string `json:"mode"`  // zerocopy, copy or generic
	State        string `json:"state"` // up or down
	TxPackets    uint64 `json:"tx_packets"`
	TxBytes      uint64 `json:"tx_bytes"`
	RxPackets    uint64 `json:"rx_packets"`
	RxBytes      uint64 `json:"rx_bytes"`
	RxDropped    uint64 `json:"rx_dropped"`
	FramesLeaked uint64 `json:"frames_leaked"`
}

// ConnStatus is one connection.
type ConnStatus struct {
	ID                   uint32       `json:"id"`
	Peer                 string       `json:"peer"`
	Service              string       `json:"service"`
	State                string       `json:"state"`
	TxBytes              uint64       `json:"tx_bytes"` // payload, first transmissions
	RxBytes              uint64       `json:"rx_bytes"` // payload placed
	Retransmissions      uint64       `json:"retransmissions"`
	RetransmissionsTimer uint64       `json:"retransmissions_timer"`
	Spurious             uint64       `json:"retransmissions_spurious"`
	Duplicates           uint64       `json:"duplicates"`
	Paths                []PathStatus `json:"paths"`
}

// PathStatus is one path of a connection, seen from its sender.
type PathStatus struct {
	Plane           int     `json:"plane"`
	ID              int     `json:"id"`
	State           string  `json:"state"`
	SRTTUs          float64 `json:"srtt_us"`
	CEFraction      float64 `json:"ce_fraction"`
	LossFraction    float64 `json:"loss_fraction"`
	TxPackets       uint64  `json:"tx_packets"`
	Retransmissions uint64  `json:"retransmissions"`
	InFlight        int     `json:"in_flight"`
}

// PlaneConfig names one plane of the host.
type PlaneConfig struct {
	Interface      string
	Queue          uint32
	Address        netip.Addr // zero: the first address of the interface
	LinkBitsPerSec int64      // zero: ask the driver
}

// PollMode says how a worker waits for work.
type PollMode uint8

// Poll modes; PollAdaptive is the default.
const (
	PollAdaptive PollMode = iota
	PollBusy
	PollInterrupt
)

// Config is everything a Dataplane is built from; cmd fills it from TOML.
type Config struct {
	Planes          []PlaneConfig
	UDPPort         uint16
	Mode            string // auto, zerocopy, copy or generic
	RequireZeroCopy bool
	Poll            PollMode
	Spin            time.Duration
	WorkerCPU       int // -1: not pinned
	WorkerNice      int
	BusyPoll        bool // SO_PREFER_BUSY_POLL on the AF_XDP sockets

	ArenaFrameBytes, ArenaSlabBytes int64
	RxRing, TxRing                  uint32

	Paths             int
	RunPackets        int
	AckEvery          int
	AckDelay          time.Duration
	ConnectionTimeout time.Duration
	MaxConnections    int
	DSNWindow         int

	RegionBytesPerSession int64
	MaxRegionsPerSession  int
}
