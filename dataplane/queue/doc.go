// Package queue holds the entries that an application and a worker exchange
// through shared memory, and where they lie in it.
//
// The client package writes submissions and reads completions, a dataplane
// worker does the opposite; both map the same sealed memfd, whose size and
// layout follow from the two entry counts alone:
//
//	byte 0                                                       SessionBytes
//	├──────────────┬───────────────────┬──────────────┬───────────────────┤
//	│ SQ indices   │ SQ: SQE × entries │ CQ indices   │ CQ: CQE × entries │
//	│ (one page)   │ (whole pages)     │ (one page)   │ (whole pages)     │
//	├──────────────┴───────────────────┼──────────────┴───────────────────┤
//	  client produces, worker consumes   worker produces, client consumes
//
// An index page has the producer index at 0, the consumer index at 64 and the
// flags word at 128, each 32 bits in host order; the rest is unused. Package
// rings moves the indices, this package only says what an entry means.
//
// # Ownership of an entry
//
// A submission belongs to the client until the producer index passes it, then
// to the worker, which copies it out once and never looks again. Every
// submission the worker takes answers with exactly one completion of operation
// CompletionWrite carrying the same UserData, whether it succeeded or not. The
// worker takes a submission only after it set aside room for that completion,
// so a completion queue cannot overflow; a client that keeps at most CQ-entries
// submissions without a reaped completion never stalls the worker either.
//
// # Sleeping
//
// A consumer that is about to sleep sets bit 0 of its ring's flags word, looks
// at the ring once more, and sleeps in poll on its end of the session's wake
// socket. A producer looks at the bit after it has published and, when set,
// sends one byte with MSG_DONTWAIT. Both stores are sequentially consistent and
// come before the other side's word is loaded, so at least one side sees the
// other: a wake may be superfluous, never missing.
package queue
