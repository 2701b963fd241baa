// Package bpf steers packets of our UDP port from a device into AF_XDP sockets.
//
// The XDP program (steer.c) runs for every packet a device receives. One Program
// serves one device; dataplane/port/xdp owns it and puts one socket per queue into
// its map:
//
//	packet ─► metaroced_xdp ─ ours? ─ no ──────────────────► kernel, untouched
//	               │            │
//	               │           yes ─► xsks[rx queue] ─ empty ► kernel, untouched
//	               │                        │
//	        counters[verdict]               └─ socket ──────► its RX ring
//
// Ownership: a Program holds the kernel program, both maps and the link. The link
// is not pinned, so that the kernel detaches the program when the process ends,
// however it ends. For the same reason a Program must stay reachable while it is in
// use: the garbage collector closes descriptors that nobody can reach, and the
// device would fall silent.
//
// The generated object is committed; building needs no C compiler. `make generate`
// builds it again with clang 14.
package bpf
