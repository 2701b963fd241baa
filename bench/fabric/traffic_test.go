package fabric

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/internal/testenv"
)

const (
	patience  = 10 * time.Second // for what takes microseconds
	otherPort = 9                // traffic that the switch leaves alone
	batch     = 64               // packets sent before waiting for them: far fewer than a veth's ring
)

// open builds a fabric that is closed with the test.
func open(t *testing.T, options Options) *Fabric {
	t.Helper()
	testenv.RequireRoot(t)
	f, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return f
}

// wire is a pair of kernel UDP sockets across one plane, one to the transport's
// port and one to another.
type wire struct {
	t               *testing.T
	sender          *net.UDPConn
	receiver, other *net.UDPConn
	to, toOther     netip.AddrPort
}

// connect opens sockets for sending in a direction.
func connect(t *testing.T, f *Fabric, plane int, direction Direction) *wire {
	t.Helper()
	from, to := Host(direction), Host(1-direction)
	target := Address(to, plane).Addr()
	w := &wire{t: t, to: netip.AddrPortFrom(target, f.Options().UDPPort), toOther: netip.AddrPortFrom(target, otherPort)}
	w.sender = socket(t, f, from, netip.AddrPortFrom(Address(from, plane).Addr(), 0))
	w.receiver = socket(t, f, to, w.to)
	w.other = socket(t, f, to, w.toOther)
	return w
}

// socket opens a UDP socket without checksums, with ECT(0) and a large buffer.
func socket(t *testing.T, f *Fabric, host Host, addr netip.AddrPort) *net.UDPConn {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		control := raw.Control(func(fd uintptr) {
			err = errors.Join(
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, 2),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTOS, 1),
			)
		})
		return errors.Join(control, err)
	}}
	var conn net.PacketConn
	err := f.Do(host, func() (err error) {
		conn, err = config.ListenPacket(context.Background(), "udp4", addr.String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.UDPConn)
}

// payload of packet n: its number and a pattern.
func payload(n uint32, size int) []byte {
	p := make([]byte, size)
	binary.BigEndian.PutUint32(p, n)
	for i := 4; i < size; i++ {
		p[i] = byte(i) ^ byte(n)
	}
	return p
}

// send sends packets numbered from 0 and returns when none is on its way any more,
// but for held ones.
func (w *wire) send(count, size int) {
	w.t.Helper()
	for n := range count {
		if _, err := w.sender.WriteToUDPAddrPort(payload(uint32(n), size), w.to); err != nil {
			w.t.Fatal(err)
		}
		if n%batch == batch-1 {
			w.flush()
		}
	}
	w.flush()
}

// flush sends a packet to the other port and waits for it: it overtakes nothing.
func (w *wire) flush() {
	w.t.Helper()
	if _, err := w.sender.WriteToUDPAddrPort([]byte("flush"), w.toOther); err != nil {
		w.t.Fatal(err)
	}
	w.other.SetReadDeadline(time.Now().Add(patience))
	if _, err := w.other.Read(make([]byte, 16)); err != nil {
		w.t.Fatalf("packet to another port did not arrive: %v", err)
	}
}

// arrival is a received packet.
type arrival struct {
	payload []byte
	tos     byte
}

// number is the packet's, if it is not damaged.
func (a arrival) number() uint32 { return binary.BigEndian.Uint32(a.payload) }

// receive returns what has arrived, waiting until it is at least count.
func (w *wire) receive(count int) []arrival {
	w.t.Helper()
	raw, err := w.receiver.SyscallConn()
	if err != nil {
		w.t.Fatal(err)
	}
	w.receiver.SetReadDeadline(time.Now().Add(patience))
	var arrivals []arrival
	buf, oob := make([]byte, 1<<16), make([]byte, 128)
	for {
		n, oobn := 0, 0
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, oobn, _, _, failed = unix.Recvmsg(int(fd), buf, oob, unix.MSG_DONTWAIT)
			return failed != unix.EAGAIN || len(arrivals) >= count // enough: do not wait for more
		})
		switch {
		case failed == unix.EAGAIN && len(arrivals) >= count:
			return arrivals
		case errors.Is(err, os.ErrDeadlineExceeded):
			w.t.Fatalf("%d packets arrived, want %d", len(arrivals), count)
		case err != nil || failed != nil:
			w.t.Fatal(errors.Join(err, failed))
		}
		arrivals = append(arrivals, arrival{payload: append([]byte(nil), buf[:n]...), tos: tosOf(w.t, oob[:oobn])})
	}
}

func tosOf(t *testing.T, oob []byte) byte {
	t.Helper()
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 || messages[0].Header.Type != unix.IP_TOS {
		t.Fatalf("control messages %v, %v", messages, err)
	}
	return messages[0].Data[0]
}

func counters(t *testing.T, f *Fabric) Counters {
	t.Helper()
	c, err := f.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func impair(t *testing.T, f *Fabric, plane int, direction Direction, i Impairments) {
	t.Helper()
	if err := f.SetImpairments(plane, direction, i); err != nil {
		t.Fatal(err)
	}
}
