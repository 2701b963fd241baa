// Package lab runs the main job of metaroced end to end on one machine and judges
// it: two hosts as network namespaces, a switch between them that damages what it
// is told to, a daemon on each host, and two applications that move memory
// through them while every byte is checked.
//
//	lab process (Run)
//	├─ bench/fabric: namespaces host-a, switch, host-b
//	├─ metaroced run         in host-a ◄─ Unix socket ─ writer   (metaroced lab-app)
//	├─ metaroced run         in host-b ◄─ Unix socket ─ verifier (metaroced lab-app)
//	└─ faults on schedule, live table, verdict
//
// metaroced lab and the end-to-end test call Run; metaroced lab-app, which is not
// for people, calls RunApp.
//
// # The job
//
// The verifier allocates depth slots with guard areas around them and a foreign
// region whose key nobody is told. The writer keeps one RDMA WRITE with immediate
// outstanding per slot:
//
//	writer                                      verifier
//	 fill source slot for operation n
//	 WRITE n → slot n mod depth ───────────────► completion with immediate n
//	 own completion: source slot may change       compare every byte, poison the slot
//	 WRITE n+depth may start once both are back ◄── small WRITE: n+1 operations verified
//
// Retransmissions read the source region again, so the writer changes a source
// slot only after its own completion. Guards and the foreign region are compared
// ten times a second and at the end. Only bytes of operations that were right in
// every byte count as goodput.
//
// # Lifetime
//
// All processes are started by locked threads that live until Run returns, with
// a parent-death signal, and namespaces are held by processes only: nothing is
// left after Run or an interrupt, and after kill -9 of the lab only its directory of
// sockets and configurations below the temporary directory, until the next lab.
package lab
