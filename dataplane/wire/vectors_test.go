package wire

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden vectors to testdata and docs/PROTOCOL.md")

const (
	vectorsFile  = "testdata/vectors.txt"
	protocolFile = "../../docs/PROTOCOL.md"
)

// vector is one golden packet.
type vector struct {
	name   string
	about  string
	value  decoded
	broken func(pkt []byte) // what is wrong with it, when it must be refused
	want   Reason
}

func (v *vector) packet() []byte {
	pkt := v.value.encode()
	if v.broken != nil {
		v.broken(pkt)
	}
	return pkt
}

func header(t Type, flags Flags) Header {
	return Header{
		Type: t, Flags: flags, DestConn: MakeConnID(0x12345, 0x678), Tag: 0xdeadbeef,
		Plane: 3, Path: 17, Epoch: 2, Class: ClassControl,
	}
}

func dataHeader(flags Flags, class uint8, psn PSN) Header {
	h := header(DATA, flags)
	h.Class, h.PSN = class, psn
	return h
}

func write() Data {
	return Data{
		DSN: 0x1122334455, Stream: 7, Op: OpWrite, MSN: 41, PacketIndex: 1, PacketCount: 2,
		TxTimestamp: 0x89abcdef, Backlog: 65536, Key: 0x0123456789abcdef, Offset: 3328,
	}
}

// vectors are the golden packets, by type.
func vectors() []vector {
	withImmediate := write()
	withImmediate.Immediate = 0xcafe0001
	short := Data{DSN: 9, Op: OpWrite, MSN: 3, PacketCount: 1, TxTimestamp: 1, Key: 0xfeedfacecafebeef, Offset: 64}
	overflow := write()
	overflow.Offset = 1<<64 - 4
	emptyMessage := write()
	emptyMessage.PacketIndex, emptyMessage.PacketCount = 0, 0
	eight := []byte{0, 1, 2, 3, 4, 5, 6, 7}
	return append([]vector{
		{
			name: "data-write", about: "last of two packets of a WRITE with immediate data, 8 bytes of payload",
			value: decoded{
				header: dataHeader(FlagCRC|FlagImm|FlagLast, ClassBulk, 0xfffffffe),
				data:   withImmediate, payload: eight,
			},
		},
		{
			name: "data-short", about: "a short WRITE of 3 bytes, acknowledged at once, no checksum",
			value: decoded{
				header: dataHeader(FlagLast|FlagAckNow, ClassShort, 0), data: short, payload: []byte("abc"),
			},
		},
		{
			name: "data-void", about: "retransmission of a DSN whose message was given up",
			value: decoded{header: dataHeader(FlagCRC|FlagVoid|FlagRetransmission, ClassBulk, 5), data: write()},
		},
		{
			name: "request-read", about: "READ of 1 MiB",
			value: decoded{header: header(REQUEST, FlagCRC|FlagLast|FlagFence), request: Request{
				DSN: 77, Stream: 1, Op: RequestRead, MSN: 4, PacketCount: 1, Share: 2_500_000, TxTimestamp: 99,
				Tag: 0x0000000500000009, Key: 0x0123456789abcdef, Offset: 4096, Length: 1 << 20,
			}},
		},
		{
			name: "request-compare-swap", about: "COMPARE-SWAP of the word at offset 8",
			value: decoded{header: header(REQUEST, FlagCRC|FlagLast), request: Request{
				DSN: 78, Stream: 1, Op: RequestCompareSwap, MSN: 5, PacketCount: 1, TxTimestamp: 100,
				Tag: 0x0000000500000010, Key: 0x0123456789abcdef, Offset: 8, Length: 1, Operand2: 2,
			}},
		},
		{
			name: "control-error", about: "ERROR: a WRITE beyond its region was refused",
			value: decoded{header: header(CONTROL, FlagCRC|FlagAckNow), control: Control{
				DSN: 12, Kind: ControlError, Reason: uint16(ErrorBounds), Stream: 7, MSN: 41, PacketIndex: 1,
				TxTimestamp: 0x01020304, Detail: 0x0123456789abcdef, Detail2: 0x1122334455,
			}},
		},
		{
			name: "control-credit", about: "CREDIT: messages below 1024 of stream 3",
			value: decoded{header: header(CONTROL, FlagCRC), control: Control{
				DSN: 13, Kind: ControlCredit, Stream: 3, TxTimestamp: 5, Detail: 1024,
			}},
		},
	}, append(ackVectors(), append(setupVectors(), []vector{
		{
			name: "refused-version", about: "an unknown version",
			value:  decoded{header: header(CONFIRM, FlagCRC)},
			broken: func(pkt []byte) { pkt[0] = 2; Seal(pkt) }, want: ReasonBadVersion,
		},
		{
			name: "refused-encrypted", about: "the reserved flag ENCRYPTED",
			value: decoded{header: header(CONFIRM, FlagCRC|FlagEncrypted)}, want: ReasonBadFlags,
		},
		{
			name: "refused-checksum", about: "one bit of the payload changed on the way",
			value: decoded{
				header: dataHeader(FlagCRC|FlagLast, ClassBulk, 1), data: write(), payload: eight,
			},
			broken: func(pkt []byte) { pkt[HeaderSize+DataSize] ^= 0x10 }, want: ReasonBadCRC,
		},
		{
			name: "refused-overflow", about: "a payload that would end beyond 64 bits",
			value: decoded{
				header: dataHeader(FlagCRC|FlagLast, ClassBulk, 1), data: overflow, payload: eight,
			}, want: ReasonOverflow,
		},
		{
			name: "refused-packet-count", about: "a message of no packets",
			value: decoded{header: dataHeader(FlagCRC, ClassBulk, 1), data: emptyMessage}, want: ReasonBadField,
		},
		{
			name: "refused-void-payload", about: "VOID with a payload",
			value: decoded{
				header: dataHeader(FlagCRC|FlagVoid, ClassBulk, 1), data: write(), payload: eight,
			}, want: ReasonBadLength,
		},
	}...)...)...)
}

// Every vector encodes to its bytes in testdata, and decodes from them.
func TestVectors(t *testing.T) {
	text := renderVectors()
	if *update {
		if err := os.WriteFile(vectorsFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden := readVectors(t)
	if len(golden) != len(vectors()) {
		t.Errorf("%s has %d packets, want %d; run go test -update", vectorsFile, len(golden), len(vectors()))
	}
	for _, v := range vectors() {
		t.Run(v.name, func(t *testing.T) {
			pkt := golden[v.name]
			if !bytes.Equal(pkt, v.packet()) {
				t.Fatalf("encoded\n%x\nwant\n%x", v.packet(), pkt)
			}
			got, r := decode(pkt)
			if r != v.want {
				t.Fatalf("decoding says %q, want %q", r, v.want)
			}
			if r != 0 {
				return
			}
			want := v.value
			want.header.Length = got.header.Length
			got.ack.body = nil
			want.ack.ReportCount, want.ack.CreditCount = uint8(len(want.reports)), uint8(len(want.credits))
			if !reflect.DeepEqual(emptyIsNil(*got), emptyIsNil(want)) {
				t.Errorf("decoded\n%+v\nwant\n%+v", *got, want)
			}
		})
	}
}

func emptyIsNil(p decoded) decoded {
	for _, s := range []*[]byte{&p.payload, &p.setup.Service, &p.setup.Cookie, &p.setup.Private, &p.refuse.Text} {
		if len(*s) == 0 {
			*s = nil
		}
	}
	if len(p.reports) == 0 {
		p.reports = nil
	}
	return p
}

// Each type has a vector, so the tests that walk over vectors miss none.
func TestVectorsCoverEveryType(t *testing.T) {
	seen := map[Type]bool{}
	for _, v := range vectors() {
		if v.want == 0 {
			seen[v.value.header.Type] = true
		}
	}
	for typ := DATA; typ <= PROBE_ACK; typ++ {
		if !seen[typ] {
			t.Errorf("no vector of type %v", typ)
		}
	}
}

// The specification shows exactly the packets of testdata.
func TestProtocolShowsVectors(t *testing.T) {
	content, err := os.ReadFile(protocolFile)
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	const open, end = "```vectors\n", "```\n"
	before, rest, found := strings.Cut(string(content), open)
	shown, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no block that starts with %q", protocolFile, open)
	}
	if *update {
		if err := os.WriteFile(protocolFile, []byte(before+open+string(golden)+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if shown != string(golden) {
		t.Errorf("the vectors in %s differ from %s; run go test ./dataplane/wire -update", protocolFile, vectorsFile)
	}
}

// renderVectors writes the vectors as testdata has them: a line of name and
// meaning, then lines of 16 bytes.
func renderVectors() string {
	var b strings.Builder
	for i, v := range vectors() {
		if i > 0 {
			b.WriteByte('\n')
		}
		about := v.about
		if v.want != 0 {
			about += "; refused: " + v.want.String()
		}
		fmt.Fprintf(&b, "%s: %s\n", v.name, about)
		for pkt := v.packet(); len(pkt) > 0; {
			n := min(16, len(pkt))
			fmt.Fprintf(&b, "  % x\n", pkt[:n])
			pkt = pkt[n:]
		}
	}
	return b.String()
}

func readVectors(t *testing.T) map[string][]byte {
	t.Helper()
	content, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	golden := map[string][]byte{}
	name := ""
	for _, line := range strings.Split(string(content), "\n") {
		if digits, isBytes := strings.CutPrefix(line, "  "); isBytes {
			b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
			if err != nil {
				t.Fatalf("%s: %s: %v", vectorsFile, name, err)
			}
			golden[name] = append(golden[name], b...)
		} else if line != "" {
			name, _, _ = strings.Cut(line, ":")
		}
	}
	return golden
}
