package frame

import (
	"encoding/binary"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// Header lengths from Ethernet to UDP.
const (
	HeaderBytes4 = ethernetBytes + ipv4Bytes + udpBytes
	HeaderBytes6 = ethernetBytes + ipv6Bytes + udpBytes
)

const hopLimit = 64

// Template is the frame of every packet from one plane to one peer, but for
// what differs by packet.
type Template struct {
	Len   int // HeaderBytes4 or HeaderBytes6
	bytes [HeaderBytes6]byte
	// sum is the one's-complement sum of everything that does not differ by
	// packet: of the IPv4 header, or of IPv6's pseudo header and the UDP header.
	sum uint32
	tos [3]uint8 // by class: DSCP and ECT(0)
}

// MakeTemplate computes the frame from src to dst, whose ports are the
// destination port and, for src, ignored. dscp gives the code point of each
// class of packets.
func MakeTemplate(srcMAC, dstMAC [6]byte, src, dst wire.Addr, dscp [3]uint8) Template {
	var t Template
	for i := range dscp {
		t.tos[i] = dscp[i]<<2 | ecnECT0
	}
	copy(t.bytes[0:], dstMAC[:])
	copy(t.bytes[6:], srcMAC[:])
	ip := t.bytes[ethernetBytes:]
	if dst.Is4() {
		t.Len = HeaderBytes4
		binary.BigEndian.PutUint16(t.bytes[12:], typeIPv4)
		ip[0] = 0x45
		ip[6] = 0x40 // do not fragment
		ip[8], ip[9] = hopLimit, protoUDP
		copy(ip[12:], src.IP[12:])
		copy(ip[16:], dst.IP[12:])
		t.sum = sum(ip[:ipv4Bytes], 0)
	} else {
		t.Len = HeaderBytes6
		binary.BigEndian.PutUint16(t.bytes[12:], typeIPv6)
		ip[0] = 0x60
		ip[6], ip[7] = protoUDP, hopLimit
		copy(ip[8:], src.IP[:])
		copy(ip[24:], dst.IP[:])
		t.sum = sum(ip[8:ipv6Bytes], protoUDP) + uint32(dst.Port)
	}
	binary.BigEndian.PutUint16(t.bytes[t.Len-udpBytes+2:], dst.Port)
	return t
}

// Put writes the frame in front of a payload of the given length that is at
// buf[t.Len:].
func (t *Template) Put(buf []byte, payload int, sourcePort uint16, class uint8) {
	copy(buf[:t.Len], t.bytes[:t.Len])
	ip := buf[ethernetBytes:]
	udp := buf[t.Len-udpBytes:]
	tos := t.tos[class]
	binary.BigEndian.PutUint16(udp, sourcePort)
	binary.BigEndian.PutUint16(udp[4:], uint16(udpBytes+payload))
	if t.Len == HeaderBytes4 {
		total := uint16(ipv4Bytes + udpBytes + payload)
		ip[1] = tos
		binary.BigEndian.PutUint16(ip[2:], total)
		binary.BigEndian.PutUint16(ip[10:], ^fold(t.sum+uint32(tos)+uint32(total)))
		return
	}
	ip[0], ip[1] = 0x60|tos>>4, tos<<4
	length := udpBytes + payload
	binary.BigEndian.PutUint16(ip[4:], uint16(length))
	s := t.sum + 2*uint32(length) + uint32(sourcePort) // length counts in both headers
	c := ^fold(sum(buf[t.Len:t.Len+payload], s))
	if c == 0 {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(udp[6:], c)
}

// sum adds b to a one's-complement sum, eight bytes at a time (RFC 1071).
func sum(b []byte, start uint32) uint32 {
	s := uint64(start)
	for len(b) >= 8 {
		v := binary.BigEndian.Uint64(b)
		s += v>>32 + v&0xffffffff
		b = b[8:]
	}
	for len(b) >= 2 {
		s += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		s += uint64(b[0]) << 8
	}
	for s>>16 != 0 {
		s = s>>16 + s&0xffff
	}
	return uint32(s)
}

func fold(s uint32) uint16 {
	for s>>16 != 0 {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
