package transport

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A siege is an honest transfer between a and b, in both directions, while a
// third host attacks b. Whatever that host sends, the transfer goes on, every
// byte lands, and no byte that is not the attacker's to write changes.
type siege struct {
	*pair
	ends    [2]*honest // a's, b's
	memory  []guarded
	mallory *mallory
}

// honest is one end of the transfer.
type honest struct {
	name   string
	conn   *Conn
	source []byte
	target []byte // of the peer's, where this end writes
	want   []byte // what it must hold when nothing is outstanding
	posted int
	ended  int
	imms   int // messages with immediate that this end has posted
	got    int // and of these, that the other has received
}

// guarded is registered memory and what lies around it.
type guarded struct {
	name     string
	all      []byte
	readOnly []byte // what it must hold to the end, nil if peers may write it
}

const (
	guardBytes = 128
	siegeSlot  = 9_000
	siegeSlots = 8
	siegeDepth = 4 // operations outstanding in each direction
)

func newSiege(t testing.TB, seed uint64) *siege {
	s := &siege{pair: newPair(t, 2, seed, func(a, b *Config) {
		for _, c := range []*Config{a, b} {
			c.DSNWindow, c.MessageDepth, c.Paths, c.MaxStreams = 256, 16, 4, 4
		}
	})}
	ca, cb := s.connect()
	for i, e := range []*endpoint{s.a, s.b} {
		h := &honest{name: e.name, conn: []*Conn{ca, cb}[i]}
		h.source = s.guard(e, keyA, "source", siegeSlot, testOwner, 0)
		h.target = s.guard(s.other(e), keyB, "target", siegeSlots*siegeSlot, testOwner, RemoteWrite)
		h.want = bytes.Clone(h.target)
		s.ends[i] = h
	}
	s.onEvent = s.event
	newMallory(s)
	return s
}

// guard registers memory with bytes around it that nobody may write.
func (s *siege) guard(e *endpoint, key uint64, name string, size int, owner uint32, access Access) []byte {
	all := bytes.Repeat([]byte{0xa5}, guardBytes+size+guardBytes)
	mem := all[guardBytes : guardBytes+size] // with room behind: nothing but the engine's checks holds it back
	g := guarded{name: e.name + "'s " + name, all: all}
	if access&RemoteWrite == 0 {
		fillRandom(s.rng, mem)
		g.readOnly = bytes.Clone(mem)
	}
	if err := e.engine.AddRegion(Region{Key: key, Mem: mem, Access: access, Owner: owner}); err != nil {
		s.t.Fatal(err)
	}
	s.memory = append(s.memory, g)
	return mem
}

func (s *siege) event(e *endpoint, ev *Event) {
	c := e.engine.Conn(ev.Conn)
	if ev.Kind == EventReceived && c != nil {
		c.Consumed(ev.Stream)
	}
	for i, h := range s.ends {
		if h.conn != c || c == nil {
			continue
		}
		switch ev.Kind {
		case EventSent:
			s.landed(h, ev)
		case EventReceived:
			s.ends[1-i].got++
		default:
			s.t.Fatalf("%s: event %d on the connection that nobody attacks: %s", h.name, ev.Kind, ev.Text)
		}
		return
	}
	s.mallory.events = append(s.mallory.events, *ev)
}

// landed checks an operation of the transfer at its end.
func (s *siege) landed(h *honest, ev *Event) {
	if ev.Status != StatusOK || ev.UserData != uint64(h.ended) {
		s.t.Fatalf("%s: operation %d of the transfer ended: %v; %d was next", h.name, ev.UserData, ev.Status, h.ended)
	}
	at := h.ended % siegeSlots * siegeSlot
	h.ended++
	if !bytes.Equal(h.target[at:at+siegeSlot], h.want[at:at+siegeSlot]) {
		s.t.Fatalf("%s: operation %d of the transfer ended and its bytes are not there", h.name, ev.UserData)
	}
}

// pump keeps operations outstanding in both directions.
func (s *siege) pump() {
	for _, h := range s.ends {
		for h.posted-h.ended < siegeDepth {
			n := 1 + s.rng.IntN(siegeSlot)
			if h.posted%3 == 0 {
				n = 1 + s.rng.IntN(shortBytes)
			}
			from, to := s.rng.IntN(siegeSlot-n+1), h.posted%siegeSlots*siegeSlot
			w := Work{
				Owner: testOwner, Length: uint32(n), LocalKey: keyA, LocalOffset: uint64(from), RemoteKey: keyB,
				RemoteOffset: uint64(to), UserData: uint64(h.posted), HasImm: h.posted%2 == 0,
			}
			if st := h.conn.Post(s.now, &w); st != StatusOK {
				s.t.Fatalf("%s: post: %v", h.name, st)
			}
			copy(h.want[to:], h.source[from:from+n])
			h.posted++
			if w.HasImm {
				h.imms++
			}
		}
	}
}

// goOn lets the transfer move by some steps.
func (s *siege) goOn(steps int) {
	s.t.Helper()
	s.pump()
	for range steps {
		s.step(s.now + 1e6)
		s.pump()
		s.check()
	}
}

func (s *siege) check() {
	s.t.Helper()
	checkEngine(s.t, "a", s.a.engine, s.now)
	checkEngine(s.t, "b", s.b.engine, s.now)
}

// settle waits until the transfer has ended and compares all memory.
func (s *siege) settle() {
	s.t.Helper()
	s.run("the end of the transfer", 40e9, func() bool {
		for _, h := range s.ends {
			if h.ended < h.posted || h.got < h.imms {
				return false
			}
		}
		return true
	})
	s.check()
	for _, h := range s.ends {
		if h.got != h.imms {
			s.t.Errorf("%s: %d messages with immediate, %d received", h.name, h.imms, h.got)
		}
		if !bytes.Equal(h.target, h.want) {
			s.t.Errorf("%s: the bytes at the peer are not those it wrote", h.name)
		}
	}
	for _, g := range s.memory {
		if !untouched(g.all[:guardBytes]) || !untouched(g.all[len(g.all)-guardBytes:]) {
			s.t.Errorf("%s: bytes around it were written", g.name)
		}
		if g.readOnly != nil && !bytes.Equal(g.readOnly, g.all[guardBytes:len(g.all)-guardBytes]) {
			s.t.Errorf("%s was written", g.name)
		}
	}
}

func untouched(b []byte) bool {
	return !slices.ContainsFunc(b, func(v byte) bool { return v != 0xa5 })
}

// counts returns every counter that is not zero.
func counts(e *Engine) map[string]uint64 {
	m := map[string]uint64{}
	e.Counters.Each(func(name string, v uint64) { m[name] = v })
	return m
}

// grown names the counters that grew, and by how much if not by one.
func grown(before, after map[string]uint64) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		switch n := after[name] - before[name]; n {
		case 0:
		case 1:
			names = append(names, name)
		default:
			names = append(names, fmt.Sprintf("%s +%d", name, n))
		}
	}
	return strings.Join(names, "; ")
}

// strike hands one packet to b. Memory must not change by it. It returns the
// counters that grew, and what else changed in the engine.
func (s *siege) strike(pkt []byte) (refused, changed string) {
	s.t.Helper()
	e := s.b.engine
	before, state, events := counts(e), fingerprint(e), e.events.len()
	var memory [][]byte
	for _, g := range s.memory {
		memory = append(memory, bytes.Clone(g.all))
	}
	e.HandlePacket(s.now, 0, malloryAddr(0), false, pkt)
	for i, g := range s.memory {
		if !bytes.Equal(memory[i], g.all) {
			s.t.Errorf("%s was written", g.name)
		}
	}
	s.check()
	changed = difference(state, fingerprint(e))
	if n := e.events.len() - events; n != 0 && changed == "" {
		changed = fmt.Sprintf("%d events", n)
	}
	return grown(before, counts(e)), changed
}

// volatile are the fields that any packet may change: scratch space, counters,
// that there may be something to send, and when something was heard from the
// peer, since whoever has the tag and sends a right checksum is the peer,
// whatever else it says.
var volatile = map[string]bool{
	"Engine.ready": true, "txPlane.queued": true,
	"Engine.cfg": true, "Engine.scratch": true, "Engine.Counters": true, "Conn.e": true,
	"Conn.lastHeard": true, "Conn.restarts": true, "Region.Mem": true, "message.mem": true,
}

// fingerprint is all that an engine knows, a line for each value that is not
// zero.
func fingerprint(e *Engine) []string {
	var lines []string
	seen := map[uintptr]bool{}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() && !seen[v.Pointer()] {
				seen[v.Pointer()] = true
				walk(path, v.Elem())
			}
		case reflect.Struct:
			t := v.Type()
			for i := range t.NumField() {
				if !volatile[t.Name()+"."+t.Field(i).Name] {
					walk(path+"."+t.Field(i).Name, v.Field(i))
				}
			}
		case reflect.Slice, reflect.Array:
			if v.Kind() == reflect.Slice && v.Len() > 0 {
				lines = append(lines, fmt.Sprintf("%s has %d", path, v.Len()))
			}
			for i := range v.Len() {
				if !v.Index(i).IsZero() {
					walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
				}
			}
		case reflect.Map:
			lines = append(lines, fmt.Sprintf("%s has %d", path, v.Len()))
		case reflect.Func, reflect.Interface:
		default:
			if !v.IsZero() {
				lines = append(lines, fmt.Sprintf("%s is %v", path, v))
			}
		}
	}
	walk("engine", reflect.ValueOf(e))
	return lines
}

// difference shows the first lines in which two fingerprints differ.
func difference(a, b []string) string {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return "new: " + b[i]
		case i >= len(b):
			return "gone: " + a[i]
		case a[i] != b[i]:
			return a[i] + ", then " + b[i]
		}
	}
	return ""
}

// volley hands packets to b, each of which must be refused for the same
// reason; want "" lets the reason be any one. Together they must change nothing.
func (s *siege) volley(what, want string, pkts [][]byte) {
	s.t.Helper()
	e := s.b.engine
	state := fingerprint(e)
	for i, pkt := range pkts {
		before := counts(e)
		e.HandlePacket(s.now, 0, malloryAddr(0), false, pkt)
		if got := grown(before, counts(e)); got != want && (want != "" || !strings.Contains(got, "refused")) {
			s.t.Errorf("%s, packet %d: %q, want %q", what, i, got, want)
		}
	}
	if changed := difference(state, fingerprint(e)); changed != "" {
		s.t.Errorf("%s changed the engine: %s", what, changed)
	}
	s.goOn(1)
}

// expel aborts every connection but the transfer's.
func (s *siege) expel() {
	for i, e := range []*endpoint{s.a, s.b} {
		e.engine.Connections(func(c *Conn) {
			if c != s.ends[i].conn {
				c.Abort(s.now, 0)
			}
		})
	}
}

// end lets the transfer end and closes everything: nothing may be left.
func (s *siege) end() {
	s.t.Helper()
	s.settle()
	s.expel()
	s.idle(1e6)
	s.expel() // what a CONNECT on its way has brought
	s.onEvent = nil
	s.closeBoth(s.ends[0].conn, s.ends[1].conn)
	for _, e := range []*endpoint{s.a, s.b} {
		s.flush()
		e.events = nil
		checkNothingLeft(s.t, e.name, e.engine)
	}
}
