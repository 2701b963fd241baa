// Package wire encodes, decodes and validates packets. It keeps no state, does
// not allocate and knows nothing of connections: it turns bytes into values and
// back, and says why bytes are refused.
//
// A packet (the UDP payload) is a common header, a body that the header's type
// names, and a CRC-32C trailer over both unless its absence was agreed:
//
//	0               24                        24+length       +4
//	├───────────────┼─────────────────────────┼───────────────┤
//	│ common header │ body (+ payload)        │ CRC-32C       │
//
// Integers are in network byte order at natural alignment. docs/PROTOCOL.md is
// the specification; testdata/vectors.txt holds golden packets.
//
// On receive, call ParseHeader, check the verification tag, then VerifyCRC,
// then the parser of the type. On transmit, write the body behind HeaderSize
// bytes, then PutHeader, then Seal.
package wire
