package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/metaroced/metaroced/client"
)

const (
	guardCheckInterval = 100 * time.Millisecond
	progressInterval   = 250 * time.Millisecond
	// returnBatchBytes is how much is verified before slots go back to the writer,
	// as long as that is at most a quarter of them.
	returnBatchBytes = 256 << 10
)

// verifier is the application on host-b: it compares every byte that arrives and
// gives the slots back.
type verifier struct {
	spec    *appSpec
	reaper  *reaper
	events  *eventWriter
	pattern *Pattern
	slots   SlotLayout
	target  *client.Region // the slots
	foreign *client.Region // nobody knows its key
	cookie  *client.Region // source of returns
	conn    *client.Conn
	key     uint64 // of the word the writer wants returns in

	next        uint64 // operation that is due
	returned    uint64 // operations told to the writer
	batch       uint64
	timeline    *Timeline
	start, last int64
	progress    progress
	faults      faultCount
	closed      bool

	nextGuardCheck, nextProgress int64
}

func runVerifier(ctx context.Context, spec *appSpec, reaper *reaper, events *eventWriter) (*appEvent, error) {
	v := &verifier{
		spec: spec, reaper: reaper, events: events, pattern: NewPattern(spec.Seed), slots: spec.slots(),
		batch: uint64(max(1, min(int64(spec.Depth)/4, returnBatchBytes/spec.Size))),
	}
	if err := v.allocate(); err != nil {
		return nil, err
	}
	if err := v.accept(ctx); err != nil {
		return nil, err
	}
	v.start = reaper.clock.now()
	v.timeline = NewTimeline(v.start, spec.Duration)
	// Small operations go back in batches, the rest of a batch when there is
	// nothing else to do.
	reaper.idle = func() error { return v.giveBack(1) }
	for ctx.Err() == nil && !v.closed {
		completions, now, err := reaper.next(ctx)
		if err != nil {
			return nil, err
		}
		if err := v.work(now, completions); err != nil {
			return nil, err
		}
	}
	<-ctx.Done() // also after the connection broke: the lab says when the job is over
	v.checkForeign()
	v.progress.Errors = v.faults.errors
	return &appEvent{Kind: kindDone, Verifier: &verifierResult{
		Start: v.start, Last: v.last, Progress: v.progress, FirstError: v.faults.first, Timeline: v.timeline.Points(),
	}}, nil
}

// allocate makes the regions. Slots start poisoned: new regions are zero.
func (v *verifier) allocate() (err error) {
	session := v.reaper.session
	if v.target, err = session.AllocRegion(v.slots.Bytes(), client.RemoteWrite); err != nil {
		return fmt.Errorf("target region: %w", err)
	}
	v.slots.FillGuards(v.target.Bytes())
	if v.foreign, err = session.AllocRegion(foreignBytes, client.RemoteWrite); err != nil {
		return fmt.Errorf("foreign region: %w", err)
	}
	fillByte(v.foreign.Bytes(), foreignByte)
	if v.cookie, err = session.AllocRegion(pageBytes, 0); err != nil {
		return fmt.Errorf("region for returning slots: %w", err)
	}
	binary.LittleEndian.PutUint64(v.cookie.Bytes(), returnCookie)
	return nil
}

// accept waits for the writer.
func (v *verifier) accept(ctx context.Context) error {
	listener, err := v.reaper.session.Listen(serviceName)
	if err != nil {
		return err
	}
	if err := v.events.send(&appEvent{Kind: kindReady}); err != nil {
		return err
	}
	incoming, err := listener.Accept(ctx)
	if err != nil {
		return err
	}
	if v.key, err = decodeKey(incoming.Private()); err != nil {
		return errors.Join(err, incoming.Refuse(err.Error()))
	}
	v.conn, err = incoming.Accept(encodeKey(v.target.Key()))
	return err
}

// work handles completions, gives slots back and does what is due.
func (v *verifier) work(now int64, completions []client.Completion) error {
	for i := range completions {
		v.handle(now, &completions[i])
	}
	if err := v.giveBack(v.batch); err != nil {
		return err
	}
	if now >= v.nextGuardCheck {
		v.nextGuardCheck = now + int64(guardCheckInterval)
		v.checkForeign()
	}
	if now >= v.nextProgress {
		v.nextProgress = now + int64(progressInterval)
		v.progress.Errors = v.faults.errors
		return v.events.send(&appEvent{Kind: kindProgress, Progress: &v.progress})
	}
	return nil
}

func (v *verifier) handle(now int64, c *client.Completion) {
	switch c.Op {
	case client.OpWriteImmReceived:
		v.verify(now, c)
	case client.OpWrite:
		if err := c.Status.Err(); err != nil {
			v.faults.add("return of slots: %v", err)
		}
	case client.OpConnClosed:
		v.faults.add("the connection ended during the job: %v", c.Status.Err())
		v.closed = true
	default:
		v.faults.add("unknown completion %+v", *c)
	}
}

// verify compares the slot of the operation that a completion names.
func (v *verifier) verify(now int64, c *client.Completion) {
	if err := c.Status.Err(); err != nil {
		v.faults.add("operation %d arrived with an error: %v", v.next, err)
		return
	}
	operation := v.next + uint64(int64(int32(c.Imm-uint32(v.next))))
	if operation != v.next {
		v.faults.add("operation %d completed when %d was due", operation, v.next)
	}
	if c.Bytes != uint64(v.slots.Size) {
		v.faults.add("operation %d has %d bytes instead of %d", operation, c.Bytes, v.slots.Size)
	}
	slot := int(operation % uint64(v.spec.Depth))
	wrong, first := v.pattern.VerifyAndPoison(v.slots.Slot(v.target.Bytes(), slot), operation)
	v.next = operation + 1
	v.last = now
	if wrong > 0 {
		v.progress.Mismatched += uint64(wrong)
		v.faults.note("%d bytes of operation %d are wrong, the first at offset %d", wrong, operation, first)
		return
	}
	v.progress.Operations++
	v.progress.Bytes += uint64(v.slots.Size)
	v.timeline.Add(now, v.slots.Size)
}

// giveBack tells the writer how many operations are verified when it does not know
// of at least as many as given. A full queue is nothing to worry about: the number
// is cumulative and goes with the next one.
func (v *verifier) giveBack(least uint64) error {
	if v.next-v.returned < least || v.closed {
		return nil
	}
	err := v.conn.Write(client.Write{
		Local: v.cookie, Length: returnBytes, RemoteKey: v.key, Imm: uint32(v.next), HasImm: true,
	})
	if errors.Is(err, client.ErrQueueFull) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("return slots: %w", err)
	}
	v.returned = v.next
	return nil
}

// checkForeign looks for bytes where nothing may be written, counts them as wrong
// and repairs them, so that each is counted once.
func (v *verifier) checkForeign() {
	if wrong, first := v.slots.CheckGuards(v.target.Bytes()); wrong > 0 {
		v.progress.Mismatched += uint64(wrong)
		v.faults.note("%d bytes outside the slots were overwritten, the first at offset %d of the region", wrong, first)
		v.slots.FillGuards(v.target.Bytes())
	}
	if wrong, first := checkByte(v.foreign.Bytes()[:foreignBytes], foreignByte); wrong > 0 {
		v.progress.Mismatched += uint64(wrong)
		v.faults.note("%d bytes of a foreign region were overwritten, the first at offset %d", wrong, first)
		fillByte(v.foreign.Bytes(), foreignByte)
	}
}
