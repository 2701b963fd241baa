// Package msg holds the messages between the daemon and applications on the
// control socket: what they mean, how they lie in bytes, and the rules that
// make one valid. docs/CONTROL.md describes the same for other languages.
//
// The server in package ctrl and the client package use it; it does no I/O and
// keeps no state. Append and Parse are exact opposites: whatever Parse accepts,
// Append writes back byte for byte, so there is one form of every message.
//
// One message is one SOCK_SEQPACKET packet, little-endian:
//
//	0        4       6     8            12         16
//	┌────────┬───────┬─────┬────────────┬──────────┬──────────────┬────────────────┐
//	│ length │version│type │ request id │ reserved │ fixed body   │ variable tail  │
//	└────────┴───────┴─────┴────────────┴──────────┴──────────────┴────────────────┘
//
// The fixed body has one size per type and says how long the tail is, where the
// type has one. File descriptors travel beside a message from the daemon to the
// application only.
package msg
