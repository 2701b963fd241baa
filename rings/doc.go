// Package rings implements lock-free single-producer/single-consumer rings over
// memory that two parties map: the four rings of an AF_XDP socket (the other
// party is the kernel) and an application's submission and completion queues
// (the other party is an untrusted process). Both are this one code.
//
// It is called by dataplane/port/xdp, by the workers in dataplane and by client.
//
// # Memory
//
//	mem (mapped by both sides)
//	┌──────────────┬──────────────┬─────────────┬───────────────────────────────┐
//	│ producer u32 │ consumer u32 │ flags u32   │ entries: T, T, T, …, T        │
//	│ written by   │ written by   │ bit 0: need │ slot of index i is            │
//	│ the producer │ the consumer │ a wakeup    │ i & (entries-1)               │
//	└──────────────┴──────────────┴─────────────┴───────────────────────────────┘
//
//	 indices run freely over 32 bits and wrap; never masked in memory
//
//	      consumer            producer (published)      reserved (private)
//	─────────┴────── readable ────────┴──── being filled ────┴──── free ───
//
// A producer reserves slots, fills them and publishes them with one release
// store. A consumer acquires what was published with one load, copies entries
// out, and hands the slots back with one release store. sync/atomic orders more
// strongly than that: its operations are sequentially consistent, which the
// need-wakeup handshake relies on (see Consumer.SetNeedWakeup).
//
// # Trust
//
// A side keeps its own indices privately and never reads them back from shared
// memory after construction; what the other side writes there over them is
// ignored. The one index read from the other side is checked on every read: it
// may neither move backwards nor beyond what the ring can hold. Anything else is
// a *CorruptError, for which errors.Is(err, ErrCorrupt) holds; the ring remains
// safe to call afterwards. Slots are addressed through a mask and a slice, so no
// index from anywhere reaches outside the ring. The content of entries is the
// caller's to check, on the copy that Consumer.At made.
//
// # Ownership
//
// The caller owns mem, must not unmap it while a ring is in use, and must use
// each Producer or Consumer from one goroutine at a time. Nothing here
// allocates, blocks or makes a system call after construction.
package rings
