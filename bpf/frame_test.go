package bpf

import (
	"encoding/binary"
	"slices"
)

// Builders of test frames: each returns the bytes of one header, and a frame is
// their concatenation.

const (
	typeIPv4 = 0x0800
	typeARP  = 0x0806
	typeVLAN = 0x8100
	typeIPv6 = 0x86dd
	typeQinQ = 0x88a8

	protocolTCP = 6
	protocolUDP = 17
)

func ethernet(etherType uint16) []byte {
	frame := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
	return binary.BigEndian.AppendUint16(frame, etherType)
}

// vlan is the tag's control field and the type of what follows it.
func vlan(innerType uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{0x20, 0x07}, innerType)
}

type ipv4Fields struct {
	version, words byte   // 0 = 4 and 5
	fragment       uint16 // flags and offset
	options        []byte
}

func ipv4(protocol byte, f ipv4Fields) []byte {
	if f.version == 0 {
		f.version = 4
	}
	if f.words == 0 {
		f.words = byte(5 + len(f.options)/4)
	}
	h := make([]byte, 20)
	h[0] = f.version<<4 | f.words
	binary.BigEndian.PutUint16(h[6:], f.fragment)
	h[8] = 64
	h[9] = protocol
	copy(h[12:], []byte{10, 9, 0, 1, 10, 9, 0, 2})
	return append(h, f.options...)
}

func ipv6(nextHeader byte) []byte {
	h := make([]byte, 40)
	h[0] = 6 << 4
	h[6] = nextHeader
	h[7] = 64
	h[8], h[24] = 0xfd, 0xfd
	return h
}

func udp(port uint16) []byte {
	h := make([]byte, 8)
	binary.BigEndian.PutUint16(h[0:], 49152)
	binary.BigEndian.PutUint16(h[2:], port)
	return h
}

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

// padding makes a frame longer than any header it may hold.
func padding() []byte { return make([]byte, 64) }
