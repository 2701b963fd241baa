// Package dataplane joins ports, the protocol engine and application queues:
// pinned workers move packets between AF_XDP rings and applications' memory.
package dataplane
