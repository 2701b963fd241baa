package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/bench/lab/histogram"
)

// udpPort is where the echo of the kernel's UDP listens; any port but ours.
const udpPort = 4798

// udpTimeout is how long a ping waits for its answer before it counts as lost.
const udpTimeout = 100 * time.Millisecond

// RunUDPEcho answers every datagram to address, sleeping in the kernel between
// them, until the process is ended. ready is called when it can be pinged.
// It runs on the given CPU, -1 for any.
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
	for {
		n, from, err := unix.Recvfrom(fd, buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("udp: receive: %w", err)
		}
		if err := unix.Sendto(fd, buffer[:n], 0, from); err != nil {
			return fmt.Errorf("udp: answer: %w", err)
		}
	}
}

// RunUDPPing measures round trips of 64 bytes to an echo for a while, sleeping
// in the kernel for each answer, and writes their summary to out as JSON.
// It runs on the given CPU, -1 for any.
func RunUDPPing(address netip.Addr, cpu int, duration time.Duration, out io.Writer) error {
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
	var latency histogram.Histogram
	ping, answer := make([]byte, latencyBytes), make([]byte, latencyBytes)
	for start := time.Now(); time.Since(start) < duration; {
		sent := time.Now()
		if err := unix.Send(fd, ping, 0); err != nil {
			return fmt.Errorf("udp: send to %v: %w", address, err)
		}
		if _, _, err := unix.Recvfrom(fd, answer, 0); err != nil {
			if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
				continue // lost, for instance to resolving the neighbour
			}
			return fmt.Errorf("udp: receive: %w", err)
		}
		latency.Record(int64(time.Since(sent)))
	}
	if latency.Count() == 0 {
		return fmt.Errorf("udp: no answer from %v within %v", address, duration)
	}
	return json.NewEncoder(out).Encode(latency.Micros())
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
