// Package perf measures bandwidth and latency between two applications, as the
// perftest tools do for hardware: a server waits on one host, a client dials it
// from another, and both attach to the daemon of their host.
//
// metaroced perf server calls Serve, metaroced perf client calls Dial and then
// Bandwidth or Latency; the printing is here too.
//
// # What is measured
//
// Bandwidth keeps a number of RDMA WRITEs of one size outstanding from one buffer
// into one buffer of the server, whose application sleeps. An operation counts
// when it is completed: then its bytes are placed at the server. Latency of an
// operation is from post to completion.
//
// Latency is a ping-pong of WRITE with immediate: the client writes, the server's
// application sees the completion and writes back, and a round trip ends when the
// client's application sees that. Both wait for completions, spinning or sleeping;
// polling the written memory instead would be faster to see but promises nothing
// about order (docs/PROTOCOL.md).
package perf
