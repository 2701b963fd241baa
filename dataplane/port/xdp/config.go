package xdp

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/bpf"
)

// Mode is how packets get between the device and the arena.
type Mode uint8

// Modes, in the words of the configuration.
const (
	Auto     Mode = iota // zero-copy where the driver has it, else copy, else generic
	ZeroCopy             // the device reads and writes frames itself, or the port does not open
	Copy                 // the kernel copies between frames and its own buffers
	Generic              // as Copy, with the XDP program behind the kernel's packet allocation: slow, works anywhere
)

var modeNames = [...]string{Auto: "auto", ZeroCopy: "zerocopy", Copy: "copy", Generic: "generic"}

// String returns the configuration's word.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// ParseMode is the reverse of String. An empty word means Auto.
func ParseMode(word string) (Mode, error) {
	for mode, name := range modeNames {
		if word == name || word == "" {
			return Mode(mode), nil
		}
	}
	return 0, fmt.Errorf("metaroced: mode is %q, must be one of %q", word, modeNames)
}

// attachMode is where the XDP program must run for the mode.
func (m Mode) attachMode() bpf.AttachMode {
	switch m {
	case Generic:
		return bpf.Generic
	case ZeroCopy:
		return bpf.Native
	}
	return bpf.Auto
}

// BusyPoll configures receive processing inside Port.BusyPoll and Port.Kick
// instead of in interrupts. The zero value leaves it off.
type BusyPoll struct {
	Micros int // SO_BUSY_POLL: above 0 switches busy polling on; calls here never wait, so any value does
	Budget int // SO_BUSY_POLL_BUDGET: packets per call, at most 64 for a driver to get along; 0 = 64
}

// Defaults of Config.
const (
	DefaultRing        = 1024            // receive and transmit ring, entries
	DefaultTxBudget    = 128             // packets per transmit call in copy modes
	DefaultBindTimeout = 3 * time.Second // a queue stays busy for some 16 ms after its last owner has gone
	defaultPollBudget  = 64
)

// Config describes one port: one queue of one interface. Zero fields take
// defaults.
type Config struct {
	Interface       string
	Queue           uint32
	Mode            Mode
	RequireZeroCopy bool // fail rather than copy

	// Entries of the rings, powers of two. Frames of the two pools: all receive
	// frames wait in the fill ring, so they bound the burst that can be received.
	RxRing   uint32 // 0 = DefaultRing
	TxRing   uint32 // 0 = DefaultRing
	RxFrames uint32 // 0 = RxRing
	TxFrames uint32 // 0 = TxRing

	// TxBudget is how many packets one system call transmits in copy modes, from 32
	// to TxRing; 0 = 128. Kernels before 6.17 cannot be told and take 32.
	TxBudget uint32

	BusyPoll    BusyPoll
	BindTimeout time.Duration // how long a busy queue is tried again; 0 = 3 s
}

func (c Config) withDefaults() Config {
	setDefault(&c.RxRing, DefaultRing)
	setDefault(&c.TxRing, DefaultRing)
	setDefault(&c.RxFrames, c.RxRing)
	setDefault(&c.TxFrames, c.TxRing)
	setDefault(&c.TxBudget, min(DefaultTxBudget, c.TxRing))
	setDefault(&c.BindTimeout, DefaultBindTimeout)
	setDefault(&c.BusyPoll.Budget, defaultPollBudget)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// maxRing bounds rings far above what any device uses.
const maxRing = 1 << 16

func (c *Config) check() error {
	for _, ring := range [...]struct {
		name            string
		entries, frames uint32
	}{{"receive", c.RxRing, c.RxFrames}, {"transmit", c.TxRing, c.TxFrames}} {
		if bits.OnesCount32(ring.entries) != 1 || ring.entries > maxRing {
			return fmt.Errorf("%s ring of %d entries, must be a power of two up to %d", ring.name, ring.entries, maxRing)
		}
		if ring.frames > maxRing {
			return fmt.Errorf("%d %s frames, at most %d", ring.frames, ring.name, maxRing)
		}
	}
	switch {
	case c.Interface == "" || len(c.Interface) >= unix.IFNAMSIZ:
		return fmt.Errorf("interface name %q, must have 1 to %d characters", c.Interface, unix.IFNAMSIZ-1)
	case int(c.Mode) >= len(modeNames):
		return fmt.Errorf("unknown %v", c.Mode)
	case c.RequireZeroCopy && (c.Mode == Copy || c.Mode == Generic):
		return fmt.Errorf("%w: mode is %v; choose mode auto or zerocopy, or do not require it", ErrZeroCopy, c.Mode)
	case c.TxBudget < minTxBudget && c.TxRing >= minTxBudget, c.TxBudget > c.TxRing:
		return fmt.Errorf("transmit budget of %d packets, must be from %d to the transmit ring's %d entries", c.TxBudget, minTxBudget, c.TxRing)
	case c.BusyPoll.Micros < 0 || c.BusyPoll.Budget < 0:
		return errors.New("busy polling with a negative time or budget")
	case c.BindTimeout < 0:
		return fmt.Errorf("bind timeout of %v is negative", c.BindTimeout)
	}
	return nil
}

// minTxBudget is the least the kernel accepts (TX_BATCH_SIZE, net/xdp/xsk.c) and
// what it uses unless told.
const minTxBudget = 32

// mustZeroCopy reports whether copying is a reason not to open.
func (c *Config) mustZeroCopy() bool { return c.RequireZeroCopy || c.Mode == ZeroCopy }

// fillRing has room for every receive frame twice: the kernel publishes what it
// consumed late. completionRing has room for every transmit frame, so that it
// never is full.
func (c *Config) fillRing() uint32       { return powerOfTwo(2 * c.RxFrames) }
func (c *Config) completionRing() uint32 { return powerOfTwo(c.TxFrames) }

// powerOfTwo rounds up.
func powerOfTwo(n uint32) uint32 { return 1 << bits.Len32(n-1) }
