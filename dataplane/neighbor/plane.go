package neighbor

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Plane is a local interface as netlink describes it.
type Plane struct {
	Name   string
	Index  int
	MAC    [6]byte
	Addr   netip.Addr   // packets' source
	Prefix netip.Prefix // the network Addr is in
	MTU    int          // bytes above Ethernet
	Up     bool         // administratively up, and with a carrier
}

// Errors of LookupPlane.
var (
	ErrNoInterface = errors.New("no such interface")
	ErrNotEthernet = errors.New("not an Ethernet interface")
	ErrNoAddress   = errors.New("interface has no usable address")
)

// LookupPlane finds an interface of the calling thread's network namespace. want
// chooses one of its addresses; the zero Addr means the first that is not
// link-local, IPv4 before IPv6. Whether the interface can carry AF_XDP is for
// port/xdp to say.
func LookupPlane(name string, want netip.Addr) (Plane, error) {
	fail := func(err error) (Plane, error) {
		return Plane{}, fmt.Errorf("metaroced: plane %s: %w", name, err)
	}
	link, err := netlink.LinkByName(name)
	var notFound netlink.LinkNotFoundError
	if errors.As(err, &notFound) {
		return fail(fmt.Errorf("%w; there are: %s", ErrNoInterface, interfaceNames()))
	}
	if err != nil {
		return fail(fmt.Errorf("find the interface: %w", err))
	}
	attrs := link.Attrs()
	if attrs.EncapType != "ether" || len(attrs.HardwareAddr) != 6 {
		return fail(fmt.Errorf("%w (it is %q)", ErrNotEthernet, attrs.EncapType))
	}
	addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fail(fmt.Errorf("list addresses: %w", err))
	}
	prefix, err := choose(addrs, want.Unmap())
	if err != nil {
		return fail(fmt.Errorf("%w (ip address add ADDRESS/BITS dev %s)", err, name))
	}
	return Plane{
		Name:   name,
		Index:  attrs.Index,
		MAC:    [6]byte(attrs.HardwareAddr),
		Addr:   prefix.Addr(),
		Prefix: prefix.Masked(),
		MTU:    attrs.MTU,
		Up:     operational(attrs),
	}, nil
}

// choose returns the address to use, with the length of its prefix.
func choose(addrs []netlink.Addr, want netip.Addr) (netip.Prefix, error) {
	var best netip.Prefix
	var found []string
	for i := range addrs {
		prefix, ok := prefixOf(&addrs[i])
		if !ok {
			continue
		}
		ip := prefix.Addr()
		if !usable(&addrs[i]) {
			found = append(found, ip.String()+" (still checked for duplicates, or is one)")
			continue
		}
		found = append(found, ip.String())
		switch {
		case ip == want:
			return prefix, nil
		case want.IsValid() || ip.IsLinkLocalUnicast():
		case !best.IsValid() || ip.Is4() && !best.Addr().Is4():
			best = prefix
		}
	}
	if best.IsValid() {
		return best, nil
	}
	wanted := "any but link-local"
	if want.IsValid() {
		wanted = want.String()
	}
	return netip.Prefix{}, fmt.Errorf("%w: wanted %s, it has [%s]", ErrNoAddress, wanted, strings.Join(found, ", "))
}

func prefixOf(a *netlink.Addr) (netip.Prefix, bool) {
	ip, ok := netip.AddrFromSlice(a.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	bits, _ := a.Mask.Size()
	return netip.PrefixFrom(ip.Unmap(), bits), true
}

// usable tells whether the kernel would send from an address: IPv6 ones only after
// duplicate address detection (RFC 4862, 5.4).
func usable(a *netlink.Addr) bool {
	return a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) == 0
}

// operational tells whether packets can leave and arrive: RUNNING is the kernel's
// operational state (RFC 2863), LOWER_UP the carrier.
func operational(attrs *netlink.LinkAttrs) bool {
	const all = unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOWER_UP
	return attrs.RawFlags&all == all
}

func interfaceNames() string {
	links, err := netlink.LinkList()
	if err != nil {
		return err.Error()
	}
	names := make([]string, len(links))
	for i, link := range links {
		names[i] = link.Attrs().Name
	}
	return strings.Join(names, ", ")
}
