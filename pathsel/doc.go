// Package pathsel holds the path table of one connection: which paths there
// are, how each is doing, and which one the next packet takes.
//
// A path is a plane (local port, peer's port) and a UDP source port, the
// entropy by which the network chooses a route. A [Table] has up to 8 planes
// of up to 64 paths. The transport is its only caller: it asks [Table.Pick] per
// packet, tells what became of packets, and sends the probes the table wants.
// The table never sends, has no clock (time is an argument, in nanoseconds of
// any monotonic origin), no goroutine and no lock, and allocates in Init only.
// It belongs to the worker that owns the connection.
//
// # Health
//
//	         timer, nothing heard            12 probes unanswered
//	Active ───────────────────────► Suspect ─────────────────────► Down
//	   ▲   ◄─────────────────────── at once,                      │  ▲
//	   │      anything heard        per RTO                       │  │ 4 probes
//	   │                                                 answer   │  │ unanswered
//	   └──────────────────────────── Probing ◄────────────────────┘  │
//	             second answer           └───────────────────────────┘
//
// A suspect path carries nothing while its plane has an active one, so being
// slow to call a path Down costs nothing, and random loss cannot do it. What
// must be fast is the failure of a whole plane: PlaneSilent and SetPlaneUp put
// all its paths Down at once, and two answers to probes on any of them put all
// of them back.
//
// # Spraying
//
// Packets go in runs on one path, since a loss shows only when something later
// follows on the same path. A plane's runs go round its working set, a few
// paths that grow with the window so that each is revisited within half an
// RTT. A path that saw a congestion mark leaves the set for an RTT and comes
// round less often afterwards; a path that lets packets pile up is passed over
// until it has no more than twice the average in flight.
package pathsel
