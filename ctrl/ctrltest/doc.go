// Package ctrltest is a stand-in for the dataplane in tests of the control
// socket and of the client: sessions with real memory, real descriptors and a
// real wake socket, but no network. The tests play the worker and the peer.
package ctrltest
