// Command metaroced brings MetaRoCE to a Linux host.
//
//	metaroced run           the daemon: AF_XDP workers and the applications' control socket
//	metaroced status        what a running daemon is doing
//	metaroced perf          bandwidth and latency between two hosts
//	metaroced lab           two hosts, a damaging switch and a checked job on this machine
//	metaroced bench         the lab against raw packets through the same switch
//
// Each subcommand is one file that reads flags and hands over to the package that
// does the work. Results go to standard output, everything else to standard error.
// Exit status: 0 success, 1 failure, 2 wrong usage.
package main
