package msg

import (
	"fmt"
	"net/netip"
)

// Hello opens the session; it is the first message and comes once.
type Hello struct {
	SQEntries, CQEntries uint32 // powers of two
}

// Type returns TypeHello.
func (*Hello) Type() Type   { return TypeHello }
func (*Hello) check() error { return nil } // the server's queue layout says which counts it takes

func (m *Hello) encode(e *encoder) {
	e.u32(m.SQEntries)
	e.u32(m.CQEntries)
	e.u32(0)
	e.u32(0)
}

func (m *Hello) decode(d *decoder) {
	m.SQEntries, m.CQEntries = d.u32(), d.u32()
	d.zero32()
	d.zero32()
}

// AllocRegion asks for memory; answered by Region.
type AllocRegion struct {
	Size   uint64 // bytes, 1 to MaxRegionBytes
	Access uint32 // bit 0 remote read, bit 1 remote write, bit 2 remote atomic
}

// MaxRegionBytes is the largest size a region can be asked for; quotas are far
// below.
const MaxRegionBytes = 1 << 46

const accessKnown = 7

// Type returns TypeAllocRegion.
func (*AllocRegion) Type() Type { return TypeAllocRegion }

func (m *AllocRegion) check() error {
	if m.Size == 0 || m.Size > MaxRegionBytes {
		return fmt.Errorf("region size %d, want 1 to %d bytes", m.Size, uint64(MaxRegionBytes))
	}
	if m.Access&^accessKnown != 0 {
		return fmt.Errorf("access %#x has unknown bits", m.Access)
	}
	return nil
}

func (m *AllocRegion) encode(e *encoder) {
	e.u64(m.Size)
	e.u32(m.Access)
	e.u32(0)
}

func (m *AllocRegion) decode(d *decoder) {
	m.Size, m.Access = d.u64(), d.u32()
	d.zero32()
}

// FreeRegion gives a region back; answered by OK.
type FreeRegion struct{ Region uint32 }

// Type returns TypeFreeRegion.
func (*FreeRegion) Type() Type          { return TypeFreeRegion }
func (*FreeRegion) check() error        { return nil }
func (m *FreeRegion) encode(e *encoder) { e.u32(m.Region); e.u32(0) }
func (m *FreeRegion) decode(d *decoder) { m.Region = d.u32(); d.zero32() }

// GetSlabs asks for the descriptors of a region from slab First on, when it has
// more than came with its first Region message; answered by Region.
type GetSlabs struct{ Region, First uint32 }

// Type returns TypeGetSlabs.
func (*GetSlabs) Type() Type          { return TypeGetSlabs }
func (*GetSlabs) check() error        { return nil }
func (m *GetSlabs) encode(e *encoder) { e.u32(m.Region); e.u32(m.First) }
func (m *GetSlabs) decode(d *decoder) { m.Region, m.First = d.u32(), d.u32() }

// Listen offers a service; answered by OK, then Incoming events follow.
type Listen struct{ Service string }

// Type returns TypeListen.
func (*Listen) Type() Type          { return TypeListen }
func (m *Listen) check() error      { return CheckService(m.Service) }
func (m *Listen) encode(e *encoder) { encodeService(e, m.Service) }
func (m *Listen) decode(d *decoder) { m.Service = decodeService(d) }

// Unlisten withdraws a service; answered by OK.
type Unlisten struct{ Service string }

// Type returns TypeUnlisten.
func (*Unlisten) Type() Type          { return TypeUnlisten }
func (m *Unlisten) check() error      { return CheckService(m.Service) }
func (m *Unlisten) encode(e *encoder) { encodeService(e, m.Service) }
func (m *Unlisten) decode(d *decoder) { m.Service = decodeService(d) }

func encodeService(e *encoder, s string) {
	e.u16(uint16(len(s)))
	e.u16(0)
	e.u32(0)
	e.text(s)
}

func decodeService(d *decoder) string {
	n := d.u16()
	d.zero16()
	d.zero32()
	return d.text(n)
}

// Dial asks for a connection; answered by OK at once and later by an
// Established or Refused event with the same token.
type Dial struct {
	Token   uint64       // not 0; chosen by the application
	Peers   []netip.Addr // 1 to MaxPeers plane addresses of the peer
	Service string
	Private []byte
}

// Type returns TypeDial.
func (*Dial) Type() Type { return TypeDial }

func (m *Dial) check() error {
	if m.Token == 0 {
		return fmt.Errorf("token is 0")
	}
	if len(m.Peers) == 0 || len(m.Peers) > MaxPeers {
		return fmt.Errorf("%d peer addresses, want 1 to %d", len(m.Peers), MaxPeers)
	}
	for _, p := range m.Peers {
		if err := CheckPeer(p); err != nil {
			return err
		}
	}
	if err := CheckService(m.Service); err != nil {
		return err
	}
	return checkPrivate(m.Private)
}

func (m *Dial) encode(e *encoder) {
	e.u64(m.Token)
	e.u16(uint16(len(m.Peers)))
	e.u16(uint16(len(m.Service)))
	e.u16(uint16(len(m.Private)))
	e.u16(0)
	for _, p := range m.Peers {
		e.addr(p)
	}
	e.text(m.Service)
	e.bytes(m.Private)
}

func (m *Dial) decode(d *decoder) {
	m.Token = d.u64()
	peers, service, private := d.u16(), d.u16(), d.u16()
	d.zero16()
	for range min(int(peers), len(d.b)/16+1) { // one over: a count that cannot be right ends as short
		m.Peers = append(m.Peers, d.addr())
	}
	m.Service = d.text(service)
	m.Private = d.bytes(private)
}

// Accept takes an incoming connection; answered by OK at once and later by an
// Established or Closed event of that connection.
type Accept struct {
	Conn    uint32
	Private []byte
}

// Type returns TypeAccept.
func (*Accept) Type() Type     { return TypeAccept }
func (m *Accept) check() error { return checkPrivate(m.Private) }

func (m *Accept) encode(e *encoder) {
	e.u32(m.Conn)
	e.u16(uint16(len(m.Private)))
	e.u16(0)
	e.bytes(m.Private)
}

func (m *Accept) decode(d *decoder) {
	m.Conn = d.u32()
	n := d.u16()
	d.zero16()
	m.Private = d.bytes(n)
}

// Refuse turns an incoming connection down; answered by OK.
type Refuse struct {
	Conn uint32
	Text string // told to the dialling application
}

// Type returns TypeRefuse.
func (*Refuse) Type() Type     { return TypeRefuse }
func (m *Refuse) check() error { return checkText(m.Text) }

func (m *Refuse) encode(e *encoder) {
	e.u32(m.Conn)
	e.u16(uint16(len(m.Text)))
	e.u16(0)
	e.text(m.Text)
}

func (m *Refuse) decode(d *decoder) {
	m.Conn = d.u32()
	n := d.u16()
	d.zero16()
	m.Text = d.text(n)
}

// CloseConn closes a connection; answered by OK at once and later by a Closed
// event.
type CloseConn struct{ Conn uint32 }

// Type returns TypeCloseConn.
func (*CloseConn) Type() Type          { return TypeCloseConn }
func (*CloseConn) check() error        { return nil }
func (m *CloseConn) encode(e *encoder) { e.u32(m.Conn); e.u32(0) }
func (m *CloseConn) decode(d *decoder) { m.Conn = d.u32(); d.zero32() }

// GetStatus asks what `metaroced status` shows; answered by Status.
type GetStatus struct{}

// Type returns TypeGetStatus.
func (*GetStatus) Type() Type      { return TypeGetStatus }
func (*GetStatus) check() error    { return nil }
func (*GetStatus) encode(*encoder) {}
func (*GetStatus) decode(*decoder) {}
