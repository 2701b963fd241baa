package msg

import "fmt"

// OK answers a request that succeeded and has nothing else to say.
type OK struct{}

// Type returns TypeOK.
func (*OK) Type() Type      { return TypeOK }
func (*OK) check() error    { return nil }
func (*OK) encode(*encoder) {}
func (*OK) decode(*decoder) {}

// HelloOK answers Hello. Beside it come two descriptors: the memory of the two
// queues, and the application's end of the wake socket.
type HelloOK struct {
	MemoryBytes          uint64 // size to map
	SQEntries, CQEntries uint32 // as asked for
	SQOffset, CQOffset   uint32 // of the two index pages inside the memory
}

// Type returns TypeHelloOK.
func (*HelloOK) Type() Type   { return TypeHelloOK }
func (*HelloOK) check() error { return nil }

func (m *HelloOK) encode(e *encoder) {
	e.u64(m.MemoryBytes)
	e.u32(m.SQEntries)
	e.u32(m.CQEntries)
	e.u32(m.SQOffset)
	e.u32(m.CQOffset)
	e.u64(0)
}

func (m *HelloOK) decode(d *decoder) {
	m.MemoryBytes = d.u64()
	m.SQEntries, m.CQEntries = d.u32(), d.u32()
	m.SQOffset, m.CQOffset = d.u32(), d.u32()
	d.zero32()
	d.zero32()
}

// Region answers AllocRegion and GetSlabs. Beside it come len(SlabBytes)
// descriptors, those of the slabs from First on, to be mapped one behind the
// other. There are more to ask for while First + len(SlabBytes) < Slabs.
type Region struct {
	Region    uint32
	Slabs     uint32 // of the whole region
	Key       uint64 // what a peer names the region by
	Size      uint64 // bytes asked for; the slabs together are at least that
	First     uint32
	SlabBytes []uint64
}

// Type returns TypeRegion.
func (*Region) Type() Type { return TypeRegion }

func (m *Region) check() error {
	n := len(m.SlabBytes)
	if n == 0 || n > MaxMessageFDs {
		return fmt.Errorf("%d slabs in one message, want 1 to %d", n, MaxMessageFDs)
	}
	if uint64(m.First)+uint64(n) > uint64(m.Slabs) {
		return fmt.Errorf("slabs %d to %d of %d", m.First, uint64(m.First)+uint64(n)-1, m.Slabs)
	}
	return nil
}

func (m *Region) encode(e *encoder) {
	e.u32(m.Region)
	e.u32(m.Slabs)
	e.u64(m.Key)
	e.u64(m.Size)
	e.u32(m.First)
	e.u16(uint16(len(m.SlabBytes)))
	e.u16(0)
	for _, n := range m.SlabBytes {
		e.u64(n)
	}
}

func (m *Region) decode(d *decoder) {
	m.Region, m.Slabs = d.u32(), d.u32()
	m.Key, m.Size = d.u64(), d.u64()
	m.First = d.u32()
	n := d.u16()
	d.zero16()
	for range min(int(n), len(d.b)/8+1) { // one over: a count that cannot be right ends as short
		m.SlabBytes = append(m.SlabBytes, d.u64())
	}
}

// Status answers GetStatus. Beside it comes one descriptor of a sealed memfd
// with Bytes bytes of JSON.
type Status struct{ Bytes uint64 }

// Type returns TypeStatus.
func (*Status) Type() Type          { return TypeStatus }
func (*Status) check() error        { return nil }
func (m *Status) encode(e *encoder) { e.u64(m.Bytes) }
func (m *Status) decode(d *decoder) { m.Bytes = d.u64() }

// Code classifies an Error.
type Code uint16

// Codes of an Error. After CodeMalformed, CodeVersion and CodeState the daemon
// disconnects, after the others the session goes on.
const (
	CodeMalformed   Code = 1 // not a message
	CodeVersion     Code = 2 // a version this daemon does not speak
	CodeUnsupported Code = 3 // a type this daemon does not know
	CodeState       Code = 4 // before HELLO, or a second HELLO
	CodeLimit       Code = 5 // the text names the limit, its value and its configuration key
	CodeInvalid     Code = 6 // a value the daemon does not take, or a thing it does not know
	CodeRefused     Code = 7 // the daemon could not do it; the text says why
	CodeEnded       Code = 8 // with request id 0: the daemon ends this session
)

// Error answers a request that failed. With request id 0 it is no answer: the
// daemon ends the session and says why.
type Error struct {
	Code Code
	Text string
}

// Type returns TypeError.
func (*Error) Type() Type     { return TypeError }
func (m *Error) check() error { return checkText(m.Text) }

func (m *Error) encode(e *encoder) {
	e.u16(uint16(m.Code))
	e.u16(uint16(len(m.Text)))
	e.u32(0)
	e.text(m.Text)
}

func (m *Error) decode(d *decoder) {
	m.Code = Code(d.u16())
	n := d.u16()
	d.zero32()
	m.Text = d.text(n)
}
