package raw

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/bench/fabric"
	"github.com/metaroced/metaroced/dataplane/frame"
	"github.com/metaroced/metaroced/dataplane/port/xdp"
	"github.com/metaroced/metaroced/dataplane/wire"
	"github.com/metaroced/metaroced/umem"
)

// spec tells a side what to do; the first line on its standard input. Every
// further line asks for a report, and the end of input for the last.
type spec struct {
	Host         fabric.Host
	CPU          int
	Planes       int
	PayloadBytes int
	Copy         bool
	Batch        int
	Spin         time.Duration
	Port         xdp.Config // of every plane, without the interface
}

// report is what a side answers with. The first says that it is ready.
type report struct {
	Packets  uint64
	Nanos    int64 // of the monotonic clock, which both processes share
	CPUNanos int64 // user and system time of the process
	Damaged  uint64
	Mode     string
	Leaked   uint64 // frames, in the last report
}

// regionBytes is what payload is copied from and to: more than a core's caches.
const regionBytes = 16 << 20

// frameSize is what a daemon uses.
const frameSize = 4096

// side is one of the two processes.
type side struct {
	spec    spec
	arena   *umem.Arena
	group   *xdp.Group
	ports   []*xdp.Port
	headers []frame.Template // by plane
	region  []byte
	at      int // where in the region the next payload is

	stop    atomic.Bool
	packets atomic.Uint64 // published once per turn
	damaged atomic.Uint64
	failed  error // of the loop
}

// RunSide is one side of a measurement: it runs in its host's namespace, takes its
// instructions from in and reports to out until in ends.
func RunSide(in io.Reader, out io.Writer) error {
	s := &side{}
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&s.spec); err != nil {
		return fmt.Errorf("raw: read instructions: %w", err)
	}
	if err := s.open(); err != nil {
		return errors.Join(err, s.close())
	}
	return errors.Join(s.serve(decoder, json.NewEncoder(out)), s.arena.Close())
}

// serve runs the loop and answers meanwhile. The ports are closed when it returns.
func (s *side) serve(decoder *json.Decoder, encoder *json.Encoder) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.failed = s.loop()
	}()
	err := s.answer(decoder, encoder)
	s.stop.Store(true)
	<-done
	last := s.report()
	err = errors.Join(err, s.failed, s.group.Close())
	for _, p := range s.ports {
		last.Leaked += leaked(p)
	}
	return errors.Join(err, encoder.Encode(last))
}

func (s *side) answer(decoder *json.Decoder, encoder *json.Encoder) error {
	for {
		if err := encoder.Encode(s.report()); err != nil {
			return fmt.Errorf("raw: report: %w", err)
		}
		var ask string
		err := decoder.Decode(&ask)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("raw: read request: %w", err)
		}
	}
}

func (s *side) report() report {
	var usage unix.Rusage
	var now unix.Timespec
	if err := errors.Join(unix.Getrusage(unix.RUSAGE_SELF, &usage), unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)); err != nil {
		panic(err) // they cannot fail with these arguments
	}
	return report{
		Packets:  s.packets.Load(),
		Nanos:    now.Nano(),
		CPUNanos: usage.Utime.Nano() + usage.Stime.Nano(),
		Damaged:  s.damaged.Load(),
		Mode:     s.ports[0].Mode(),
	}
}

func (s *side) open() (err error) {
	s.region = make([]byte, regionBytes)
	for i := range s.region {
		s.region[i] = byte(i) // also makes its pages resident
	}
	frames := s.spec.Planes * int(s.spec.Port.RxRing+s.spec.Port.TxRing)
	if s.arena, err = umem.NewArena(umem.Config{FrameBytes: int64(frames) * frameSize, FrameSize: frameSize, SlabBytes: umem.NoSlabs}); err != nil {
		return err
	}
	if s.group, err = xdp.NewGroup(xdp.GroupConfig{Arena: s.arena}); err != nil {
		return err
	}
	for plane := range s.spec.Planes {
		c := s.spec.Port
		c.Interface = fabric.Interface(plane)
		p, err := s.group.Open(c)
		if err != nil {
			return err
		}
		s.ports = append(s.ports, p)
		s.headers = append(s.headers, header(s.spec.Host, plane))
	}
	return nil
}

func (s *side) close() error {
	var errs []error
	if s.group != nil {
		errs = append(errs, s.group.Close())
	}
	if s.arena != nil {
		errs = append(errs, s.arena.Close())
	}
	return errors.Join(errs...)
}

// header returns the headers of packets from a host to the other one.
func header(from fabric.Host, plane int) frame.Template {
	mac := func(h fabric.Host) [6]byte { return [6]byte(fabric.MAC(h, plane)) }
	address := func(h fabric.Host) wire.Addr { return wire.AddrFrom4(fabric.Address(h, plane).Addr().As4(), udpPort) }
	to := 1 - from
	return frame.MakeTemplate(mac(from), mac(to), address(from), address(to), [frame.Classes]uint8{})
}

const udpPort = 4797

// loop is the thread that does the work.
func (s *side) loop() error {
	runtime.LockOSThread()
	if s.spec.CPU >= 0 {
		var set unix.CPUSet
		set.Set(s.spec.CPU)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return fmt.Errorf("raw: run on CPU %d: %w", s.spec.CPU, err)
		}
	}
	if s.spec.Host == fabric.HostA {
		return s.send()
	}
	return s.receive()
}

// nextPayload returns the memory of the next packet and moves on.
func (s *side) nextPayload() []byte {
	if s.at+s.spec.PayloadBytes > len(s.region) {
		s.at = 0
	}
	p := s.region[s.at:][:s.spec.PayloadBytes]
	s.at += s.spec.PayloadBytes
	return p
}

// yield lets another thread have the core when there is one.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// sleepers are the descriptors that end a sleep.
func (s *side) sleepers() []unix.PollFd {
	fds := make([]unix.PollFd, 0, len(s.ports))
	for _, p := range s.ports {
		fds = append(fds, unix.PollFd{Fd: int32(p.Fd()), Events: unix.POLLIN})
	}
	return fds
}

// forever is a spin that never ends.
const forever = time.Duration(math.MaxInt64)
