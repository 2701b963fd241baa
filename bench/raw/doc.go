// Package raw measures what AF_XDP alone can do through the lab's switch: the
// baseline that the lab's goodput is compared with.
//
// One process per host drives the same sockets as a daemon (dataplane/port/xdp),
// with the same rings, batches, frame size and core, and nothing else: host-a pushes
// frames on all planes in turn, host-b takes and drops them. With Config.Copy each
// side also does what no protocol that places memory can avoid:
//
//	host-a: copy payload from a region into the frame, CRC-32C over the packet
//	host-b: CRC-32C over the packet, compare, copy payload into a region
//
// Regions are larger than a core's caches, as applications' memory is.
//
// metaroced bench calls Run, which starts the metaroced binary again as the two
// sides; its hidden subcommand calls RunSide. Run reads both sides' counters after
// a warm-up and again at the end, so that neither start nor stop is measured. Only
// packets that host-b took count; the sender does not wait for anybody, so that it
// is never the bottleneck for want of acknowledgments.
package raw
