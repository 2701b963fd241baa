// Package testenv gives tests that need the kernel a private place to run:
// network namespaces and veth pairs that vanish with the test.
//
// Only tests import it. A namespace here has no name and no file: it is held by
// one locked operating-system thread and one file descriptor of this process, so
// that nothing survives a test process that is killed.
//
//	test goroutine            locked thread (one per NetNS)
//	    │  Do(f) ───────────────► f runs inside the namespace
//	    │  ◄─────────────────────  its error
//	    │  (test ends) ─────────► thread exits, descriptor closed,
//	                              kernel deletes the namespace and its links
//
// Facts to know when using it:
//
//   - /proc/sys/net shows the namespace of the reading thread, /sys/class/net
//     does not (its view is fixed at mount time): never read the latter.
//   - A socket belongs to the namespace it was created in and may be used from
//     any thread afterwards; so open sockets inside Do and use them outside.
//   - IPv6 is off on an interface unless one of its prefixes is IPv6, so that no
//     router solicitation or duplicate address detection disturbs a count.
package testenv
