// Package frame puts Ethernet, IP and UDP around the transport's packets and
// takes them off. It is pure and does not allocate; workers call it once per
// packet.
//
// A UDP checksum is never relied on: packets carry their own CRC-32C, and
// senders that share a host leave UDP checksums unfinished. It is sent as 0
// over IPv4 and filled in over IPv6, where 0 is not allowed (RFC 8200, 8.1).
package frame
