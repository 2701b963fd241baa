package queue

import (
	"fmt"

	"github.com/metaroced/metaroced/rings"
)

// Bounds of the entry counts of a session's queues.
const (
	MinEntries       = 16
	MaxEntries       = 1 << 16
	DefaultSQEntries = 1024
	DefaultCQEntries = 4096
)

// Layout says where the two queues of a session lie in its memory.
type Layout struct {
	SQ, CQ rings.Layout
	Bytes  int64 // size of the whole, a multiple of 4096
}

// NewLayout computes the layout for the given entry counts. Both must be powers
// of two in [MinEntries, MaxEntries], and the CQ at least as large as the SQ,
// because every submission needs room for its completion.
func NewLayout(sqEntries, cqEntries uint32) (Layout, error) {
	if err := checkEntries("sq_entries", sqEntries); err != nil {
		return Layout{}, err
	}
	if err := checkEntries("cq_entries", cqEntries); err != nil {
		return Layout{}, err
	}
	if cqEntries < sqEntries {
		return Layout{}, fmt.Errorf("cq_entries %d is smaller than sq_entries %d: every submission needs room for its completion",
			cqEntries, sqEntries)
	}
	sq, cq, bytes := rings.SessionLayout(sqEntries, cqEntries, SQESize, CQESize)
	return Layout{SQ: sq, CQ: cq, Bytes: int64(bytes)}, nil
}

func checkEntries(name string, n uint32) error {
	if n < MinEntries || n > MaxEntries || n&(n-1) != 0 {
		return fmt.Errorf("%s %d is not a power of two between %d and %d", name, n, MinEntries, MaxEntries)
	}
	return nil
}

// ClientSide returns the application's ends of the queues in mem, which must be
// Bytes long and zero where nobody has used it yet.
func (l Layout) ClientSide(mem []byte) (*rings.Producer[SQE], *rings.Consumer[CQE], error) {
	sq, err := rings.NewProducer[SQE](mem, l.SQ)
	if err != nil {
		return nil, nil, fmt.Errorf("submission queue: %w", err)
	}
	cq, err := rings.NewConsumer[CQE](mem, l.CQ)
	if err != nil {
		return nil, nil, fmt.Errorf("completion queue: %w", err)
	}
	return sq, cq, nil
}

// WorkerSide returns the worker's ends of the queues in mem, as ClientSide does
// for the application.
func (l Layout) WorkerSide(mem []byte) (*rings.Consumer[SQE], *rings.Producer[CQE], error) {
	sq, err := rings.NewConsumer[SQE](mem, l.SQ)
	if err != nil {
		return nil, nil, fmt.Errorf("submission queue: %w", err)
	}
	cq, err := rings.NewProducer[CQE](mem, l.CQ)
	if err != nil {
		return nil, nil, fmt.Errorf("completion queue: %w", err)
	}
	return sq, cq, nil
}
