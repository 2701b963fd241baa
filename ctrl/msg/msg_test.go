package msg

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var (
	someV4   = netip.MustParseAddr("127.0.0.1")
	someV6   = netip.MustParseAddr("::1")
	somePeer = netip.AddrPortFrom(someV4, 4797)
)

// samples has one message of every type, with a tail where the type has one.
// The hex dumps in testdata and docs/CONTROL.md are of these.
var samples = []struct {
	name string
	id   uint32
	m    Message
}{
	{"hello", 1, &Hello{SQEntries: 1024, CQEntries: 4096}},
	{"alloc_region", 2, &AllocRegion{Size: 1 << 20, Access: 3}},
	{"free_region", 3, &FreeRegion{Region: 7}},
	{"get_slabs", 4, &GetSlabs{Region: 7, First: 16}},
	{"listen", 5, &Listen{Service: "echo"}},
	{"unlisten", 6, &Unlisten{Service: "echo"}},
	{"dial", 7, &Dial{Token: 9, Peers: []netip.Addr{someV4, someV6}, Service: "echo", Private: []byte{1, 2, 3}}},
	{"accept", 8, &Accept{Conn: 5, Private: []byte{4, 5}}},
	{"refuse", 9, &Refuse{Conn: 5, Text: "no"}},
	{"close_conn", 10, &CloseConn{Conn: 5}},
	{"get_status", 11, &GetStatus{}},
	{"ok", 3, &OK{}},
	{"hello_ok", 1, &HelloOK{MemoryBytes: 204800, SQEntries: 1024, CQEntries: 4096, SQOffset: 0, CQOffset: 69632}},
	{"region", 2, &Region{Region: 7, Slabs: 18, Key: 0x0123456789abcdef, Size: 1 << 20, First: 16, SlabBytes: []uint64{65536, 4096}}},
	{"status", 11, &Status{Bytes: 512}},
	{"error", 2, &Error{Code: CodeRefused, Text: "quota"}},
	{"incoming", 0, &Incoming{Conn: 5, Peer: somePeer, Service: "echo", Private: []byte{1, 2, 3}}},
	{"established", 0, &Established{Token: 9, Conn: 5, Peer: somePeer, Private: []byte{4, 5}}},
	{"refused", 0, &Refused{Token: 9, Reason: 3, Text: "no"}},
	{"closed", 0, &Closed{Conn: 5, Reason: 1, Text: "peer closed"}},
}

func packet(t testing.TB, id uint32, m Message) []byte {
	t.Helper()
	b, err := Append(nil, id, m)
	if err != nil {
		t.Fatalf("%v: %v", m.Type(), err)
	}
	return b
}

func TestEveryTypeHasASampleAndAName(t *testing.T) {
	sampled := map[Type]bool{}
	for _, s := range samples {
		sampled[s.m.Type()] = true
	}
	for n := range 1 << 16 {
		ty := Type(n)
		m := newMessage(ty)
		if m == nil {
			if strings.HasPrefix(ty.String(), "type ") {
				continue
			}
			t.Errorf("%v has a name and no message", ty)
			continue
		}
		if m.Type() != ty || !sampled[ty] || strings.HasPrefix(ty.String(), "type ") {
			t.Errorf("type %#x: message of type %v, sampled %v", n, m.Type(), sampled[ty])
		}
	}
}

// TestGolden keeps the bytes what they are: applications in other languages
// depend on them. The files are the vectors docs/CONTROL.md points to.
func TestGolden(t *testing.T) {
	for _, s := range samples {
		text, err := os.ReadFile(filepath.Join("testdata", s.name+".hex"))
		if err != nil {
			t.Error(err)
			continue
		}
		want, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if got := packet(t, s.id, s.m); !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x", s.name, got, want)
		}
		id, m, err := Parse(want)
		if err != nil || id != s.id || !reflect.DeepEqual(m, s.m) {
			t.Errorf("%s: parsed as %d %+v, %v", s.name, id, m, err)
		}
	}
}

// TestWrongLengths cuts and extends every message, once with the length field
// telling the truth and once with the one of the original.
func TestWrongLengths(t *testing.T) {
	for _, s := range samples {
		whole := packet(t, s.id, s.m)
		for n := range MaxBytes + 2 {
			if n == len(whole) {
				continue
			}
			b := make([]byte, n)
			copy(b, whole)
			for _, honest := range []bool{true, false} {
				if honest && n >= 4 {
					binary.LittleEndian.PutUint32(b, uint32(n))
				} else if n >= 4 {
					binary.LittleEndian.PutUint32(b, uint32(len(whole)))
				}
				_, _, err := Parse(b)
				var p *ParseError
				if !errors.As(err, &p) || p.Reason != ReasonLength {
					t.Fatalf("%s with %d instead of %d bytes (honest length field: %v): %v", s.name, n, len(whole), honest, err)
				}
			}
		}
	}
}

func TestWrongHeaders(t *testing.T) {
	whole := packet(t, 77, &FreeRegion{Region: 1})
	for _, c := range []struct {
		name   string
		change func(b []byte)
		want   Reason
	}{
		{"version 0", func(b []byte) { b[4] = 0 }, ReasonVersion},
		{"version 2", func(b []byte) { b[4] = 2 }, ReasonVersion},
		{"version 257", func(b []byte) { b[5] = 1 }, ReasonVersion},
		{"type 0", func(b []byte) { b[6] = 0 }, ReasonType},
		{"type 0x7f", func(b []byte) { b[6] = 0x7f }, ReasonType},
		{"type 0x103", func(b []byte) { b[7] = 1 }, ReasonType},
		{"reserved", func(b []byte) { b[15] = 1 }, ReasonReserved},
		{"body reserved", func(b []byte) { b[20] = 1 }, ReasonReserved},
		{"length of 4 GiB", func(b []byte) { copy(b, "\xff\xff\xff\xff") }, ReasonLength},
	} {
		b := bytes.Clone(whole)
		c.change(b)
		id, _, err := Parse(b)
		var p *ParseError
		if !errors.As(err, &p) || p.Reason != c.want || id != 77 {
			t.Errorf("%s: request id %d, %v", c.name, id, err)
		}
	}
}

// TestReservedBytes sets every byte that no field of a sample uses.
func TestReservedBytes(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes []int
	}{
		{"hello", []int{24, 25, 26, 27, 28, 29, 30, 31}},
		{"alloc_region", []int{28, 29, 30, 31}},
		{"free_region", []int{20, 21, 22, 23}},
		{"listen", []int{18, 19, 20, 21, 22, 23}},
		{"dial", []int{30, 31}},
		{"accept", []int{22, 23}},
		{"refuse", []int{22, 23}},
		{"close_conn", []int{20, 21, 22, 23}},
		{"hello_ok", []int{40, 41, 42, 43, 44, 45, 46, 47}},
		{"region", []int{46, 47}},
		{"error", []int{20, 21, 22, 23}},
		{"incoming", []int{42, 43, 44, 45, 46, 47}},
		{"established", []int{30, 31, 50, 51, 52, 53, 54, 55}},
		{"refused", []int{28, 29, 30, 31}},
	} {
		for _, s := range samples {
			if s.name != c.name {
				continue
			}
			for _, i := range c.bytes {
				b := packet(t, s.id, s.m)
				b[i] = 1
				_, _, err := Parse(b)
				var p *ParseError
				if !errors.As(err, &p) || p.Reason != ReasonReserved {
					t.Errorf("%s with byte %d set: %v", s.name, i, err)
				}
			}
		}
	}
}

// TestFieldRules holds for writing; reading applies the same check.
func TestFieldRules(t *testing.T) {
	tooMany := make([]netip.Addr, MaxPeers+1)
	for i := range tooMany {
		tooMany[i] = someV4
	}
	long := strings.Repeat("x", 600)
	for _, c := range []struct {
		m    Message
		want string
	}{
		{&AllocRegion{}, "size 0"},
		{&AllocRegion{Size: 1<<46 + 1}, "size"},
		{&AllocRegion{Size: 1, Access: 8}, "unknown bits"},
		{&Listen{}, "0 bytes"},
		{&Listen{Service: long[:256]}, "256 bytes"},
		{&Unlisten{Service: "a\x00b"}, "control characters"},
		{&Listen{Service: "a\xff"}, "UTF-8"},
		{&Dial{Peers: []netip.Addr{someV4}, Service: "s"}, "token"},
		{&Dial{Token: 1, Service: "s"}, "0 peer addresses"},
		{&Dial{Token: 1, Peers: tooMany, Service: "s"}, "9 peer addresses"},
		{&Dial{Token: 1, Peers: []netip.Addr{{}}, Service: "s"}, "empty"},
		{&Dial{Token: 1, Peers: []netip.Addr{netip.IPv4Unspecified()}, Service: "s"}, "empty"},
		{&Dial{Token: 1, Peers: []netip.Addr{netip.MustParseAddr("ff02::1")}, Service: "s"}, "unicast"},
		{&Dial{Token: 1, Peers: []netip.Addr{netip.MustParseAddr("255.255.255.255")}, Service: "s"}, "unicast"},
		{&Dial{Token: 1, Peers: []netip.Addr{netip.MustParseAddr("fe80::1%lo")}, Service: "s"}, "zones"},
		{&Dial{Token: 1, Peers: []netip.Addr{someV4}}, "service"},
		{&Dial{Token: 1, Peers: []netip.Addr{someV4}, Service: "s", Private: make([]byte, 257)}, "257 bytes"},
		{&Accept{Private: make([]byte, 257)}, "257 bytes"},
		{&Refuse{Text: long}, "600 bytes"},
		{&Refuse{Text: "\x1b[31m"}, "control characters"},
		{&Region{Slabs: 1}, "0 slabs"},
		{&Region{Slabs: 17, SlabBytes: make([]uint64, 17)}, "17 slabs"},
		{&Region{Slabs: 1, First: 1, SlabBytes: make([]uint64, 1)}, "slabs 1 to 1 of 1"},
		{&Error{Text: long}, "600 bytes"},
		{&Incoming{}, "service"},
		{&Incoming{Service: "s", Private: make([]byte, 257)}, "257 bytes"},
		{&Established{Peer: netip.MustParseAddrPort("[fe80::1%lo]:1")}, "zones"},
	} {
		b, err := Append([]byte("kept"), 1, c.m)
		if err == nil || !strings.Contains(err.Error(), c.want) || string(b) != "kept" {
			t.Errorf("%v %+v: %v", c.m.Type(), c.m, err)
		}
	}
	// One of them as it comes from outside.
	b := packet(t, 1, &Listen{Service: "echo"})
	b[HeaderBytes+8] = '\n'
	_, _, err := Parse(b)
	var p *ParseError
	if !errors.As(err, &p) || p.Reason != ReasonField {
		t.Errorf("line break in a service name: %v", err)
	}
}

func TestLargestMessagesFit(t *testing.T) {
	peers := make([]netip.Addr, MaxPeers)
	for i := range peers {
		peers[i] = someV6
	}
	name, text := strings.Repeat("n", MaxServiceBytes), strings.Repeat("t", MaxTextBytes)
	private := make([]byte, MaxPrivateBytes)
	for _, m := range []Message{
		&Dial{Token: 1, Peers: peers, Service: name, Private: private},
		&Incoming{Service: name, Private: private},
		&Region{Slabs: MaxMessageFDs, SlabBytes: make([]uint64, MaxMessageFDs)},
		&Error{Text: text},
	} {
		if _, got, err := Parse(packet(t, 1, m)); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("largest %v: %v", m.Type(), err)
		}
	}
}

func TestCleanText(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain ünïcode", "plain ünïcode"},
		{"a\nb\x00c\xff", "a?b?c?"},
		{strings.Repeat("x", MaxTextBytes-1) + "ü", strings.Repeat("x", MaxTextBytes-1)},
	} {
		if got := CleanText(c.in); got != c.want || checkText(got) != nil {
			t.Errorf("CleanText(%q) = %q", c.in, got)
		}
	}
}

// FuzzParse feeds anything: nothing may panic, and what is accepted has exactly
// one form.
func FuzzParse(f *testing.F) {
	for _, s := range samples {
		f.Add(packet(f, s.id, s.m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		id, m, err := Parse(b)
		if err != nil {
			var p *ParseError
			if !errors.As(err, &p) || p.Reason == 0 {
				t.Fatalf("error without a reason: %v", err)
			}
			if checkText(CleanText(err.Error())) != nil {
				t.Fatalf("error cannot be told: %v", err)
			}
			return
		}
		if again := packet(t, id, m); !bytes.Equal(again, b) {
			t.Fatalf("accepted %x, writes %x", b, again)
		}
	})
}
