package msg

import (
	"fmt"
	"net/netip"
)

// Incoming says that a peer dials a service of this session. The application
// answers with Accept or Refuse.
type Incoming struct {
	Conn    uint32
	Peer    netip.AddrPort
	Service string
	Private []byte
}

// Type returns TypeIncoming.
func (*Incoming) Type() Type { return TypeIncoming }

func (m *Incoming) check() error {
	if err := CheckService(m.Service); err != nil {
		return err
	}
	if err := checkPeerAddr(m.Peer); err != nil {
		return err
	}
	return checkPrivate(m.Private)
}

func (m *Incoming) encode(e *encoder) {
	e.u32(m.Conn)
	e.u16(uint16(len(m.Service)))
	e.u16(uint16(len(m.Private)))
	encodePeer(e, m.Peer)
	e.text(m.Service)
	e.bytes(m.Private)
}

func (m *Incoming) decode(d *decoder) {
	m.Conn = d.u32()
	service, private := d.u16(), d.u16()
	m.Peer = decodePeer(d)
	m.Service = d.text(service)
	m.Private = d.bytes(private)
}

// Established says that a connection is up: a dialled one with the token of its
// Dial, an accepted one with token 0.
type Established struct {
	Token   uint64
	Conn    uint32
	Peer    netip.AddrPort
	Private []byte // of the accepting application; empty for an accepted connection
}

// Type returns TypeEstablished.
func (*Established) Type() Type { return TypeEstablished }

func (m *Established) check() error {
	if err := checkPeerAddr(m.Peer); err != nil {
		return err
	}
	return checkPrivate(m.Private)
}

func (m *Established) encode(e *encoder) {
	e.u64(m.Token)
	e.u32(m.Conn)
	e.u16(uint16(len(m.Private)))
	e.u16(0)
	encodePeer(e, m.Peer)
	e.bytes(m.Private)
}

func (m *Established) decode(d *decoder) {
	m.Token, m.Conn = d.u64(), d.u32()
	n := d.u16()
	d.zero16()
	m.Peer = decodePeer(d)
	m.Private = d.bytes(n)
}

// Refused says that a Dial failed.
type Refused struct {
	Token  uint64
	Reason uint16 // as on the wire, docs/PROTOCOL.md
	Text   string
}

// Type returns TypeRefused.
func (*Refused) Type() Type     { return TypeRefused }
func (m *Refused) check() error { return checkText(m.Text) }

func (m *Refused) encode(e *encoder) {
	e.u64(m.Token)
	e.u16(m.Reason)
	e.u16(uint16(len(m.Text)))
	e.u32(0)
	e.text(m.Text)
}

func (m *Refused) decode(d *decoder) {
	m.Token, m.Reason = d.u64(), d.u16()
	n := d.u16()
	d.zero32()
	m.Text = d.text(n)
}

// Closed says that a connection ended. Its number may be given out again.
type Closed struct {
	Conn   uint32
	Reason uint16 // as on the wire, docs/PROTOCOL.md
	Text   string
}

// Type returns TypeClosed.
func (*Closed) Type() Type     { return TypeClosed }
func (m *Closed) check() error { return checkText(m.Text) }

func (m *Closed) encode(e *encoder) {
	e.u32(m.Conn)
	e.u16(m.Reason)
	e.u16(uint16(len(m.Text)))
	e.text(m.Text)
}

func (m *Closed) decode(d *decoder) {
	m.Conn, m.Reason = d.u32(), d.u16()
	m.Text = d.text(d.u16())
}

func checkPeerAddr(p netip.AddrPort) error {
	if p.Addr().Zone() != "" {
		return fmt.Errorf("peer address %v: zones are not supported", p)
	}
	return nil
}

func encodePeer(e *encoder, p netip.AddrPort) {
	e.addr(p.Addr())
	e.u16(p.Port())
	e.u16(0)
	e.u32(0)
}

func decodePeer(d *decoder) netip.AddrPort {
	a := d.addr()
	p := netip.AddrPortFrom(a, d.u16())
	d.zero16()
	d.zero32()
	return p
}
