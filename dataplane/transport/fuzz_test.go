package transport

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// FuzzProgram runs programs against two live engines. A program changes,
// repeats, loses and makes up packets of one connection, whose tags it knows;
// it posts, closes, and takes links down. Another connection between the same
// engines must not notice: its bytes land. No program may make an engine panic,
// break its invariants, or touch memory outside what that connection may write.
func FuzzProgram(f *testing.F) {
	names, _ := filepath.Glob("testdata/*.txt")
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(transcriptProgram(string(raw)))
	}
	for _, pkt := range goldenPackets(f) {
		f.Add(append([]byte{opWrite, 0, 200, 1, opRun, 3, opRaw, byte(len(pkt))}, pkt...))
		f.Add(append([]byte{opWrite, 3, 40, 0, opRun, 3, opRaw, byte(len(pkt))}, pkt...))
	}
	for kind := range byte(changeKinds) {
		var program []byte
		for at := range byte(100) {
			program = append(program, opWrite, at, 90, at, opChange, kind, at, at, opRun, 2, opReplay, at, kind, 2*at, 255-at)
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		runProgram(t, program[:min(len(program), 2048)]) // longer ones only repeat themselves
	})
}

// Instructions and their operands, a byte each.
const (
	opRun    byte = iota // steps
	opWrite              // flags: side, immediate, bad key; size; size
	opChange             // kind, place, value: of the next packet
	opLose               // how many
	opReplay             // which packet, then as opChange
	opRaw                // length, then that many bytes: a packet
	opLink               // side and plane
	opBlack              // plane
	opClose              // side and how
	opDial               //
	opIdle               // units of 50 us
	opRemove             // which region
	opCount
)

// Kinds of changes of a packet. Odd ones make the checksum right again.
const (
	changeBit  = 2 * iota
	changeByte // by a value that is likely to matter
	changeWord // likewise, 32 bits
	changeLong // likewise, 64 bits
	changeCut  //
	changeAppend
	changeBody // a body of the packet before, behind this header
	changeKinds
)

// saboteur runs one program.
type saboteur struct {
	*siege
	program []byte
	victims [2][]*Conn // ends of the connection under attack, and later ones, at a and b
	seen    []flight   // its packets
	change  []byte     // of its next packet
	lose    int
}

func runProgram(t *testing.T, program []byte) {
	s := &saboteur{siege: newSiege(t, 1), program: program}
	s.expel() // nobody but a and b are needed here
	s.guard(s.a, malloryKey, "bait", malloryBytes, malloryOwner, RemoteWrite)
	for _, e := range []*endpoint{s.a, s.b} {
		s.guard(e, malloryKey^1, "bait's source", malloryBytes, malloryOwner, 0)
	}
	s.onEvent = s.event
	s.aside = func(peer wire.Addr, tx *Tx, _ []byte) bool { return tx.Dst != peer } // CONNECTs may name any address
	s.dial()
	s.tap = s.packet
	s.pump()
	for len(s.program) > 0 {
		s.instruction()
		s.check()
	}
	s.tap, s.faults = nil, faults{}
	for _, e := range []*endpoint{s.a, s.b} {
		for plane := range e.addrs {
			e.engine.HandlePlane(s.now, plane, true)
		}
	}
	s.end()
}

// next takes one operand.
func (s *saboteur) next() byte {
	if len(s.program) == 0 {
		return 0
	}
	v := s.program[0]
	s.program = s.program[1:]
	return v
}

func (s *saboteur) take(n int) []byte {
	n = min(n, len(s.program))
	v := s.program[:n]
	s.program = s.program[n:]
	return v
}

func (s *saboteur) instruction() {
	switch s.next() % opCount {
	case opRun:
		s.goOn(int(s.next()%8) + 1)
	case opWrite:
		s.write(s.next(), int(s.next())<<8|int(s.next()))
	case opChange:
		s.change = s.take(3)
	case opLose:
		s.lose = int(s.next() % 16)
	case opReplay:
		which, how := int(s.next()), s.take(3)
		if len(s.seen) > 0 {
			f := s.seen[len(s.seen)-1-which%len(s.seen)]
			s.hit(f.to, f.plane, s.changed(f.pkt, how))
		}
	case opRaw:
		s.raw(s.take(int(s.next())))
	case opLink:
		v := s.next()
		e := []*endpoint{s.a, s.b}[v&1]
		s.toggle(e, int(v>>1&1))
	case opBlack:
		plane := s.next() & 1
		s.faults.black[plane] = !s.faults.black[plane]
	case opClose:
		s.hangUp(s.next())
	case opDial:
		if len(s.victims[0]) < 20 {
			s.dial()
		}
	case opIdle:
		s.idle(int64(s.next()) * 50_000)
	case opRemove:
		v := s.next()
		_ = []*endpoint{s.a, s.b}[v&1].engine.RemoveRegion(s.now, malloryKey^uint64(v>>1&1))
	}
}

func (s *saboteur) toggle(e *endpoint, plane int) {
	e.engine.HandlePlane(s.now, plane, e.engine.planeUp>>plane&1 == 0)
}

// dial starts one more connection for the program to play with.
func (s *saboteur) dial() {
	c, err := s.a.engine.Dial(s.now, DialRequest{
		Owner: malloryOwner, Service: malloryService, Peers: []DialPeer{{Plane: 0, Addr: s.b.addrs[0]}, {Plane: 1, Addr: s.b.addrs[1]}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.victims[0] = append(s.victims[0], c)
	for range 3 {
		s.step(s.now + 1e6)
	}
}

// event has b accept whatever comes and leaves the rest to the siege.
func (s *saboteur) event(e *endpoint, ev *Event) {
	if ev.Kind == EventIncoming {
		c := e.engine.Conn(ev.Conn)
		if err := c.Accept(s.now, []byte("private")); err == nil {
			s.victims[1] = append(s.victims[1], c)
		}
		return
	}
	s.siege.event(e, ev)
}

// victim is the newest connection of a side that is under attack, or nil.
func (s *saboteur) victim(side int) *Conn {
	if v := s.victims[side]; len(v) > 0 {
		return v[len(v)-1]
	}
	return nil
}

func (s *saboteur) write(flags byte, size int) {
	c := s.victim(int(flags & 1))
	if c == nil || c.sendS == nil {
		return
	}
	w := Work{
		Owner: malloryOwner, Stream: uint16(flags >> 3 & 3), HasImm: flags&2 != 0, Imm: uint32(size),
		LocalKey: malloryKey ^ 1, Length: uint32(size % (malloryBytes + 1)), RemoteKey: malloryKey,
	}
	if flags&4 != 0 {
		w.RemoteKey = keyB // of the other session
	}
	c.Post(s.now, &w)
}

func (s *saboteur) hangUp(v byte) {
	c := s.victim(int(v & 1))
	switch {
	case c == nil || c.state == stateFree:
	case v&2 != 0:
		c.Abort(s.now, wire.CloseApplicationGone)
	default:
		_ = c.Close(s.now, 0)
	}
}

// mine says whether a packet belongs to what the program may touch.
func (s *saboteur) mine(pkt []byte) bool {
	dst := wire.ConnID(binary.BigEndian.Uint32(pkt[4:]))
	return wire.Type(pkt[1]) == wire.CONNECT || dst != s.ends[0].conn.id && dst != s.ends[1].conn.id
}

// packet sees every packet that leaves.
func (s *saboteur) packet(from *endpoint, pkt []byte) bool {
	if !s.mine(pkt) {
		return true
	}
	f := flight{to: s.other(from), plane: int(pkt[12]), pkt: bytes.Clone(pkt)}
	s.seen = append(s.seen, f)
	if s.lose > 0 {
		s.lose--
		return false
	}
	if s.change == nil {
		return true
	}
	how := s.change
	s.change = nil
	s.hit(f.to, f.plane, s.changed(f.pkt, how))
	return len(how) > 1 && how[1]&1 != 0 // the true one too, or not
}

// hit hands a packet to an engine.
func (s *saboteur) hit(to *endpoint, plane int, pkt []byte) {
	to.engine.HandlePacket(s.now, plane, s.other(to).addrs[plane], false, pkt)
	s.check()
}

// raw hands over a packet made by the program, addressed to the connection
// under attack.
func (s *saboteur) raw(pkt []byte) {
	if len(pkt) < wire.HeaderSize {
		s.hit(s.b, 0, pkt)
		return
	}
	pkt = bytes.Clone(pkt)
	for side, to := range []*endpoint{s.a, s.b} {
		c := s.victim(side)
		if c == nil {
			continue
		}
		if wire.Type(pkt[1]) != wire.CONNECT {
			binary.BigEndian.PutUint32(pkt[4:], uint32(c.id))
			binary.BigEndian.PutUint32(pkt[8:], c.tag)
		}
		pkt[0], pkt[12] = wire.Version, pkt[12]&1
		if flags := wire.Flags(binary.BigEndian.Uint16(pkt[2:])); flags&wire.FlagCRC == 0 {
			pkt[3] |= byte(wire.FlagCRC)
			pkt = append(pkt, 0, 0, 0, 0)
		}
		if len(pkt) >= wire.HeaderSize+wire.TrailerSize {
			wire.Seal(pkt)
		}
		s.hit(to, int(pkt[12]), pkt)
	}
}

// likely are values at which checks are likely to be wrong by one.
var likely = [...]uint64{
	0, 1, 2, 3, 15, 16, 17, 255, 256, 257, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<62 - 1, 1 << 62, 1 << 63, ^uint64(0),
	malloryKey, malloryKey ^ 1, keyB, malloryBytes, malloryBytes - 1, malloryBytes + 1,
}

// changed returns a packet changed as the program says.
func (s *saboteur) changed(pkt, how []byte) []byte {
	if len(how) < 3 {
		return pkt
	}
	kind, place, value := how[0]%changeKinds, int(how[1])*2, how[2]
	p := bytes.Clone(pkt)
	at := place % len(p)
	near := func(old uint64) uint64 { // a likely value, or near the old one
		if value < byte(len(likely)) {
			return likely[value]
		}
		return old + uint64(int8(value))
	}
	switch kind &^ 1 {
	case changeBit:
		p[at] ^= 1 << (value % 8)
	case changeByte:
		p[at] = byte(near(uint64(p[at])))
	case changeWord:
		at &^= 3
		if b := p[at:]; len(b) >= 4 {
			binary.BigEndian.PutUint32(b, uint32(near(uint64(binary.BigEndian.Uint32(b)))))
		}
	case changeLong:
		at &^= 7
		if b := p[at:]; len(b) >= 8 {
			binary.BigEndian.PutUint64(b, near(binary.BigEndian.Uint64(b)))
		}
	case changeCut:
		p = p[:at]
	case changeAppend:
		p = append(p, make([]byte, int(value)+1)...)
	case changeBody:
		other := s.seen[int(value)%len(s.seen)].pkt
		p = append(p[:wire.HeaderSize], other[wire.HeaderSize:]...)
		p[1], p[2], p[3] = other[1], other[2], other[3]
	}
	if kind&1 == 0 {
		return p
	}
	switch kind &^ 1 {
	case changeCut, changeAppend, changeBody:
		if len(p) >= wire.HeaderSize+wire.TrailerSize {
			wire.Seal(p)
		}
	default:
		reseal(p)
	}
	return p
}

// transcriptProgram turns a transcript into a program.
func transcriptProgram(text string) (program []byte) {
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "#")
		words := strings.Fields(code)
		if len(words) == 0 || words[0] == "=" {
			continue
		}
		number := func(i int) (v int) {
			if i < len(words) {
				_, _ = fmt.Sscan(words[i], &v)
			}
			return v
		}
		side := byte(0)
		if len(words) > 1 && words[1] == "b" {
			side = 1
		}
		switch words[0] {
		case "write":
			n := min(number(1), malloryBytes)
			flags := byte(number(2)) << 3
			if strings.Contains(line, "imm") {
				flags |= 2
			}
			if strings.Contains(line, "badkey") {
				flags |= 4
			}
			program = append(program, opWrite, flags, byte(n>>8), byte(n))
		case "lose":
			program = append(program, opLose, byte(number(3)))
		case "black":
			program = append(program, opBlack, byte(number(1)))
		case "link":
			program = append(program, opLink, side|byte(number(2))<<1)
		case "close":
			program = append(program, opClose, side)
		case "abort":
			program = append(program, opClose, side|2)
		case "dial":
			program = append(program, opDial)
		case "run", "quiet":
			program = append(program, opRun, 7, opIdle, byte(min(number(1)/50, 255)))
		}
	}
	return program
}

// goldenPackets reads the vectors of package wire.
func goldenPackets(t testing.TB) (pkts [][]byte) {
	raw, err := os.ReadFile("../wire/testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(raw), "\n\n") {
		_, lines, _ := strings.Cut(block, "\n")
		pkt, err := hex.DecodeString(strings.Join(strings.Fields(lines), ""))
		if err != nil {
			t.Fatal(err)
		}
		pkts = append(pkts, pkt)
	}
	return pkts
}
