package bpf

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/internal/testenv"
)

// Return codes of XDP programs, from linux/bpf.h.
const (
	xdpPass     = 2
	xdpRedirect = 4
)

// How the verdict "redirect" is tested: BPF_PROG_TEST_RUN returns the program's
// code and stops short of the redirect itself, so a socket in slot 0 need not be
// bound to anything. Without a context the kernel runs the program as if the frame
// had come from queue 0 of the loopback interface. Frames below 14 bytes, an
// Ethernet header, are refused by the kernel before the program sees them.
const minFrame = 14

type steerCase struct {
	name  string
	frame []byte
	want  func(*Counters) *uint64
}

// headersOf returns a valid frame of each shape we steer, up to the end of the UDP
// header.
func headersOf(port uint16) map[string][]byte {
	ip4, ip6 := ipv4(protocolUDP, ipv4Fields{}), ipv6(protocolUDP)
	return map[string][]byte{
		"IPv4":               join(ethernet(typeIPv4), ip4, udp(port)),
		"IPv4 in VLAN":       join(ethernet(typeVLAN), vlan(typeIPv4), ip4, udp(port)),
		"IPv4 in QinQ":       join(ethernet(typeQinQ), vlan(typeVLAN), vlan(typeIPv4), ip4, udp(port)),
		"IPv4 in two 802.1Q": join(ethernet(typeVLAN), vlan(typeVLAN), vlan(typeIPv4), ip4, udp(port)),
		"IPv6":               join(ethernet(typeIPv6), ip6, udp(port)),
		"IPv6 in VLAN":       join(ethernet(typeVLAN), vlan(typeIPv6), ip6, udp(port)),
		"IPv6 in QinQ":       join(ethernet(typeQinQ), vlan(typeVLAN), vlan(typeIPv6), ip6, udp(port)),
		"don't fragment":     join(ethernet(typeIPv4), ipv4(protocolUDP, ipv4Fields{fragment: 0x4000}), udp(port)),
	}
}

func passedCases() []steerCase {
	ours := udp(DefaultUDPPort)
	over4 := func(f ipv4Fields) []byte {
		return join(ethernet(typeIPv4), ipv4(protocolUDP, f), ours, padding())
	}
	notIP := func(c *Counters) *uint64 { return &c.PassedNotIP }
	notUDP := func(c *Counters) *uint64 { return &c.PassedNotUDP }
	malformed := func(c *Counters) *uint64 { return &c.PassedMalformed }
	fragment := func(c *Counters) *uint64 { return &c.PassedFragment }
	otherPort := func(c *Counters) *uint64 { return &c.PassedOtherPort }
	cases := []steerCase{
		{"ARP", join(ethernet(typeARP), padding()), notIP},
		{"802.3 length", join(ethernet(64), padding()), notIP},
		{"triple VLAN", join(ethernet(typeQinQ), vlan(typeVLAN), vlan(typeVLAN), vlan(typeIPv4),
			ipv4(protocolUDP, ipv4Fields{}), ours, padding()), notIP},
		{"TCP over IPv4", join(ethernet(typeIPv4), ipv4(protocolTCP, ipv4Fields{}), ours, padding()), notUDP},
		{"TCP over IPv6", join(ethernet(typeIPv6), ipv6(protocolTCP), ours, padding()), notUDP},
		{"IPv4 options", over4(ipv4Fields{options: []byte{7, 3, 4, 0}}), func(c *Counters) *uint64 { return &c.PassedOptions }},
		{"first fragment", over4(ipv4Fields{fragment: 0x2000}), fragment},
		{"middle fragment", over4(ipv4Fields{fragment: 0x2000 | 185}), fragment},
		{"last fragment", over4(ipv4Fields{fragment: 185}), fragment},
		{"IPv4 header of 4 words", over4(ipv4Fields{words: 4}), malformed},
		{"version 6 as IPv4", over4(ipv4Fields{version: 6}), malformed},
		{"version 4 as IPv6", join(ethernet(typeIPv6), []byte{0x40}, ipv6(protocolUDP)[1:], ours, padding()), malformed},
		{"port above", join(ethernet(typeIPv4), ipv4(protocolUDP, ipv4Fields{}), udp(DefaultUDPPort+1), padding()), otherPort},
		{"port with bytes swapped", join(ethernet(typeIPv6), ipv6(protocolUDP), udp(DefaultUDPPort>>8|DefaultUDPPort&0xff<<8), padding()), otherPort},
	}
	for _, header := range []byte{0, 43, 44, 50, 51, 60, 135, 139, 140} {
		cases = append(cases, steerCase{
			fmt.Sprintf("IPv6 extension header %d", header),
			join(ethernet(typeIPv6), ipv6(header), []byte{protocolUDP, 0, 0, 0, 0, 0, 0, 0}, ours, padding()),
			func(c *Counters) *uint64 { return &c.PassedExtension },
		})
	}
	return cases
}

func TestSteersOurPacketsAtEveryLength(t *testing.T) {
	p := loadWithSocket(t, Config{})
	for name, headers := range headersOf(DefaultUDPPort) {
		t.Run(name, func(t *testing.T) {
			frame := join(headers, padding())
			for length := minFrame; length <= len(frame); length++ {
				want, code := func(c *Counters) *uint64 { return &c.PassedTruncated }, uint32(xdpPass)
				if length >= len(headers) {
					want, code = func(c *Counters) *uint64 { return &c.Steered }, xdpRedirect
				}
				run(t, p, frame[:length], want, code)
			}
		})
	}
}

func TestPassesEverythingElse(t *testing.T) {
	p := loadWithSocket(t, Config{})
	for _, tc := range passedCases() {
		t.Run(tc.name, func(t *testing.T) { run(t, p, tc.frame, tc.want, xdpPass) })
	}
}

// The headers of a packet of several buffers lie in the first.
func TestSteersPacketsOfSeveralBuffers(t *testing.T) {
	p := loadWithSocket(t, Config{})
	frame := join(headersOf(DefaultUDPPort)["IPv4"], make([]byte, 8900))
	run(t, p, frame, func(c *Counters) *uint64 { return &c.Steered }, xdpRedirect)
}

func TestPortIsConfigured(t *testing.T) {
	p := loadWithSocket(t, Config{UDPPort: 4000})
	run(t, p, headersOf(4000)["IPv4"], func(c *Counters) *uint64 { return &c.Steered }, xdpRedirect)
	run(t, p, headersOf(DefaultUDPPort)["IPv4"], func(c *Counters) *uint64 { return &c.PassedOtherPort }, xdpPass)
}

func TestEmptySlotPassesToTheKernel(t *testing.T) {
	p := load(t, Config{})
	frame := headersOf(DefaultUDPPort)["IPv4"]
	noSocket := func(c *Counters) *uint64 { return &c.PassedNoSocket }
	run(t, p, frame, noSocket, xdpPass)
	if err := p.SetSocket(0, xskSocket(t)); err != nil {
		t.Fatal(err)
	}
	run(t, p, frame, func(c *Counters) *uint64 { return &c.Steered }, xdpRedirect)
	for range 2 { // clearing an empty slot is no error
		if err := p.ClearSocket(0); err != nil {
			t.Fatal(err)
		}
	}
	run(t, p, frame, noSocket, xdpPass)
}

func TestQueueLimit(t *testing.T) {
	p := load(t, Config{})
	if err := p.SetSocket(p.MaxQueues(), xskSocket(t)); err == nil {
		t.Error("a queue beyond the map was accepted")
	}
	if err := p.SetSocket(p.MaxQueues()-1, xskSocket(t)); err != nil {
		t.Error(err)
	}
	if err := p.SetSocket(0, int(^uint32(0)>>1)); err == nil {
		t.Error("a descriptor that is not open was accepted")
	}
}

func TestClosed(t *testing.T) {
	p := load(t, Config{})
	for range 2 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.SetSocket(0, 0); err != ErrClosed {
		t.Errorf("SetSocket: %v", err)
	}
	if _, err := p.Counters(); err != ErrClosed {
		t.Errorf("Counters: %v", err)
	}
	if _, err := p.Attach(1, Auto); err != ErrClosed {
		t.Errorf("Attach: %v", err)
	}
}

func load(t *testing.T, cfg Config) *Program {
	t.Helper()
	testenv.RequireRoot(t)
	p, err := Load(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// loadWithSocket loads the program and puts a socket into slot 0.
func loadWithSocket(t *testing.T, cfg Config) *Program {
	t.Helper()
	p := load(t, cfg)
	if err := p.SetSocket(0, xskSocket(t)); err != nil {
		t.Fatal(err)
	}
	return p
}

func xskSocket(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("AF_XDP socket: %v", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// xdpContext is struct xdp_md of linux/bpf.h.
type xdpContext struct {
	Data, DataEnd, DataMeta, Ifindex, RxQueue, EgressIfindex uint32
}

// run puts one frame through the program and fails the test unless steers says it
// did what it should.
func run(t *testing.T, p *Program, frame []byte, field func(*Counters) *uint64, code uint32) {
	t.Helper()
	if err := steers(p, frame, nil, field, code); err != nil {
		t.Error(err)
	}
}

// steers runs the program once and checks the return code, that the frame came out
// as it went in, and that one counter and only that went up by one.
func steers(p *Program, frame []byte, ctx *xdpContext, field func(*Counters) *uint64, code uint32) error {
	want, err := p.Counters()
	if err != nil {
		return err
	}
	*field(&want)++
	opts := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame))}
	if ctx != nil {
		ctx.DataEnd = uint32(len(frame))
		opts.Context = ctx
	}
	got, err := p.objects.MetarocedXdp.Run(opts)
	if err != nil {
		return fmt.Errorf("%d bytes: run: %w", len(frame), err)
	}
	if got != code {
		return fmt.Errorf("%d bytes: code %d, want %d", len(frame), got, code)
	}
	if !bytes.Equal(opts.DataOut, frame) {
		return fmt.Errorf("%d bytes: the frame was changed", len(frame))
	}
	if after, err := p.Counters(); err != nil || after != want {
		return fmt.Errorf("%d bytes: counters %+v, want %+v (%v)", len(frame), after, want, err)
	}
	return nil
}
