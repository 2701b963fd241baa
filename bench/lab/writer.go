package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/metaroced/metaroced/bench/lab/histogram"
	"github.com/metaroced/metaroced/client"
)

// writer is the application on host-a: it fills source slots with the pattern and
// writes them into the verifier's slots.
type writer struct {
	spec    *appSpec
	reaper  *reaper
	events  *eventWriter
	pattern *Pattern
	slots   SlotLayout
	conn    *client.Conn
	source  *client.Region
	key     uint64 // of the verifier's slots

	posted    uint64  // operations, from 0
	completed uint64  // of them, at this side
	returned  uint64  // of them, verified and given back
	filled    []bool  // by slot: holds the operation that is posted next there
	postedAt  []int64 // by slot
	latency   histogram.Histogram
	faults    faultCount
	broken    bool // an operation failed: nothing more is posted
}

func runWriter(ctx context.Context, spec *appSpec, reaper *reaper, events *eventWriter) (*appEvent, error) {
	w := &writer{
		spec: spec, reaper: reaper, events: events, pattern: NewPattern(spec.Seed), slots: spec.slots(),
		filled: make([]bool, spec.Depth), postedAt: make([]int64, spec.Depth),
	}
	var err error
	if w.source, err = reaper.session.AllocRegion(w.slots.Bytes(), 0); err != nil {
		return nil, fmt.Errorf("source region: %w", err)
	}
	returns, err := reaper.session.AllocRegion(pageBytes, client.RemoteWrite)
	if err != nil {
		return nil, fmt.Errorf("region for returned slots: %w", err)
	}
	// Before dialling, so that the job starts when the connection is up.
	for slot := range spec.Depth {
		w.fill(uint64(slot))
	}
	w.conn, err = reaper.session.Dial(ctx, spec.Peers, serviceName, encodeKey(returns.Key()))
	if err != nil {
		return nil, err
	}
	if w.key, err = decodeKey(w.conn.Private()); err != nil {
		return nil, err
	}
	start, err := w.run(ctx)
	if err != nil {
		return nil, err
	}
	w.checkReturns(returns.Bytes())
	return &appEvent{Kind: kindDone, Writer: &writerResult{
		Start: start, Operations: w.completed, Errors: w.faults.errors, FirstError: w.faults.first,
		Latency: w.latency.Micros(),
	}}, nil
}

// run posts for the duration of the job and waits until everything is back.
func (w *writer) run(ctx context.Context) (start int64, err error) {
	start = w.reaper.clock.now()
	if err := w.events.send(&appEvent{Kind: kindStarted, Time: start}); err != nil {
		return 0, err
	}
	end := start + int64(w.spec.Duration)
	ctx, cancel := context.WithTimeout(ctx, w.spec.Duration+drainLimit)
	defer cancel()
	for now := start; ; {
		if err := w.post(now, end); err != nil {
			return 0, err
		}
		if now >= end || w.broken {
			if w.completed == w.posted && (w.returned == w.posted || w.broken) {
				return start, nil
			}
		}
		var completions []client.Completion
		if completions, now, err = w.reaper.next(ctx); err != nil {
			return 0, err
		}
		if len(completions) == 0 && ctx.Err() != nil {
			w.faults.add("%d operations posted, %d completed, %d verified %v after the job", w.posted, w.completed, w.returned, drainLimit)
			return start, nil
		}
		for i := range completions {
			if err := w.handle(now, &completions[i]); err != nil {
				return 0, err
			}
		}
	}
}

// post starts operations as long as there is time and the next slot is filled and
// free at both sides.
func (w *writer) post(now, end int64) error {
	depth := uint64(w.spec.Depth)
	for now < end && !w.broken && w.posted-w.returned < depth && w.filled[w.posted%depth] {
		slot := int(w.posted % depth)
		err := w.conn.Write(client.Write{
			Local: w.source, LocalOffset: w.slots.Offset(slot), Length: uint32(w.slots.Size),
			RemoteKey: w.key, RemoteOffset: uint64(w.slots.Offset(slot)),
			Imm: uint32(w.posted), HasImm: true, UserData: w.posted,
		})
		if errors.Is(err, client.ErrQueueFull) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("post operation %d: %w", w.posted, err)
		}
		w.filled[slot] = false
		w.postedAt[slot] = now
		w.posted++
	}
	return nil
}

func (w *writer) fill(operation uint64) {
	slot := int(operation % uint64(w.spec.Depth))
	w.pattern.Fill(w.slots.Slot(w.source.Bytes(), slot), operation)
	w.filled[slot] = true
}

func (w *writer) handle(now int64, c *client.Completion) error {
	switch c.Op {
	case client.OpWrite:
		return w.handleWrite(now, c)
	case client.OpWriteImmReceived:
		// Cumulative: how many operations are verified, modulo 2^32.
		returned := w.returned + uint64(c.Imm-uint32(w.returned))
		if err := c.Status.Err(); err != nil || returned > w.posted {
			w.faults.add("slots returned up to operation %d of %d posted, status %v", returned, w.posted, c.Status)
			w.broken = true
			return nil
		}
		w.returned = returned
	case client.OpConnClosed:
		w.faults.add("the connection ended during the job: %v", c.Status.Err())
		w.broken = true
	default:
		w.faults.add("unknown completion %+v", *c)
	}
	return nil
}

func (w *writer) handleWrite(now int64, c *client.Completion) error {
	w.completed++
	if err := c.Status.Err(); err != nil {
		w.faults.add("operation %d: %v", c.UserData, err)
		w.broken = true
		return nil
	}
	if w.posted-c.UserData > uint64(w.spec.Depth) || w.filled[c.UserData%uint64(w.spec.Depth)] {
		w.faults.add("completion of operation %d, which is not outstanding (%d posted)", c.UserData, w.posted)
		w.broken = true
		return nil
	}
	slot := c.UserData % uint64(w.spec.Depth)
	w.latency.Record(now - w.postedAt[slot])
	if w.completed == 1 {
		if err := w.events.send(&appEvent{Kind: kindFirst, Time: now}); err != nil {
			return err
		}
	}
	w.fill(c.UserData + uint64(w.spec.Depth))
	return nil
}

// checkReturns looks at the page into which the verifier writes.
func (w *writer) checkReturns(page []byte) {
	if got := binary.LittleEndian.Uint64(page); w.returned > 0 && got != returnCookie {
		w.faults.add("the word of returned slots holds %#x instead of %#x", got, uint64(returnCookie))
	}
	if wrong, first := checkByte(page[returnBytes:pageBytes], 0); wrong > 0 {
		w.faults.add("%d bytes beside the word of returned slots were overwritten, the first at %d", wrong, first+returnBytes)
	}
}
