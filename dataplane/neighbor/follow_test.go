package neighbor

import (
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestLinkDownAndUp(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	h.run()
	h.want("10.1.0.2", theirMAC)

	h.onLink(h.peer, "far", func(link netlink.Link) error { return netlink.LinkSetDown(link) }) // no carrier
	h.wantLink(LinkChange{MTU: 1500})
	h.want("10.1.0.2", nil)
	if _, ok := h.table.PlaneFor(netip.MustParseAddr("10.1.0.2")); ok {
		t.Error("a plane that is down was chosen")
	}
	h.onLink(h.peer, "far", func(link netlink.Link) error { return netlink.LinkSetUp(link) })
	h.wantLink(LinkChange{Up: true, MTU: 1500})
	h.want("10.1.0.2", theirMAC)

	h.onLink(h.ours, "plane0", func(link netlink.Link) error { return netlink.LinkSetDown(link) })
	h.wantLink(LinkChange{MTU: 1500})
	h.want("10.1.0.2", nil)
	h.onLink(h.ours, "plane0", func(link netlink.Link) error { return netlink.LinkSetUp(link) })
	h.wantLink(LinkChange{Up: true, MTU: 1500})
	h.want("10.1.0.2", theirMAC)
}

func TestMTUAndMACOfThePlane(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	h.run()
	h.want("10.1.0.2", theirMAC)
	h.onLink(h.ours, "plane0", func(link netlink.Link) error { return netlink.LinkSetMTU(link, 1400) })
	h.wantLink(LinkChange{Up: true, MTU: 1400})

	h.onLink(h.ours, "plane0", func(link netlink.Link) error { return netlink.LinkSetHardwareAddr(link, otherMAC) })
	h.plane.MAC = [6]byte(otherMAC) // what want compares with
	h.want("10.1.0.2", theirMAC)
}

func TestAddressRemovedAndBack(t *testing.T) {
	for _, c := range []struct{ name, ours, theirs, peer string }{
		{"IPv4", "10.1.0.1/24", "10.1.0.2/24", "10.1.0.2"},
		{"IPv6", "fd00:1::1/64", "fd00:1::2/64", "fd00:1::2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t, c.ours, c.theirs)
			h.run()
			h.want(c.peer, theirMAC)
			addr := &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix(c.ours)), Flags: unix.IFA_F_NODAD}
			h.onLink(h.ours, "plane0", func(link netlink.Link) error { return netlink.AddrDel(link, addr) })
			h.wantLink(LinkChange{MTU: 1500})
			h.want(c.peer, nil)
			h.onLink(h.ours, "plane0", func(link netlink.Link) error { return netlink.AddrAdd(link, addr) })
			h.wantLink(LinkChange{Up: true, MTU: 1500})
			h.want(c.peer, theirMAC)
		})
	}
}

func TestDeviceDeleted(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	h.run()
	h.want("10.1.0.2", theirMAC)
	h.onLink(h.ours, "plane0", func(link netlink.Link) error { return netlink.LinkDel(link) })
	h.wantLink(LinkChange{Gone: true, MTU: 1500})
	h.want("10.1.0.2", nil)
}

// What happens between LookupPlane and Run is not missed.
func TestDeviceDeletedBeforeRun(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	h.onLink(h.ours, "plane0", func(link netlink.Link) error { return netlink.LinkDel(link) })
	h.run()
	h.wantLink(LinkChange{Gone: true, MTU: 1500})
}

// After an overrun everything is read again: here a table that has heard nothing.
func TestLostNotices(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	table := h.table
	table.planes[0].Up, table.planes[0].hasAddress = false, false
	table.planes[0].usable.Store(false)
	table.neighbors[hop{0, netip.MustParseAddr("10.1.0.9")}] = [6]byte(otherMAC)
	h.onLink(h.ours, "plane0", func(link netlink.Link) error {
		return netlink.NeighSet(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, IP: net.ParseIP("10.1.0.2"), HardwareAddr: theirMAC, State: netlink.NUD_PERMANENT,
		})
	})
	table.take(batch{lost: true})
	if !table.planes[0].usable.Load() || !table.rerouteDue {
		t.Errorf("plane usable %v, routes looked up again %v", table.planes[0].usable.Load(), table.rerouteDue)
	}
	if got := table.neighbors[hop{0, netip.MustParseAddr("10.1.0.2")}]; len(table.neighbors) != 1 || got != [6]byte(theirMAC) {
		t.Errorf("neighbours %v", table.neighbors)
	}
	h.run()
}

// An overrun of the kernel's buffer is passed on as such, and reading goes on.
func TestOverrunIsNoticed(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	defer h.table.kernel.close()
	n := h.table.notices
	if err := n.socket.SetReceiveBufferSize(4096, true); err != nil {
		t.Fatal(err)
	}
	announce := func(count int) {
		h.onLink(h.ours, "plane0", func(link netlink.Link) error {
			for i := range count {
				ip := netip.AddrFrom4([4]byte{10, 1, 0, byte(3 + i)})
				err := netlink.NeighSet(&netlink.Neigh{
					LinkIndex: link.Attrs().Index, IP: ip.AsSlice(), HardwareAddr: otherMAC, State: netlink.NUD_PERMANENT,
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	announce(200)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.read()
	}()
	h.wantBatch("an overrun", func(b batch) bool { return b.lost })
	h.onLink(h.ours, "plane0", func(link netlink.Link) error { return netlink.LinkSetMTU(link, 1400) })
	h.wantBatch("a notice after the overrun", func(b batch) bool {
		return slices.ContainsFunc(b.messages, func(m syscall.NetlinkMessage) bool { return m.Header.Type == unix.RTM_NEWLINK })
	})
	n.close()
	<-ended
}

// An entry that the kernel flushes is announced as deleted only, not as failed first.
func TestFlushedNeighbour(t *testing.T) {
	h := newHost(t, "10.1.0.1/24", "10.1.0.2/24")
	defer h.table.kernel.close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.table.notices.read()
	}()
	taken := func(kind uint16) func(batch) bool {
		return func(b batch) bool {
			h.table.take(b)
			return slices.ContainsFunc(b.messages, func(m syscall.NetlinkMessage) bool { return m.Header.Type == kind })
		}
	}
	h.onLink(h.ours, "plane0", func(link netlink.Link) error {
		return netlink.NeighSet(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, IP: net.ParseIP("10.1.0.2"), HardwareAddr: theirMAC, State: netlink.NUD_STALE,
		})
	})
	h.wantBatch("the entry", taken(unix.RTM_NEWNEIGH))
	if got := h.table.neighbors[hop{0, netip.MustParseAddr("10.1.0.2")}]; got != [6]byte(theirMAC) {
		t.Fatalf("neighbour at %x", got)
	}
	h.onLink(h.peer, "far", func(link netlink.Link) error { return netlink.LinkSetDown(link) })
	h.wantBatch("the flush", taken(unix.RTM_DELNEIGH))
	if len(h.table.neighbors) != 0 {
		t.Errorf("neighbours left: %v", h.table.neighbors)
	}
	h.table.notices.close()
	<-ended
}

// wantBatch reads notices until one is as wanted.
func (h *host) wantBatch(what string, wanted func(batch) bool) {
	h.t.Helper()
	deadline := time.After(patient)
	for {
		select {
		case b := <-h.table.notices.batches:
			if b.err != nil {
				h.t.Fatalf("%s: %v", what, b.err)
			}
			if wanted(b) {
				return
			}
		case <-deadline:
			h.t.Fatalf("not within %v: %s", patient, what)
		}
	}
}
