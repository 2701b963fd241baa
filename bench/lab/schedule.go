package lab

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// faultLog remembers what was done to planes and when. It is safe for concurrent
// use.
type faultLog struct {
	mu      sync.Mutex
	entries []faultEntry
}

type faultEntry struct {
	text    string
	failure bool  // not a restoration
	time    int64 // monotonic nanoseconds just before it took effect
}

func (l *faultLog) add(e faultEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
}

// firstFailure returns when the first plane failed.
func (l *faultLog) firstFailure() (time int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.failure {
			return e.time, true
		}
	}
	return 0, false
}

// texts describes what was done so far.
func (l *faultLog) texts() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	texts := make([]string, len(l.entries))
	for i, e := range l.entries {
		texts[i] = e.text
	}
	return texts
}

// plannedEvent is one entry of the schedule.
type plannedEvent struct {
	PlaneEvent
	failure bool
}

// plan merges failures and restorations in the order of time.
func (o *Options) plan() []plannedEvent {
	var events []plannedEvent
	for _, e := range o.FailPlanes {
		events = append(events, plannedEvent{e, true})
	}
	for _, e := range o.RestorePlanes {
		events = append(events, plannedEvent{e, false})
	}
	slices.SortStableFunc(events, func(a, b plannedEvent) int { return int(a.At - b.At) })
	return events
}

// schedule is the goroutine that fails and restores planes.
type schedule struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// startSchedule runs the plan, whose times count from start. fail is called when a
// plane cannot be failed or restored.
func startSchedule(ctx context.Context, r *run, start int64, fail context.CancelCauseFunc) *schedule {
	ctx, cancel := context.WithCancel(ctx)
	s := &schedule{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for _, e := range r.options.plan() {
			if pause(ctx, time.Duration(start+int64(e.At)-r.clock.now())) != nil {
				return // the job is over
			}
			if err := r.apply(e); err != nil {
				fail(err)
				return
			}
		}
	}()
	return s
}

// stop ends the schedule.
func (s *schedule) stop() {
	s.cancel()
	<-s.done
}

func (r *run) apply(e plannedEvent) error {
	entry := faultEntry{failure: e.failure, time: r.clock.now()}
	var err error
	if e.failure {
		entry.text = fmt.Sprintf("plane %d failed (%s) at %v", e.Plane, r.options.FailMode, e.At)
		err = r.fabric.FailPlane(e.Plane, r.options.FailMode.mode())
	} else {
		entry.text = fmt.Sprintf("plane %d restored at %v", e.Plane, e.At)
		err = r.fabric.RestorePlane(e.Plane)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", entry.text, err)
	}
	r.faults.add(entry)
	return nil
}
