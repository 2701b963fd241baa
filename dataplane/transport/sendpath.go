package transport

import "github.com/metaroced/metaroced/dataplane/wire"

// sentState is what the sender knows of one transmission.
type sentState uint8

const (
	sentNone sentState = iota
	sentOut            // in flight
	sentAcked
	sentLost // by a gap, by the timer, or moved away with its path
)

// sentPacket is one transmission on one path.
type sentPacket struct {
	dsn   wire.DSN
	bytes int32 // on the wire
	state sentState
}

// sendPath is the sender's sequence on one path. Unresolved PSNs lie in
// [una, next) and never span more than the agreed F, so that every one of them
// is inside every report.
type sendPath struct {
	next, una   wire.PSN
	ring        []sentPacket // power of two, grows up to F
	lastPackets uint32       // newest counters the receiver reported
	lastMarked  uint32
}

func (s *sendPath) span() int { return int(uint32(s.next - s.una)) }

func (s *sendPath) at(psn wire.PSN) *sentPacket {
	return &s.ring[uint32(psn)&uint32(len(s.ring)-1)]
}

// push takes the next PSN for a transmission.
func (s *sendPath) push(p sentPacket) wire.PSN {
	if s.span() == len(s.ring) {
		s.grow()
	}
	psn := s.next
	*s.at(psn) = p
	s.next++
	return psn
}

func (s *sendPath) grow() {
	next := make([]sentPacket, max(16, 2*len(s.ring)))
	for psn := s.una; psn != s.next; psn++ {
		next[uint32(psn)&uint32(len(next)-1)] = *s.at(psn)
	}
	s.ring = next
}

// settle moves una over what is resolved.
func (s *sendPath) settle() {
	for s.una != s.next && s.at(s.una).state != sentOut {
		s.una++
	}
}

// run is a few packets in a row on one path: the unit the tail timer watches.
type run struct {
	path        uint8
	first, last wire.PSN
	sentAt      int64 // of its newest packet
}

// recordState is what has become of a DSN.
type recordState uint8

const (
	recordSent   recordState = iota + 1
	recordQueued             // lost, waits to go out again
	recordAcked
)

// dsnRecord says which packet a DSN is and where its newest copy went.
type dsnRecord struct {
	msg    int32
	index  uint32 // packet of the message
	psn    wire.PSN
	plane  uint8
	path   uint8
	state  recordState
	losses uint8
}

// dsnLog is the sender's record of every DSN in [cumulative, next).
type dsnLog struct {
	records    []dsnRecord // power of two, grows up to the window
	cumulative wire.DSN    // all below are placed at the peer
	next       wire.DSN
	window     wire.DSN
}

func (l *dsnLog) init(window int) {
	*l = dsnLog{window: wire.DSN(window)}
}

func (l *dsnLog) at(d wire.DSN) *dsnRecord {
	return &l.records[uint64(d)&uint64(len(l.records)-1)]
}

// room says whether a new DSN may be taken, leaving some for others.
func (l *dsnLog) room(reserve wire.DSN) bool {
	return l.next-l.cumulative+reserve < l.window
}

func (l *dsnLog) push(r dsnRecord) wire.DSN {
	if n := int(l.next - l.cumulative); n == len(l.records) {
		next := make([]dsnRecord, max(256, 2*n))
		for d := l.cumulative; d != l.next; d++ {
			next[uint64(d)&uint64(len(next)-1)] = *l.at(d)
		}
		l.records = next
	}
	d := l.next
	*l.at(d) = r
	l.next++
	return d
}
