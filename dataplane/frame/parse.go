package frame

import (
	"encoding/binary"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// Reason says why a frame was not taken; the zero value means it was.
type Reason uint8

// Reasons of Parse. NumReasons is for arrays of counters.
const (
	OK            Reason = iota
	Truncated            // ends before its headers do
	NotIP                // neither IPv4 nor IPv6, or more than two VLAN tags
	BadVersion           // the IP version contradicts the EtherType
	Options              // IPv4 with options
	Fragment             // IPv4 fragment
	BadIPChecksum        // IPv4 header checksum
	BadIPLength          // IP length too small, or beyond the frame
	NotUDP               // another protocol, or IPv6 extension headers
	OtherPort            // UDP to another port
	BadUDPLength         // UDP length contradicts the IP length

	NumReasons
)

var reasonNames = [NumReasons]string{
	"ok", "truncated", "not_ip", "bad_version", "options", "fragment", "bad_ip_checksum",
	"bad_ip_length", "not_udp", "other_port", "bad_udp_length",
}

// String returns the reason as used in counters' names.
func (r Reason) String() string {
	if r < NumReasons {
		return reasonNames[r]
	}
	return "unknown"
}

// Received is what Parse finds in a frame.
type Received struct {
	Payload []byte    // behind the UDP header, aliases the frame; without Ethernet padding
	Src     wire.Addr // sender's IP address (IPv4 as v4-mapped) and UDP source port
	CE      bool      // a switch has marked the packet "congestion experienced"
	Reason  Reason    // OK, or why Parse returned false
}

// Parse takes a frame apart that a socket of ours received: Ethernet, at most two
// VLAN tags, IPv4 without options or IPv6 without extension headers, UDP to port.
// It trusts no length. When it returns false only r.Reason is meaningful.
//
// The UDP checksum is not verified: a sender on the same machine leaves it to a
// network card that was never there. Our payload carries a CRC of its own, and the
// IPv4 header checksum, which covers the sender's address, is verified.
func Parse(pkt []byte, port uint16, r *Received) bool {
	r.Reason = parseEthernet(pkt, port, r)
	return r.Reason == OK
}

func parseEthernet(pkt []byte, port uint16, r *Received) Reason {
	if len(pkt) < ethernetBytes {
		return Truncated
	}
	etherType := binary.BigEndian.Uint16(pkt[ethernetBytes-2:])
	packet := pkt[ethernetBytes:]
	for tags := 0; etherType == etherTypeVLAN || etherType == etherTypeService; tags++ {
		if tags == maxVLANTags {
			return NotIP
		}
		if len(packet) < vlanTagBytes {
			return Truncated
		}
		etherType = binary.BigEndian.Uint16(packet[2:])
		packet = packet[vlanTagBytes:]
	}
	switch etherType {
	case etherTypeIPv4:
		return parseIPv4(packet, port, r)
	case etherTypeIPv6:
		return parseIPv6(packet, port, r)
	}
	return NotIP
}

func parseIPv4(packet []byte, port uint16, r *Received) Reason {
	if len(packet) < ipv4Bytes {
		return Truncated
	}
	header := packet[:ipv4Bytes]
	if header[0]>>4 != 4 {
		return BadVersion
	}
	if header[0] != ipv4VersionAndSize {
		return Options
	}
	if binary.BigEndian.Uint16(header[6:])&ipv4Fragmented != 0 {
		return Fragment
	}
	if header[9] != protocolUDP {
		return NotUDP
	}
	if fold(sum(header)) != 0xffff {
		return BadIPChecksum
	}
	total := int(binary.BigEndian.Uint16(header[2:]))
	if total < ipv4Bytes || total > len(packet) {
		return BadIPLength
	}
	r.CE = header[1]&ecnMask == ecnCE
	r.Src.IP = [16]byte{10: 0xff, 11: 0xff}
	copy(r.Src.IP[12:], header[12:16])
	return parseUDP(packet[ipv4Bytes:total], port, r)
}

func parseIPv6(packet []byte, port uint16, r *Received) Reason {
	if len(packet) < ipv6Bytes {
		return Truncated
	}
	header := packet[:ipv6Bytes]
	if header[0]>>4 != 6 {
		return BadVersion
	}
	if header[6] != protocolUDP {
		return NotUDP
	}
	length := int(binary.BigEndian.Uint16(header[4:]))
	if length > len(packet)-ipv6Bytes {
		return BadIPLength
	}
	r.CE = header[1]>>4&ecnMask == ecnCE // the traffic class straddles two bytes
	copy(r.Src.IP[:], header[8:24])
	return parseUDP(packet[ipv6Bytes:ipv6Bytes+length], port, r)
}

// parseUDP gets exactly what the IP header says it carries. UDP may not be shorter:
// nobody but a forger puts bytes between the two ends.
func parseUDP(datagram []byte, port uint16, r *Received) Reason {
	if len(datagram) < udpBytes {
		return BadUDPLength
	}
	if binary.BigEndian.Uint16(datagram[2:]) != port {
		return OtherPort
	}
	if int(binary.BigEndian.Uint16(datagram[4:])) != len(datagram) {
		return BadUDPLength
	}
	r.Src.Port = binary.BigEndian.Uint16(datagram)
	r.Payload = datagram[udpBytes:]
	return OK
}
