// Package umem owns the memory that network devices and applications share with
// the daemon: one arena for AF_XDP, made of packet frames and region slabs, and
// plain regions outside it.
//
// It is called by dataplane/port/xdp (registers Arena.Bytes as UMEM and moves
// frames through its rings), by dataplane and ctrl (regions of applications), and
// by client (MapRegion). It makes memory; it registers and sends nothing.
//
// # The arena
//
//	Arena.Bytes(): one reserved address range, no holes, populated at start
//	┌─────────────────────────────────────┬────────┬────────┬────────┬───┬────────┐
//	│ frames: private memory of the daemon│ slab 0 │ slab 1 │ slab 2 │ … │ slab n │
//	└──────┬──────────────┬───────────────┴───┬────┴────────┴────────┴───┴────────┘
//	       │ NewPool      │ NewPool           │ each slab is a memfd of its own,
//	   ┌───┴────┐     ┌───┴────┐              │ sealed SHRINK|GROW|SEAL
//	   │ rx pool│     │ tx pool│          AllocSlabs: whole neighbouring slabs
//	   └────────┘     └────────┘          are one Region of one tenant
//
// The kernel pins the range when it is registered, so the arena can neither grow
// nor shrink, and all of it is resident from the start. Running out of memory is
// therefore an error of NewArena and never a fault in a worker.
//
// # Who owns a frame
//
// A frame always is in one of five states, each with one owner. The pool records
// the state, refuses every move that the record contradicts, and the five counts
// always sum up to the size of the pool: a leak shows as a number.
//
//	             Get                        Move, onto the ring
//	 ┌────────────────────────► Pending ─────────────┬─────────────────┐
//	 │                          (the worker)         │                 │
//	 │ ◄──────── Put ────────────┘                   ▼                 ▼
//	Free                                            Fill              Tx
//	(the pool)                                   (the kernel)     (the kernel)
//	 ▲ ▲                                             │                 │
//	 │ │            Put          Rx ◄─── received ───┘                 │
//	 │ └──────────────────── (the worker) ─── Move back to Fill        │
//	 │                                                                 │
//	 └────────────────── Put, from the completion ring ────────────────┘
//
// Receive and transmit have pools of their own, so that neither starves the
// other. A pool belongs to one worker and is not safe for concurrent use. When a
// socket is closed its frames do not come back through its rings: Pool.Reclaim
// takes them.
//
// # Who owns a region
//
// The daemon creates a region, maps it, and passes its descriptors to one
// application, which maps them one behind the other (MapRegion). The seals keep
// the application from shrinking a file under the daemon. They do not keep it
// from punching holes: afterwards both see new, zeroed pages while a device that
// has the old pages pinned still sends those. Code that reads regions must expect
// content to change at any time, and runs under debug.SetPanicOnFault.
//
// An application may keep its mapping after Region.Free. So a slab that one
// tenant has held goes to no other tenant while the daemon lives; it is zeroed
// and kept for that one. Plain regions are never used again. Whoever calls
// Region.Free has made sure that no published descriptor still points into it.
package umem
