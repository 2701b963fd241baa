package fabric

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// MaxPlanes is how many planes a fabric can have (MAX_PORTS in switch.c).
const MaxPlanes = 8

// Defaults and limits of Options.
const (
	DefaultPlanes = 4
	DefaultMTU    = 3498 // the most that a veth carries in one buffer, and a UMEM frame holds
	MinMTU        = 1280
	MaxMTU        = 9000 // held-back frames are at most 4088 bytes; larger ones are forwarded
	maxQueues     = 64
	defaultUDP    = 4797
)

// ErrClosed is returned by methods called after Close.
var ErrClosed = errors.New("fabric is closed")

// Options describes a fabric. Zero fields take defaults.
type Options struct {
	Planes  int    // links of each host; 0 = 4
	MTU     int    // bytes above Ethernet; 0 = 3498
	Queues  int    // receive and transmit queues of every interface; 0 = 1
	UDPPort uint16 // destination port of the packets to impair and count; 0 = 4797
}

func (o Options) withDefaults() (Options, error) {
	if o.Planes == 0 {
		o.Planes = DefaultPlanes
	}
	if o.MTU == 0 {
		o.MTU = DefaultMTU
	}
	if o.Queues == 0 {
		o.Queues = 1
	}
	if o.UDPPort == 0 {
		o.UDPPort = defaultUDP
	}
	for _, b := range [...]struct {
		name           string
		value, low, up int
	}{{"planes", o.Planes, 1, MaxPlanes}, {"MTU", o.MTU, MinMTU, MaxMTU}, {"queues", o.Queues, 1, maxQueues}} {
		if b.value < b.low || b.value > b.up {
			return o, fmt.Errorf("fabric with %s = %d, must be from %d to %d", b.name, b.value, b.low, b.up)
		}
	}
	return o, nil
}

// Fabric is a running network. Its methods may be called from any goroutine.
type Fabric struct {
	options Options

	mu       sync.Mutex
	closed   bool
	hosts    [2]*namespace
	switches *namespace
	program  *program
	holder   *holder
	settings []portSettings // by port
}

// portSettings is what a port shall do.
type portSettings struct {
	impairments Impairments
	rate        Rate
	failed      bool
	down        bool // the plane's links
}

// Open builds the network; when it returns every link has carrier and the switch
// forwards everything unharmed. It needs CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_NET_RAW
// and CAP_BPF.
func Open(options Options) (*Fabric, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Fabric{options: options, settings: make([]portSettings, 2*options.Planes)}
	if err := f.build(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Fabric) build() (err error) {
	for _, ns := range [...]**namespace{&f.hosts[HostA], &f.hosts[HostB], &f.switches} {
		if *ns, err = newNamespace(); err != nil {
			return err
		}
	}
	if err := f.switches.do(f.buildSwitch); err != nil {
		return err
	}
	for host, ns := range f.hosts {
		if err := ns.do(func() error { return configureHost(Host(host), f.options.Planes) }); err != nil {
			return err
		}
	}
	var names []string
	for plane := range f.options.Planes {
		names = append(names, Interface(plane))
	}
	for _, ns := range f.hosts {
		if err := ns.do(func() error { return waitCarrier(names) }); err != nil {
			return err
		}
	}
	return nil
}

// buildSwitch runs on the switch's thread.
func (f *Fabric) buildSwitch() (err error) {
	ports := 2 * f.options.Planes
	first := 0
	for port := range ports {
		index, err := addLink(f.hosts[port%2], port, &f.options)
		if err != nil {
			return err
		}
		if port == 0 {
			first = index
		}
		if index != first+port {
			return fmt.Errorf("switch port %d has interface index %d, not %d: the kernel numbers a new namespace's links in another way than the switch program needs", port, index, first+port)
		}
	}
	if f.program, err = loadProgram(first, ports, f.options.UDPPort); err != nil {
		return err
	}
	if f.holder, err = newHolder(f.program, first, ports); err != nil {
		return err
	}
	for plane := range f.options.Planes {
		if err := setPorts(plane, true); err != nil {
			return err
		}
	}
	return nil
}

// Close stops what still runs in the hosts, with SIGKILL, and removes the network.
// The owner of a command still has to Wait for it. Closing twice does nothing.
func (f *Fabric) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	var errs []error
	if f.holder != nil {
		errs = append(errs, f.holder.close())
	}
	if f.program != nil {
		errs = append(errs, f.program.close())
	}
	for _, ns := range [...]*namespace{f.hosts[HostA], f.hosts[HostB], f.switches} {
		if ns != nil {
			errs = append(errs, ns.close())
		}
	}
	return errors.Join(errs...)
}

// Options returns the options with defaults filled in.
func (f *Fabric) Options() Options { return f.options }

// Start starts a command on a host. It gets SIGKILL when the fabric is closed or
// this process ends. SysProcAttr and everything else of the command is the caller's
// to choose, but for Pdeathsig.
func (f *Fabric) Start(host Host, command *exec.Cmd) error {
	return f.on(f.hosts[host], func(ns *namespace) error { return ns.start(command) })
}

// Do runs fn on a thread of this process in the host's network namespace, for
// opening sockets there. fn must not end its goroutine, call Do, or take long.
func (f *Fabric) Do(host Host, fn func() error) error {
	return f.on(f.hosts[host], func(ns *namespace) error { return ns.do(fn) })
}

// DupNetNS returns a new descriptor of the host's network namespace, for setns. The
// caller closes it; while it is open the namespace stays.
func (f *Fabric) DupNetNS(host Host) (file *os.File, err error) {
	err = f.Do(host, func() error {
		file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return file, err
}

// on runs fn with a namespace while the fabric is open.
func (f *Fabric) on(ns *namespace, fn func(*namespace) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	return fn(ns)
}
