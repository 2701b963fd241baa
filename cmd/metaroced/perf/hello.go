package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// DefaultService is the name servers listen on.
const DefaultService = "perf"

// MaxSize is the largest operation, and what the server allows a client to ask
// for.
const MaxSize = 1 << 30

// Spin is how long a side that spins looks for a completion before it sleeps
// nevertheless: longer than any sensible round trip, short enough that a server
// without a client costs nothing.
const Spin = time.Millisecond

// test is what a client wants of the server.
type test uint16

const (
	testBandwidth test = 1
	testLatency   test = 2
)

const helloVersion = 1

// hello is the client's private data at connection set-up. Layout, little-endian:
// version u16, test u16, reserved u32, size u64, key u64.
type hello struct {
	test test
	size uint64 // of the region the server provides, and of its answers
	key  uint64 // latency: where answers go
}

const helloBytes = 24

func (h *hello) encode() []byte {
	b := make([]byte, helloBytes)
	binary.LittleEndian.PutUint16(b[0:], helloVersion)
	binary.LittleEndian.PutUint16(b[2:], uint16(h.test))
	binary.LittleEndian.PutUint64(b[8:], h.size)
	binary.LittleEndian.PutUint64(b[16:], h.key)
	return b
}

func decodeHello(b []byte) (hello, error) {
	if len(b) != helloBytes {
		return hello{}, errors.New("the dialling application is not metaroced perf client")
	}
	if v := binary.LittleEndian.Uint16(b); v != helloVersion {
		return hello{}, fmt.Errorf("perf client speaks version %d, this server %d", v, helloVersion)
	}
	h := hello{
		test: test(binary.LittleEndian.Uint16(b[2:])),
		size: binary.LittleEndian.Uint64(b[8:]),
		key:  binary.LittleEndian.Uint64(b[16:]),
	}
	if h.test != testBandwidth && h.test != testLatency {
		return hello{}, fmt.Errorf("perf client asks for test %d, which this server does not know", h.test)
	}
	if h.size < 1 || h.size > MaxSize {
		return hello{}, fmt.Errorf("perf client asks for %d bytes, outside 1 to %d", h.size, MaxSize)
	}
	return h, nil
}

// decodeKey reads the server's private data: the key of its region.
func decodeKey(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, errors.New("the answering application is not metaroced perf server")
	}
	return binary.LittleEndian.Uint64(b), nil
}
