package neighbor

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Plane is a local interface as netlink describes it.
type Plane struct {
	Name   string
	Index  int
	MAC    [6]byte
	Addr   netip.Addr
	Prefix netip.Prefix
	MTU    int
	Up     bool // administratively, and it has a carrier
}

// ErrNoAddress says that an interface has no address to use.
var ErrNoAddress = errors.New("interface has no usable address")

// LookupPlane finds an interface of the calling thread's network namespace.
// want chooses one of its addresses; the zero Addr means the first, IPv4 before
// IPv6, that is not link-local.
func LookupPlane(name string, want netip.Addr) (Plane, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return Plane{}, fmt.Errorf("metaroced: plane %s: find interface: %w", name, err)
	}
	p := Plane{Name: name, Index: link.Attrs().Index, MTU: link.Attrs().MTU, Up: isUp(link.Attrs())}
	if mac := link.Attrs().HardwareAddr; len(mac) == 6 {
		p.MAC = [6]byte(mac)
	} else {
		return Plane{}, fmt.Errorf("metaroced: plane %s: hardware address %v is not Ethernet", name, mac)
	}
	addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return Plane{}, fmt.Errorf("metaroced: plane %s: list addresses: %w", name, err)
	}
	var found []string
	for _, a := range addrs {
		ip, ok := netip.AddrFromSlice(a.IP)
		if !ok {
			continue
		}
		ip = ip.Unmap()
		found = append(found, ip.String())
		if want.IsValid() && ip != want || !want.IsValid() && ip.IsLinkLocalUnicast() {
			continue
		}
		if p.Addr.IsValid() && (p.Addr.Is4() || !ip.Is4()) {
			continue
		}
		ones, _ := a.Mask.Size()
		p.Addr, p.Prefix = ip, netip.PrefixFrom(ip, ones).Masked()
	}
	if !p.Addr.IsValid() {
		return Plane{}, fmt.Errorf("metaroced: plane %s: %w (wanted %v, it has %v); give it one (ip address add ADDRESS/BITS dev %s)", name, ErrNoAddress, want, found, name)
	}
	return p, nil
}

func isUp(a *netlink.LinkAttrs) bool {
	return a.Flags&net.FlagUp != 0 && (a.OperState == netlink.OperUp || a.OperState == netlink.OperUnknown)
}
