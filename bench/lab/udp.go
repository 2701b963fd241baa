package lab

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/bench/lab/histogram"
	"github.com/metaroced/metaroced/cmd/metaroced/perf"
)

// udpPort is where the echo of the kernel's UDP listens; any port but ours.
const udpPort = 4798

// udpTimeout is how long a ping waits for its answer before it counts as lost.
const udpTimeout = 20 * time.Millisecond

// RunUDPEcho answers datagrams to address from whoever sends the first, sleeping in
// the kernel between them, until the process is ended. ready is called when it can
// be pinged. It runs on the given CPU, -1 for any.
func RunUDPEcho(address netip.Addr, cpu int, ready func()) error {
	if err := pinThread(cpu); err != nil {
		return err
	}
	fd, err := udpSocket()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, sockaddr(address)); err != nil {
		return fmt.Errorf("udp: bind %v: %w", address, err)
	}
	ready()
	buffer := make([]byte, 65536)
	_, first, err := unix.Recvfrom(fd, buffer, unix.MSG_PEEK)
	if err != nil {
		return fmt.Errorf("udp: receive: %w", err)
	}
	// Connected, reading and writing cost no address and no allocation.
	if err := unix.Connect(fd, first); err != nil {
		return fmt.Errorf("udp: connect to the first sender: %w", err)
	}
	for {
		n, err := unix.Read(fd, buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("udp: receive: %w", err)
		}
		if _, err := unix.Write(fd, buffer[:n]); err != nil {
			return fmt.Errorf("udp: answer: %w", err)
		}
	}
}

// RunUDPPing measures round trips of 64 bytes to an echo, sleeping in the kernel for
// each answer, and writes their summary to out as JSON. Those that are lost do not
// count. It runs on the given CPU, -1 for any.
func RunUDPPing(address netip.Addr, cpu int, out io.Writer) error {
	if err := pinThread(cpu); err != nil {
		return err
	}
	fd, err := udpSocket()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, sockaddr(address)); err != nil {
		return fmt.Errorf("udp: connect to %v: %w", address, err)
	}
	timeout := unix.NsecToTimeval(int64(udpTimeout))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return fmt.Errorf("udp: receive timeout: %w", err)
	}
	latency, err := pingUDP(fd)
	if err != nil {
		return fmt.Errorf("udp: ping %v: %w", address, err)
	}
	return json.NewEncoder(out).Encode(latency.Micros())
}

// pingUDP makes as many round trips, warm-up and reads of the clock per trip as
// perf.Latency does.
func pingUDP(fd int) (*histogram.Histogram, error) {
	var latency histogram.Histogram
	start := time.Now()
	last := time.Duration(0)
	for trip := range uint64(perf.WarmUpTrips + latencyTrips) {
		answered, err := exchange(fd, trip)
		if err != nil {
			return nil, err
		}
		now := time.Since(start)
		if answered && trip >= perf.WarmUpTrips {
			latency.Record(int64(now - last))
		}
		last = now
	}
	if latency.Count() == 0 {
		return nil, errors.New("no answer")
	}
	return &latency, nil
}

// exchange sends a numbered datagram and waits for the answer with that number;
// answers to earlier ones are too late. answered is false when there is none in
// time, for instance while the neighbour is resolved.
func exchange(fd int, number uint64) (answered bool, err error) {
	var message [latencyBytes]byte
	binary.LittleEndian.PutUint64(message[:], number)
	if _, err := unix.Write(fd, message[:]); err != nil {
		return false, err
	}
	for {
		_, err := unix.Read(fd, message[:])
		switch {
		case errors.Is(err, unix.EAGAIN):
			return false, nil
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false, err
		case binary.LittleEndian.Uint64(message[:]) == number:
			return true, nil
		}
	}
}

// udpSocket returns a blocking IPv4 socket that sends without a checksum: veth
// leaves checksums to be finished by hardware, which a packet that XDP redirects
// never meets, so the receiver would drop it.
func udpSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("udp: socket: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1); err != nil {
		return -1, errors.Join(fmt.Errorf("udp: turn checksums off: %w", err), unix.Close(fd))
	}
	return fd, nil
}

func sockaddr(address netip.Addr) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: udpPort, Addr: address.As4()}
}
