package xdp

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/bpf"
	"github.com/metaroced/metaroced/internal/testenv"
)

func TestConfigRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no interface", func(c *Config) { c.Interface = "" }, `interface name ""`},
		{"long interface", func(c *Config) { c.Interface = "sixteen-letters0" }, "1 to 15 characters"},
		{"odd ring", func(c *Config) { c.RxRing = 100 }, "receive ring of 100 entries, must be a power of two up to 65536"},
		{"big ring", func(c *Config) { c.TxRing = 1 << 17 }, "transmit ring of 131072"},
		{"many frames", func(c *Config) { c.TxFrames = 1<<16 + 1 }, "65537 transmit frames"},
		{"low budget", func(c *Config) { c.TxBudget = 31 }, "budget of 31 packets, must be from 32"},
		{"high budget", func(c *Config) { c.TxBudget = 4096 }, "transmit ring's 1024"},
		{"unknown mode", func(c *Config) { c.Mode = 9 }, "mode 9"},
		{"contradiction", func(c *Config) { c.Mode, c.RequireZeroCopy = Copy, true }, "mode is copy"},
		{"negative poll", func(c *Config) { c.BusyPoll.Micros = -1 }, "negative"},
		{"negative timeout", func(c *Config) { c.BindTimeout = -1 }, "negative"},
	} {
		c := Config{Interface: "eth2"}
		tc.change(&c)
		c = c.withDefaults()
		if err := c.check(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	c := Config{Interface: "eth2"}.withDefaults()
	if err := c.check(); err != nil || c.fillRing() != 2048 || c.completionRing() != 1024 {
		t.Errorf("defaults: %v, %+v", err, c)
	}
}

func TestModeWords(t *testing.T) {
	for _, mode := range []Mode{Auto, ZeroCopy, Copy, Generic} {
		if got, err := ParseMode(mode.String()); err != nil || got != mode {
			t.Errorf("%v: %v, %v", mode, got, err)
		}
	}
	if got, err := ParseMode(""); err != nil || got != Auto {
		t.Errorf("empty: %v, %v", got, err)
	}
	if _, err := ParseMode("fast"); err == nil || !strings.Contains(err.Error(), `"fast"`) {
		t.Error(err)
	}
}

// Interfaces on top of others are refused with the names of what is below.
func TestStackedInterfacesAreRefused(t *testing.T) {
	member := func(name string) netlink.Link {
		return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: name, Index: 8, MasterIndex: 7}}
	}
	parent := member("eth0")
	on := netlink.LinkAttrs{Name: "top", Index: 7, ParentIndex: 8}
	byIndex := func(index int) (netlink.Link, error) {
		if index != 8 {
			return nil, errors.New("wrong index")
		}
		return parent, nil
	}
	all := func() ([]netlink.Link, error) {
		stranger := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "eth9"}}
		return []netlink.Link{stranger, member("eth3"), member("eth4")}, nil
	}
	for _, tc := range []struct {
		link  netlink.Link
		below string
	}{
		{&netlink.Vlan{LinkAttrs: on}, "use eth0 instead"},
		{&netlink.Macvlan{LinkAttrs: on}, "use eth0 instead"},
		{&netlink.IPVlan{LinkAttrs: on}, "use eth0 instead"},
		{&netlink.Bond{LinkAttrs: on}, "use eth3, eth4 instead"},
		{&netlink.Bridge{LinkAttrs: on}, "use eth3, eth4 instead"},
		{&netlink.Vlan{}, "use the interface below it instead"},
	} {
		err := checkKind(tc.link, byIndex, all)
		if !errors.Is(err, ErrUnsuitable) || !strings.Contains(err.Error(), tc.below) || !strings.Contains(err.Error(), tc.link.Type()) {
			t.Errorf("%s: %v", tc.link.Type(), err)
		}
	}
	for _, link := range []netlink.Link{&netlink.Device{}, &netlink.Veth{}, &netlink.Tuntap{}} {
		if err := checkKind(link, byIndex, all); err != nil {
			t.Errorf("%s: %v", link.Type(), err)
		}
	}
}

// Whatever is refused leaves no program on the device.
func TestDeviceRefused(t *testing.T) {
	g := newGroup(t, 2<<20)
	p := newPlane(t, 0, testenv.VethOpts{})
	refuse := func(name string, c Config, want error, texts ...string) {
		t.Helper()
		opened, err := p.tryOpen(g, 0, c)
		if err == nil {
			_ = opened.Close()
		}
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
			return
		}
		for _, text := range append(texts, "metaroced: plane a0: ") {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %q does not say %q", name, err, text)
			}
		}
		p.change(t, 0, func(l netlink.Link) error {
			if xdp := l.Attrs().Xdp; xdp != nil && xdp.Attached {
				t.Errorf("%s: a program is left on the device", name)
			}
			return nil
		})
	}
	c := small
	c.Queue = 1
	refuse("queue", c, ErrNoQueue, "queue 1", "1 receive and 1 transmit")
	c = small
	c.RequireZeroCopy = true
	refuse("zero-copy required", c, ErrZeroCopy, "veth")
	c = small
	c.Mode = ZeroCopy
	refuse("zero-copy forced", c, ErrZeroCopy, "veth")
	c = small
	c.RxFrames = 4096
	refuse("frames", c, nil, "receive frames", "4096")

	p.change(t, 0, func(l netlink.Link) error { return netlink.LinkSetMTU(l, 9000) })
	refuse("MTU", small, ErrMTU, "9000", "3814")
	p.change(t, 0, func(l netlink.Link) error { return netlink.LinkSetMTU(l, 3814) })

	var log bytes.Buffer
	g.log = slog.New(slog.NewTextHandler(&log, nil))
	p.change(t, 0, netlink.LinkSetDown)
	if err := p.open(t, g, 0, small).Close(); err != nil || !strings.Contains(log.String(), "interface is down") {
		t.Errorf("%v, log %q", err, log.String())
	}

	p.change(t, 0, netlink.LinkDel)
	if _, err := p.tryOpen(g, 0, small); !errors.Is(err, ErrNoInterface) {
		t.Errorf("no interface: %v", err)
	}
}

// The largest packet of the largest MTU fits a frame.
func TestLargestMTU(t *testing.T) {
	g := newGroup(t, 2<<20)
	p := newPlane(t, 0, testenv.VethOpts{MTU: maxMTU(4096)})
	from, to := p.open(t, g, 0, small), p.open(t, g, 1, small)
	send(t, from, 0, 40, fixed(maxMTU(4096)+14))
	receive(t, to, 40)
	checkAccounts(t, from, to)
}

func TestMissingCapabilityIsNamed(t *testing.T) {
	g := newGroup(t, 2<<20)
	p := newPlane(t, 0, testenv.VethOpts{})
	for _, tc := range []struct {
		bit  uint
		name string
	}{
		{unix.CAP_NET_RAW, "CAP_NET_RAW"},
		{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"},
		{unix.CAP_BPF, "CAP_BPF"},
	} {
		var refused error
		err := p.spaces[0].Do(func() error {
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var data [2]unix.CapUserData
			if err := unix.Capget(&header, &data[0]); err != nil {
				return err
			}
			less := data
			less[tc.bit/32].Effective &^= 1 << (tc.bit % 32)
			if err := unix.Capset(&header, &less[0]); err != nil {
				return err
			}
			c := small
			c.Interface = p.names[0]
			_, refused = g.Open(c)
			return unix.Capset(&header, &data[0])
		})
		var missing *CapabilityError
		if err != nil || !errors.As(refused, &missing) || missing.Name != tc.name || !strings.Contains(refused.Error(), tc.name) {
			t.Errorf("%s: %v, %v", tc.name, refused, err)
		}
	}
}

// Another group, as another daemon would, finds our program and leaves it alone.
func TestOtherProgramIsNotReplaced(t *testing.T) {
	g, other := newGroup(t, 2<<20), newGroup(t, 2<<20)
	p := newPlane(t, 0, testenv.VethOpts{})
	from, to := p.open(t, g, 0, small), p.open(t, g, 1, small)
	_, err := p.tryOpen(other, 1, small)
	var occupied *bpf.ErrOtherProgram
	if !errors.As(err, &occupied) || !strings.Contains(err.Error(), "metaroced_xdp") {
		t.Errorf("%v", err)
	}
	send(t, from, 0, 4, fixed(100))
	receive(t, to, 4)
}

func TestGroupRefuses(t *testing.T) {
	if _, err := NewGroup(GroupConfig{}); err == nil {
		t.Error("group without an arena accepted")
	}
	g := newGroup(t, 1<<20)
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if _, err := g.Open(Config{Interface: "x"}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
