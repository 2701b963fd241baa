package xdp

import (
	"encoding/binary"
	"errors"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The generic netlink family "netdev" (linux/netdev.h), since Linux 6.3.
const (
	netdevFamily          = "netdev"
	netdevCmdDevGet       = 1
	netdevAttrIfindex     = 1
	netdevAttrXDPFeatures = 3

	netdevXDPZeroCopy = 1 << 3 // NETDEV_XDP_ACT_XSK_ZEROCOPY
)

// genericHeader is struct genlmsghdr: command, version, and two bytes that newer
// families want zero, which nl.Genlmsg leaves to chance.
type genericHeader [nl.SizeofGenlmsg]byte

func (h genericHeader) Len() int          { return len(h) }
func (h genericHeader) Serialize() []byte { return h[:] }

// announcesZeroCopy reports whether the driver of a device in the calling thread's
// network namespace says it has AF_XDP zero-copy. known is false on kernels on
// which drivers cannot say.
func announcesZeroCopy(ifindex int) (zeroCopy, known bool) {
	features, err := xdpFeatures(ifindex)
	return features&netdevXDPZeroCopy != 0, err == nil
}

func xdpFeatures(ifindex int) (uint64, error) {
	family, err := netlink.GenlFamilyGet(netdevFamily)
	if err != nil {
		return 0, err
	}
	request := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	request.AddData(genericHeader{netdevCmdDevGet, 1})
	request.AddData(nl.NewRtAttr(netdevAttrIfindex, binary.NativeEndian.AppendUint32(nil, uint32(ifindex))))
	messages, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return 0, err
	}
	for _, message := range messages {
		if len(message) < nl.SizeofGenlmsg {
			continue
		}
		attributes, err := nl.ParseRouteAttr(message[nl.SizeofGenlmsg:])
		if err != nil {
			return 0, err
		}
		for _, attribute := range attributes {
			if attribute.Attr.Type == netdevAttrXDPFeatures && len(attribute.Value) >= 8 {
				return binary.NativeEndian.Uint64(attribute.Value), nil
			}
		}
	}
	return 0, errors.New("the kernel did not say which XDP features the device has")
}
