// Package congestion decides how fast one connection may send on one plane.
//
// Both ends take part. The sender holds one [Plane] per connection and plane:
// a byte window governed by ECN marks, and pacing at the share the receiver
// allots. The receiver holds one [Allocator] per plane of its own: it divides
// the inbound link between the senders it hears and puts the result into every
// acknowledgment.
//
//	sender                                          receiver
//	Allowed? ── OnSent ──► data ─────────────────► OnArrival
//	   ▲                                               │
//	 window, pacing ◄── OnAck, OnShare ◄── ACK ◄── Share, StartAllowance
//
// Everything is a pure value: time is an argument (nanoseconds of any
// monotonic origin), there is no I/O, no goroutine and no allocation after
// Init. A value belongs to one worker; nothing here may be called concurrently.
// The transport is the only caller. Sizes are bytes on the wire.
//
// # The window
//
// Additive increase and multiplicative decrease act once per round, a round
// being the connection's own smoothed RTT:
//
//	W += a x RTT x (1 - F)      a: bits/s, 1 % of the link
//	W -= W x F / 2              F: marked fraction of the round's packets
//
// At balance W / RTT = 2 a (1 - F) / F: the same rate for every RTT. F counts
// all packets of the plane, so that a mark on one path takes away what that
// path's share of the traffic warrants. F is deliberately not smoothed over
// rounds: a cut that needs a mark in the same round would spare short rounds,
// which see a mark less often, and with them short RTTs.
//
// Until the first mark the window doubles per RTT. Loss alone is not
// congestion; see [Plane.OnLoss].
package congestion
