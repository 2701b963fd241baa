package wire

import (
	"bytes"
	"hash/crc32"
	"testing"
)

func TestHeaderRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		at   int
		put  []byte
		want Reason
	}{
		{"version 0", 0, []byte{0}, ReasonBadVersion},
		{"version 255", 0, []byte{255}, ReasonBadVersion},
		{"type 0", 1, []byte{0}, ReasonBadType},
		{"type 13", 1, []byte{uint8(PROBE_ACK) + 1}, ReasonBadType},
		{"type 255", 1, []byte{255}, ReasonBadType},
		{"flag nobody knows", 2, u16(1<<15 | 1), ReasonBadFlags},
		{"encrypted", 2, u16(uint16(FlagCRC | FlagEncrypted)), ReasonBadFlags},
		{"flag of another type", 2, u16(uint16(FlagCRC | FlagReply)), ReasonBadFlags},
		{"plane", 12, []byte{MaxPlanes}, ReasonBadField},
		{"path", 13, []byte{MaxPaths}, ReasonBadField},
		{"class", 15, []byte{ClassControl + 1}, ReasonBadField},
		{"body longer than the packet", 20, u16(65), ReasonTruncated},
		{"body of 65535 bytes", 20, u16(65535), ReasonTruncated},
		{"body shorter than the packet", 20, u16(63), ReasonBadLength},
		{"reserved", 22, u16(1), ReasonReserved},
		{"reserved", 22, u16(1 << 15), ReasonReserved},
		{"checksum absent but its bytes there", 2, u16(0), ReasonBadLength},
	} {
		t.Run(c.name, func(t *testing.T) {
			pkt := goldenPacket(t, "data-write")
			copy(pkt[c.at:], c.put)
			var h Header
			if r := ParseHeader(pkt, &h); r != c.want {
				t.Errorf("refused for %q, want %q", r, c.want)
			}
		})
	}
}

// Each type takes its own flags and no other.
func TestFlagsByType(t *testing.T) {
	for _, v := range vectors() {
		if v.want != 0 || v.value.header.Flags&FlagVoid != 0 {
			continue
		}
		for bit := range 16 {
			p := v.value
			f := Flags(1) << bit
			p.header.Flags |= f
			_, r := decode(p.encode())
			allowed := rules[p.header.Type].flags&f != 0
			if f == FlagVoid && allowed {
				continue // changes what the body may be: TestVectors has it
			}
			if allowed != (r == 0) || !allowed && r != ReasonBadFlags {
				t.Errorf("%s with %v: %v", v.name, f, r)
			}
		}
	}
}

// Cut anywhere, a packet is truncated; with anything behind it, its lengths
// contradict each other.
func TestEveryLength(t *testing.T) {
	for _, v := range vectors() {
		if v.want != 0 {
			continue
		}
		pkt := v.packet()
		for n := range len(pkt) {
			if _, r := decode(pkt[:n:n]); r != ReasonTruncated {
				t.Fatalf("%s cut to %d of %d bytes: %v", v.name, n, len(pkt), r)
			}
		}
		if _, r := decode(append(pkt, 0)); r != ReasonBadLength {
			t.Errorf("%s with a byte more: %v", v.name, r)
		}
	}
}

// A body of any wrong length is refused although length and checksum are right.
func TestEveryBodyLength(t *testing.T) {
	for _, v := range vectors() {
		if v.want != 0 {
			continue
		}
		pkt := v.packet()
		p, _ := decode(pkt)
		had := int(p.header.Length)
		for n := range had + 100 {
			_, r := decode(resize(pkt, n))
			ok := n == had
			switch p.header.Type {
			case DATA: // a payload may have any length, and void has none
				ok = n >= DataSize && p.header.Flags&FlagVoid == 0 || n == DataSize
			case PROBE:
				ok = n >= ProbeSize
			}
			if ok != (r == 0) {
				t.Fatalf("%s with a body of %d bytes instead of %d: %v", v.name, n, had, r)
			}
		}
	}
}

// With the checksum, no single bit can change unnoticed.
func TestEveryBitCounts(t *testing.T) {
	for _, v := range vectors() {
		if v.want != 0 || v.value.header.Flags&FlagCRC == 0 {
			continue
		}
		pkt := v.packet()
		for bit := range 8 * len(pkt) {
			pkt[bit/8] ^= 1 << (bit % 8)
			if _, r := decode(pkt); r == 0 {
				t.Errorf("%s: bit %d of byte %d changed unnoticed", v.name, bit%8, bit/8)
			}
			pkt[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// The checksum is the CRC-32C of RFC 3720, whose check value is well known.
func TestChecksumIsCRC32C(t *testing.T) {
	if got := crc32.Checksum([]byte("123456789"), castagnoli); got != 0xe3069283 {
		t.Errorf("checksum of 123456789 is %08x", got)
	}
}

func TestSealIsIdempotent(t *testing.T) {
	pkt := goldenPacket(t, "data-write")
	again := bytes.Clone(pkt)
	Seal(again)
	if !bytes.Equal(pkt, again) {
		t.Error("sealing a sealed packet changed it")
	}
}

// Nothing here may allocate: all of it runs for every packet.
func TestNoAllocations(t *testing.T) {
	buf := make([]byte, 2048)
	var report PathReport
	for _, v := range vectors() {
		if v.want != 0 {
			continue
		}
		pkt := v.packet()
		p, _ := decode(pkt)
		if n := testing.AllocsPerRun(100, func() {
			var h Header
			if ParseHeader(pkt, &h) != 0 || VerifyCRC(pkt, &h) != 0 {
				t.Fatal(v.name)
			}
			if h.Type != ACK && p.decodeBody(h.Body(pkt)) != 0 {
				t.Fatal(v.name)
			}
			if h.Type == ACK && ParseAck(h.Body(pkt), &p.ack) == 0 && p.ack.ReportCount > 0 {
				p.ack.Report(1, &report)
				PutReport(buf[HeaderSize:], 1, &report)
				PutCredit(buf[HeaderSize:], 2, 0, p.ack.Credit(0))
			}
			p.encodeBody(buf[HeaderSize:])
			PutHeader(buf[:len(pkt)], &h)
			Seal(buf[:len(pkt)])
		}); n != 0 {
			t.Errorf("%s: %v allocations", v.name, n)
		}
	}
}

const benchPayload = 3384

func BenchmarkReceiveData(b *testing.B) {
	for _, c := range []struct {
		name  string
		flags Flags
	}{{"crc", FlagCRC}, {"plain", 0}} {
		b.Run(c.name, func(b *testing.B) {
			p := decoded{header: dataHeader(c.flags, ClassBulk, 1), data: write(), payload: make([]byte, benchPayload)}
			pkt := p.encode()
			b.SetBytes(benchPayload)
			var h Header
			var d Data
			for b.Loop() {
				if ParseHeader(pkt, &h) != 0 || VerifyCRC(pkt, &h) != 0 {
					b.Fatal("refused")
				}
				if _, r := ParseData(h.Body(pkt), &d); r != 0 {
					b.Fatal(r)
				}
			}
		})
	}
}

func BenchmarkSendData(b *testing.B) {
	for _, c := range []struct {
		name  string
		flags Flags
	}{{"crc", FlagCRC}, {"plain", 0}} {
		b.Run(c.name, func(b *testing.B) {
			h, d := dataHeader(c.flags, ClassBulk, 1), write()
			pkt := make([]byte, HeaderSize+DataSize+benchPayload+TrailerSize)
			b.SetBytes(benchPayload)
			for b.Loop() {
				PutData(pkt[HeaderSize:], &d)
				PutHeader(pkt, &h)
				Seal(pkt)
			}
		})
	}
}
