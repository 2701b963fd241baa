package frame

import (
	"encoding/binary"
	"fmt"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// Classes is how many traffic classes have a DSCP of their own (wire's header: 0
// bulk, 1 short, 2 acknowledgments and control).
const Classes = 3

// Template is everything in front of the payload of packets from one plane to one
// peer. It is a value: copy it freely. The zero Template has Len 0 and must not be
// used.
type Template struct {
	Len int // bytes in front of the payload: HeaderBytes4 or HeaderBytes6

	header       [HeaderBytes6]byte
	trafficClass [Classes]uint8 // DSCP and ECT(0)

	// What per-packet fields do not change of the checksum: for IPv4 of its header,
	// by class; for IPv6 of UDP over the pseudo-header (only the first is used).
	partial [Classes]uint64
}

// MakeTemplate prepares packets from src to dst. dst's port is their destination
// port; src's port is not used, since every path has its own. dscp holds the code
// point (0..63) of each class. Addresses of different families are a programming
// error and panic.
func MakeTemplate(srcMAC, dstMAC [6]byte, src, dst wire.Addr, dscp [Classes]uint8) Template {
	if src.Is4() != dst.Is4() {
		panic(fmt.Sprintf("frame: template from %v to %v: address families differ", src, dst))
	}
	var t Template
	for class, codePoint := range dscp {
		t.trafficClass[class] = codePoint<<2 | ecnECT0
	}
	copy(t.header[0:], dstMAC[:])
	copy(t.header[6:], srcMAC[:])
	if src.Is4() {
		t.prepareIPv4(src, dst)
	} else {
		t.prepareIPv6(src, dst)
	}
	binary.BigEndian.PutUint16(t.header[t.Len-udpBytes+2:], dst.Port)
	return t
}

func (t *Template) prepareIPv4(src, dst wire.Addr) {
	t.Len = HeaderBytes4
	binary.BigEndian.PutUint16(t.header[ethernetBytes-2:], etherTypeIPv4)
	ip := t.header[ethernetBytes:][:ipv4Bytes]
	ip[0] = ipv4VersionAndSize
	binary.BigEndian.PutUint16(ip[6:], ipv4DontFragment)
	ip[8] = timeToLive
	ip[9] = protocolUDP
	copy(ip[12:16], src.IP[12:])
	copy(ip[16:20], dst.IP[12:])
	for class, trafficClass := range t.trafficClass {
		t.partial[class] = sum(ip) + uint64(trafficClass)
	}
}

func (t *Template) prepareIPv6(src, dst wire.Addr) {
	t.Len = HeaderBytes6
	binary.BigEndian.PutUint16(t.header[ethernetBytes-2:], etherTypeIPv6)
	ip := t.header[ethernetBytes:][:ipv6Bytes]
	ip[0] = 6 << 4
	ip[6] = protocolUDP
	ip[7] = timeToLive
	copy(ip[8:24], src.IP[:])
	copy(ip[24:40], dst.IP[:])
	t.partial[0] = sum(ip[8:40]) + protocolUDP + uint64(dst.Port)
}

// Put writes the headers in front of a payload of payloadBytes, which lies at
// buf[t.Len:] already. sourcePort selects the path; a class that does not exist is
// treated as the last. The payload must fit the MTU (and 64 KiB).
func (t *Template) Put(buf []byte, payloadBytes int, sourcePort uint16, class uint8) {
	class = min(class, Classes-1)
	if t.Len == HeaderBytes4 {
		t.putIPv4(buf, payloadBytes, sourcePort, class)
	} else {
		t.putIPv6(buf, payloadBytes, sourcePort, class)
	}
}

func (t *Template) putIPv4(buf []byte, payloadBytes int, sourcePort uint16, class uint8) {
	head := (*[HeaderBytes4]byte)(buf)
	*head = [HeaderBytes4]byte(t.header[:])
	total := uint16(ipv4Bytes + udpBytes + payloadBytes)

	ip := head[ethernetBytes:]
	ip[1] = t.trafficClass[class]
	binary.BigEndian.PutUint16(ip[2:], total)
	binary.BigEndian.PutUint16(ip[10:], ^fold(t.partial[class]+uint64(total)))

	udp := head[ethernetBytes+ipv4Bytes:]
	binary.BigEndian.PutUint16(udp, sourcePort)
	binary.BigEndian.PutUint16(udp[4:], total-ipv4Bytes)
	// The checksum stays 0, "none" (RFC 768): our CRC is stronger.
}

func (t *Template) putIPv6(buf []byte, payloadBytes int, sourcePort uint16, class uint8) {
	head := (*[HeaderBytes6]byte)(buf)
	*head = t.header
	length := uint16(udpBytes + payloadBytes)

	// The flow label names the path, too: switches that hash it instead of the port
	// (RFC 6438) spread our paths just as well.
	ip := head[ethernetBytes:]
	binary.BigEndian.PutUint32(ip, 6<<28|uint32(t.trafficClass[class])<<20|uint32(sourcePort))
	binary.BigEndian.PutUint16(ip[4:], length)

	udp := head[ethernetBytes+ipv6Bytes:]
	binary.BigEndian.PutUint16(udp, sourcePort)
	binary.BigEndian.PutUint16(udp[4:], length)
	payload := buf[HeaderBytes6:][:payloadBytes]
	// The length counts twice: in the pseudo-header and in UDP's own.
	checksum := ^fold(t.partial[0] + sum(payload) + uint64(sourcePort) + 2*uint64(length))
	if checksum == 0 {
		checksum = 0xffff // 0 would mean "none", which IPv6 forbids (RFC 8200, 8.1)
	}
	binary.BigEndian.PutUint16(udp[6:], checksum)
}
