package transport

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// besieged is a siege in which the attacker has done an honest WRITE, so that
// it has an old DSN to repeat, and b waits for the acknowledgment of two
// packets to it.
func besieged(t testing.TB, seed uint64) (*siege, *mallory) {
	s := newSiege(t, seed)
	s.goOn(4)
	m := s.mallory
	m.write()
	m.bait()
	return s, m
}

// write is a WRITE as it should be: it must work whatever happened before.
func (m *mallory) write() {
	m.t.Helper()
	clear(m.mem)
	m.send(m.data(func(h *wire.Header, d *wire.Data) {
		h.Flags |= wire.FlagImm | wire.FlagAckNow
		d.Immediate, d.Offset = 5, malloryBytes-4
	}, []byte("last")))
	m.dsn, m.msn, m.psn = m.dsn+1, m.msn+1, m.psn+1
	m.s.flush()
	if ev := m.event(EventReceived); string(m.mem[malloryBytes-4:]) != "last" || ev == nil || ev.Imm != 5 || ev.Bytes != 4 {
		m.t.Fatalf("a right WRITE of the attacker's did not work: %q, %+v", m.mem[malloryBytes-4:], ev)
	}
	var a wire.Ack
	if p := m.last(wire.ACK); p == nil || wire.ParseAck(p.body, &a) != 0 || a.CumulativeDSN != m.dsn {
		m.t.Fatalf("it was acknowledged up to DSN %d, %d is next", a.CumulativeDSN, m.dsn)
	}
}

// bait has b write two packets to the attacker.
func (m *mallory) bait() {
	m.t.Helper()
	w := Work{Owner: malloryOwner, Length: malloryBytes, LocalKey: malloryKey, RemoteKey: 1, UserData: 77}
	if s := m.conn.Post(m.s.now, &w); s != StatusOK {
		m.t.Fatal(s)
	}
	before := m.next
	m.s.flush()
	if m.next-before != 2 {
		m.t.Fatalf("b sent %d packets to the attacker, want 2", m.next-before)
	}
}

// rescue has the attacker acknowledge b's packets: the operation ends well,
// unless it was ended otherwise.
func (m *mallory) rescue(want Status) {
	m.t.Helper()
	m.answer()
	if ev := m.event(EventSent); ev == nil || ev.Status != want {
		m.t.Fatalf("b's operation ended as %+v, want %v", ev, want)
	}
}

// unharmed ends a siege that refused everything: b's operation ends well, the
// attacker's connection still works, and so does the rest.
func (m *mallory) unharmed() {
	m.t.Helper()
	m.rescue(StatusOK)
	m.write()
	m.s.end()
}

// Every packet that is shorter or longer than its header says is refused.
func TestHostileSizes(t *testing.T) {
	s, m := besieged(t, 1)
	for typ, pkt := range m.samples() {
		var short, long [][]byte
		for n := range pkt {
			short = append(short, pkt[:n])
		}
		for _, extra := range []int{1, 4, 1 << 16} {
			long = append(long, append(bytes.Clone(pkt), make([]byte, extra)...))
		}
		s.volley(typ.String()+" cut", "refused: packet truncated", short)
		s.volley(typ.String()+" lengthened", "refused: lengths contradict each other", long)
	}
	m.unharmed()
}

// Every packet whose header says the length it has, and whose checksum is
// right, is refused when it is not the length that its contents say.
func TestHostileLengths(t *testing.T) {
	s, m := besieged(t, 2)
	for typ, pkt := range m.samples() {
		var wrong [][]byte
		for n := wire.HeaderSize + wire.TrailerSize; n < len(pkt); n++ {
			if body := n - wire.HeaderSize - wire.TrailerSize; typ == wire.DATA && body >= wire.DataSize || typ == wire.PROBE && body >= wire.ProbeSize {
				continue // with less payload or padding it is right
			}
			cut := bytes.Clone(pkt[:n])
			wire.Seal(cut)
			wrong = append(wrong, cut)
		}
		if typ != wire.DATA && typ != wire.PROBE {
			for _, n := range []int{len(pkt) + 1, len(pkt) + 8, 1<<16 - 1} {
				long := append(bytes.Clone(pkt), make([]byte, n-len(pkt))...)
				wire.Seal(long)
				wrong = append(wrong, long)
			}
		}
		s.volley(typ.String(), "refused: lengths contradict each other", wrong)
	}
	m.unharmed()
}

// Every single bit that changes on the way refuses the packet.
func TestHostileBits(t *testing.T) {
	s, m := besieged(t, 3)
	for typ, pkt := range m.samples() {
		s.volley(typ.String(), "", flipped(pkt, false))
	}
	m.unharmed()
}

// flipped returns a packet with each of its bits changed, and its checksum made
// right again if asked.
func flipped(pkt []byte, seal bool) (all [][]byte) {
	for bit := range len(pkt) * 8 {
		p := bytes.Clone(pkt)
		p[bit/8] ^= 1 << (bit % 8)
		if seal {
			reseal(p)
		}
		all = append(all, p)
	}
	return all
}

// reseal makes a packet's checksum right and leaves its length as it is.
func reseal(pkt []byte) {
	if len(pkt) < wire.HeaderSize+wire.TrailerSize {
		return
	}
	n := len(pkt) - wire.TrailerSize
	binary.BigEndian.PutUint32(pkt[n:], crc32.Checksum(pkt[:n], crc32.MakeTable(crc32.Castagnoli)))
}

// A peer with a bug changes any one bit of any packet and seals it. That may
// cost it its connection, but nobody else anything.
func TestHostileBitsSealed(t *testing.T) {
	s, m := besieged(t, 4)
	for typ := wire.DATA; typ <= wire.PROBE_ACK; typ++ {
		for _, fresh := range []bool{false, true} {
			pkt := m.samples()[typ]
			if fresh {
				pkt = m.fresh()[typ]
			}
			for i, p := range flipped(pkt, true) {
				s.a.engine.HandlePacket(s.now, 0, malloryAddr(0), false, p)
				m.send(p)
				s.check()
				if i%64 == 63 {
					s.goOn(1)
				}
			}
			s.goOn(2)
			if m.conn.state != stateEstablished || fresh {
				s.expel()
				m.dial()
				m.write()
				m.bait()
			}
		}
	}
	s.end()
}
