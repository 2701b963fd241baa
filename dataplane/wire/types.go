package wire

// Version is the framing this package speaks.
const Version = 1

// Sizes in bytes of the fixed parts of packets.
const (
	HeaderSize    = 24
	TrailerSize   = 4
	DataSize      = 56
	RequestSize   = 72
	ControlSize   = 48
	AckSize       = 16
	ReportSize    = 64
	CreditSize    = 8
	SetupSize     = 64
	PlaneAddrSize = 24
	ConfirmSize   = 16
	RefuseSize    = 16
	CloseSize     = 24
	ResetSize     = 24
	ProbeSize     = 32
	// DataOverhead is what a DATA packet has beside its payload.
	DataOverhead = HeaderSize + DataSize + TrailerSize
)

// Bounds that packets are checked against.
const (
	MaxPlanes     = 8
	MaxPaths      = 64
	MaxRefuseText = 256
	MaxService    = 64
	MaxCookie     = 64
	MaxPrivate    = 256
)

// Type names what a packet carries.
type Type uint8

// Packet types.
const (
	DATA Type = iota + 1
	REQUEST
	CONTROL
	ACK
	CONNECT
	ACCEPT
	CONFIRM
	REFUSE
	CLOSE
	RESET
	PROBE
	PROBE_ACK //nolint:revive // the specification's name
)

func (t Type) String() string {
	names := [...]string{
		"", "DATA", "REQUEST", "CONTROL", "ACK", "CONNECT", "ACCEPT", "CONFIRM",
		"REFUSE", "CLOSE", "RESET", "PROBE", "PROBE-ACK",
	}
	if t == 0 || int(t) >= len(names) {
		return "unknown type"
	}
	return names[t]
}

// Flags modify a packet.
type Flags uint16

// Packet flags.
const (
	FlagCRC            Flags = 1 << iota // a CRC-32C trailer follows the body
	FlagVoid                             // DATA: its message was given up, only the DSN counts
	FlagImm                              // DATA: the message carries immediate data
	FlagLast                             // DATA: last packet of its message
	FlagAckNow                           // acknowledge without delay
	FlagRetransmission                   // sent before, for diagnosis
	FlagReply                            // CLOSE: answers a CLOSE
	FlagFence                            // REQUEST: after all earlier messages of the stream
	FlagEncrypted                        // reserved; refused

	knownFlags = FlagEncrypted - 1
)

// Class is how urgent a packet is in the fabric.
const (
	ClassBulk uint8 = iota
	ClassShort
	ClassControl
)

// PSN is a path sequence number; it wraps and is compared with Before.
type PSN uint32

// Before says whether p comes before q, in serial arithmetic.
func (p PSN) Before(q PSN) bool { return int32(p-q) < 0 }

// DSN is a connection's data sequence number; it does not wrap.
type DSN uint64

// ConnID names a connection at its destination, which chose it: an index and
// the index's generation.
type ConnID uint32

const connIndexBits = 20

// MakeConnID joins an index below 2^20 and a generation below 2^12.
func MakeConnID(index uint32, generation uint16) ConnID {
	return ConnID(index&(1<<connIndexBits-1) | uint32(generation)<<connIndexBits)
}

// Index is the connection's place in its owner's table.
func (c ConnID) Index() uint32 { return uint32(c) & (1<<connIndexBits - 1) }

// Generation tells connections apart that had the same index.
func (c ConnID) Generation() uint16 { return uint16(c >> connIndexBits) }

// Op is what a DATA packet is part of.
type Op uint8

// Operations of DATA packets.
const (
	OpWrite Op = iota + 1
	OpSend
	OpReadResponse
	OpAtomicResponse
)

// RequestOp is what a REQUEST asks for.
type RequestOp uint8

// Operations of REQUEST packets.
const (
	RequestRead RequestOp = iota + 1
	RequestCompareSwap
	RequestFetchAdd
)

// ControlKind is what a CONTROL packet says.
type ControlKind uint8

// Kinds of CONTROL packets.
const (
	ControlCredit ControlKind = iota + 1
	ControlError
	ControlPlaneDown
	ControlPlaneUp
	ControlShareResume
)

// Features that both sides must offer to be used.
const (
	FeatureCRC uint32 = 1 << iota
	FeatureRead
	FeatureAtomic
	FeatureSend
	FeatureAESGCM // reserved
)

// Probe flags.
const (
	ProbeFullAck uint32 = 1 << iota // the answer is a full acknowledgment as well
	ProbeUnknown                    // PROBE-ACK: the connection is not known here
)
