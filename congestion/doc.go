// Package congestion decides how fast to send, from both sides, as pure values:
// no I/O, no clock (time is an argument in nanoseconds), no allocation after
// Init, nothing shared.
//
// [Plane] is the sender's state of one plane of one connection: a byte window
// that ECN marks shrink and clean round trips grow, under the share that the
// receiver allots. [Allocator] is the receiver's: it divides a plane's inbound
// bandwidth among the senders that are heard. docs/PROTOCOL.md, "Congestion",
// states the rules and constants.
//
// Isolated loss is repaired without shrinking anything: on a lossy network,
// loss alone is no sign of congestion.
package congestion
