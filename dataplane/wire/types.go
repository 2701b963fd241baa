package wire

import "strconv"

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
	// MaxSetupSize is the longest body of CONNECT and ACCEPT.
	MaxSetupSize = SetupSize + MaxPlanes*PlaneAddrSize + MaxService + MaxCookie + MaxPrivate
)

// Bounds that packets are checked against.
const (
	MaxPlanes       = 8     // per host
	MaxPaths        = 64    // per plane
	MaxPathInFlight = 16384 // unresolved packets per path that may be negotiated
	MaxRefuseText   = 256   // bytes
	MaxService      = 64    // bytes
	MaxCookie       = 64    // bytes
	MaxPrivate      = 256   // bytes
)

// ShareUnitBits is the unit of shares, in bits per second.
const ShareUnitBits = 10_000

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
	return nameOf(uint64(t), "type", "DATA", "REQUEST", "CONTROL", "ACK", "CONNECT", "ACCEPT",
		"CONFIRM", "REFUSE", "CLOSE", "RESET", "PROBE", "PROBE-ACK")
}

// Flags modify a packet. Each type allows only those that mean something to it.
type Flags uint16

// Packet flags.
const (
	FlagCRC            Flags = 1 << iota // a CRC-32C trailer follows the body
	FlagVoid                             // DATA: its message was given up, only the DSN counts; no payload
	FlagImm                              // DATA: the message carries immediate data
	FlagLast                             // DATA, REQUEST: last packet of its message
	FlagAckNow                           // DATA, REQUEST, CONTROL: acknowledge without delay
	FlagRetransmission                   // DATA, REQUEST, CONTROL: sent before, for diagnosis
	FlagReply                            // CLOSE: answers a CLOSE
	FlagFence                            // REQUEST: after all earlier messages of the stream
	FlagEncrypted                        // reserved; refused
)

func (f Flags) String() string {
	names := [...]string{"CRC", "VOID", "IMM", "LAST", "ACK-NOW", "RETRANSMISSION", "REPLY", "FENCE", "ENCRYPTED"}
	s := ""
	for i, n := range names {
		if f>>i&1 != 0 {
			s += "|" + n
		}
	}
	if rest := f >> len(names) << len(names); rest != 0 {
		s += "|0x" + strconv.FormatUint(uint64(rest), 16)
	}
	if s == "" {
		return "none"
	}
	return s[1:]
}

// Class is how urgent a packet is, here and in the fabric.
const (
	ClassBulk    uint8 = iota
	ClassShort         // short operations
	ClassControl       // acknowledgments and everything that carries no payload
)

// PSN is a path sequence number. It wraps, so it has no order of its own: only
// numbers less than 2^31 apart can be compared.
type PSN uint32

// Before says whether p was sent before q.
func (p PSN) Before(q PSN) bool { return int32(p-q) < 0 }

// After says whether p was sent after q.
func (p PSN) After(q PSN) bool { return int32(p-q) > 0 }

// Distance is how many packets were sent from q on to p; negative when p was
// sent before q.
func (p PSN) Distance(q PSN) int32 { return int32(p - q) }

// DSN is a connection's data sequence number. It never wraps.
type DSN uint64

// ConnID names a connection at its destination, which chose it: an index below
// 2^20 and the index's generation below 2^12.
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

func (c ConnID) String() string {
	return strconv.FormatUint(uint64(c.Index()), 10) + "." + strconv.FormatUint(uint64(c.Generation()), 10)
}

// Op is what a DATA packet is part of.
type Op uint8

// Operations of DATA packets.
const (
	OpWrite Op = iota + 1
	OpSend
	OpReadResponse
	OpAtomicResponse
)

func (o Op) String() string {
	return nameOf(uint64(o), "operation", "WRITE", "SEND", "READ-RESPONSE", "ATOMIC-RESPONSE")
}

// RequestOp is what a REQUEST asks for.
type RequestOp uint8

// Operations of REQUEST packets.
const (
	RequestRead RequestOp = iota + 1
	RequestCompareSwap
	RequestFetchAdd
)

func (o RequestOp) String() string {
	return nameOf(uint64(o), "request", "READ", "COMPARE-SWAP", "FETCH-ADD")
}

// ControlKind is what a CONTROL packet says.
type ControlKind uint8

// Kinds of CONTROL packets.
const (
	ControlCredit      ControlKind = iota + 1 // how far the peer may go on a stream
	ControlError                              // an operation of the peer's was refused
	ControlPlaneDown                          // a link of the sender's is down
	ControlPlaneUp                            // and up again
	ControlShareResume                        // a sender that waits for a share may go on
)

func (k ControlKind) String() string {
	return nameOf(uint64(k), "control kind", "CREDIT", "ERROR", "PLANE-DOWN", "PLANE-UP", "SHARE-RESUME")
}

// Features that both sides must offer to be used.
const (
	FeatureCRC    uint32 = 1 << iota // packets carry a CRC-32C trailer
	FeatureRead                      // READ
	FeatureAtomic                    // COMPARE-SWAP and FETCH-ADD
	FeatureSend                      // SEND
	FeatureAESGCM                    // reserved
)

// AckFull is the flag of an ACK that answers a probe with ProbeFullAck.
const AckFull uint8 = 1

// Probe flags.
const (
	ProbeFullAck uint32 = 1 << iota // PROBE: a full acknowledgment is wanted besides the answer
	ProbeUnknown                    // PROBE-ACK: the connection is not known here
)

// nameOf returns the name of value v, counted from 1, or kind and number.
func nameOf(v uint64, kind string, names ...string) string {
	if v == 0 || v > uint64(len(names)) {
		return "unknown " + kind + " " + strconv.FormatUint(v, 10)
	}
	return names[v-1]
}
