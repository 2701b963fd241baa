package neighbor

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// plane is a Plane as it is now. Name, Index, Addr and Prefix never change; the
// rest belongs to Run.
type plane struct {
	Plane
	hasAddress bool
	gone       bool
	reported   LinkChange
	number     int

	usable atomic.Bool // the link is operational and has its address
}

func (p *plane) init(number int, from Plane) {
	p.Plane, p.number, p.hasAddress = from, number, true
	p.usable.Store(from.Up)
	p.reported = p.change()
}

// change is the plane's state as Links reports it.
func (p *plane) change() LinkChange {
	return LinkChange{Plane: p.number, Up: p.usable.Load(), Gone: p.gone, MTU: p.MTU}
}

// pendingChange returns a change that was not reported yet, and the channel to
// report it on: nil when there is none.
func (t *Table) pendingChange() (LinkChange, chan<- LinkChange) {
	for i := range t.planes {
		if change := t.planes[i].change(); change != t.planes[i].reported {
			return change, t.links
		}
	}
	return LinkChange{}, nil
}

// readEverything asks the kernel for what notices would have told.
func (t *Table) readEverything() {
	clear(t.neighbors)
	for i := range t.planes {
		p := &t.planes[i]
		link, err := t.kernel.link(p.Index)
		var notFound netlink.LinkNotFoundError
		switch {
		case errors.As(err, &notFound):
			t.linkGone(p)
			continue
		case err != nil:
			t.log.Error("link not read", "plane", p.Name, "error", err)
		default:
			t.linkIs(p, link.Attrs())
		}
		t.readAddress(p)
		list, err := t.kernel.neighbors(p.Index)
		if err != nil {
			t.log.Error("neighbours not read", "plane", p.Name, "error", err)
		}
		for j := range list {
			t.neighborIs(&list[j])
		}
	}
	t.rerouteDue = true
}

// take works through what the kernel announced.
func (t *Table) take(b batch) {
	if b.lost {
		t.log.Warn("netlink notices were lost, reading everything again")
		t.readEverything()
		return
	}
	for i := range b.messages {
		t.takeOne(&b.messages[i])
	}
}

func (t *Table) takeOne(m *syscall.NetlinkMessage) {
	switch m.Header.Type {
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		if entry, err := netlink.NeighDeserialize(m.Data); err == nil {
			if m.Header.Type == unix.RTM_DELNEIGH {
				entry.State = netlink.NUD_NONE
			}
			t.neighborIs(entry)
		}
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		t.takeLink(m)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		index, ok := addressNoticeIndex(m.Data)
		if p := t.planeOf(index); ok && p != nil {
			t.readAddress(p)
		}
		t.rerouteDue = true
	default: // routes, rules, nexthops
		t.rerouteDue = true
	}
}

// planeOf returns the plane of an interface, nil when it is none of ours.
func (t *Table) planeOf(index int) *plane {
	for i := range t.planes {
		if p := &t.planes[i]; p.Index == index && !p.gone {
			return p
		}
	}
	return nil
}

// neighborIs takes the state of a kernel's entry.
func (t *Table) neighborIs(entry *netlink.Neigh) {
	const valid = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE |
		netlink.NUD_PERMANENT | netlink.NUD_NOARP
	p := t.planeOf(entry.LinkIndex)
	ip, ok := netip.AddrFromSlice(entry.IP)
	if p == nil || !ok || entry.Flags&netlink.NTF_PROXY != 0 {
		return
	}
	h := hop{p.number, ip.Unmap()}
	if entry.State&valid != 0 && len(entry.HardwareAddr) == 6 {
		t.neighbors[h] = [6]byte(entry.HardwareAddr)
	} else {
		delete(t.neighbors, h)
	}
}

func (t *Table) takeLink(m *syscall.NetlinkMessage) {
	// A bridge announces in its own family that a port has left it.
	if len(m.Data) < unix.SizeofIfInfomsg || m.Data[0] != unix.AF_UNSPEC {
		return
	}
	header := unix.NlMsghdr(m.Header)
	link, err := netlink.LinkDeserialize(&header, m.Data)
	if err != nil {
		return
	}
	p := t.planeOf(link.Attrs().Index)
	switch {
	case p == nil:
	case m.Header.Type == unix.RTM_DELLINK:
		t.linkGone(p)
	default:
		t.linkIs(p, link.Attrs())
	}
}

// linkIs takes the state of a plane's interface. The kernel drops routes of
// interfaces that go down without announcing each.
func (t *Table) linkIs(p *plane, attrs *netlink.LinkAttrs) {
	up := operational(attrs)
	if up != p.Up {
		p.Up, t.rerouteDue = up, true
	}
	if mac := attrs.HardwareAddr; len(mac) == 6 {
		p.MAC = [6]byte(mac)
	}
	p.MTU = attrs.MTU
	t.settle(p)
}

// linkGone is for interfaces that were deleted or moved to another namespace.
func (t *Table) linkGone(p *plane) {
	p.gone, p.Up, t.rerouteDue = true, false, true
	for h := range t.neighbors {
		if h.plane == p.number {
			delete(t.neighbors, h)
		}
	}
	t.settle(p)
}

func (t *Table) readAddress(p *plane) {
	has, err := t.kernel.hasAddress(&p.Plane)
	if err != nil {
		t.log.Error("addresses not read", "plane", p.Name, "error", err)
		return
	}
	p.hasAddress = has
	t.settle(p)
}

// settle makes of the parts whether the plane can be used.
func (t *Table) settle(p *plane) {
	usable := p.Up && p.hasAddress
	if usable == p.usable.Load() {
		return
	}
	p.usable.Store(usable)
	t.rerouteDue = true
	t.log.Info("plane changed", "plane", p.Name, "usable", usable, "link_up", p.Up,
		"has_address", p.hasAddress, "gone", p.gone)
}
