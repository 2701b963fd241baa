// Package neighbor knows how a plane reaches a peer: through which neighbour, at
// which MAC address, and whether the plane can be used at all. It follows the
// kernel's routes, neighbours, links and addresses by netlink, in the network
// namespace of the thread that calls New.
//
// Workers never wait for it:
//
//	worker: Resolve ──► published peers ──► template      (atomic reads only)
//	           │ not there: request
//	           ▼
//	Run: route look-up ─► kernel's neighbour ─► template, Generation + 1
//	           ▲
//	kernel ────┴─ notices: neighbour, route, link, address, rule changed
//
// Whoever keeps a template resolves again when Generation has changed. It also
// changes every 20 s while there are peers: that is how Run learns which of them
// are in use. AF_XDP packets bypass the kernel, which therefore would let the
// entries of busy neighbours grow stale and miss that one has moved; so for peers
// in use Run tells the kernel that they are (NTF_USE), and the kernel verifies them.
//
// Who owns what: the goroutine in Run owns all state except what workers read,
// which is atomic. The kernel's answer is the only truth; nothing is guessed from
// prefixes.
package neighbor
