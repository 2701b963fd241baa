// Package fabric builds the network that the lab, the benchmarks and end-to-end
// tests run in: two hosts and a switch as network namespaces, one link per host and
// plane, and in the switch an XDP program of our own that loses, marks, damages,
// doubles, reorders and paces packets as it is told while they flow.
//
//	namespace host-a              namespace of the switch               namespace host-b
//	plane0 10.77.0.1 ════════ a-plane0  (XDP)     (XDP) b-plane0 ════════ plane0 10.77.0.2
//	plane1 10.77.1.1 ════════ a-plane1  (XDP)     (XDP) b-plane1 ════════ plane1 10.77.1.2
//	   …                         └── what comes in on one goes out ──┘         …
//	                                 on the other
//
// metaroced lab and bench/raw call Open, start their processes with Fabric.Start,
// and Close. A plane is changed while traffic runs by SetImpairments, SetRate,
// FailPlane and RestorePlane; Counters says what the switch did, Verify whether
// that is what it was asked to do.
//
// # Ownership
//
// Each namespace is held by one locked thread of this process and by the processes
// started in it, nothing else: no name, no mount, no pinned object. Host processes
// are forked by their namespace's thread with SIGKILL as parent-death signal. So
// when this process ends, by whatever means, the kernel ends the host processes and
// removes namespaces, links, programs and maps. (A process that forks others has
// to see to those itself.)
//
// # What the hosts' interfaces are like
//
// Checksum and segmentation offload are off, because the switch forwards what is on
// the wire and a veth would put unfinished checksums there. Generic receive offload
// is on: it makes a veth accept redirected frames while it has no XDP program of
// its own. IPv6 is off. ARP passes through the switch unharmed.
//
// # What cannot be seen in the counters
//
// A veth has a receive ring of 256 frames and drops what does not fit, at the
// host's as well as at the switch's end: Counters.Overflowed.
//
// Damage is drawn per packet with the kernel's random numbers: runs with the same
// probabilities differ. Schedules (Chance.Period) repeat exactly.
package fabric
