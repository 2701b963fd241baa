package msg

import (
	"encoding/binary"
	"net/netip"
)

// encoder appends little-endian fields.
type encoder struct{ b []byte }

func (e *encoder) u16(v uint16)   { e.b = binary.LittleEndian.AppendUint16(e.b, v) }
func (e *encoder) u32(v uint32)   { e.b = binary.LittleEndian.AppendUint32(e.b, v) }
func (e *encoder) u64(v uint64)   { e.b = binary.LittleEndian.AppendUint64(e.b, v) }
func (e *encoder) text(s string)  { e.b = append(e.b, s...) }
func (e *encoder) bytes(p []byte) { e.b = append(e.b, p...) }

// addr writes an IPv4 address in its IPv6-mapped form and no address as zeros.
func (e *encoder) addr(a netip.Addr) {
	var b [16]byte
	if a.IsValid() {
		b = a.As16()
	}
	e.b = append(e.b, b[:]...)
}

// decoder takes little-endian fields off the front of b. A field that is not
// there reads as zero and sets short; the caller looks once, at the end.
type decoder struct {
	b        []byte
	short    bool
	reserved bool // a reserved field was not zero
}

func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.short = true
		d.b = nil
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) u16() uint16 {
	if p := d.take(2); p != nil {
		return binary.LittleEndian.Uint16(p)
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if p := d.take(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if p := d.take(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

func (d *decoder) zero16() { d.reserved = d.u16() != 0 || d.reserved }
func (d *decoder) zero32() { d.reserved = d.u32() != 0 || d.reserved }

func (d *decoder) text(n uint16) string { return string(d.take(int(n))) }

func (d *decoder) bytes(n uint16) []byte {
	if n == 0 {
		return nil
	}
	return append([]byte(nil), d.take(int(n))...)
}

func (d *decoder) addr() netip.Addr {
	p := d.take(16)
	if p == nil || [16]byte(p) == [16]byte{} {
		return netip.Addr{}
	}
	return netip.AddrFrom16([16]byte(p)).Unmap()
}
