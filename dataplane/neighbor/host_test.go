package neighbor

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/metaroced/metaroced/dataplane/frame"
	"github.com/metaroced/metaroced/dataplane/wire"
	"github.com/metaroced/metaroced/internal/testenv"
)

const (
	udpPort = 4797
	patient = 10 * time.Second // how long a test waits for what takes milliseconds
)

var (
	ourMAC   = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	theirMAC = net.HardwareAddr{2, 0, 0, 0, 0, 2}
	otherMAC = net.HardwareAddr{2, 0, 0, 0, 0, 3}
)

// host is one end of a veth pair with a running table; the other end, peer, is
// another namespace that answers for several addresses.
type host struct {
	t     *testing.T
	ours  *testenv.NetNS
	peer  *testenv.NetNS
	table *Table
	plane Plane
}

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func newHost(t *testing.T, ours string, theirs ...string) *host {
	t.Helper()
	h := &host{t: t, ours: testenv.NewNetNS(t), peer: testenv.NewNetNS(t)}
	testenv.VethPair(t, h.ours, h.peer, "plane0", "far", testenv.VethOpts{
		A: testenv.VethEnd{MAC: ourMAC, Prefixes: prefixes(ours)},
		B: testenv.VethEnd{MAC: theirMAC, Prefixes: prefixes(theirs...)},
	})
	h.in(h.ours, func() (err error) {
		if h.plane, err = LookupPlane("plane0", netip.Addr{}); err != nil {
			return err
		}
		h.table, err = New([]Plane{h.plane}, udpPort, slog.New(slog.DiscardHandler))
		return err
	})
	return h
}

// run starts the table's Run, which ends with the test.
func (h *host) run() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended, table := make(chan error, 1), h.table
	go func() { ended <- table.Run(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Errorf("Run: %v", err)
		}
	})
}

func (h *host) in(ns *testenv.NetNS, f func() error) {
	h.t.Helper()
	if err := ns.Do(f); err != nil {
		h.t.Fatal(err)
	}
}

// onLink runs f in a namespace with an interface of it.
func (h *host) onLink(ns *testenv.NetNS, name string, f func(link netlink.Link) error) {
	h.t.Helper()
	h.in(ns, func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return f(link)
	})
}

func (h *host) addRoute(to, gateway string) {
	h.t.Helper()
	h.onLink(h.ours, "plane0", func(link netlink.Link) error {
		return netlink.RouteReplace(&netlink.Route{
			LinkIndex: link.Attrs().Index, Dst: ipNet(netip.MustParsePrefix(to)), Gw: net.ParseIP(gateway),
		})
	})
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func wireAddr(text string) wire.Addr {
	return wire.Addr{IP: netip.MustParseAddr(text).As16(), Port: udpPort}
}

// want waits until the peer resolves to a MAC address, nil: until it does not.
func (h *host) want(peer string, mac net.HardwareAddr) {
	h.t.Helper()
	dst := wireAddr(peer)
	h.until("peer "+peer+" at "+mac.String(), func() bool {
		template, ok := h.table.Resolve(0, dst)
		if mac == nil {
			return !ok
		}
		src := wire.Addr{IP: h.plane.Addr.As16(), Port: udpPort}
		return ok && template == frame.MakeTemplate(h.plane.MAC, [6]byte(mac), src, dst, dscp)
	})
}

// until polls a condition. The table is for polling: nothing tells of a new
// generation.
func (h *host) until(what string, condition func() bool) {
	h.t.Helper()
	deadline := time.NewTimer(patient)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			h.t.Fatalf("not within %v: %s", patient, what)
		}
	}
}

// wantLink waits for a report about the plane; others before it are allowed.
func (h *host) wantLink(want LinkChange) {
	h.t.Helper()
	deadline := time.After(patient)
	for {
		select {
		case got := <-h.table.Links():
			if got == want {
				return
			}
		case <-deadline:
			h.t.Fatalf("not within %v: %+v", patient, want)
		}
	}
}
