package xdp

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/dataplane/port"
	"github.com/metaroced/metaroced/rings"
)

// socket is an AF_XDP socket with its four rings mapped.
type socket struct {
	fd         int
	registered bool // has a UMEM of its own

	rx         *rings.Consumer[port.Desc]
	tx         *rings.Producer[port.Desc]
	fill       *rings.Producer[uint64]
	completion *rings.Consumer[uint64]
	mappings   [][]byte
}

const (
	descBytes = 16 // struct xdp_desc
	addrBytes = 8  // an entry of fill and completion ring
)

// newSocket makes a socket that is not yet bound and has no UMEM.
func newSocket(o opener, c *Config, frameSize uint32) (*socket, error) {
	fd, err := o.socket()
	if err != nil {
		return nil, err
	}
	s := &socket{fd: fd}
	if err := errors.Join(s.makeRings(c), s.setOptions(o, c, frameSize)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *socket) makeRings(c *Config) error {
	for _, ring := range [...]struct {
		option  int
		entries uint32
	}{
		{unix.XDP_RX_RING, c.RxRing},
		{unix.XDP_TX_RING, c.TxRing},
		{unix.XDP_UMEM_FILL_RING, c.fillRing()},
		{unix.XDP_UMEM_COMPLETION_RING, c.completionRing()},
	} {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_XDP, ring.option, int(ring.entries)); err != nil {
			return fmt.Errorf("make ring of %d entries (option %d): %w", ring.entries, ring.option, err)
		}
	}
	var offsets unix.XDPMmapOffsets
	if err := getOption(s.fd, unix.SOL_XDP, unix.XDP_MMAP_OFFSETS, &offsets); err != nil {
		return fmt.Errorf("read ring offsets: %w", err)
	}
	var errs [4]error
	s.rx, errs[0] = mapRing(s, unix.XDP_PGOFF_RX_RING, offsets.Rx, c.RxRing, descBytes, rings.NewConsumer[port.Desc])
	s.tx, errs[1] = mapRing(s, unix.XDP_PGOFF_TX_RING, offsets.Tx, c.TxRing, descBytes, rings.NewProducer[port.Desc])
	s.fill, errs[2] = mapRing(s, unix.XDP_UMEM_PGOFF_FILL_RING, offsets.Fr, c.fillRing(), addrBytes, rings.NewProducer[uint64])
	s.completion, errs[3] = mapRing(s, unix.XDP_UMEM_PGOFF_COMPLETION_RING, offsets.Cr, c.completionRing(), addrBytes, rings.NewConsumer[uint64])
	return errors.Join(errs[:]...)
}

// mapRing maps one ring and makes its end of package rings.
func mapRing[R any](s *socket, pageOffset int64, at unix.XDPRingOffset, entries uint32, entryBytes uint64, newRing func([]byte, rings.Layout) (R, error)) (ring R, err error) {
	length := at.Desc + uint64(entries)*entryBytes
	mem, err := unix.Mmap(s.fd, pageOffset, int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return ring, fmt.Errorf("map ring at offset %#x: %w", pageOffset, err)
	}
	s.mappings = append(s.mappings, mem)
	return newRing(mem, rings.Layout{
		Producer: uintptr(at.Producer),
		Consumer: uintptr(at.Consumer),
		Flags:    uintptr(at.Flags),
		Desc:     uintptr(at.Desc),
		Entries:  entries,
	})
}

// sendBufferPerPacket covers a packet of the largest frame with the kernel's
// bookkeeping (its truesize).
const sendBufferPerPacket = 3

func (s *socket) setOptions(o opener, c *Config, frameSize uint32) error {
	// With the default of some 200 KiB a few dozen packets in flight are all.
	if err := o.sendBuffer(s.fd, int(c.TxFrames*frameSize)*sendBufferPerPacket); err != nil {
		return err
	}
	// Old kernels do not know the option and keep to minTxBudget; nothing is lost but speed.
	_ = unix.SetsockoptInt(s.fd, unix.SOL_XDP, unix.XDP_MAX_TX_SKB_BUDGET, int(c.TxBudget))
	if c.BusyPoll.Micros > 0 {
		return o.busyPoll(s.fd, c.BusyPoll)
	}
	return nil
}

// register gives the socket a UMEM of its own over mem.
func (s *socket) register(mem []byte, frameSize uint32) error {
	if err := registerUmem(s.fd, mem, frameSize); err != nil {
		if errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENOMEM) {
			return fmt.Errorf("register %d bytes of arena (RLIMIT_MEMLOCK, systemd: LimitMEMLOCK=, must allow them unless CAP_IPC_LOCK is given): %w", len(mem), err)
		}
		return fmt.Errorf("register %d bytes of arena: %w", len(mem), err)
	}
	s.registered = true
	return nil
}

// bindRetryInterval is how often a busy queue is tried again.
const bindRetryInterval = 4 * time.Millisecond

// bind binds to a queue, trying again while it is busy: the kernel releases a queue
// some time after its last socket and mapping are gone. The error is the errno of
// the last attempt.
func (s *socket) bind(ifindex int, c *Config, flags uint16, sharedFd int) error {
	address := &unix.SockaddrXDP{Flags: flags, Ifindex: uint32(ifindex), QueueID: c.Queue}
	if flags&unix.XDP_SHARED_UMEM != 0 {
		address.SharedUmemFD = uint32(sharedFd)
	}
	deadline := time.Now().Add(c.BindTimeout)
	for {
		err := unix.Bind(s.fd, address)
		if err == nil || !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(bindRetryInterval)
	}
}

// zeroCopy asks the kernel which mode the bound socket is in.
func (s *socket) zeroCopy() (bool, error) {
	var options uint32
	if err := getOption(s.fd, unix.SOL_XDP, unix.XDP_OPTIONS, &options); err != nil {
		return false, fmt.Errorf("read mode back: %w", err)
	}
	return options&unix.XDP_OPTIONS_ZEROCOPY != 0, nil
}

// close unmaps the rings and closes the socket: either alone keeps the queue
// taken. A second close does nothing.
func (s *socket) close() error {
	s.rx, s.tx, s.fill, s.completion = nil, nil, nil, nil
	var err error
	for _, mem := range s.mappings {
		err = errors.Join(err, unix.Munmap(mem))
	}
	s.mappings = nil
	if s.fd >= 0 {
		err = errors.Join(err, unix.Close(s.fd))
		s.fd = -1
	}
	return err
}
