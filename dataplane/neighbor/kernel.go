package neighbor

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// requestTimeout bounds one request. The kernel answers in microseconds unless
// somebody holds the lock of all network configuration.
const requestTimeout = 5 * time.Second

var errNoRoute = errors.New("no route")

// kernel asks by netlink. Its methods may be called concurrently; after close they
// return os.ErrClosed.
type kernel struct {
	mu     sync.Mutex
	handle *netlink.Handle // nil when closed
}

// openKernel opens the socket in the calling thread's network namespace.
func openKernel() (*kernel, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	if err := handle.SetSocketTimeout(requestTimeout); err != nil {
		handle.Close()
		return nil, fmt.Errorf("netlink timeout: %w", err)
	}
	return &kernel{handle: handle}, nil
}

func (k *kernel) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.handle != nil {
		k.handle.Close()
		k.handle = nil
	}
}

// do runs f with the handle. A closed handle would open sockets in whatever
// namespace the thread happens to be in, hence the check.
func (k *kernel) do(f func(h *netlink.Handle) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.handle == nil {
		return os.ErrClosed
	}
	return f(k.handle)
}

// nextHop returns the neighbour through which a plane reaches an address: the
// address itself when it is on the plane's network, else a gateway.
func (k *kernel) nextHop(p *Plane, dst netip.Addr) (next netip.Addr, err error) {
	err = k.do(func(h *netlink.Handle) error {
		options := netlink.RouteGetOptions{OifIndex: p.Index, SrcAddr: p.Addr.AsSlice(), FIBMatch: true}
		// Told the interface, the kernel takes addresses without a route for neighbours
		// (net/ipv4/route.c, ip_route_output_key_hash_rcu). Only the table entry tells.
		if _, err := h.RouteGetWithOptions(dst.AsSlice(), &options); err != nil {
			return err
		}
		options.FIBMatch = false
		routes, err := h.RouteGetWithOptions(dst.AsSlice(), &options)
		if err != nil {
			return err
		}
		next, err = gatewayOf(routes, p.Index, dst)
		return err
	})
	return next, err
}

func gatewayOf(routes []netlink.Route, index int, dst netip.Addr) (netip.Addr, error) {
	for i := range routes {
		route := &routes[i]
		if route.LinkIndex != index || route.Type != unix.RTN_UNICAST {
			continue
		}
		if gateway, ok := netip.AddrFromSlice(route.Gw); ok && !gateway.IsUnspecified() {
			return gateway.Unmap(), nil
		}
		if via, ok := route.Via.(*netlink.Via); ok { // IPv4 through an IPv6 gateway
			if gateway, ok := netip.AddrFromSlice(via.Addr); ok {
				return gateway.Unmap(), nil
			}
		}
		return dst, nil
	}
	return netip.Addr{}, errNoRoute
}

// interfaceTo returns the interface the kernel would choose for an address.
func (k *kernel) interfaceTo(dst netip.Addr) (index int, err error) {
	err = k.do(func(h *netlink.Handle) error {
		routes, err := h.RouteGet(dst.AsSlice())
		if err != nil {
			return err
		}
		for i := range routes {
			if routes[i].Type == unix.RTN_UNICAST {
				index = routes[i].LinkIndex
				return nil
			}
		}
		return errNoRoute
	})
	return index, err
}

// neighbors lists the entries of an interface.
func (k *kernel) neighbors(index int) (list []netlink.Neigh, err error) {
	err = k.do(func(h *netlink.Handle) error {
		list, err = h.NeighList(index, netlink.FAMILY_ALL)
		return err
	})
	return list, err
}

// use tells the kernel that a neighbour is about to be sent to: it resolves one it
// does not know and verifies one it has not heard of for long.
func (k *kernel) use(index int, ip netip.Addr) error {
	return k.do(func(h *netlink.Handle) error {
		return h.NeighSet(&netlink.Neigh{LinkIndex: index, IP: ip.AsSlice(), Flags: netlink.NTF_USE})
	})
}

// link returns an interface, or a netlink.LinkNotFoundError.
func (k *kernel) link(index int) (link netlink.Link, err error) {
	err = k.do(func(h *netlink.Handle) error {
		link, err = h.LinkByIndex(index)
		return err
	})
	return link, err
}

// hasAddress tells whether the plane's interface still has the plane's address.
func (k *kernel) hasAddress(p *Plane) (has bool, err error) {
	err = k.do(func(h *netlink.Handle) error {
		index := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: p.Index}}
		addrs, err := h.AddrList(index, netlink.FAMILY_ALL)
		for i := range addrs {
			prefix, ok := prefixOf(&addrs[i])
			has = has || ok && prefix.Addr() == p.Addr && usable(&addrs[i])
		}
		return err
	})
	return has, err
}
