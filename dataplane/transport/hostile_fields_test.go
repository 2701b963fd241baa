package transport

import (
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

// wrong is one packet that b must refuse, though its checksum is right.
type wrong struct {
	name   string
	want   string // counters that grow
	packet func(m *mallory) []byte
}

// refuseAll strikes with each packet: it must be counted as said and change
// nothing. The transfer goes on in between.
func refuseAll(t *testing.T, seed uint64, cases []wrong) {
	t.Helper()
	s, m := besieged(t, seed)
	for _, c := range cases {
		refused, changed := s.strike(c.packet(m))
		if refused != c.want {
			t.Errorf("%s: %q, want %q", c.name, refused, c.want)
		}
		if changed != "" {
			t.Errorf("%s changed the engine: %s", c.name, changed)
		}
		s.goOn(1)
	}
	m.unharmed()
}

// badHeader returns a packet with one thing wrong in its header.
func badHeader(edit func(h *wire.Header)) func(*mallory) []byte {
	return func(m *mallory) []byte {
		return m.data(func(h *wire.Header, _ *wire.Data) { edit(h) }, []byte("payload"))
	}
}

// badByte returns a packet of a type with some bytes put somewhere in it.
func badByte(typ wire.Type, at int, put ...byte) func(*mallory) []byte {
	return func(m *mallory) []byte {
		pkt := m.fresh()[typ]
		copy(pkt[at:], put)
		reseal(pkt)
		return pkt
	}
}

const bodyAt = wire.HeaderSize

func TestHostileHeaders(t *testing.T) {
	cases := []wrong{
		{"version 0", "refused: unknown version", badByte(wire.DATA, 0, 0)},
		{"version 2", "refused: unknown version", badByte(wire.DATA, 0, 2)},
		{"type 0", "refused: unknown packet type", badByte(wire.DATA, 1, 0)},
		{"type 13", "refused: unknown packet type", badByte(wire.DATA, 1, 13)},
		{"type 255", "refused: unknown packet type", badByte(wire.DATA, 1, 255)},
		{"encrypted", "refused: flags not allowed", badHeader(func(h *wire.Header) { h.Flags |= wire.FlagEncrypted })},
		{"a flag that nobody has", "refused: flags not allowed", badHeader(func(h *wire.Header) { h.Flags |= 1 << 15 })},
		{"a flag of other types", "refused: flags not allowed", badHeader(func(h *wire.Header) { h.Flags |= wire.FlagReply })},
		{"VOID with a payload", "refused: lengths contradict each other", badHeader(func(h *wire.Header) { h.Flags |= wire.FlagVoid })},
		{"reserved", "refused: reserved field not zero", badByte(wire.DATA, 22, 1)},
		{"no checksum", "refused: checksum missing", badHeader(func(h *wire.Header) { h.Flags &^= wire.FlagCRC })},
		{"plane 8", "refused: field out of range", badHeader(func(h *wire.Header) { h.Plane = 8 })},
		{"a plane that was not agreed", "refused: field out of range", badHeader(func(h *wire.Header) { h.Plane = 2 })},
		{"path 64", "refused: field out of range", badHeader(func(h *wire.Header) { h.Path = 64 })},
		{"a path that was not agreed", "refused: field out of range", badHeader(func(h *wire.Header) { h.Path = 4 })},
		{"class 3", "refused: field out of range", badHeader(func(h *wire.Header) { h.Class = 3 })},
		{"tag", "refused: unknown connection or tag", badHeader(func(h *wire.Header) { h.Tag ^= 1 << 31 })},
		{"generation", "refused: unknown connection or tag", badHeader(func(h *wire.Header) { h.DestConn += 1 << 20 })},
		{"index", "refused: unknown connection or tag", badHeader(func(h *wire.Header) { h.DestConn += 7 })},
		{"no connection", "refused: unknown connection or tag", badHeader(func(h *wire.Header) { h.DestConn = 0 })},
		{"largest number", "refused: unknown connection or tag", badHeader(func(h *wire.Header) { h.DestConn = ^wire.ConnID(0) })},
		{"the connection of others", "refused: unknown connection or tag", func(m *mallory) []byte {
			return m.data(func(h *wire.Header, d *wire.Data) { h.DestConn, d.Key = m.s.ends[1].conn.id, keyB }, []byte("x"))
		}},
	}
	for typ := wire.DATA; typ <= wire.PROBE_ACK; typ++ {
		want := "refused: checksum missing"
		cases = append(cases, wrong{typ.String() + " without checksum", want, func(m *mallory) []byte {
			pkt := m.fresh()[typ]
			pkt[3] &^= byte(wire.FlagCRC)
			return pkt[:len(pkt)-wire.TrailerSize]
		}})
	}
	refuseAll(t, 11, cases)
}

// badData returns a DATA packet with one thing wrong.
func badData(edit func(h *wire.Header, d *wire.Data)) func(*mallory) []byte {
	return func(m *mallory) []byte { return m.data(edit, []byte("payload")) }
}

func TestHostileData(t *testing.T) {
	refuseAll(t, 12, []wrong{
		{"DSN at the window's end", "refused: outside window", badData(func(_ *wire.Header, d *wire.Data) { d.DSN += 256 })},
		{"DSN far away", "refused: outside window", badData(func(_ *wire.Header, d *wire.Data) { d.DSN = 1 << 32 })},
		{"DSN half way round", "refused: outside window", badData(func(_ *wire.Header, d *wire.Data) { d.DSN = 1 << 63 })},
		{"DSN whose word wraps", "refused: outside window", badData(func(_ *wire.Header, d *wire.Data) { d.DSN += 1 << 62 })},
		{"largest DSN", "refused: outside window", badData(func(_ *wire.Header, d *wire.Data) { d.DSN = ^wire.DSN(0) })},
		{"MSN without credit", "refused: outside window", func(m *mallory) []byte {
			return m.data(func(_ *wire.Header, d *wire.Data) { d.MSN = m.conn.recvS[0].limit }, []byte("payload"))
		}},
		{"MSN far away", "refused: outside window", badData(func(_ *wire.Header, d *wire.Data) { d.MSN += 1<<31 - 1 })},
		{"stream", "refused: stream number", badData(func(_ *wire.Header, d *wire.Data) { d.Stream = 4 })},
		{"largest stream", "refused: stream number", badData(func(_ *wire.Header, d *wire.Data) { d.Stream = 65535 })},
		{"operation 0", "refused: field out of range", badData(func(_ *wire.Header, d *wire.Data) { d.Op = 0 })},
		{"operation 5", "refused: field out of range", badData(func(_ *wire.Header, d *wire.Data) { d.Op = 5 })},
		{"SEND", "refused: unsupported operation", badData(func(_ *wire.Header, d *wire.Data) { d.Op = wire.OpSend })},
		{"an answer nobody asked for", "refused: unsupported operation", badData(func(_ *wire.Header, d *wire.Data) { d.Op = wire.OpReadResponse })},
		{"no packets", "refused: field out of range", badData(func(_ *wire.Header, d *wire.Data) { d.PacketCount = 0 })},
		{"index beyond", "refused: field out of range", badData(func(_ *wire.Header, d *wire.Data) { d.PacketIndex = 1 })},
		{"largest index", "refused: field out of range", badData(func(_ *wire.Header, d *wire.Data) { d.PacketIndex = ^uint32(0) })},
		{"offset overflows", "refused: offset and length overflow", badData(func(_ *wire.Header, d *wire.Data) { d.Offset = ^uint64(0) })},
		{"offset overflows by one", "refused: offset and length overflow", badData(func(_ *wire.Header, d *wire.Data) { d.Offset = ^uint64(0) - 6 })},
		{"reserved byte", "refused: reserved field not zero", badByte(wire.DATA, bodyAt+11, 1)},
		{"reserved word", "refused: reserved field not zero", badByte(wire.DATA, bodyAt+39, 1)},
		{"another epoch, outside the window", "refused: outside window", badData(func(h *wire.Header, d *wire.Data) { h.Epoch++; d.DSN += 256 })},
		{"another epoch, on a path of old", "refused: stream number", badData(func(h *wire.Header, d *wire.Data) { h.Epoch++; d.Stream = 9 })},
		{"backlog of a refused packet", "refused: stream number", badData(func(_ *wire.Header, d *wire.Data) { d.Backlog = 1 << 31; d.Stream = 9 })},
		{"READ", "refused: unsupported operation", func(m *mallory) []byte { return m.request() }},
		{"READ of another epoch", "refused: unsupported operation", badByte(wire.REQUEST, 14, 9)},
	})
}

func TestHostileControl(t *testing.T) {
	kind := func(k wire.Control) func(*mallory) []byte { return func(m *mallory) []byte { return m.control(k) } }
	refuseAll(t, 13, []wrong{
		{"kind 0", "refused: field out of range", kind(wire.Control{})},
		{"kind 6", "refused: field out of range", kind(wire.Control{Kind: 6})},
		{"ERROR without reason", "refused: field out of range", kind(wire.Control{Kind: wire.ControlError})},
		{"CREDIT above 32 bits", "refused: field out of range", kind(wire.Control{Kind: wire.ControlCredit, Detail: 1 << 32})},
		{"PLANE-DOWN of plane 8", "refused: field out of range", kind(wire.Control{Kind: wire.ControlPlaneDown, Detail: 8})},
		{"PLANE-UP of the largest plane", "refused: field out of range", kind(wire.Control{Kind: wire.ControlPlaneUp, Detail: ^uint64(0)})},
		{"SHARE-RESUME above 32 bits", "refused: field out of range", kind(wire.Control{Kind: wire.ControlShareResume, Detail2: 1 << 32})},
		{"reserved", "refused: reserved field not zero", badByte(wire.CONTROL, bodyAt+9, 1)},
		{"outside the window", "refused: outside window", badByte(wire.CONTROL, bodyAt, 0xff)},
		{"outside the window, another epoch", "refused: outside window", func(m *mallory) []byte {
			pkt := badByte(wire.CONTROL, bodyAt, 0xff)(m)
			pkt[14] = 5
			reseal(pkt)
			return pkt
		}},
	})
}

func TestHostileAck(t *testing.T) {
	ack := func(edit func(m *mallory, a *ackBody)) func(*mallory) []byte {
		return func(m *mallory) []byte { return m.ack(func(a *ackBody) { edit(m, a) }) }
	}
	report := func(edit func(r *wire.PathReport)) func(*mallory) []byte {
		return ack(func(_ *mallory, a *ackBody) {
			a.CumulativeDSN = 0
			edit(&a.reports[0])
			a.reports = a.reports[:1]
		})
	}
	const invalid = "refused: acknowledgment of the unsent"
	refuseAll(t, 14, []wrong{
		{"one DSN too many", invalid, ack(func(_ *mallory, a *ackBody) { a.CumulativeDSN++ })},
		{"DSN far away", invalid, ack(func(_ *mallory, a *ackBody) { a.CumulativeDSN = 1 << 63 })},
		{"largest DSN", invalid, ack(func(_ *mallory, a *ackBody) { a.CumulativeDSN = ^wire.DSN(0) })},
		{"largest DSN and credits and planes", invalid, ack(func(_ *mallory, a *ackBody) {
			a.CumulativeDSN, a.PlanesUp = ^wire.DSN(0), 0
			a.credits = []wire.Credit{{MSNLimit: 20}}
		})},
		{"one PSN too many", invalid, report(func(r *wire.PathReport) { r.HighestPSN++ })},
		{"PSN far away", invalid, report(func(r *wire.PathReport) { r.HighestPSN += 1<<31 - 1 })},
		{"a share, and a PSN too many", invalid, report(func(r *wire.PathReport) { r.HighestPSN++; r.Share = 1 })},
		{"a plane that was not agreed", invalid, report(func(r *wire.PathReport) { r.Plane = 7 })},
		{"a path that was not agreed", invalid, report(func(r *wire.PathReport) { r.Path = 63 })},
		{"another epoch", "", report(func(r *wire.PathReport) { r.Epoch = 1 })},
		{"a path on which nothing was sent", invalid, ack(func(m *mallory, a *ackBody) {
			a.CumulativeDSN = 0
			a.reports = []wire.PathReport{{Path: m.unusedPath(), HighestPSN: 0, PacketCount: 1, Bits: [4]uint64{1}}}
		})},
		{"plane 8", "refused: field out of range", badByte(wire.ACK, bodyAt+wire.AckSize, 8)},
		{"path 64", "refused: field out of range", badByte(wire.ACK, bodyAt+wire.AckSize+1, 64)},
		{"flags", "refused: flags not allowed", badByte(wire.ACK, bodyAt+13, 2)},
		{"reserved", "refused: reserved field not zero", badByte(wire.ACK, bodyAt+14, 1)},
		{"reserved in a report", "refused: reserved field not zero", badByte(wire.ACK, bodyAt+wire.AckSize+3, 1)},
		{"more reports than there are", "refused: lengths contradict each other", badByte(wire.ACK, bodyAt+11, 255)},
		{"more credits than there are", "refused: lengths contradict each other", badByte(wire.ACK, bodyAt+12, 255)},
		{"credits for streams that were not used", invalid + " +254", ack(func(_ *mallory, a *ackBody) {
			a.CumulativeDSN, a.reports = 0, nil
			for i := range 255 {
				a.credits = append(a.credits, wire.Credit{Stream: uint16(257 * i), MSNLimit: 16})
			}
		})},
	})
}

// unusedPath is a path of plane 0 on which b has sent nothing.
func (m *mallory) unusedPath() uint8 {
	for path := range m.heard[0] {
		if !m.heard[0][path].used {
			return uint8(path)
		}
	}
	m.t.Fatal("b has used every path")
	return 0
}

func TestHostileSetupAndClose(t *testing.T) {
	setup := func(typ wire.Type, edit func(m *mallory, s *wire.Setup)) func(*mallory) []byte {
		return func(m *mallory) []byte {
			return m.setup(typ, func(s *wire.Setup) { s.Nonce = 1 << 42; edit(m, s) })
		}
	}
	const state, field = "refused: wrong state", "refused: field out of range"
	refuseAll(t, 15, []wrong{
		{"ACCEPT of another dial", state, setup(wire.ACCEPT, func(_ *mallory, s *wire.Setup) { s.PeerNonce++ })},
		{"ACCEPT by another", state, setup(wire.ACCEPT, func(m *mallory, s *wire.Setup) { s.PeerNonce = m.peerNonce })},
		{"REFUSE of what is established", state, func(m *mallory) []byte {
			return m.refuse(wire.Refuse{PeerNonce: m.peerNonce, Reason: wire.RefuseBusy})
		}},
		{"REFUSE with an empty cookie", state, func(m *mallory) []byte {
			return m.refuse(wire.Refuse{PeerNonce: m.peerNonce, Reason: wire.RefuseRetryCookie})
		}},
		{"REFUSE without reason", field, badByte(wire.REFUSE, bodyAt+8, 0, 0)},
		{"REFUSE with too long a text", field, badByte(wire.REFUSE, bodyAt+10, 1, 1)},
		{"CONFIRM with a wrong nonce", state, func(m *mallory) []byte { return m.confirm(func(k *wire.Confirm) { k.PeerNonce++ }) }},
		{"CONFIRM by another", state, func(m *mallory) []byte { return m.confirm(func(k *wire.Confirm) { k.Nonce++ }) }},
		{"CLOSE with a wrong nonce", state, func(m *mallory) []byte { return m.close(0, wire.Close{Nonce: m.peerNonce ^ 1}) }},
		{"CLOSE+REPLY with a wrong nonce", state, func(m *mallory) []byte { return m.close(wire.FlagReply, wire.Close{Nonce: m.peerNonce ^ 1}) }},
		{"answer to a CLOSE that was not sent", state, func(m *mallory) []byte { return m.close(wire.FlagReply, wire.Close{Nonce: m.peerNonce}) }},
		{"RESET with a wrong nonce", state, func(m *mallory) []byte { return m.reset(wire.Reset{Nonce: m.peerNonce ^ 1<<63}) }},
		{"CLOSE, reserved", "refused: reserved field not zero", badByte(wire.CLOSE, bodyAt+15, 1)},
		{"RESET, reserved", "refused: reserved field not zero", badByte(wire.RESET, bodyAt+7, 1)},
		{"PROBE, unknown flag", "refused: flags not allowed", badByte(wire.PROBE, bodyAt+12, 1)},
		{"PROBE, padding that is not zero", "refused: reserved field not zero", badByte(wire.PROBE, bodyAt+wire.ProbeSize+7, 1)},
		{"answer to no probe", "refused: probe answer", func(m *mallory) []byte { return m.probe(wire.PROBE_ACK, nil, 0) }},
		{"answer to a probe of another path", "refused: probe answer", badByte(wire.PROBE_ACK, 13, 1)},
		{"answer to a probe of a path that was not agreed", "refused: probe answer", func(m *mallory) []byte {
			return m.probe(wire.PROBE_ACK, func(h *wire.Header, p *wire.Probe) { h.Path = 63; p.Value = m.conn.probeValue(0, 63) }, 0)
		}},
		{"answer to a probe of a plane that was not agreed", "refused: probe answer", func(m *mallory) []byte {
			return m.probe(wire.PROBE_ACK, func(h *wire.Header, p *wire.Probe) { h.Plane = 7; p.Value = m.conn.probeValue(7, 0) }, 0)
		}},
		{"unknown, with a guess at the transfer's value", "refused: unknown connection or tag", func(m *mallory) []byte {
			return m.probe(wire.PROBE_ACK, func(h *wire.Header, p *wire.Probe) {
				h.Tag++
				p.Value, p.Flags = uint64(m.s.ends[1].conn.id)<<32|5, wire.ProbeUnknown
			}, 0)
		}},
		{"CONNECT without planes", field, badByte(wire.CONNECT, bodyAt+53, 0)},
		{"CONNECT with 9 planes", field, badByte(wire.CONNECT, bodyAt+53, 9)},
		{"CONNECT without paths", field, badByte(wire.CONNECT, bodyAt+52, 0)},
		{"CONNECT with 65 paths", field, badByte(wire.CONNECT, bodyAt+52, 65)},
		{"CONNECT without packets in flight", field, badByte(wire.CONNECT, bodyAt+38, 0, 0)},
		{"CONNECT with too long a service", field, badByte(wire.CONNECT, bodyAt+54, 65)},
		{"CONNECT with too long a cookie", field, badByte(wire.CONNECT, bodyAt+55, 65)},
		{"CONNECT with too long private data", field, badByte(wire.CONNECT, bodyAt+56, 1, 1)},
		{"CONNECT with a longer service than there is", "refused: lengths contradict each other", badByte(wire.CONNECT, bodyAt+54, 64)},
		{"CONNECT to be answered to a group", field, setup(wire.CONNECT, func(_ *mallory, s *wire.Setup) { s.Planes[1].Addr.IP[12] = 224 })},
		{"CONNECT to be answered to port 0", field, setup(wire.CONNECT, func(_ *mallory, s *wire.Setup) { s.Planes[0].Addr.Port = 0 })},
		{"CONNECT, reserved", "refused: reserved field not zero", badByte(wire.CONNECT, bodyAt+63, 1)},
	})
}
