package frame

import (
	"encoding/binary"

	"github.com/metaroced/metaroced/dataplane/wire"
)

const (
	ethernetBytes = 14
	vlanBytes     = 4
	ipv4Bytes     = 20
	ipv6Bytes     = 40
	udpBytes      = 8

	typeIPv4   = 0x0800
	typeIPv6   = 0x86dd
	typeVLAN   = 0x8100
	typeQinQ   = 0x88a8
	maxVLANs   = 2
	protoUDP   = 17
	ecnCE      = 3
	ecnECT0    = 2
	fragmented = 0x3fff // more fragments, or an offset
)

// Received is a packet without its frame.
type Received struct {
	Payload []byte    // aliases the frame
	Src     wire.Addr // sender's address and UDP source port
	CE      bool      // carries a congestion mark
}

// Parse takes the frame off a packet for our UDP port. It returns false for
// anything else and for lengths that contradict themselves.
func Parse(pkt []byte, port uint16, r *Received) bool {
	if len(pkt) < ethernetBytes {
		return false
	}
	etherType := binary.BigEndian.Uint16(pkt[12:])
	at := ethernetBytes
	for range maxVLANs {
		if etherType != typeVLAN && etherType != typeQinQ {
			break
		}
		if len(pkt) < at+vlanBytes {
			return false
		}
		etherType = binary.BigEndian.Uint16(pkt[at+2:])
		at += vlanBytes
	}
	switch etherType {
	case typeIPv4:
		return parse4(pkt[at:], port, r)
	case typeIPv6:
		return parse6(pkt[at:], port, r)
	}
	return false
}

func parse4(ip []byte, port uint16, r *Received) bool {
	if len(ip) < ipv4Bytes+udpBytes || ip[0] != 0x45 || ip[9] != protoUDP ||
		binary.BigEndian.Uint16(ip[6:])&fragmented != 0 {
		return false
	}
	total := int(binary.BigEndian.Uint16(ip[2:]))
	if total < ipv4Bytes+udpBytes || total > len(ip) {
		return false
	}
	r.CE = ip[1]&3 == ecnCE
	r.Src = wire.AddrFrom4([4]byte(ip[12:16]), 0)
	return parseUDP(ip[ipv4Bytes:total], port, r)
}

func parse6(ip []byte, port uint16, r *Received) bool {
	if len(ip) < ipv6Bytes+udpBytes || ip[0]>>4 != 6 || ip[6] != protoUDP {
		return false
	}
	length := int(binary.BigEndian.Uint16(ip[4:]))
	if length < udpBytes || ipv6Bytes+length > len(ip) {
		return false
	}
	r.CE = ip[1]>>4&3 == ecnCE
	r.Src = wire.Addr{IP: [16]byte(ip[8:24])}
	return parseUDP(ip[ipv6Bytes:ipv6Bytes+length], port, r)
}

func parseUDP(udp []byte, port uint16, r *Received) bool {
	n := int(binary.BigEndian.Uint16(udp[4:]))
	if binary.BigEndian.Uint16(udp[2:]) != port || n < udpBytes || n > len(udp) {
		return false
	}
	r.Src.Port = binary.BigEndian.Uint16(udp)
	r.Payload = udp[udpBytes:n]
	return true
}
