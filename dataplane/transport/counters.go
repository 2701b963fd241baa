package transport

import "github.com/metaroced/metaroced/dataplane/wire"

// Counters says what was refused and why, over all connections.
type Counters struct {
	Wire                [wire.ReasonCount]uint64 // by wire.Reason
	UnknownConnection   uint64                   // no such connection, or a wrong verification tag
	MissingCRC          uint64                   // CRC was agreed and is not there
	WrongState          uint64                   // a packet that this state of the connection does not take
	OutsideWindow       uint64                   // DSN or MSN beyond what was granted
	MessageOver         uint64                   // late packets of a message that was given up or refused
	BadStream           uint64                   // stream number above the agreed limit
	BadMessage          uint64                   // contradicts earlier packets of its message
	BadPayload          uint64                   // longer than agreed, or not where its index says
	Unsupported         uint64                   // operation not negotiated
	RemoteKey           uint64                   // region key unknown
	RemoteBounds        uint64                   // offset and length leave the region
	RemotePermission    uint64                   // region does not allow the operation
	AckInvalid          uint64                   // acknowledges, refuses or credits what was never sent
	ProbeInvalid        uint64                   // answers no probe of ours
	RepliesDropped      uint64                   // answers to strangers beyond what we keep
	SetupRefused        uint64
	Duplicates          uint64 // packets whose DSN was placed before, or is being placed
	DuplicatePSN        uint64 // the network delivered one transmission twice
	Retransmissions     uint64
	RetransmissionTimer uint64 // of these, by the tail timer
	Spurious            uint64 // of these, not needed after all
}

// Each calls f with every counter that is not zero under the name operators
// see it by.
func (k *Counters) Each(f func(name string, value uint64)) {
	for r, v := range k.Wire {
		if v != 0 {
			f("refused: "+wire.Reason(r).String(), v)
		}
	}
	for _, n := range []struct {
		name  string
		value uint64
	}{
		{"refused: unknown connection or tag", k.UnknownConnection},
		{"refused: checksum missing", k.MissingCRC},
		{"refused: wrong state", k.WrongState},
		{"refused: outside window", k.OutsideWindow},
		{"late packets of a message given up", k.MessageOver},
		{"refused: stream number", k.BadStream},
		{"refused: message contradiction", k.BadMessage},
		{"refused: payload length", k.BadPayload},
		{"refused: unsupported operation", k.Unsupported},
		{"refused: region key", k.RemoteKey},
		{"refused: region bounds", k.RemoteBounds},
		{"refused: region permission", k.RemotePermission},
		{"refused: acknowledgment of the unsent", k.AckInvalid},
		{"refused: probe answer", k.ProbeInvalid},
		{"dropped: replies to strangers", k.RepliesDropped},
		{"refused: connection set-up", k.SetupRefused},
		{"duplicates", k.Duplicates},
		{"duplicate packets", k.DuplicatePSN},
		{"retransmissions", k.Retransmissions},
		{"retransmissions by timer", k.RetransmissionTimer},
		{"retransmissions spurious", k.Spurious},
	} {
		if n.value != 0 {
			f(n.name, n.value)
		}
	}
}
