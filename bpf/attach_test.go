package bpf

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/internal/testenv"
)

// device is a veth end in a namespace of its own.
type device struct {
	ns    *testenv.NetNS
	index int
}

func newDevice(t *testing.T, opts testenv.VethOpts) device {
	t.Helper()
	ns := testenv.NewNetNS(t)
	veth := testenv.VethPair(t, ns, ns, "plane", "peer", opts)
	return device{ns, veth.IndexA}
}

func (d device) attach(p *Program, mode AttachMode) (attached Attached, err error) {
	err = d.ns.Do(func() (err error) {
		attached, err = p.Attach(d.index, mode)
		return err
	})
	return attached, err
}

// xdp returns what the kernel says of the device's program.
func (d device) xdp(t *testing.T) netlink.LinkXdp {
	t.Helper()
	var xdp netlink.LinkXdp
	err := d.ns.Do(func() error {
		l, err := netlink.LinkByIndex(d.index)
		if err == nil && l.Attrs().Xdp != nil {
			xdp = *l.Attrs().Xdp
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return xdp
}

func (d device) mustAttach(t *testing.T, p *Program, mode, want AttachMode) Attached {
	t.Helper()
	attached, err := d.attach(p, mode)
	if err != nil {
		t.Fatal(err)
	}
	if attached.Mode != want {
		t.Errorf("attached in %v mode, want %v", attached.Mode, want)
	}
	kernelMode := map[AttachMode]uint32{Native: nl.XDP_ATTACHED_DRV, Generic: nl.XDP_ATTACHED_SKB}[want]
	if xdp := d.xdp(t); !xdp.Attached || xdp.AttachMode != kernelMode {
		t.Errorf("kernel says %+v, want mode %d", xdp, kernelMode)
	}
	return attached
}

func TestAttachModes(t *testing.T) {
	for _, tc := range []struct{ asked, want AttachMode }{
		{Auto, Native},
		{Native, Native},
		{Generic, Generic},
	} {
		t.Run(tc.asked.String(), func(t *testing.T) {
			p := load(t, Config{})
			d := newDevice(t, testenv.VethOpts{MTU: 3498})
			if got := d.mustAttach(t, p, tc.asked, tc.want); got.Warning != "" {
				t.Errorf("unexpected warning: %s", got.Warning)
			}
			if _, err := d.attach(p, tc.asked); err == nil {
				t.Error("attached twice")
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if xdp := d.xdp(t); xdp.Attached {
				t.Errorf("still attached after Close: %+v", xdp)
			}
		})
	}
}

// The loopback driver has no native XDP.
func TestAutoFallsBackToGeneric(t *testing.T) {
	p := load(t, Config{})
	d := device{testenv.NewNetNS(t), 1}
	if _, err := d.attach(p, Native); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("native on loopback: %v, want EOPNOTSUPP", err)
	}
	got := d.mustAttach(t, p, Auto, Generic)
	if !strings.Contains(got.Warning, "generic") || !strings.Contains(got.Warning, unix.EOPNOTSUPP.Error()) {
		t.Errorf("warning lacks the reason: %q", got.Warning)
	}
}

func TestOtherProgramIsNamedAndKept(t *testing.T) {
	for _, tc := range []struct {
		name  string
		flags int
	}{{"native", unix.XDP_FLAGS_DRV_MODE}, {"generic", unix.XDP_FLAGS_SKB_MODE}} {
		t.Run(tc.name, func(t *testing.T) {
			p := load(t, Config{})
			d := newDevice(t, testenv.VethOpts{})
			id := attachForeign(t, d, tc.flags)
			for _, mode := range []AttachMode{Auto, Native, Generic} {
				_, err := d.attach(p, mode)
				var other *ErrOtherProgram
				if !errors.As(err, &other) {
					t.Fatalf("%v: got %v, want ErrOtherProgram", mode, err)
				}
				want := ErrOtherProgram{Ifindex: d.index, Interface: "plane", ID: id, Name: "someone_else"}
				if *other != want {
					t.Errorf("%v: got %+v, want %+v", mode, *other, want)
				}
			}
			if xdp := d.xdp(t); xdp.ProgId != id {
				t.Errorf("program %d was replaced by %d", id, xdp.ProgId)
			}
		})
	}
}

// attachForeign puts a program of somebody else on the device, in the old way
// without a link, and returns its id.
func attachForeign(t *testing.T, d device, flags int) uint32 {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "someone_else",
		Type:         ebpf.XDP,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	err = d.ns.Do(func() error {
		l, err := netlink.LinkByIndex(d.index)
		if err != nil {
			return err
		}
		return netlink.LinkSetXdpFdWithFlags(l, prog.FD(), flags)
	})
	if err != nil {
		t.Fatal(err)
	}
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	return uint32(id)
}

func TestTwoProgramsOfOurs(t *testing.T) {
	first, second := load(t, Config{}), load(t, Config{})
	d := newDevice(t, testenv.VethOpts{})
	d.mustAttach(t, first, Auto, Native)
	_, err := d.attach(second, Auto)
	var other *ErrOtherProgram
	if !errors.As(err, &other) || other.Name != "metaroced_xdp" {
		t.Fatalf("got %v, want ErrOtherProgram naming metaroced_xdp", err)
	}
}

func TestNoSuchDevice(t *testing.T) {
	p := load(t, Config{})
	d := device{testenv.NewNetNS(t), 4242}
	if _, err := d.attach(p, Auto); err == nil || !strings.Contains(err.Error(), "4242") {
		t.Errorf("got %v, want an error naming the index", err)
	}
}

// Descriptors that nobody references are closed by the collector; everything of an
// attached program hangs on one structure.
func TestSurvivesGarbageCollection(t *testing.T) {
	p := load(t, Config{})
	d := newDevice(t, testenv.VethOpts{})
	d.mustAttach(t, p, Auto, Native)
	runtime.GC()
	runtime.GC()
	if xdp := d.xdp(t); !xdp.Attached {
		t.Error("the program was detached")
	}
	if _, err := p.Counters(); err != nil {
		t.Error(err)
	}
	if err := p.SetSocket(0, xskSocket(t)); err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(p)
}

// The daemon runs with few capabilities (deploy/metaroced.service). Only the thread
// of the namespace loses the others, and it ends with the test.
func TestFewCapabilitiesSuffice(t *testing.T) {
	d := newDevice(t, testenv.VethOpts{})
	err := d.ns.Do(func() error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var few [2]unix.CapUserData
		for _, c := range []uint{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW} {
			few[c/32].Effective |= 1 << (c % 32)
			few[c/32].Permitted |= 1 << (c % 32)
		}
		if err := unix.Capset(&header, &few[0]); err != nil {
			return err
		}
		first, err := Load(Config{})
		if err != nil {
			return err
		}
		defer first.Close()
		if _, err := first.Attach(d.index, Native); err != nil {
			return err
		}
		second, err := Load(Config{})
		if err != nil {
			return err
		}
		defer second.Close()
		_, err = second.Attach(d.index, Native)
		var other *ErrOtherProgram
		if !errors.As(err, &other) || other.ID == 0 || !strings.Contains(err.Error(), "CAP_SYS_ADMIN") {
			return fmt.Errorf("second program: got %w, want ErrOtherProgram without a name", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Each queue has a slot of its own. The kernel lets a test run name the queue of a
// device whose receive queues are registered, which attaching a program does.
func TestSlotBelongsToTheQueue(t *testing.T) {
	p := load(t, Config{})
	d := newDevice(t, testenv.VethOpts{Queues: 2})
	d.mustAttach(t, p, Auto, Native)
	if err := p.SetSocket(1, xskSocket(t)); err != nil {
		t.Fatal(err)
	}
	frame := headersOf(DefaultUDPPort)["IPv6"]
	noSocket := func(c *Counters) *uint64 { return &c.PassedNoSocket }
	steered := func(c *Counters) *uint64 { return &c.Steered }
	err := d.ns.Do(func() error {
		queue := func(q uint32) *xdpContext { return &xdpContext{Ifindex: uint32(d.index), RxQueue: q} }
		return errors.Join(
			steers(p, frame, queue(0), noSocket, xdpPass),
			steers(p, frame, queue(1), steered, xdpRedirect))
	})
	if err != nil {
		t.Fatal(err)
	}
}
