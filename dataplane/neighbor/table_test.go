package neighbor

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/metaroced/metaroced/dataplane/frame"
	"github.com/metaroced/metaroced/internal/testenv"
)

func TestOnLink(t *testing.T) {
	for _, c := range []struct{ name, ours, theirs, peer string }{
		{"IPv4", "10.1.0.1/24", "10.1.0.2/24", "10.1.0.2"},
		{"IPv6", "fd00:1::1/64", "fd00:1::2/64", "fd00:1::2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t, c.ours, c.theirs)
			h.run()
			before := h.table.Generation()
			h.want(c.peer, theirMAC)
			if h.table.Generation() == before {
				t.Error("resolved without a new generation")
			}
		})
	}
}

func TestPeerPortIsItsOwn(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	h.run()
	for _, port := range []uint16{4797, 5000} {
		dst := wireAddr("10.1.0.2")
		dst.Port = port
		h.until("template", func() bool {
			template, ok := h.table.Resolve(0, dst)
			return ok && template == frame.MakeTemplate([6]byte(ourMAC), [6]byte(theirMAC), wireAddr("10.1.0.1"), dst, dscp)
		})
	}
}

func TestGatewayAndItsChange(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24", "10.1.0.3/24")
	h.run()
	h.addRoute("10.9.0.0/16", "10.1.0.2")
	h.want("10.9.0.7", theirMAC)

	// The other gateway gets an address of its own before the route moves to it.
	h.onLink(h.ours, "plane0", func(link netlink.Link) error {
		return netlink.NeighSet(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, IP: net.ParseIP("10.1.0.3"), HardwareAddr: otherMAC, State: netlink.NUD_PERMANENT,
		})
	})
	before := h.table.Generation()
	h.addRoute("10.9.0.0/16", "10.1.0.3")
	h.want("10.9.0.7", otherMAC)
	if h.table.Generation() == before {
		t.Error("the gateway changed without a new generation")
	}
	h.onLink(h.ours, "plane0", func(netlink.Link) error {
		return netlink.RouteDel(&netlink.Route{Dst: ipNet(netip.MustParsePrefix("10.9.0.0/16"))})
	})
	h.want("10.9.0.7", nil)
}

// Without a route the kernel would take the peer for a neighbour; we must not.
func TestNoRoute(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24", "172.16.0.1/24")
	h.run()
	h.table.Resolve(0, wireAddr("172.16.0.1"))
	h.want("10.1.0.2", theirMAC) // asked for later, so the other was looked at
	if _, ok := h.table.Resolve(0, wireAddr("172.16.0.1")); ok {
		t.Error("resolved without a route")
	}
	if plane, ok := h.table.PlaneFor(netip.MustParseAddr("172.16.0.1")); ok {
		t.Errorf("plane %d for an address without a route", plane)
	}
	h.addRoute("172.16.0.0/24", "10.1.0.2")
	h.want("172.16.0.1", theirMAC)
}

func TestNeighbourMovesAndFails(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	h.run()
	h.want("10.1.0.2", theirMAC)
	set := func(state int, mac net.HardwareAddr) {
		t.Helper()
		h.onLink(h.ours, "plane0", func(link netlink.Link) error {
			return netlink.NeighSet(&netlink.Neigh{
				LinkIndex: link.Attrs().Index, IP: net.ParseIP("10.1.0.2"), HardwareAddr: mac, State: state,
			})
		})
	}
	for _, state := range []int{netlink.NUD_REACHABLE, netlink.NUD_STALE, netlink.NUD_PERMANENT} {
		set(state, otherMAC)
		h.want("10.1.0.2", otherMAC)
		set(state, theirMAC)
		h.want("10.1.0.2", theirMAC)
	}
	// A failed neighbour is no longer used, and resolved anew because we ask.
	set(netlink.NUD_PERMANENT, otherMAC)
	h.want("10.1.0.2", otherMAC)
	before := h.table.Generation()
	set(netlink.NUD_FAILED, nil)
	h.until("a new generation", func() bool { return h.table.Generation() != before })
	h.want("10.1.0.2", theirMAC)
}

func TestDeletedNeighbourIsResolvedAnew(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	h.run()
	h.want("10.1.0.2", theirMAC)
	before := h.table.Generation()
	h.onLink(h.ours, "plane0", func(link netlink.Link) error {
		return netlink.NeighDel(&netlink.Neigh{LinkIndex: link.Attrs().Index, IP: net.ParseIP("10.1.0.2")})
	})
	h.until("a new generation", func() bool { return h.table.Generation() != before })
	h.want("10.1.0.2", theirMAC)
}

// A neighbour that answers late is found: somebody keeps asking.
func TestLateNeighbour(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	h.run()
	h.table.Resolve(0, wireAddr("10.1.0.9"))
	h.want("10.1.0.2", theirMAC)
	h.onLink(h.peer, "far", func(link netlink.Link) error {
		return netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix("10.1.0.9/24"))})
	})
	h.want("10.1.0.9", theirMAC)
}

// AF_XDP traffic does not refresh the kernel's entries: a stale one in use is
// verified because we tell the kernel.
func TestStaleNeighbourInUseIsVerified(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	h.table.timing.keepAlive = 50 * time.Millisecond
	h.run()
	h.onLink(h.ours, "plane0", func(link netlink.Link) error {
		return netlink.NeighSet(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, IP: net.ParseIP("10.1.0.2"), HardwareAddr: theirMAC, State: netlink.NUD_STALE,
		})
	})
	h.want("10.1.0.2", theirMAC)
	before := h.table.Generation()
	h.until("the kernel verifies", func() bool {
		h.table.Resolve(0, wireAddr("10.1.0.2"))
		var state int
		h.onLink(h.ours, "plane0", func(link netlink.Link) error {
			list, err := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_V4)
			for i := range list {
				state = list[i].State
			}
			return err
		})
		return state&(netlink.NUD_DELAY|netlink.NUD_PROBE|netlink.NUD_REACHABLE) != 0
	})
	h.until("users are asked to ask again", func() bool { return h.table.Generation() > before })
}

func TestUnusedPeersAreForgotten(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	h.table.timing.keepAlive, h.table.timing.forget = 5*time.Millisecond, 20*time.Millisecond
	h.table.timing.giveUp, h.table.timing.retry = 20*time.Millisecond, 5*time.Millisecond
	h.run()
	h.want("10.1.0.2", theirMAC)
	h.table.Resolve(0, wireAddr("10.1.0.77")) // answers never
	h.until("no peers", func() bool { return len(*h.table.published.Load()) == 0 && len(h.table.requests) == 0 })
	h.want("10.1.0.2", theirMAC)
}

func TestResolveRefusesTheOtherFamily(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	h.run()
	if _, ok := h.table.Resolve(0, wireAddr("fd00:1::2")); ok || len(h.table.requests) != 0 {
		t.Error("an IPv6 peer was asked for on an IPv4 plane")
	}
}

func TestNothingAllocates(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	unknown := wireAddr("10.1.0.99") // Run, which would allocate, does not take the requests yet
	if n := testing.AllocsPerRun(100, func() { h.table.Resolve(0, unknown) }); n != 0 {
		t.Errorf("unknown peer: %v allocations", n)
	}
	if n := len(h.table.requests); n == 0 {
		t.Error("nothing was asked for")
	}
	h.run()
	h.want("10.1.0.2", theirMAC)
	known := wireAddr("10.1.0.2")
	if n := testing.AllocsPerRun(100, func() {
		h.table.Resolve(0, known)
		h.table.Generation()
	}); n != 0 {
		t.Errorf("known peer: %v allocations", n)
	}
}

// Two planes: each peer is reached through its own.
func TestPlaneFor(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	testenv.VethPair(t, h.ours, h.peer, "plane1", "far1", testenv.VethOpts{
		A: testenv.VethEnd{Prefixes: prefixes("10.2.0.1/24")},
		B: testenv.VethEnd{Prefixes: prefixes("10.2.0.2/24")},
	})
	var table *Table
	h.in(h.ours, func() error {
		second, err := LookupPlane("plane1", netip.MustParseAddr("10.2.0.1"))
		if err != nil {
			return err
		}
		table, err = New([]Plane{h.plane, second}, udpPort, slog.New(slog.DiscardHandler))
		return err
	})
	h.run()
	h.table = table
	h.run()
	h.addRoute("10.9.0.0/16", "10.1.0.2")
	for _, c := range []struct {
		dst   string
		plane int
		ok    bool
	}{
		{"10.1.0.2", 0, true},
		{"10.2.0.2", 1, true},
		{"::ffff:10.2.0.2", 1, true},
		{"10.9.1.1", 0, true},
		{"10.3.0.1", 0, false},
		{"fd00::1", 0, false},
		{"10.2.0.1", 0, false}, // our own address: the kernel would not send it out
	} {
		if plane, ok := table.PlaneFor(netip.MustParseAddr(c.dst)); plane != c.plane || ok != c.ok {
			t.Errorf("%s: plane %d, %v; want %d, %v", c.dst, plane, ok, c.plane, c.ok)
		}
	}
}

func TestLookupPlaneErrors(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	h.run()
	for _, c := range []struct {
		name string
		want netip.Addr
		err  error
	}{
		{"plane9", netip.Addr{}, ErrNoInterface},
		{"lo", netip.Addr{}, ErrNotEthernet},
		{"plane0", netip.MustParseAddr("10.1.0.99"), ErrNoAddress},
	} {
		h.in(h.ours, func() error {
			if _, err := LookupPlane(c.name, c.want); !errors.Is(err, c.err) {
				t.Errorf("%s with %v: %v, want %v", c.name, c.want, err, c.err)
			}
			return nil
		})
	}
}
