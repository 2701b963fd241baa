package fabric

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
)

// carrierTimeout bounds the wait for links to come up, which takes milliseconds.
const carrierTimeout = 5 * time.Second

// Host is one of the two hosts.
type Host int

// The hosts.
const (
	HostA Host = iota
	HostB
)

// String returns "host-a" or "host-b".
func (h Host) String() string { return [...]string{"host-a", "host-b"}[h] }

// Direction is the way packets go.
type Direction int

// The directions.
const (
	AToB Direction = iota
	BToA
)

// String returns "a to b" or "b to a".
func (d Direction) String() string { return [...]string{"a to b", "b to a"}[d] }

// Interface returns the name of a plane's interface on either host.
func Interface(plane int) string { return fmt.Sprintf("plane%d", plane) }

// Address returns the address of a host on a plane: 10.77.<plane>.1/24 for host a,
// .2 for host b. It exists inside the lab's namespaces only.
func Address(host Host, plane int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, byte(plane), 1 + byte(host)}), 24)
}

// MAC returns the hardware address of a host on a plane.
func MAC(host Host, plane int) net.HardwareAddr {
	return net.HardwareAddr{0x02, 0x77, 0, 0, byte(plane), 1 + byte(host)}
}

// portOf returns the switch port that packets of a direction come in on.
func portOf(plane int, direction Direction) int { return 2*plane + int(direction) }

// portName returns the interface name of a switch port.
func portName(port int) string {
	return fmt.Sprintf("%c-plane%d", 'a'+rune(port%2), port/2)
}

// addLink creates the link between a host and the switch, both ends down, and
// returns the index of the switch's end. Call it on the switch's thread.
func addLink(host *namespace, port int, o *Options) (ifindex int, err error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = portName(port)
	attrs.MTU = o.MTU
	attrs.NumRxQueues, attrs.NumTxQueues = o.Queues, o.Queues
	link := netlink.NewVeth(attrs)
	link.PeerName = Interface(port / 2)
	link.PeerHardwareAddr = MAC(Host(port%2), port/2)
	link.PeerNamespace = netlink.NsFd(host.fd)
	if err := netlink.LinkAdd(link); err != nil {
		return 0, fmt.Errorf("add link %s: %w", attrs.Name, err)
	}
	made, err := netlink.LinkByName(attrs.Name)
	if err != nil {
		return 0, fmt.Errorf("find link %s: %w", attrs.Name, err)
	}
	return made.Attrs().Index, nil
}

// configureHost gives a host's interfaces addresses and brings them up. Call it on
// the host's thread.
func configureHost(host Host, planes int) error {
	for plane := range planes {
		name := Interface(plane)
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("%v: find %s: %w", host, name, err)
		}
		prefix := Address(host, plane)
		address := &netlink.Addr{IPNet: &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), 32)}}
		if err := netlink.AddrAdd(link, address); err != nil {
			return fmt.Errorf("%v: add %v to %s: %w", host, prefix, name, err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("%v: bring %s up: %w", host, name, err)
		}
		// Only now: a veth that is down does not tell its peer that it can be
		// redirected to.
		if err := setOffloads(name); err != nil {
			return fmt.Errorf("%v: %w", host, err)
		}
	}
	return nil
}

// setPorts brings both switch ports of a plane up or down, which gives or takes the
// hosts' carrier. Call it on the switch's thread.
func setPorts(plane int, up bool) error {
	for _, d := range [...]Direction{AToB, BToA} {
		name := portName(portOf(plane, d))
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		set, word := netlink.LinkSetDown, "down"
		if up {
			set, word = netlink.LinkSetUp, "up"
		}
		if err := set(link); err != nil {
			return fmt.Errorf("bring %s %s: %w", name, word, err)
		}
	}
	return nil
}

// waitCarrier returns when all interfaces of the calling thread's namespace can
// carry packets: the kernel says so some time after both ends are up.
func waitCarrier(names []string) error {
	deadline := time.Now().Add(carrierTimeout)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for _, name := range names {
		for {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return fmt.Errorf("find %s: %w", name, err)
			}
			state := link.Attrs().OperState
			if state == netlink.OperUp {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%s has no carrier after %v (state %v): %w", name, carrierTimeout, state, os.ErrDeadlineExceeded)
			}
			<-tick.C
		}
	}
	return nil
}
