package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// appCommand is the hidden subcommand that calls RunApp.
const appCommand = "lab-app"

// appProcess is a running application as the lab sees it.
type appProcess struct {
	*process
	input  io.WriteCloser
	events chan appEvent // closed when the application has written its last
}

// startApp starts an application and gives it its instructions.
func startApp(start starter, o *Options, spec *appSpec) (*appProcess, error) {
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inRead.Close(), inWrite.Close())
	}
	command := exec.Command(o.Executable, appCommand)
	command.Stdin, command.Stdout, command.Stderr = inRead, outWrite, o.Log
	p, err := newProcess(start, spec.Role, command)
	err = errors.Join(err, inRead.Close(), outWrite.Close()) // the child has its own
	if err != nil {
		return nil, errors.Join(err, inWrite.Close(), outRead.Close())
	}
	a := &appProcess{process: p, input: inWrite, events: make(chan appEvent, 16)}
	go a.read(outRead)
	if err := json.NewEncoder(inWrite).Encode(spec); err != nil {
		return nil, errors.Join(fmt.Errorf("instruct the %s: %w", a.name, err), a.close())
	}
	return a, nil
}

// read passes events on until the application closes its output.
func (a *appProcess) read(out *os.File) {
	defer close(a.events)
	defer out.Close()
	for decoder := json.NewDecoder(out); ; {
		var e appEvent
		if decoder.Decode(&e) != nil {
			return
		}
		a.events <- e
	}
}

// wait returns the next event of a kind. Events of other kinds go to other, which
// may be nil.
func (a *appProcess) wait(ctx context.Context, kind string, other func(*appEvent)) (*appEvent, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case e, open := <-a.events:
			switch {
			case !open:
				<-a.exited
				return nil, a.failure()
			case e.Kind == kindFailed:
				return nil, fmt.Errorf("%s: %s", a.name, e.Text)
			case e.Kind == kind:
				return &e, nil
			case other != nil:
				other(&e)
			}
		}
	}
}

// tellDone says that the writer is done.
func (a *appProcess) tellDone() error {
	if _, err := io.WriteString(a.input, "stop\n"); err != nil {
		return fmt.Errorf("stop the %s: %w", a.name, err)
	}
	return nil
}

// close makes the application leave and waits for it.
func (a *appProcess) close() error {
	_ = a.input.Close() // the end of its input; it may have left already
	go func() {
		for range a.events { // so that a last event does not hold it up
		}
	}()
	return a.waitOrKill()
}
