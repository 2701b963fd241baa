package fabric

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

const xdpRedirect, xdpDrop = 4, 1

// frame returns an Ethernet frame with a UDP packet to port and 100 bytes.
func frame(ipv6 bool, ecn byte, port uint16) []byte {
	var f []byte
	f = append(f, make([]byte, 12)...)
	if ipv6 {
		f = append(f, 0x86, 0xdd, 0x6a, ecn<<4|0x0c, 1, 2, 0, 108, 17, 64) // traffic class 0xa0 | ecn, flow label 0xc0102
		f = append(f, make([]byte, 32)...)
	} else {
		ip := []byte{0x45, 0xa0 | ecn, 0, 128, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2}
		binary.BigEndian.PutUint16(ip[10:], ^onesSum(ip))
		f = append(append(f, 0x08, 0x00), ip...)
	}
	f = append(f, 0x30, 0x39)
	f = binary.BigEndian.AppendUint16(f, port)
	f = append(f, 0, 108, 0, 0)
	return append(f, make([]byte, 100)...)
}

// onesSum is the ones' complement sum that an IP header's checksum completes.
func onesSum(header []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// run runs the program over a frame as if it came in on port 0.
func run(t *testing.T, f *Fabric, in []byte) (verdict uint32, out []byte) {
	t.Helper()
	err := f.on(f.switches, func(ns *namespace) error {
		return ns.do(func() (err error) {
			out = make([]byte, len(in)+256)
			options := ebpf.RunOptions{Data: in, DataOut: out, Context: xdpContext{DataEnd: uint32(len(in)), Ingress: uint32(f.holder.first)}, Repeat: 1}
			verdict, err = f.program.objects.FabricSwitch.Run(&options)
			out = options.DataOut
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return verdict, out
}

// xdpContext is struct xdp_md of linux/bpf.h.
type xdpContext struct{ Data, DataEnd, DataMeta, Ingress, Queue, Egress uint32 }

func TestMarkOfEveryCodepoint(t *testing.T) {
	f := open(t, Options{Planes: 1})
	impair(t, f, 0, AToB, Impairments{Mark: Always})
	for _, ipv6 := range []bool{false, true} {
		for ecn := range byte(4) {
			in := frame(ipv6, ecn, 4797)
			before := counters(t, f)
			verdict, out := run(t, f, in)
			c := counters(t, f).Since(before)[0][AToB]
			want := frame(ipv6, 3, 4797)
			marked := uint64(1)
			if ecn == 0 {
				want, marked = in, 0
			}
			if verdict != xdpRedirect || string(out) != string(want) {
				t.Errorf("IPv6 %v, ECN %d: verdict %d\n%x, want\n%x", ipv6, ecn, verdict, out, want)
			}
			if c.Packets != 1 || c.Marked != marked || c.NotECT != 1-marked {
				t.Errorf("IPv6 %v, ECN %d: %+v", ipv6, ecn, c)
			}
		}
	}
}

// The checksum of an IPv4 header stays right for every value it can have.
func TestMarkKeepsEveryChecksum(t *testing.T) {
	f := open(t, Options{Planes: 1})
	impair(t, f, 0, AToB, Impairments{Mark: Always})
	for id := 0; id < 1<<16; id += 251 {
		in := frame(false, 1, 4797)
		binary.BigEndian.PutUint16(in[18:], uint16(id))
		binary.BigEndian.PutUint16(in[24:], 0)
		binary.BigEndian.PutUint16(in[24:], ^onesSum(in[14:34]))
		if _, out := run(t, f, in); onesSum(out[14:34]) != 0xffff {
			t.Fatalf("identification %#x: header %x", id, out[14:34])
		}
	}
}

// What is not a whole UDP packet to our port is other traffic.
func TestOtherFrames(t *testing.T) {
	f := open(t, Options{Planes: 1})
	impair(t, f, 0, AToB, Impairments{Drop: Always})
	change := func(at int, value byte) []byte {
		in := frame(false, 1, 4797)
		in[at] = value
		return in
	}
	for name, in := range map[string][]byte{
		"other port":     frame(false, 1, 4798),
		"IPv6 port":      frame(true, 1, 4798),
		"TCP":            change(23, 6),
		"fragment":       change(21, 1),
		"more fragments": change(20, 0x20),
		"options":        change(14, 0x46),
		"ARP":            change(13, 0x06),
		"cut in UDP":     frame(false, 1, 4797)[:41],
		"cut in IPv6":    frame(true, 1, 4797)[:61],
		"cut in IP":      frame(false, 1, 4797)[:33],
		"Ethernet only":  frame(false, 1, 4797)[:14],
	} {
		before := counters(t, f)
		verdict, out := run(t, f, in)
		c := counters(t, f).Since(before)[0][AToB]
		if verdict != xdpRedirect || string(out) != string(in) || c.OtherFrames != 1 || c.Packets != 0 {
			t.Errorf("%s: verdict %d, %+v", name, verdict, c)
		}
	}
	for _, ipv6 := range []bool{false, true} {
		if verdict, _ := run(t, f, frame(ipv6, 0, 4797)); verdict != xdpDrop {
			t.Errorf("IPv6 %v: verdict %d", ipv6, verdict)
		}
	}
}

// A UDP header that announces more than there is must not make the switch write
// behind the packet.
func TestCorruptBehindTheEnd(t *testing.T) {
	f := open(t, Options{Planes: 1})
	impair(t, f, 0, AToB, Impairments{Corrupt: Always})
	in := frame(false, 1, 4797)
	binary.BigEndian.PutUint16(in[38:], 0xffff)
	for range 100 {
		if verdict, out := run(t, f, in); verdict != xdpRedirect || len(out) != len(in) {
			t.Fatalf("verdict %d, %d bytes", verdict, len(out))
		}
	}
}

// Ports run the program in native mode and refuse a second one.
func TestPortsAreTaken(t *testing.T) {
	f := open(t, Options{Planes: 1})
	err := f.on(f.switches, func(ns *namespace) error {
		return ns.do(func() error {
			l, err := link.AttachXDP(link.XDPOptions{Program: f.program.objects.FabricSwitch, Interface: f.holder.first, Flags: link.XDPDriverMode})
			if err == nil {
				err = l.Close()
			}
			return err
		})
	})
	if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EEXIST) {
		t.Errorf("second program: %v", err)
	}
}
