package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	stopLimit  = 5 * time.Second  // for a process to leave after it was asked to
	readyLimit = 15 * time.Second // from start to READY; a daemon registers its arena meanwhile
)

// starter starts a command on a thread that stays as long as the process may live:
// the kernel sends the parent-death signal when the forking thread ends. Where it
// starts the command (namespace, CPUs) is the starter's affair.
type starter func(*exec.Cmd) error

// spawner is a starter whose children run where its thread may: on one CPU.
type spawner struct {
	requests chan spawnRequest
	done     chan struct{}
}

type spawnRequest struct {
	command *exec.Cmd
	answer  chan error
}

// newSpawner starts the thread. cpu is where it and its children run, -1 for
// anywhere.
func newSpawner(cpu int) (*spawner, error) {
	s := &spawner{requests: make(chan spawnRequest), done: make(chan struct{})}
	ready := make(chan error)
	go s.run(cpu, ready)
	if err := <-ready; err != nil {
		return nil, err
	}
	return s, nil
}

func (s *spawner) run(cpu int, ready chan<- error) {
	defer close(s.done)
	err := pinThread(cpu)
	ready <- err
	if err != nil {
		return
	}
	for r := range s.requests {
		r.answer <- r.command.Start()
	}
}

// pinThread locks the goroutine to its thread and that to a CPU, -1 for any. It is
// never unlocked: the thread's CPUs are not those of others, and Go ends a thread
// whose goroutine returns while locked.
func pinThread(cpu int) error {
	runtime.LockOSThread()
	if cpu < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("run on CPU %d: %w", cpu, err)
	}
	return nil
}

// start is a starter.
func (s *spawner) start(command *exec.Cmd) error {
	answer := make(chan error)
	s.requests <- spawnRequest{command, answer}
	return <-answer
}

// close ends the thread. All children must have been waited for.
func (s *spawner) close() {
	close(s.requests)
	<-s.done
}

// process is a started child and what became of it.
type process struct {
	name    string
	command *exec.Cmd
	exited  chan struct{} // closed when err is valid
	err     error
}

// newProcess starts command and watches it. It is killed when this process dies.
func newProcess(start starter, name string, command *exec.Cmd) (*process, error) {
	command.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: unix.SIGKILL,
		Setpgid:   true, // an interrupt from the terminal is the lab's to handle
	}
	if err := start(command); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, command: command, exited: make(chan struct{})}
	go func() {
		p.err = command.Wait()
		close(p.exited)
	}()
	return p, nil
}

// failure describes the end of a process that should still run.
func (p *process) failure() error {
	if p.err == nil {
		return fmt.Errorf("%s left early", p.name)
	}
	return fmt.Errorf("%s ended: %w", p.name, p.err)
}

// stop asks the process to leave, kills it when it does not, and waits for it. The
// error says when it had to be killed or reported one itself.
func (p *process) stop() error {
	err := p.command.Process.Signal(unix.SIGTERM)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	return p.waitOrKill()
}

func (p *process) waitOrKill() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	select {
	case <-p.exited:
	case <-ctx.Done():
		_ = p.command.Process.Kill() // it can only have left by itself meanwhile
		<-p.exited
		return fmt.Errorf("%s did not stop within %v and was killed", p.name, stopLimit)
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w", p.name, p.err)
	}
	return nil
}

// startNotifying starts a command that tells systemd when it is ready, and waits
// until it does. The socket for that is made in dir.
func startNotifying(ctx context.Context, start starter, name string, command *exec.Cmd, dir string) (*process, error) {
	path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".notify")
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("readiness socket of the %s: %w", name, err)
	}
	command.Env = append(os.Environ(), "NOTIFY_SOCKET="+path)
	p, err := newProcess(start, name, command)
	if err != nil {
		return nil, errors.Join(err, notify.Close())
	}
	// It may tell more until it exits, which nobody reads.
	go func() {
		<-p.exited
		_ = notify.Close()
	}()
	if err := p.waitReady(ctx, notify); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// waitReady waits for READY=1 as sd_notify(3) sends it.
func (p *process) waitReady(ctx context.Context, notify *net.UnixConn) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	ready := make(chan error, 1)
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := notify.Read(buffer)
			if err != nil || strings.Contains("\n"+string(buffer[:n])+"\n", "\nREADY=1\n") {
				ready <- err
				return
			}
		}
	}()
	// In the other cases the goroutine ends with the process, when notify is closed.
	select {
	case err := <-ready:
		return err
	case <-p.exited:
		return p.failure()
	case <-ctx.Done():
		return fmt.Errorf("%s is not ready: %w", p.name, ctx.Err())
	}
}
