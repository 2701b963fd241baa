package wire

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// decoded is a packet as values: one body is set, by header's type.
type decoded struct {
	header  Header
	data    Data
	payload []byte
	request Request
	control Control
	ack     Ack
	reports []PathReport
	credits []Credit
	setup   Setup
	confirm Confirm
	refuse  Refuse
	close   Close
	reset   Reset
	probe   Probe
	padding int
}

// decode reads a packet the way a receiver does, tag check aside.
func decode(pkt []byte) (*decoded, Reason) {
	p := &decoded{}
	if r := ParseHeader(pkt, &p.header); r != 0 {
		return nil, r
	}
	if r := VerifyCRC(pkt, &p.header); r != 0 {
		return nil, r
	}
	return p, p.decodeBody(p.header.Body(pkt))
}

func (p *decoded) decodeBody(body []byte) (r Reason) {
	switch p.header.Type {
	case DATA:
		p.payload, r = ParseData(body, &p.data)
	case REQUEST:
		r = ParseRequest(body, &p.request)
	case CONTROL:
		r = ParseControl(body, &p.control)
	case ACK:
		if r = ParseAck(body, &p.ack); r != 0 {
			return r
		}
		p.reports = make([]PathReport, p.ack.ReportCount)
		for i := range p.reports {
			p.ack.Report(i, &p.reports[i])
		}
		for i := range int(p.ack.CreditCount) {
			p.credits = append(p.credits, p.ack.Credit(i))
		}
	case CONNECT, ACCEPT:
		r = ParseSetup(body, &p.setup)
	case CONFIRM:
		r = ParseConfirm(body, &p.confirm)
	case REFUSE:
		r = ParseRefuse(body, &p.refuse)
	case CLOSE:
		r = ParseClose(body, &p.close)
	case RESET:
		r = ParseReset(body, &p.reset)
	case PROBE, PROBE_ACK:
		r = ParseProbe(body, &p.probe)
		p.padding = len(body) - ProbeSize
	}
	return r
}

// encode writes a packet the way a sender does, into memory that is not zero.
func (p *decoded) encode() []byte {
	buf := bytes.Repeat([]byte{0xa5}, 1<<17)
	n := HeaderSize + p.encodeBody(buf[HeaderSize:])
	if p.header.Flags&FlagCRC != 0 {
		n += TrailerSize
	}
	pkt := buf[:n:n]
	PutHeader(pkt, &p.header)
	Seal(pkt)
	return pkt
}

func (p *decoded) encodeBody(body []byte) int {
	switch p.header.Type {
	case DATA:
		PutData(body, &p.data)
		return DataSize + copy(body[DataSize:], p.payload)
	case REQUEST:
		PutRequest(body, &p.request)
		return RequestSize
	case CONTROL:
		PutControl(body, &p.control)
		return ControlSize
	case ACK:
		a := p.ack
		a.ReportCount, a.CreditCount = uint8(len(p.reports)), uint8(len(p.credits))
		PutAck(body, &a)
		for i := range p.reports {
			PutReport(body, i, &p.reports[i])
		}
		for i, k := range p.credits {
			PutCredit(body, len(p.reports), i, k)
		}
		return AckSize + len(p.reports)*ReportSize + len(p.credits)*CreditSize
	case CONNECT, ACCEPT:
		return PutSetup(body, &p.setup)
	case CONFIRM:
		PutConfirm(body, &p.confirm)
		return ConfirmSize
	case REFUSE:
		return PutRefuse(body, &p.refuse)
	case CLOSE:
		PutClose(body, &p.close)
		return CloseSize
	case RESET:
		PutReset(body, &p.reset)
		return ResetSize
	case PROBE, PROBE_ACK:
		PutProbe(body, &p.probe)
		clear(body[ProbeSize : ProbeSize+p.padding])
		return ProbeSize + p.padding
	}
	return 0
}

// damage is one change to a good body and the reason it must be refused for.
type damage struct {
	name string
	at   int // in the body
	put  []byte
	want Reason
}

// refuseEach applies every damage to the golden packet of that name and seals
// it again, so that only the damaged field can be the reason.
func refuseEach(t *testing.T, golden string, damages []damage) {
	t.Helper()
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			pkt := goldenPacket(t, golden)
			copy(pkt[HeaderSize+d.at:], d.put)
			Seal(pkt)
			if _, r := decode(pkt); r != d.want {
				t.Errorf("refused for %q, want %q", r, d.want)
			}
		})
	}
}

func goldenPacket(t testing.TB, name string) []byte {
	t.Helper()
	for _, v := range vectors() {
		if v.name == name {
			return v.packet()
		}
	}
	t.Fatalf("no golden packet %q", name)
	return nil
}

// resize gives a packet a body of n bytes, zeros behind what it had.
func resize(pkt []byte, n int) []byte {
	flags := Flags(binary.BigEndian.Uint16(pkt[2:]))
	body := pkt[HeaderSize:]
	trailer := 0
	if flags&FlagCRC != 0 {
		trailer = TrailerSize
		body = body[:len(body)-TrailerSize]
	}
	out := make([]byte, HeaderSize+n+trailer)
	copy(out, pkt[:HeaderSize])
	copy(out[HeaderSize:HeaderSize+n], body)
	Seal(out)
	return out
}

func u16(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }
func u32(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }
func u64(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }
