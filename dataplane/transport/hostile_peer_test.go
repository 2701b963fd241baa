package transport

import (
	"bytes"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// A WRITE that may not be fails alone: nothing is written, its peer hears why,
// and its DSN is placed only when the peer has heard.
func TestHostileWrites(t *testing.T) {
	s, m := besieged(t, 21)
	seven := []byte("payload")
	edit := func(key, offset uint64) func(*wire.Header, *wire.Data) {
		return func(_ *wire.Header, d *wire.Data) { d.Key, d.Offset = key, offset }
	}
	for _, c := range []struct {
		name    string
		want    string
		reason  wire.ErrorReason
		edit    func(*wire.Header, *wire.Data)
		payload []byte
	}{
		{"unknown key", "refused: region key", wire.ErrorUnknownKey, edit(malloryKey^1, 0), seven},
		{"key 0", "refused: region key", wire.ErrorUnknownKey, edit(0, 0), seven},
		{"another session's key", "refused: region key", wire.ErrorUnknownKey, edit(keyB, 0), seven},
		{"another session's key, no bytes", "refused: region key", wire.ErrorUnknownKey, edit(keyB, 0), nil},
		{"read-only", "refused: region permission", wire.ErrorPermission, edit(readOnlyKey, 0), seven},
		{"read-only, and beyond", "refused: region permission", wire.ErrorPermission, edit(readOnlyKey, 1<<40), seven},
		{"one byte beyond the end", "refused: region bounds", wire.ErrorBounds, edit(malloryKey, malloryBytes-6), seven},
		{"at the end", "refused: region bounds", wire.ErrorBounds, edit(malloryKey, malloryBytes), seven},
		{"no bytes, beyond the end", "refused: region bounds", wire.ErrorBounds, edit(malloryKey, malloryBytes+1), nil},
		{"far away", "refused: region bounds", wire.ErrorBounds, edit(malloryKey, 1<<63), seven},
		{"as far as it goes", "refused: region bounds", wire.ErrorBounds, edit(malloryKey, ^uint64(0)-7), seven},
		{"no bytes, as far as it goes", "refused: region bounds", wire.ErrorBounds, edit(malloryKey, ^uint64(0)), nil},
		{"a byte longer than agreed", "refused: payload length", wire.ErrorTooLong, edit(malloryKey, 0), make([]byte, m.conn.maxPayload+1)},
		{"as long as it can be", "refused: payload length", wire.ErrorTooLong, edit(malloryKey, 0), make([]byte, 1<<16-1-wire.DataSize)},
	} {
		pkt := m.data(c.edit, c.payload)
		if refused, _ := s.strike(pkt); refused != c.want {
			t.Errorf("%s: %q, want %q", c.name, refused, c.want)
		}
		if refused, changed := s.strike(pkt); refused != "duplicates" || changed != "" {
			t.Errorf("%s, again: %q, changed: %s", c.name, refused, changed)
		}
		m.expectError(c.name, c.reason)
		s.goOn(1)
	}
	m.write()
	s.end()
}

// expectError takes b's ERROR for the packet just sent and acknowledges it.
func (m *mallory) expectError(name string, reason wire.ErrorReason) {
	m.t.Helper()
	m.s.flush()
	var k wire.Control
	p := m.last(wire.CONTROL)
	if p == nil || wire.ParseControl(p.body, &k) != 0 {
		m.t.Fatalf("%s: b sends no ERROR", name)
	}
	if k.Kind != wire.ControlError || wire.ErrorReason(k.Reason) != reason || wire.DSN(k.Detail2) != m.dsn || k.MSN != m.msn {
		m.t.Errorf("%s: b sends %+v, want ERROR %v for DSN %d and MSN %d", name, k, reason, m.dsn, m.msn)
	}
	if got := m.conn.claims.next(); got != m.dsn {
		m.t.Errorf("%s: b has placed everything below %d before its ERROR was heard, want %d", name, got, m.dsn)
	}
	m.dsn, m.msn, m.psn = m.dsn+1, m.msn+1, m.psn+1
	m.answer()
	if got := m.conn.claims.next(); got != m.dsn {
		m.t.Errorf("%s: b has placed everything below %d after its ERROR was heard, want %d", name, got, m.dsn)
	}
}

// Packets of a message that contradict the first to arrive end the message.
func TestHostileMessages(t *testing.T) {
	s, m := besieged(t, 22)
	for _, c := range []struct {
		name string
		edit func(*wire.Header, *wire.Data)
	}{
		{"more packets", func(_ *wire.Header, d *wire.Data) { d.PacketCount = 3 }},
		{"fewer packets", func(_ *wire.Header, d *wire.Data) { d.PacketIndex, d.PacketCount = 0, 1 }},
		{"very many packets", func(_ *wire.Header, d *wire.Data) { d.PacketCount = ^uint32(0) }},
		{"no immediate", func(h *wire.Header, _ *wire.Data) { h.Flags &^= wire.FlagImm }},
		{"another immediate", func(_ *wire.Header, d *wire.Data) { d.Immediate++ }},
	} {
		part := func(index uint32, edit func(*wire.Header, *wire.Data)) []byte {
			return m.data(func(h *wire.Header, d *wire.Data) {
				h.Flags |= wire.FlagImm
				d.PacketIndex, d.PacketCount, d.Immediate = index, 2, 9
				edit(h, d)
			}, []byte("payload"))
		}
		m.send(part(0, func(*wire.Header, *wire.Data) {}))
		m.dsn++
		if refused, _ := s.strike(part(1, c.edit)); refused != "refused: message contradiction" {
			t.Errorf("%s: %q", c.name, refused)
		}
		m.expectError(c.name, wire.ErrorBadMessage)
		m.msn-- // late packets of the same message: taken, not placed
		if refused, _ := s.strike(part(1, func(*wire.Header, *wire.Data) {})); refused != "late packets of a message given up" {
			t.Errorf("%s, later: %q", c.name, refused)
		}
		m.dsn, m.msn = m.dsn+1, m.msn+1
		if m.event(EventReceived) != nil {
			t.Errorf("%s: the message was delivered", c.name)
		}
		s.goOn(1)
	}
	m.write()
	s.end()
}

// A VOID ends its message, whatever else it says: nothing is written or
// delivered, nobody is told of an error, and what was placed before stays.
func TestHostileVoid(t *testing.T) {
	s, m := besieged(t, 28)
	for name, edit := range map[string]func(*wire.Header, *wire.Data){
		"plain":           func(*wire.Header, *wire.Data) {},
		"unknown key":     func(_ *wire.Header, d *wire.Data) { d.Key = 1 },
		"far away":        func(_ *wire.Header, d *wire.Data) { d.Offset = ^uint64(0) },
		"other count":     func(_ *wire.Header, d *wire.Data) { d.PacketCount = 7 },
		"other immediate": func(_ *wire.Header, d *wire.Data) { d.Immediate = 1 },
		"no immediate":    func(h *wire.Header, _ *wire.Data) { h.Flags &^= wire.FlagImm },
	} {
		for first := range 2 { // does a packet with payload come first?
			if first == 1 {
				m.send(m.data(func(h *wire.Header, d *wire.Data) {
					h.Flags |= wire.FlagImm
					d.PacketCount = 2
				}, []byte("first")))
				m.dsn, m.psn = m.dsn+1, m.psn+1
			}
			refused, _ := s.strike(m.data(func(h *wire.Header, d *wire.Data) {
				h.Flags |= wire.FlagImm | wire.FlagVoid
				d.PacketIndex, d.PacketCount = uint32(first), uint32(first)+1
				edit(h, d)
			}, nil))
			m.dsn, m.msn, m.psn = m.dsn+1, m.msn+1, m.psn+1
			s.flush()
			if refused != "" || m.event(EventReceived) != nil || m.last(wire.CONTROL) != nil || m.conn.claims.next() != m.dsn {
				t.Errorf("%s, %d before: refused %q, or delivered, or answered, or not placed", name, first, refused)
			}
			s.goOn(1)
		}
	}
	m.unharmed()
}

// Lengths at the edge of what is allowed are taken.
func TestExtremeLengthsThatAreRight(t *testing.T) {
	s, m := besieged(t, 23)
	long := bytes.Repeat([]byte("x"), m.conn.maxPayload)
	for name, c := range map[string]struct {
		offset  uint64
		payload []byte
	}{
		"nothing at the start":          {0, nil},
		"nothing at the end":            {malloryBytes, nil},
		"the last byte":                 {malloryBytes - 1, []byte("x")},
		"as long as agreed":             {0, long},
		"as long as agreed, at the end": {uint64(malloryBytes - len(long)), long},
	} {
		clear(m.mem)
		before := counts(s.b.engine)
		m.send(m.data(func(_ *wire.Header, d *wire.Data) { d.Offset = c.offset }, c.payload))
		want := make([]byte, malloryBytes)
		copy(want[c.offset:], c.payload)
		if got := grown(before, counts(s.b.engine)); got != "" || !bytes.Equal(m.mem, want) {
			t.Errorf("%s: counted %q, bytes right: %v", name, got, bytes.Equal(m.mem, want))
		}
		m.dsn, m.msn, m.psn = m.dsn+1, m.msn+1, m.psn+1
		s.goOn(1)
	}
	m.unharmed()
}

// Credits that go back are ignored, ones that nobody can have earned counted.
func TestHostileCredit(t *testing.T) {
	const invalid = "refused: acknowledgment of the unsent"
	s, m := besieged(t, 24)
	limit := m.conn.sendS[0].limit
	for _, c := range []struct {
		stream uint16
		limit  uint32
		want   string
	}{
		{0, limit, ""},
		{0, limit - 1, ""},
		{0, 0, ""},
		{0, limit - 1<<31, ""},
		{0, limit - 1<<31 + 1, ""},
		{0, limit + 17, invalid},
		{0, limit + 1<<31 - 1, invalid},
		{1, limit + 1, invalid},
		{4, limit + 1, invalid},
		{65535, limit + 1, invalid},
	} {
		pkt := m.ack(func(a *ackBody) {
			a.CumulativeDSN, a.reports = 0, nil
			a.credits = []wire.Credit{{Stream: c.stream, MSNLimit: c.limit}}
		})
		if refused, changed := s.strike(pkt); refused != c.want || changed != "" {
			t.Errorf("ACK: stream %d to %d: %q, want %q; changed: %s", c.stream, int32(c.limit), refused, c.want, changed)
		}
		refused, _ := s.strike(m.control(wire.Control{Kind: wire.ControlCredit, Stream: c.stream, Detail: uint64(c.limit)}))
		m.dsn, m.psn = m.dsn+1, m.psn+1
		if got := m.conn.sendS[0].limit; refused != c.want || got != limit {
			t.Errorf("CREDIT: stream %d to %d: %q, want %q; limit %d", c.stream, int32(c.limit), refused, c.want, got)
		}
		s.goOn(1)
	}
	m.unharmed()
}

// An ERROR fails the operation that it names if that is outstanding, and
// nothing else.
func TestHostileError(t *testing.T) {
	const invalid = "refused: acknowledgment of the unsent"
	s, m := besieged(t, 25)
	m.bait()
	first := uint64(m.next - 4) // DSNs 0 and 1 are the first operation's, 2 and 3 the second's
	for _, c := range []struct {
		name   string
		stream uint16
		msn    uint32
		dsn    uint64
		want   string
	}{
		{"stream not used", 1, 0, first, invalid},
		{"stream not agreed", 4, 0, first, invalid},
		{"largest stream", 65535, 0, first, invalid},
		{"MSN never posted", 0, 2, first, invalid},
		{"MSN far away", 0, 1<<31 - 1, first, invalid},
		{"MSN of old", 0, ^uint32(0), first, ""},
		{"DSN never sent", 0, 0, first + 4, invalid},
		{"largest DSN", 0, 0, ^uint64(0), invalid},
		{"DSN of another operation", 0, 1, first + 1, invalid},
		{"DSN of another operation", 0, 0, first + 2, invalid},
	} {
		k := wire.Control{Kind: wire.ControlError, Reason: 1, Stream: c.stream, MSN: c.msn, Detail2: c.dsn}
		pkt := m.control(k)
		refused, _ := s.strike(pkt)
		if again, _ := s.strike(pkt); refused != c.want || again != "duplicate packets; duplicates" {
			t.Errorf("%s: %q, want %q; again %q", c.name, refused, c.want, again)
		}
		m.dsn, m.psn = m.dsn+1, m.psn+1
		for i := range m.conn.msgs.slots {
			if m.conn.msgs.slots[i].failed {
				t.Errorf("%s: an operation failed", c.name)
			}
		}
		s.goOn(1)
	}
	for range 2 { // the second changes nothing
		m.send(m.control(wire.Control{Kind: wire.ControlError, Reason: 99, MSN: 1, Detail2: first + 2}))
		m.dsn, m.psn = m.dsn+1, m.psn+1
	}
	m.rescue(StatusOK)
	if ev := m.event(EventSent); ev == nil || ev.Status != StatusRemoteAccess || ev.MSN != 1 {
		t.Errorf("the refused operation ended as %+v", ev)
	}
	m.write()
	s.end()
}

// Whatever a peer says of its planes, the connection works again as soon as it
// says something sensible, and other connections do not notice.
func TestHostilePlanes(t *testing.T) {
	s, m := besieged(t, 26)
	say := func(planes uint8) {
		m.send(m.ack(func(a *ackBody) { a.CumulativeDSN, a.reports, a.PlanesUp = 0, nil, planes }))
		s.check()
		s.goOn(3)
	}
	for _, planes := range []uint8{0, 0xfc, 0xff, 1, 0x80, 2, 0, 3, 0, 0xff} {
		say(planes)
	}
	for range 1000 {
		m.send(m.ack(func(a *ackBody) { a.CumulativeDSN, a.reports, a.PlanesUp = 0, nil, uint8(s.rng.Uint32()) }))
	}
	say(3)
	s.run("b's operation", 5e9, func() bool {
		m.answerProbes()
		m.answer()
		for _, ev := range m.events {
			if ev.Kind == EventSent && ev.Status == StatusOK {
				return true
			}
		}
		return false
	})
	m.write()
	s.end()
}

// answerProbes answers every probe of b's that was not answered yet.
func (m *mallory) answerProbes() {
	seen := m.seen
	m.seen = nil
	for i := range seen {
		p := &seen[i]
		if p.h.Type != wire.PROBE {
			m.seen = append(m.seen, *p)
			continue
		}
		var probe wire.Probe
		wire.ParseProbe(p.body, &probe)
		probe.Flags = 0
		m.send(m.probe(wire.PROBE_ACK, func(h *wire.Header, q *wire.Probe) {
			h.Plane, h.Path, h.Epoch, *q = p.h.Plane, p.h.Path, p.h.Epoch, probe
		}, 0))
	}
}

// More probes than are answered are dropped and counted, and a peer that asks
// for full acknowledgments all the time gets one at a time.
func TestHostileProbes(t *testing.T) {
	s, m := besieged(t, 27)
	probe := m.fresh()[wire.PROBE]
	for i := range 40 {
		want := ""
		if i >= maxProbeAcks {
			want = "dropped: replies to strangers"
		}
		if refused, _ := s.strike(probe); refused != want {
			t.Errorf("probe %d: %q, want %q", i, refused, want)
		}
	}
	m.seen = nil
	s.flush()
	if acks, answers := m.count(wire.ACK), m.count(wire.PROBE_ACK); acks > 1 || answers != maxProbeAcks {
		t.Errorf("40 probes were answered with %d ACKs and %d PROBE-ACKs", acks, answers)
	}
	m.unharmed()
}

func (m *mallory) count(typ wire.Type) (n int) {
	for i := range m.seen {
		if m.seen[i].h.Type == typ {
			n++
		}
	}
	return n
}
