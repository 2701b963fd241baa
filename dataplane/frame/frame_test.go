package frame_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/metaroced/metaroced/dataplane/frame"
	"github.com/metaroced/metaroced/dataplane/wire"
)

const port = 4797

var (
	ourMAC   = [6]byte{2, 0, 0, 0, 0, 1}
	theirMAC = [6]byte{2, 0, 0, 0, 0, 2}
	dscp     = [frame.Classes]uint8{0, 10, 46}
)

func addr(text string, port uint16) wire.Addr {
	return wire.Addr{IP: netip.MustParseAddr(text).As16(), Port: port}
}

// family is what differs between the two versions of IP in most tests.
type family struct {
	name        string
	src, dst    wire.Addr
	headerBytes int
}

var families = []family{
	{"IPv4", addr("10.1.0.1", 0), addr("10.1.0.2", port), frame.HeaderBytes4},
	{"IPv6", addr("fd00:1::1", 0), addr("fd00:1::2", port), frame.HeaderBytes6},
}

func (f family) template() frame.Template {
	return frame.MakeTemplate(ourMAC, theirMAC, f.src, f.dst, dscp)
}

// build returns a frame as Put makes it.
func (f family) build(payload []byte, sourcePort uint16, class uint8) []byte {
	t := f.template()
	buf := append(make([]byte, t.Len), payload...)
	t.Put(buf, len(payload), sourcePort, class)
	return buf
}

// ip returns the part of the frame from the IP header on.
func ip(pkt []byte) []byte { return pkt[14:] }

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range families {
		for _, n := range []int{0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 1400, 4034} {
			payload := randomBytes(r, n)
			var got frame.Received
			if pkt := f.build(payload, 50_123, 1); !frame.Parse(pkt, port, &got) {
				t.Fatalf("%s, %d bytes: refused: %v", f.name, n, got.Reason)
			}
			want := f.src
			want.Port = 50_123
			if got.Src != want || got.CE || !bytes.Equal(got.Payload, payload) {
				t.Errorf("%s, %d bytes: from %v with %d bytes, CE %v; want from %v", f.name, n, got.Src, len(got.Payload), got.CE, want)
			}
		}
	}
}

// The whole frame, byte by byte, with the fields of RFC 791, 768 and 8200.
func TestGoldenFrames(t *testing.T) {
	golden := map[string][]byte{
		"IPv4": {
			2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00,
			0x45, 46<<2 | 2, 0, 31, 0, 0, 0x40, 0, 64, 17, 0, 0, // checksum below
			10, 1, 0, 1, 10, 1, 0, 2,
			0xc3, 0xcb, 0x12, 0xbd, 0, 11, 0, 0,
			'a', 'b', 'c',
		},
		"IPv6": {
			2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd,
			0x6b, 0xa0, 0xc3, 0xcb, 0, 11, 17, 64,
			0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
			0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
			0xc3, 0xcb, 0x12, 0xbd, 0, 11, 0, 0, // checksum below
			'a', 'b', 'c',
		},
	}
	for _, f := range families {
		want := golden[f.name]
		switch f.name {
		case "IPv4":
			binary.BigEndian.PutUint16(ip(want)[10:], checksum(ip(want)[:20]))
		case "IPv6":
			binary.BigEndian.PutUint16(want[60:], udp6Checksum(want))
		}
		if got := f.build([]byte("abc"), 0xc3cb, 2); !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x", f.name, got, want)
		}
	}
}

// checksum is RFC 1071 as its section 4.1 has it, word by word: the reference.
func checksum(parts ...[]byte) uint16 {
	var total uint32
	for _, b := range parts {
		for i := range b {
			shift := 8
			if i%2 == 1 {
				shift = 0
			}
			total += uint32(b[i]) << shift
			total = total&0xffff + total>>16
		}
	}
	return ^uint16(total)
}

// udp6Checksum computes what the UDP checksum of an IPv6 frame should be.
func udp6Checksum(pkt []byte) uint16 {
	datagram := bytes.Clone(pkt[54:])
	datagram[6], datagram[7] = 0, 0
	pseudo := append(bytes.Clone(pkt[22:54]), 0, 0, 0, 0, 0, 0, 0, 17)
	binary.BigEndian.PutUint32(pseudo[32:], uint32(len(datagram)))
	if sum := checksum(pseudo, datagram); sum != 0 {
		return sum
	}
	return 0xffff
}

func TestChecksumsAgainstReference(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 4000 {
		payload := randomBytes(r, i%513)
		if i%3 == 0 {
			for k := range payload {
				payload[k] = 0xff // all carries
			}
		}
		sourcePort, class := uint16(r.Uint32()), uint8(i%frame.Classes)
		pkt := families[0].build(payload, sourcePort, class)
		if got := checksum(ip(pkt)[:20]); got != 0 {
			t.Fatalf("IPv4, %d bytes: header sums up to %#x", len(payload), got)
		}
		if udp := pkt[40:42]; udp[0] != 0 || udp[1] != 0 {
			t.Fatalf("IPv4: UDP checksum %x, want none", udp)
		}
		pkt = families[1].build(payload, sourcePort, class)
		if got, want := binary.BigEndian.Uint16(pkt[60:]), udp6Checksum(pkt); got != want {
			t.Fatalf("IPv6, %d bytes: UDP checksum %#x, want %#x", len(payload), got, want)
		}
	}
}

// A sum that comes out as 0 must be sent as 0xffff, or the receiver drops it.
func TestIPv6ChecksumIsNeverZero(t *testing.T) {
	pkt := families[1].build([]byte{0, 0}, 50_000, 0)
	word := binary.BigEndian.Uint16(pkt[60:]) // a payload of this word sums up to 0
	pkt = families[1].build(binary.BigEndian.AppendUint16(nil, word), 50_000, 0)
	if got := binary.BigEndian.Uint16(pkt[60:]); got != 0xffff {
		t.Fatalf("checksum %#x, want 0xffff", got)
	}
}

func TestTrafficClass(t *testing.T) {
	for class, want := range map[uint8]uint8{0: 2, 1: 10<<2 | 2, 2: 46<<2 | 2, 3: 46<<2 | 2, 255: 46<<2 | 2} {
		if got := ip(families[0].build(nil, 1, class))[1]; got != want {
			t.Errorf("IPv4 class %d: %#x, want %#x", class, got, want)
		}
		v6 := ip(families[1].build(nil, 1, class))
		if got := v6[0]<<4 | v6[1]>>4; got != want {
			t.Errorf("IPv6 class %d: %#x, want %#x", class, got, want)
		}
	}
}

func TestMixedFamiliesPanic(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "families differ") {
			t.Errorf("recovered %q", text)
		}
	}()
	frame.MakeTemplate(ourMAC, theirMAC, families[0].src, families[1].dst, dscp)
}

func TestNothingAllocates(t *testing.T) {
	for _, f := range families {
		tmpl, pkt := f.template(), f.build(make([]byte, 1400), 50_000, 0)
		var r frame.Received
		if n := testing.AllocsPerRun(100, func() {
			tmpl.Put(pkt, 1400, 50_001, 1)
			frame.Parse(pkt, port, &r)
		}); n != 0 || r.Reason != frame.OK {
			t.Errorf("%s: %v allocations, %v", f.name, n, r.Reason)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	for _, f := range families {
		b.Run(f.name, func(b *testing.B) {
			tmpl, pkt := f.template(), f.build(make([]byte, 1400), 50_000, 0)
			for b.Loop() {
				tmpl.Put(pkt, 1400, 50_001, 1)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, f := range families {
		b.Run(f.name, func(b *testing.B) {
			pkt := f.build(make([]byte, 1400), 50_000, 0)
			var r frame.Received
			for b.Loop() {
				frame.Parse(pkt, port, &r)
			}
		})
	}
}
