// Package frame puts our UDP payload into Ethernet frames and takes it out again.
// Workers call it for every packet, so it allocates nothing and keeps no state; it
// does no I/O. Who is reached how (MAC addresses, routes) is package neighbor's job.
//
// In:  Parse, on a frame as it came from the RX ring.
// Out: a Template per (plane, peer), made once; Put writes it in front of each
// payload.
//
//	0          14                34        42                    IPv4
//	| Ethernet | IPv4            | UDP     | payload ...
//	0          14                          54       62           IPv6
//	| Ethernet | IPv6                      | UDP    | payload ...
//	           |<--- Template.Len in all ---------->|
//
// What we send has no VLAN tag, no IPv4 options, is never fragmented (DF) and is
// ECN-capable (ECT(0), RFC 3168). The UDP source port selects the path: switches
// hash it.
package frame
