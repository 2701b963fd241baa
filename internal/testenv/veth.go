package testenv

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// carrierTimeout bounds the wait for both ends to have carrier. It takes well
// under a millisecond on an idle machine.
const carrierTimeout = 5 * time.Second

// VethOpts describes a veth pair. The zero value is a pair with the kernel's
// defaults: MTU 1500, one queue, random MAC addresses, no IP address.
type VethOpts struct {
	MTU    int // bytes above Ethernet; 0 = 1500
	Queues int // receive and transmit queues of each end; 0 = 1
	A, B   VethEnd
}

// VethEnd is what differs between the two ends of a pair.
type VethEnd struct {
	MAC      net.HardwareAddr // nil = random
	Prefixes []netip.Prefix   // addresses to add; IPv6 ones without duplicate detection
}

// Veth holds the interface indices of the two ends, each valid in its namespace.
type Veth struct {
	IndexA, IndexB int
}

// VethPair creates a veth pair with nameA in a and nameB in b (which may be the
// same namespace), adds the addresses, brings both ends up and returns when both
// have carrier. The pair is deleted when the test ends.
func VethPair(t testing.TB, a, b *NetNS, nameA, nameB string, opts VethOpts) Veth {
	t.Helper()
	veth, err := vethPair(a, b, nameA, nameB, opts)
	if err != nil {
		t.Fatalf("testenv: veth pair %s - %s: %v", nameA, nameB, err)
	}
	t.Cleanup(func() { deleteLink(a, veth.IndexA) })
	return veth
}

func vethPair(a, b *NetNS, nameA, nameB string, opts VethOpts) (Veth, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = nameA
	attrs.HardwareAddr = opts.A.MAC
	attrs.MTU = opts.MTU
	if opts.Queues > 0 {
		attrs.NumRxQueues, attrs.NumTxQueues = opts.Queues, opts.Queues
	}
	link := netlink.NewVeth(attrs)
	link.PeerName = nameB
	link.PeerHardwareAddr = opts.B.MAC
	link.PeerNamespace = netlink.NsFd(b.Fd())

	ha, err := a.handle()
	if err != nil {
		return Veth{}, err
	}
	defer ha.Close()
	if err := ha.LinkAdd(link); err != nil {
		return Veth{}, fmt.Errorf("add: %w", err)
	}
	var veth Veth
	if veth.IndexA, err = setUp(a, nameA, opts.A); err == nil {
		veth.IndexB, err = setUp(b, nameB, opts.B)
	}
	if err == nil {
		err = errors.Join(waitCarrier(a, veth.IndexA), waitCarrier(b, veth.IndexB))
	}
	if err != nil {
		return Veth{}, errors.Join(err, ha.LinkDel(link))
	}
	return veth, nil
}

// setUp gives the interface its addresses, brings it up and returns its index.
func setUp(ns *NetNS, name string, end VethEnd) (int, error) {
	h, err := ns.handle()
	if err != nil {
		return 0, err
	}
	defer h.Close()
	link, err := h.LinkByName(name)
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", name, err)
	}
	for _, prefix := range end.Prefixes {
		if prefix.Addr().Is6() {
			enable := func() error { return writeSysctl("net/ipv6/conf/"+name+"/disable_ipv6", "0") }
			if err := ns.Do(enable); err != nil {
				return 0, err
			}
		}
		if err := h.AddrAdd(link, address(prefix)); err != nil {
			return 0, fmt.Errorf("add %v to %s: %w", prefix, name, err)
		}
	}
	if err := h.LinkSetUp(link); err != nil {
		return 0, fmt.Errorf("bring %s up: %w", name, err)
	}
	return link.Attrs().Index, nil
}

func address(prefix netip.Prefix) *netlink.Addr {
	addr := prefix.Addr()
	result := &netlink.Addr{IPNet: &net.IPNet{
		IP:   addr.AsSlice(),
		Mask: net.CIDRMask(prefix.Bits(), addr.BitLen()),
	}}
	if addr.Is6() {
		result.Flags = ifaFlagNoDAD
	}
	return result
}

// ifaFlagNoDAD is IFA_F_NODAD of linux/if_addr.h: usable at once.
const ifaFlagNoDAD = 0x02

// waitCarrier returns when the interface can carry packets: the kernel announces
// carrier from a work queue, some time after both ends were brought up.
func waitCarrier(ns *NetNS, index int) error {
	h, err := ns.handle()
	if err != nil {
		return err
	}
	defer h.Close()
	deadline := time.Now().Add(carrierTimeout)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		link, err := h.LinkByIndex(index)
		if err != nil {
			return err
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s has no carrier after %v (state %v): %w",
				link.Attrs().Name, carrierTimeout, link.Attrs().OperState, os.ErrDeadlineExceeded)
		}
		<-tick.C
	}
}

// deleteLink removes a link, which may be gone already: deleting one end or
// either namespace deletes both ends.
func deleteLink(ns *NetNS, index int) {
	h, err := ns.handle()
	if err != nil {
		return
	}
	defer h.Close()
	if link, err := h.LinkByIndex(index); err == nil {
		_ = h.LinkDel(link)
	}
}
