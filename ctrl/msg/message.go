package msg

import (
	"encoding/binary"
	"fmt"
)

// Version of the control protocol. The header keeps its layout in every
// version, so that a mismatch can be told apart and reported.
const Version = 1

// HeaderBytes is the size of the header every message starts with, MaxBytes
// what no valid message exceeds.
const (
	HeaderBytes = 16
	MaxBytes    = 1024
)

// Bounds of variable tails.
const (
	MaxServiceBytes = 255 // a service name is 1 to 255 bytes of UTF-8 without control characters
	MaxPrivateBytes = 256 // private data handed over with a connection
	MaxTextBytes    = 512 // explanations
	MaxPeers        = 8   // addresses of one DIAL
	MaxMessageFDs   = 16  // descriptors beside one message
)

// Bounds on what the daemon leaves unread in an application's socket before it
// waits for the application, and at last disconnects it.
const (
	MaxUnreadMessages = 16
	MaxUnreadFDs      = 16
)

// Type tells what a message is.
type Type uint16

// Requests of the application, each answered by one reply with its request id.
const (
	TypeHello       Type = 1
	TypeAllocRegion Type = 2
	TypeFreeRegion  Type = 3
	TypeGetSlabs    Type = 4
	TypeListen      Type = 5
	TypeUnlisten    Type = 6
	TypeDial        Type = 7
	TypeAccept      Type = 8
	TypeRefuse      Type = 9
	TypeCloseConn   Type = 10
	TypeGetStatus   Type = 11
)

// Replies of the daemon.
const (
	TypeOK      Type = 0x80
	TypeHelloOK Type = 0x81
	TypeRegion  Type = 0x82
	TypeStatus  Type = 0x83
	TypeError   Type = 0x84 // with request id 0: the daemon ends the session, the text says why
)

// Events of the daemon; their request id is 0.
const (
	TypeIncoming    Type = 0xc0
	TypeEstablished Type = 0xc1
	TypeRefused     Type = 0xc2
	TypeClosed      Type = 0xc3
)

// Message is one of the message structs of this package.
type Message interface {
	Type() Type
	check() error    // field rules, the same for writing and for reading
	encode(*encoder) // body and tail
	decode(*decoder) // body and tail
}

// newMessage returns an empty message of type t, nil for an unknown type.
func newMessage(t Type) Message {
	switch t {
	case TypeHello:
		return new(Hello)
	case TypeAllocRegion:
		return new(AllocRegion)
	case TypeFreeRegion:
		return new(FreeRegion)
	case TypeGetSlabs:
		return new(GetSlabs)
	case TypeListen:
		return new(Listen)
	case TypeUnlisten:
		return new(Unlisten)
	case TypeDial:
		return new(Dial)
	case TypeAccept:
		return new(Accept)
	case TypeRefuse:
		return new(Refuse)
	case TypeCloseConn:
		return new(CloseConn)
	case TypeGetStatus:
		return new(GetStatus)
	case TypeOK:
		return new(OK)
	case TypeHelloOK:
		return new(HelloOK)
	case TypeRegion:
		return new(Region)
	case TypeStatus:
		return new(Status)
	case TypeError:
		return new(Error)
	case TypeIncoming:
		return new(Incoming)
	case TypeEstablished:
		return new(Established)
	case TypeRefused:
		return new(Refused)
	case TypeClosed:
		return new(Closed)
	}
	return nil
}

// Append writes m with the given request id behind dst. The error names the
// field that breaks a rule; dst is then returned unchanged.
func Append(dst []byte, id uint32, m Message) ([]byte, error) {
	if err := m.check(); err != nil {
		return dst, err
	}
	start := len(dst)
	e := encoder{b: dst}
	e.u32(0) // length, below
	e.u16(Version)
	e.u16(uint16(m.Type()))
	e.u32(id)
	e.u32(0)
	m.encode(&e)
	binary.LittleEndian.PutUint32(e.b[start:], uint32(len(e.b)-start))
	return e.b, nil
}

// Parse reads one packet. What it returns holds copies, nothing of b. The
// request id is returned whenever the header could be read, also beside an
// error, which is always a *ParseError.
func Parse(b []byte) (id uint32, m Message, err error) {
	if len(b) < HeaderBytes {
		return 0, nil, parseErrorf(ReasonLength, "packet of %d bytes is shorter than the header of %d", len(b), HeaderBytes)
	}
	d := decoder{b: b}
	length, version, t := d.u32(), d.u16(), Type(d.u16())
	id = d.u32()
	reserved := d.u32()
	if version != Version {
		return id, nil, parseErrorf(ReasonVersion, "control protocol version %d; this side speaks version %d", version, Version)
	}
	if int64(length) != int64(len(b)) || len(b) > MaxBytes {
		return id, nil, parseErrorf(ReasonLength, "length field %d in a packet of %d bytes (limit %d)", length, len(b), MaxBytes)
	}
	if reserved != 0 {
		return id, nil, parseErrorf(ReasonReserved, "reserved header field is %#x, not 0", reserved)
	}
	if m = newMessage(t); m == nil {
		return id, nil, parseErrorf(ReasonType, "unknown message type %#x", uint16(t))
	}
	m.decode(&d)
	switch {
	case d.short || len(d.b) != 0:
		return id, nil, parseErrorf(ReasonLength, "%v message of %d bytes does not have the length its type and fields ask for", t, len(b))
	case d.reserved:
		return id, nil, parseErrorf(ReasonReserved, "%v message with a reserved field that is not 0", t)
	}
	if err := m.check(); err != nil {
		return id, nil, &ParseError{Reason: ReasonField, Text: fmt.Sprintf("%v message: %v", t, err)}
	}
	return id, m, nil
}

// Reason classifies what makes a packet invalid, for counters.
type Reason uint8

// Reasons of a ParseError.
const (
	ReasonLength Reason = iota + 1
	ReasonVersion
	ReasonType
	ReasonReserved
	ReasonField
)

// ParseError says why a packet is not a valid message.
type ParseError struct {
	Reason Reason
	Text   string
}

// Error returns the explanation.
func (e *ParseError) Error() string { return e.Text }

func parseErrorf(r Reason, format string, args ...any) error {
	return &ParseError{Reason: r, Text: fmt.Sprintf(format, args...)}
}

var typeNames = map[Type]string{
	TypeHello: "HELLO", TypeAllocRegion: "ALLOC_REGION", TypeFreeRegion: "FREE_REGION", TypeGetSlabs: "GET_SLABS",
	TypeListen: "LISTEN", TypeUnlisten: "UNLISTEN", TypeDial: "DIAL", TypeAccept: "ACCEPT", TypeRefuse: "REFUSE",
	TypeCloseConn: "CLOSE_CONN", TypeGetStatus: "GET_STATUS", TypeOK: "OK", TypeHelloOK: "HELLO_OK",
	TypeRegion: "REGION", TypeStatus: "STATUS", TypeError: "ERROR", TypeIncoming: "INCOMING",
	TypeEstablished: "ESTABLISHED", TypeRefused: "REFUSED", TypeClosed: "CLOSED",
}

// String returns the name docs/CONTROL.md uses.
func (t Type) String() string {
	if name, ok := typeNames[t]; ok {
		return name
	}
	return fmt.Sprintf("type %#x", uint16(t))
}
