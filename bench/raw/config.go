package raw

import (
	"fmt"
	"io"
	"time"

	"github.com/metaroced/metaroced/bench/fabric"
	"github.com/metaroced/metaroced/dataplane/frame"
	"github.com/metaroced/metaroced/dataplane/port/xdp"
	"github.com/metaroced/metaroced/dataplane/wire"
)

// Defaults of Config.
const (
	DefaultBatch      = 64 // what a daemon's worker handles per plane and turn
	DefaultWarmUp     = 300 * time.Millisecond
	DefaultDuration   = 3 * time.Second
	DefaultPollMicros = 20 // what a daemon with busy_poll sets
	maxBatch          = 1024
)

// Config describes a measurement. Zero fields take defaults, but for cores.
type Config struct {
	Copy bool // also copy and check each packet on both sides

	Planes, MTU  int   // of the fabric
	PlaneRate    int64 // bits per second and direction; 0 = unlimited
	CPUA, CPUB   int   // cores of the sender and of the receiver; -1 = not pinned
	PayloadBytes int   // memory moved per packet; 0 = what the transport puts into one

	Duration, WarmUp time.Duration

	Batch    int           // packets per plane and turn
	Mode     xdp.Mode      // of the sockets
	BusyPoll bool          // SO_PREFER_BUSY_POLL on all sockets
	Spin     time.Duration // an empty receiver spins for this long before it sleeps; 0 = for ever, as nothing else runs
	TxBudget uint32        // packets per transmit call; 0 = the daemon's
	RxRing   uint32        // 0 = the daemon's
	TxRing   uint32        // 0 = the daemon's

	Command []string  // starts a process that calls RunSide: the binary and its hidden subcommand
	Log     io.Writer // what the sides write to stderr; nil = nothing
}

func (c Config) withDefaults() (Config, error) {
	if c.Planes == 0 {
		c.Planes = fabric.DefaultPlanes
	}
	if c.MTU == 0 {
		c.MTU = fabric.DefaultMTU
	}
	most := (c.MTU - (frame.HeaderBytes4 - ethernetBytes) - wire.DataOverhead) &^ 7
	if c.PayloadBytes == 0 {
		c.PayloadBytes = most
	}
	if c.Duration == 0 {
		c.Duration = DefaultDuration
	}
	if c.WarmUp == 0 {
		c.WarmUp = DefaultWarmUp
	}
	if c.Batch == 0 {
		c.Batch = DefaultBatch
	}
	switch {
	case c.PayloadBytes < 8 || c.PayloadBytes > most:
		return c, fmt.Errorf("raw: payload of %d bytes, must be from 8 to %d with an MTU of %d", c.PayloadBytes, most, c.MTU)
	case c.Batch < 1 || c.Batch > maxBatch:
		return c, fmt.Errorf("raw: batch of %d packets, must be from 1 to %d", c.Batch, maxBatch)
	case c.Duration < 0 || c.WarmUp < 0 || c.Spin < 0:
		return c, fmt.Errorf("raw: duration %v, warm-up %v or spin %v is negative", c.Duration, c.WarmUp, c.Spin)
	case len(c.Command) == 0:
		return c, fmt.Errorf("raw: no command to start the sides with")
	}
	return c, nil
}

// Result is what the receiver took during the measured time.
type Result struct {
	Packets      uint64  `json:"packets"`
	Seconds      float64 `json:"seconds"`
	PPS          float64 `json:"pps"`
	FrameGbps    float64 `json:"frame_gbps"`   // Ethernet frames, without check sequence and gap
	PayloadGbps  float64 `json:"payload_gbps"` // what goodput compares with
	Sent         uint64  `json:"sent"`         // packets handed to the kernel meanwhile
	CPUSender    float64 `json:"cpu_seconds_sender"`
	CPUReceiver  float64 `json:"cpu_seconds_receiver"`
	Mode         string  `json:"mode"` // of the sockets: "copy", "zerocopy", "generic"
	PayloadBytes int     `json:"payload_bytes"`
	FrameBytes   int     `json:"frame_bytes"`
}

const ethernetBytes = 14
