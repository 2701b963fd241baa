// Package xdp implements port.Port over AF_XDP sockets, without cgo or libxdp.
//
// The dataplane makes one Group for its arena and opens one Port per (device,
// queue), each for one worker:
//
//	Group ── Arena ─── registered with the kernel once per mode, then shared
//	  ├─ device eth2 ── steering program (package bpf), detached with its last port
//	  │    ├─ Port queue 0: socket, fill + completion + rx + tx ring, rx + tx pool
//	  │    └─ Port queue 1
//	  └─ device eth3 …
//
// # Who owns a frame
//
//	   rxPool: refill           kernel          Receive            Release
//	free ───────────► fill ring ──────► rx ring ───────► caller ───────────► free
//
//	   txPool: AllocTx        Send             kernel             reap
//	free ───────────► caller ──────► tx ring ──────► completion ───────────► free
//
// Each arrow is a checked move in a umem.Pool. What the kernel or the caller says
// of a frame that the pool's record contradicts is counted, not believed. Pools
// belong to one port, because only after its socket is closed can the frames that
// the kernel held be taken back, all at once.
//
// # Modes
//
// Zero-copy is tried where the driver announces it, then copy, with the reason in
// the log. All sharers of a registration inherit its first socket's mode, hence
// one registration per mode. In copy mode transmission happens inside Kick, and
// the packet has been copied when its frame completes.
//
// # Order
//
// Opening and closing follow orders that drivers survive; see Group.Open and
// Group.Close. Calls that need privileges are all in opener. After a device is
// gone its ports stay closable and the arena shareable through other ports.
package xdp
