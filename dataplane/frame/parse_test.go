package frame_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/metaroced/metaroced/dataplane/frame"
)

var v4, v6 = families[0], families[1]

// edit changes a good frame; IPv4's header checksum is made right afterwards.
func edit(f family, change func(pkt []byte) []byte) []byte {
	pkt := change(f.build([]byte("payload"), 50_000, 0))
	if f.name == "IPv4" && len(pkt) >= 34 && pkt[12] == 0x08 && pkt[13] == 0 {
		pkt[24], pkt[25] = 0, 0
		binary.BigEndian.PutUint16(pkt[24:], checksum(pkt[14:34]))
	}
	return pkt
}

// set returns a change that overwrites bytes at an offset of the frame.
func set(at int, values ...byte) func([]byte) []byte {
	return func(pkt []byte) []byte {
		copy(pkt[at:], values)
		return pkt
	}
}

// tagged returns a change that inserts VLAN tags of the given EtherTypes.
func tagged(types ...uint16) func([]byte) []byte {
	return func(pkt []byte) []byte {
		for _, etherType := range slices.Backward(types) {
			pkt = slices.Insert(pkt, 12, byte(etherType>>8), byte(etherType), 0, 5)
		}
		return pkt
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name string
		pkt  []byte
		want frame.Reason
	}{
		{"one VLAN tag", edit(v4, tagged(0x8100)), frame.OK},
		{"two VLAN tags", edit(v6, tagged(0x88a8, 0x8100)), frame.OK},
		{"three VLAN tags", edit(v4, tagged(0x88a8, 0x8100, 0x8100)), frame.NotIP},
		{"ARP", edit(v4, set(12, 0x08, 0x06)), frame.NotIP},
		{"Ethernet padding", edit(v4, func(p []byte) []byte { return append(p, make([]byte, 11)...) }), frame.OK},
		{"IPv6 padding", edit(v6, func(p []byte) []byte { return append(p, 0, 0, 0) }), frame.OK},

		{"IPv4 with version 6", edit(v4, set(14, 0x65)), frame.BadVersion},
		{"IPv6 with version 4", edit(v6, set(14, 0x40)), frame.BadVersion},
		{"IPv4 options", edit(v4, set(14, 0x46)), frame.Options},
		{"IPv4 header too short", edit(v4, set(14, 0x44)), frame.Options},
		{"more fragments", edit(v4, set(20, 0x20, 0)), frame.Fragment},
		{"fragment offset", edit(v4, set(20, 0, 1)), frame.Fragment},
		{"may be fragmented, is not", edit(v4, set(20, 0, 0)), frame.OK},
		{"TCP", edit(v4, set(23, 6)), frame.NotUDP},
		{"IPv6 hop-by-hop options", edit(v6, set(20, 0)), frame.NotUDP},
		{"IPv6 fragment", edit(v6, set(20, 44)), frame.NotUDP},

		{"IPv4 length beyond the frame", edit(v4, set(16, 0, 36)), frame.BadIPLength},
		{"IPv4 length below its header", edit(v4, set(16, 0, 19)), frame.BadIPLength},
		{"IPv4 length without UDP", edit(v4, set(16, 0, 27)), frame.BadUDPLength},
		{"IPv4 length cuts the payload", edit(v4, set(16, 0, 34)), frame.BadUDPLength},
		{"IPv6 length beyond the frame", edit(v6, set(18, 0, 16)), frame.BadIPLength},
		{"IPv6 length without UDP", edit(v6, set(18, 0, 7)), frame.BadUDPLength},
		{"IPv6 jumbogram", edit(v6, set(18, 0, 0)), frame.BadUDPLength},
		{"UDP length 0", edit(v4, set(38, 0, 0)), frame.BadUDPLength},
		{"UDP length below its header", edit(v4, set(38, 0, 7)), frame.BadUDPLength},
		{"UDP length beyond IP", edit(v4, set(38, 0, 16)), frame.BadUDPLength},
		{"UDP shorter than IP", edit(v6, set(58, 0, 14)), frame.BadUDPLength},
		{"another port", edit(v4, set(36, 0, 53)), frame.OtherPort},
		{"UDP checksum wrong", edit(v4, set(40, 0xbe, 0xef)), frame.OK},
		{"IPv6 UDP checksum wrong", edit(v6, set(60, 0xbe, 0xef)), frame.OK},

		{"IPv4 checksum wrong", set(26, 99)(edit(v4, slices.Clip)), frame.BadIPChecksum},
		{"nothing", nil, frame.Truncated},
	} {
		var r frame.Received
		ok := frame.Parse(c.pkt, port, &r)
		if r.Reason != c.want || ok != (c.want == frame.OK) {
			t.Errorf("%s: %v, %v; want %v", c.name, ok, r.Reason, c.want)
		}
		if ok && string(r.Payload) != "payload" {
			t.Errorf("%s: payload %q", c.name, r.Payload)
		}
	}
}

func TestParseSeesCongestionMarks(t *testing.T) {
	for ecn := range byte(4) {
		var r frame.Received
		pkt := edit(v4, set(15, 0xb8|ecn))
		if !frame.Parse(pkt, port, &r) || r.CE != (ecn == 3) {
			t.Errorf("IPv4 ECN %d: CE %v, %v", ecn, r.CE, r.Reason)
		}
		pkt = edit(v6, set(15, 0x80|ecn<<4))
		if !frame.Parse(pkt, port, &r) || r.CE != (ecn == 3) {
			t.Errorf("IPv6 ECN %d: CE %v, %v", ecn, r.CE, r.Reason)
		}
	}
}

// Whatever byte a frame ends at, Parse must notice.
func TestEveryTruncation(t *testing.T) {
	for _, f := range families {
		for _, change := range []func([]byte) []byte{tagged(), tagged(0x8100), tagged(0x88a8, 0x8100)} {
			pkt := edit(f, change)
			for n := range pkt {
				var r frame.Received
				if frame.Parse(pkt[:n:n], port, &r) || r.Reason == frame.OK {
					t.Errorf("%s: %d of %d bytes accepted", f.name, n, len(pkt))
				}
			}
		}
	}
}

func TestReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range frame.NumReasons {
		if name := r.String(); name == "" || name == "unknown" || seen[name] {
			t.Errorf("reason %d is called %q", r, name)
		}
		seen[r.String()] = true
	}
	if frame.NumReasons.String() != "unknown" {
		t.Errorf("a reason that does not exist is called %v", frame.NumReasons)
	}
}

// FuzzParse: no input makes Parse panic or return bytes from outside the frame, and
// what it accepts has a payload behind a header of ours.
func FuzzParse(f *testing.F) {
	for _, fam := range families {
		f.Add(fam.build([]byte("payload"), 50_000, 0))
		f.Add(edit(fam, tagged(0x88a8, 0x8100)))
		f.Add(append(fam.build(nil, 1, 2), 0, 0, 0))
	}
	f.Fuzz(func(t *testing.T, pkt []byte) {
		original := bytes.Clone(pkt)
		var r frame.Received
		ok := frame.Parse(pkt[:len(pkt):len(pkt)], port, &r)
		if !bytes.Equal(pkt, original) {
			t.Fatal("Parse changed the frame")
		}
		if ok != (r.Reason == frame.OK) {
			t.Fatalf("%v with reason %v", ok, r.Reason)
		}
		if ok && len(r.Payload) > len(pkt)-frame.HeaderBytes4 {
			t.Fatalf("%d bytes of payload out of %d", len(r.Payload), len(pkt))
		}
	})
}
