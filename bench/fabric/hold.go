package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

const (
	holdPoll     = 50 * time.Microsecond // between looks while frames are held
	holdHeader   = 8                     // bytes before the frame in struct held_frame
	sendAttempts = 100                   // before a frame that finds the link full is lost
)

// holder is the user-space half of hold-back: it takes frames that the switch
// program kept and sends them on later, behind the program's back.
//
//	XDP program of port n ─ copy ─► ring buffer ─► queues[n] ─ later ─► packet socket ─► port n^1
//
// An AF_XDP socket per port would do the same, at the price of an arena, a
// registration and kernel memory per port, and could not carry along that a frame
// shall go out twice.
type holder struct {
	program *program
	first   int // interface index of port 0
	reader  *ringbuf.Reader
	socket  int // AF_PACKET, to send
	stop    int // eventfd
	done    chan struct{}

	mu     sync.Mutex
	limits []holdLimits // by port

	counts []holdCounts // by port

	queues [][]heldFrame // by port, oldest first; the thread's own
}

type holdLimits struct {
	packets uint64
	wait    time.Duration
	failed  bool // the plane: nothing may pass, not even what was held before
}

type holdCounts struct {
	reinjected, failed, lost atomic.Uint64
}

type heldFrame struct {
	frame    []byte
	copies   int
	at       time.Time // goes on then,
	atPacket uint64    // or when the port has counted as many packets
}

// newHolder starts the thread that re-injects. Call it on the switch's thread: the
// packet socket belongs to the namespace it is made in.
func newHolder(p *program, first, ports int) (*holder, error) {
	h := &holder{
		program: p, first: first, socket: -1, stop: -1,
		done:   make(chan struct{}),
		limits: make([]holdLimits, ports),
		queues: make([][]heldFrame, ports),
		counts: make([]holdCounts, ports),
	}
	if err := h.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("hold-back: %w", err), h.release())
	}
	go h.run()
	return h, nil
}

func (h *holder) open() (err error) {
	if h.reader, err = ringbuf.NewReader(h.program.objects.Held); err != nil {
		return fmt.Errorf("open ring of held frames: %w", err)
	}
	h.reader.SetDeadline(time.Unix(1, 0)) // the past: reading never waits
	// Protocol 0: receives nothing.
	if h.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return os.NewSyscallError("socket", err)
	}
	if err = unix.SetsockoptInt(h.socket, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
		return os.NewSyscallError("setsockopt PACKET_QDISC_BYPASS", err)
	}
	h.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC)
	return os.NewSyscallError("eventfd", err)
}

// setLimits says how long frames of a port are held from now on.
func (h *holder) setLimits(port int, l holdLimits) {
	h.mu.Lock()
	h.limits[port] = l
	h.mu.Unlock()
}

func (h *holder) limitsOf(port int) holdLimits {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.limits[port]
}

// close drops what is still held.
func (h *holder) close() error {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	if _, err := unix.Write(h.stop, one[:]); err != nil {
		return os.NewSyscallError("stop hold-back", err)
	}
	<-h.done
	return h.release()
}

func (h *holder) release() error {
	var errs []error
	if h.reader != nil {
		errs = append(errs, h.reader.Close())
	}
	for _, fd := range [...]int{h.socket, h.stop} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}

// run has a thread to itself, for ppoll's timeouts are finer than the runtime's.
func (h *holder) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(h.done)
	fds := []unix.PollFd{
		{Fd: int32(h.program.objects.Held.FD()), Events: unix.POLLIN},
		{Fd: int32(h.stop), Events: unix.POLLIN},
	}
	var record ringbuf.Record
	for {
		h.take(&record)
		var timeout *unix.Timespec // wait for ever
		if h.sendDue() {
			t := unix.NsecToTimespec(int64(holdPoll))
			timeout = &t
		}
		_, err := unix.Ppoll(fds, timeout, nil)
		if err != nil && err != unix.EINTR {
			panic(fmt.Sprintf("fabric: ppoll of hold-back's own descriptors: %v", err))
		}
		if fds[1].Revents != 0 {
			return
		}
	}
}

// take moves frames from the ring buffer to the queues.
func (h *holder) take(record *ringbuf.Record) {
	for h.reader.AvailableBytes() > 0 && h.reader.ReadInto(record) == nil {
		raw := record.RawSample
		port := int(binary.NativeEndian.Uint32(raw))
		length := int(binary.NativeEndian.Uint16(raw[4:]))
		limits := h.limitsOf(port)
		h.queues[port] = append(h.queues[port], heldFrame{
			frame:    append([]byte(nil), raw[holdHeader:holdHeader+length]...),
			copies:   int(binary.NativeEndian.Uint16(raw[6:])),
			at:       time.Now().Add(limits.wait),
			atPacket: h.packets(port) + limits.packets,
		})
	}
}

// packets returns how many packets a port has counted.
func (h *holder) packets(port int) uint64 {
	c, err := h.program.counters(port)
	if err != nil {
		panic(fmt.Sprintf("fabric: hold-back: %v", err)) // the map is ours and open
	}
	return c.Packets
}

// sendDue sends the frames whose time has come and reports whether others are left.
func (h *holder) sendDue() (left bool) {
	for port, queue := range h.queues {
		if len(queue) == 0 {
			continue
		}
		now, packets, failed := time.Now(), h.packets(port), h.limitsOf(port).failed
		for len(queue) > 0 && (failed || !now.Before(queue[0].at) || packets >= queue[0].atPacket) {
			if failed {
				h.counts[port].failed.Add(1)
			} else {
				h.send(port, &queue[0])
			}
			queue[0] = heldFrame{}
			queue = queue[1:]
		}
		h.queues[port] = queue
		left = left || len(queue) > 0
	}
	return left
}

// send sends a frame out of the other port.
func (h *holder) send(port int, f *heldFrame) {
	to := &unix.SockaddrLinklayer{Ifindex: h.first + (port ^ 1)}
	for range f.copies {
		err := unix.Sendto(h.socket, f.frame, unix.MSG_DONTWAIT, to)
		for attempt := 1; attempt < sendAttempts && (err == unix.ENOBUFS || err == unix.EAGAIN); attempt++ {
			runtime.Gosched()
			err = unix.Sendto(h.socket, f.frame, unix.MSG_DONTWAIT, to)
		}
		if err != nil {
			h.counts[port].lost.Add(1)
			return
		}
	}
	h.counts[port].reinjected.Add(1)
}
