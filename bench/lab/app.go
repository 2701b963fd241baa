package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/metaroced/metaroced/client"
)

const (
	// spinLimit is how long an application looks for completions before it sleeps;
	// workers share the cores with it.
	spinLimit = 50 * time.Microsecond
	// drainLimit is how long operations may take after the job to be over; longer
	// than the daemons' connection timeout, which ends them in any case.
	drainLimit = 45 * time.Second
	// returnCookie is what the verifier writes when it returns slots. It never
	// changes, so that a retransmission cannot send something newer.
	returnCookie = 0x6d65_7461_726f_6365
	returnBytes  = 8
	pageBytes    = 4096
)

// RunApp is the body of an application process of the lab: it reads its
// instructions from in and reports to out. It returns when in ends.
func RunApp(ctx context.Context, in io.Reader, out io.Writer) error {
	// The application may be confined to one core; reading in still needs a thread.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("lab-app is started by metaroced lab and reads its instructions from standard input; there are none")
	}
	var spec appSpec
	if err := json.Unmarshal(lines.Bytes(), &spec); err != nil {
		return fmt.Errorf("instructions on standard input: %w", err)
	}
	ctx, leave := context.WithCancel(ctx)
	stopping, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer leave()
		for lines.Scan() {
			stop()
		}
	}()

	events := newEventWriter(out)
	err := runRole(stopping, &spec, events, ctx)
	if err != nil && ctx.Err() == nil {
		_ = events.send(&appEvent{Kind: kindFailed, Text: err.Error()})
	}
	return err
}

// runRole runs the application until leaving ends; the verifier's job is over
// when stopping ends.
func runRole(stopping context.Context, spec *appSpec, events *eventWriter, leaving context.Context) error {
	entries := queueEntries(spec.Depth)
	session, err := client.Attach(leaving, spec.Socket, client.Options{
		SQEntries: entries, CQEntries: 4 * entries, Spin: spinLimit,
	})
	if err != nil {
		return err
	}
	defer session.Close()
	reaper, err := newReaper(session, int(entries))
	if err != nil {
		return err
	}
	var done *appEvent
	switch spec.Role {
	case roleWriter:
		done, err = runWriter(leaving, spec, reaper, events)
	case roleVerifier:
		done, err = runVerifier(stopping, spec, reaper, events)
	default:
		err = fmt.Errorf("unknown role %q", spec.Role)
	}
	if err != nil {
		return err
	}
	if err := events.send(done); err != nil {
		return err
	}
	<-leaving.Done() // connected but idle, as long as the lab wants
	return nil
}

// reaper takes completions off a session, with the time at which it did.
type reaper struct {
	session *client.Session
	clock   clock
	buffer  []client.Completion
	idle    func() error // called when there is no completion, before waiting; may be nil
}

func newReaper(session *client.Session, batch int) (*reaper, error) {
	clock, err := newClock()
	if err != nil {
		return nil, err
	}
	return &reaper{session: session, clock: clock, buffer: make([]client.Completion, min(batch, 64))}, nil
}

// next returns the next completions and the time. There are none when ctx ended.
// The slice is valid until the next call.
func (r *reaper) next(ctx context.Context) ([]client.Completion, int64, error) {
	if n := r.session.Poll(r.buffer); n > 0 {
		return r.buffer[:n], r.clock.now(), nil
	}
	if r.idle != nil {
		if err := r.idle(); err != nil {
			return nil, 0, err
		}
	}
	n, err := r.session.Wait(ctx, r.buffer)
	if err != nil && ctx.Err() == nil {
		return nil, 0, err
	}
	return r.buffer[:n], r.clock.now(), nil
}
