package xdp

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/bpf"
)

// deviceKey names a device: an index is unique only within a network namespace.
type deviceKey struct {
	netns   uint64 // inode of the namespace
	ifindex int
}

// device is an interface with the steering program on it, shared by the ports of
// its queues.
type device struct {
	key      deviceKey
	name     string
	program  *bpf.Program
	generic  bool            // the program runs in generic mode
	ports    map[uint32]bool // queues with a port
	zeroCopy bool            // worth trying
	reason   string          // why not zeroCopy
}

// maxVLANHeader is Ethernet with two VLAN tags and frame check sequence, which
// drivers count into the room for a packet.
const maxVLANHeader = 14 + 2*4 + 4

// maxMTU returns the largest MTU whose packets fit frames of frameSize bytes behind
// the headroom that the kernel keeps in front of received packets.
func maxMTU(frameSize uint32) int {
	return int(frameSize) - unix.XDP_PACKET_HEADROOM - maxVLANHeader
}

// probe finds the interface in the calling thread's network namespace and refuses
// what cannot work. The warning, if any, is for the operator.
func probe(name string, frameSize uint32) (link netlink.Link, warning string, err error) {
	link, err = netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		return nil, "", fmt.Errorf("%w; check plane.interface in the configuration", ErrNoInterface)
	case err != nil:
		return nil, "", fmt.Errorf("find interface: %w", err)
	}
	if err := checkKind(link, netlink.LinkByIndex, netlink.LinkList); err != nil {
		return nil, "", err
	}
	attrs := link.Attrs()
	if limit := maxMTU(frameSize); attrs.MTU > limit {
		return nil, "", fmt.Errorf("%w: MTU is %d, frames of %d bytes take at most %d; lower it (ip link set %s mtu %d)", ErrMTU, attrs.MTU, frameSize, limit, name, limit)
	}
	if attrs.Flags&net.FlagUp == 0 {
		warning = fmt.Sprintf("interface is down and carries nothing until it is up (ip link set %s up)", name)
	}
	return link, warning, nil
}

// checkKind refuses interfaces on top of others. Their frames reach XDP only in
// generic mode, or vanish: the program belongs on the interface below.
func checkKind(link netlink.Link, byIndex func(int) (netlink.Link, error), all func() ([]netlink.Link, error)) error {
	var lower []string
	attrs := link.Attrs()
	switch link.Type() {
	case "vlan", "macvlan", "macvtap", "ipvlan", "ipvtap":
		if below, err := byIndex(attrs.ParentIndex); err == nil {
			lower = append(lower, below.Attrs().Name)
		}
	case "bond", "team", "bridge":
		links, err := all()
		if err != nil {
			return fmt.Errorf("list interfaces: %w", err)
		}
		for _, member := range links {
			if member.Attrs().MasterIndex == attrs.Index {
				lower = append(lower, member.Attrs().Name)
			}
		}
	default:
		return nil
	}
	below := "the interface below it"
	if len(lower) > 0 {
		below = strings.Join(lower, ", ")
	}
	return fmt.Errorf("%w: it is a %s interface, which AF_XDP does not serve; use %s instead", ErrUnsuitable, link.Type(), below)
}

// checkQueue refuses queues the device does not have in use. Packets leave through
// the transmit queue of the same number. Drivers that do not tell are asked only
// how many queues they could have.
func checkQueue(link netlink.Link, queue uint32) error {
	attrs := link.Attrs()
	rx, tx, err := readChannels(attrs.Name)
	if err != nil || rx == 0 || tx == 0 {
		rx, tx = uint32(attrs.NumRxQueues), uint32(attrs.NumTxQueues)
	}
	if limit := min(rx, tx); queue >= limit {
		return fmt.Errorf("%w: queue %d, the interface has %d receive and %d transmit queues: choose one below %d, or change their number (ethtool -L %s)",
			ErrNoQueue, queue, rx, tx, limit, attrs.Name)
	}
	return nil
}

// currentNetNS identifies the calling thread's network namespace.
func currentNetNS() (uint64, error) {
	var stat unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &stat); err != nil {
		return 0, fmt.Errorf("identify the network namespace: %w", err)
	}
	return stat.Ino, nil
}

// attach puts the steering program on the device and judges zero-copy.
func attach(o opener, link netlink.Link, key deviceKey, mode Mode, udpPort uint16) (d *device, warning string, err error) {
	program, attached, err := o.attach(key.ifindex, mode.attachMode(), udpPort)
	if err != nil {
		return nil, "", err
	}
	d = &device{
		key:     key,
		name:    link.Attrs().Name,
		program: program,
		generic: attached.Mode == bpf.Generic,
		ports:   map[uint32]bool{},
	}
	announced, known := announcesZeroCopy(key.ifindex)
	switch {
	case d.generic:
		d.reason = "the XDP program runs in generic mode"
	case known && !announced:
		d.reason = fmt.Sprintf("driver of %s interfaces has no AF_XDP zero-copy", link.Type())
	default:
		d.zeroCopy = true
	}
	return d, attached.Warning, nil
}
