package frame

// Sizes of the headers in front of our payload, in bytes.
const (
	ethernetBytes = 14
	vlanTagBytes  = 4
	ipv4Bytes     = 20
	ipv6Bytes     = 40
	udpBytes      = 8

	// HeaderBytes4 and HeaderBytes6 are what a Template puts in front of a payload.
	HeaderBytes4 = ethernetBytes + ipv4Bytes + udpBytes
	HeaderBytes6 = ethernetBytes + ipv6Bytes + udpBytes
)

const maxVLANTags = 2 // as in bpf/steer.c

const (
	etherTypeIPv4    = 0x0800
	etherTypeIPv6    = 0x86dd
	etherTypeVLAN    = 0x8100 // IEEE 802.1Q
	etherTypeService = 0x88a8 // IEEE 802.1ad, the outer of two tags
)

const (
	protocolUDP = 17
	timeToLive  = 64

	ipv4VersionAndSize = 0x45   // version 4, five words: no options
	ipv4DontFragment   = 0x4000 // of the flags and offset word
	ipv4Fragmented     = 0x3fff // more fragments, or an offset

	ecnMask = 3
	ecnECT0 = 2 // RFC 3168: ECN-capable transport
	ecnCE   = 3 // congestion experienced
)
