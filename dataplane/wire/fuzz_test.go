package wire

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzDecode checks that decoding never panics, and that what is accepted has
// exactly one encoding: encoding the values gives the same bytes.
func FuzzDecode(f *testing.F) {
	for _, v := range vectors() {
		f.Add(v.packet())
	}
	f.Fuzz(func(t *testing.T, pkt []byte) {
		sameAgain(t, pkt)
		// Fuzzing finds no checksums: repair them, and the length with them.
		if len(pkt) >= HeaderSize+TrailerSize && len(pkt) < 1<<16 {
			Seal(pkt)
			sameAgain(t, pkt)
		}
	})
}

func sameAgain(t *testing.T, pkt []byte) {
	t.Helper()
	before := bytes.Clone(pkt)
	p, r := decode(pkt)
	if !bytes.Equal(pkt, before) {
		t.Fatal("decoding changed the packet")
	}
	if r != 0 {
		return
	}
	if again := p.encode(); !bytes.Equal(again, pkt) {
		t.Fatalf("decoded\n%x\nencoded\n%x", pkt, again)
	}
}

// FuzzBody does the same for each parser alone, with bodies that the header
// check would not let through.
func FuzzBody(f *testing.F) {
	for _, v := range vectors() {
		pkt := v.packet()
		f.Add(uint8(v.value.header.Type), pkt[HeaderSize:])
	}
	f.Fuzz(func(t *testing.T, typ uint8, body []byte) {
		p := &decoded{header: Header{Type: Type(typ%uint8(PROBE_ACK) + 1)}}
		if len(body) >= 1<<16 || p.decodeBody(body) != 0 {
			return
		}
		pkt := p.encode()
		if !bytes.Equal(pkt[HeaderSize:], body) {
			t.Fatalf("%v: decoded\n%x\nencoded\n%x", p.header.Type, body, pkt[HeaderSize:])
		}
		if got := int(binary.BigEndian.Uint16(pkt[20:])); got != len(body) {
			t.Fatalf("length says %d, body has %d", got, len(body))
		}
	})
}
