package lab

import (
	"context"
	"errors"
	"time"
)

// monitor watches everything while the job runs: it takes the verifier's events,
// notices when a process ends, and draws the live table when there is a terminal
// for it.
type monitor struct {
	run    *run
	start  int64
	fail   context.CancelCauseFunc // ends the job
	cancel context.CancelFunc      // ends the monitor
	done   chan struct{}
	table  *liveTable // nil: no terminal
	latest progress
}

// startMonitor starts watching a job that began at start. fail is called with the
// reason when the job cannot go on.
func startMonitor(ctx context.Context, r *run, start int64, fail context.CancelCauseFunc) *monitor {
	ctx, cancel := context.WithCancel(ctx)
	m := &monitor{run: r, start: start, fail: fail, cancel: cancel, done: make(chan struct{})}
	if r.options.Live != nil {
		m.table = &liveTable{out: r.options.Live}
	}
	go func() {
		defer close(m.done)
		m.watch(ctx)
		if m.table != nil {
			m.table.erase()
		}
	}()
	return m
}

// stop ends watching; the verifier's events are the caller's again.
func (m *monitor) stop() {
	m.cancel()
	<-m.done
}

func (m *monitor) watch(ctx context.Context) {
	ticker := time.NewTicker(liveInterval)
	defer ticker.Stop()
	r := m.run
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.daemons[hostA].exited:
			m.fail(r.daemons[hostA].failure())
			return
		case <-r.daemons[hostB].exited:
			m.fail(r.daemons[hostB].failure())
			return
		case e, open := <-r.verify.events:
			if !open {
				<-r.verify.exited
				m.fail(r.verify.failure())
				return
			}
			m.take(&e)
		case <-ticker.C:
			m.draw(ctx)
		}
	}
}

func (m *monitor) take(e *appEvent) {
	if e.Progress != nil {
		m.latest = *e.Progress
	}
	if e.Kind == kindFailed {
		m.fail(errors.New(m.run.verify.name + ": " + e.Text))
	}
}

func (m *monitor) draw(ctx context.Context) {
	if m.table == nil {
		return
	}
	status, err := m.run.daemons[hostA].status(ctx)
	if err != nil {
		return // a stale picture harms less than ending the job
	}
	m.table.draw(&liveView{
		elapsed:  time.Duration(m.run.clock.now() - m.start),
		progress: m.latest, status: status, faults: m.run.faults.texts(),
	})
}
