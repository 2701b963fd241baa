package testenv

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ErrClosed is returned by Do after the test has ended, or after a function
// passed to Do has ended its goroutine.
var ErrClosed = errors.New("testenv: network namespace is closed")

// NetNS is a fresh network namespace. Its methods may be called from any
// goroutine; functions passed to Do run one at a time.
type NetNS struct {
	fd   netns.NsHandle
	jobs chan job

	stop     chan struct{} // closed by close: the thread shall end
	done     chan struct{} // closed by the thread: it serves no more jobs
	stopOnce sync.Once
}

type job struct {
	run    func() error
	result chan<- error
}

// NewNetNS creates a namespace with its loopback interface up and IPv6 off on
// interfaces yet to come. It is gone when the test ends; sockets opened inside it
// must be closed by then or they keep it alive. NewNetNS calls RequireRoot.
func NewNetNS(t testing.TB) *NetNS {
	t.Helper()
	RequireRoot(t)
	ns := &NetNS{
		jobs: make(chan job),
		stop: make(chan struct{}),
		done: make(chan struct{}),
	}
	ready := make(chan error, 1)
	go ns.serve(ready)
	if err := <-ready; err != nil {
		t.Fatalf("testenv: new network namespace: %v", err)
	}
	t.Cleanup(ns.close)
	return ns
}

// Fd returns the namespace's file descriptor, for moving links by netlink. It
// stays owned by ns and is closed when the test ends.
func (ns *NetNS) Fd() int { return int(ns.fd) }

// Do runs f on the thread that lives in the namespace and returns its error.
// f must not call Do of the same namespace, nor t.FailNow and its relatives: these
// end the calling goroutine, which here is the namespace's own.
func (ns *NetNS) Do(f func() error) error {
	result := make(chan error, 1)
	select {
	case ns.jobs <- job{f, result}:
	case <-ns.done:
		return ErrClosed
	}
	select {
	case err := <-result:
		return err
	case <-ns.done:
	}
	// The thread may have answered and then ended.
	select {
	case err := <-result:
		return err
	default:
		return ErrClosed
	}
}

// handle returns a netlink handle whose socket is inside the namespace.
func (ns *NetNS) handle() (*netlink.Handle, error) {
	var h *netlink.Handle
	err := ns.Do(func() (err error) {
		h, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	return h, err
}

func (ns *NetNS) close() {
	ns.stopOnce.Do(func() { close(ns.stop) })
	<-ns.done
	ns.fd.Close()
}

// serve owns the thread. It never unlocks it, so the runtime ends the thread
// with the goroutine instead of giving a thread in a foreign namespace to others.
func (ns *NetNS) serve(ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The main thread cannot end before the process does, and /proc/self
		// follows it. Hold it until another goroutine has a thread of its own.
		locked := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(locked)
			ns.serve(ready)
		}()
		<-locked
		runtime.UnlockOSThread()
		return
	}
	defer close(ns.done)
	if err := ns.enter(); err != nil {
		ready <- err
		return
	}
	ready <- nil
	for {
		select {
		case j := <-ns.jobs:
			j.result <- j.run()
		case <-ns.stop:
			return
		}
	}
}

// enter moves the calling thread into a new namespace and prepares it.
func (ns *NetNS) enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	fd, err := netns.Get()
	if err != nil {
		return fmt.Errorf("open the new namespace: %w", err)
	}
	ns.fd = fd
	if err := writeSysctl("net/ipv6/conf/default/disable_ipv6", "1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer h.Close()
	lo, err := h.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	return h.LinkSetUp(lo)
}

// writeSysctl writes below /proc/sys, in the namespace of the calling thread.
func writeSysctl(name, value string) error {
	return os.WriteFile("/proc/sys/"+name, []byte(value), 0)
}
