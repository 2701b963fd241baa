package fabric

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// namespace is a network namespace and the thread that lives in it. Functions given
// to do run one at a time.
type namespace struct {
	fd   int
	jobs chan func()
	done chan struct{} // closed by the thread when it ends
}

// newNamespace creates a namespace with lo up and IPv6 off on interfaces to come.
func newNamespace() (*namespace, error) {
	ns := &namespace{jobs: make(chan func()), done: make(chan struct{})}
	ready := make(chan error)
	go ns.serve(ready)
	if err := <-ready; err != nil {
		return nil, fmt.Errorf("create network namespace (needs CAP_SYS_ADMIN): %w", err)
	}
	return ns, nil
}

// serve never unlocks its thread: Go ends a thread whose goroutine returns locked,
// and children get their parent-death signal at that moment.
func (ns *namespace) serve(ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The main thread would end with the process only, and /proc/self shows
		// its namespace. Keep it busy until somebody else has another one.
		moved := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(moved)
			ns.serve(ready)
		}()
		<-moved
		runtime.UnlockOSThread()
		return
	}
	defer close(ns.done)
	err := ns.enter()
	ready <- err
	if err != nil {
		return
	}
	for job := range ns.jobs {
		job()
	}
}

// enter moves the calling thread into a new namespace and prepares it.
func (ns *namespace) enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	// Router solicitations and duplicate address detection would disturb counts.
	err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	ns.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return os.NewSyscallError("open namespace", err)
}

// do runs f on the namespace's thread. f must not end its goroutine.
func (ns *namespace) do(f func() error) error {
	result := make(chan error, 1)
	ns.jobs <- func() { result <- f() }
	return <-result
}

// start starts a command inside the namespace. It dies with this process.
func (ns *namespace) start(command *exec.Cmd) error {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Pdeathsig = unix.SIGKILL
	return ns.do(command.Start)
}

// close ends the thread, and with it processes that still run in the namespace.
func (ns *namespace) close() error {
	close(ns.jobs)
	<-ns.done
	return os.NewSyscallError("close namespace", unix.Close(ns.fd))
}
