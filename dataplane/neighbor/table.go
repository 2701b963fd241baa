package neighbor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/dataplane/frame"
	"github.com/metaroced/metaroced/dataplane/wire"
)

const (
	maxRequests = 256                    // asked for and not yet served
	retryEvery  = 20 * time.Millisecond  // while a neighbour is not resolved
	giveUpAfter = 5 * time.Second        // of nobody asking again
	nudgeEvery  = 20 * time.Second       // so that an entry in use does not go stale
	usedWithin  = int64(2 * time.Minute) // what counts as in use
)

// key is a peer as one plane reaches it.
type key struct {
	plane int
	ip    netip.Addr
}

// entry is what is known of a peer. asked is written by workers.
type entry struct {
	dst      wire.Addr
	next     netip.Addr // neighbour: the peer itself or a gateway
	template frame.Template
	resolved bool
	asked    *atomic.Int64
}

type snapshot map[key]entry

// LinkChange says what became of a plane's link.
type LinkChange struct {
	Plane int
	Up    bool
	Gone  bool // the interface no longer exists
}

// Table resolves peers to frame templates.
type Table struct {
	planes     []Plane
	port       uint16
	log        *slog.Logger
	netlink    *netlink.Handle
	published  atomic.Pointer[snapshot]
	generation atomic.Uint64
	requests   chan request
	links      chan LinkChange
	start      time.Time
	entries    snapshot // the goroutine's own copy
	up         []bool
	updates    *subscription
}

type request struct {
	key key
	dst wire.Addr
}

// New makes a table for planes of the calling thread's network namespace and
// subscribes to changes, which Run then follows.
func New(planes []Plane, udpPort uint16, log *slog.Logger) (*Table, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("metaroced: netlink: %w", err)
	}
	t := &Table{
		planes: planes, port: udpPort, log: log, netlink: h, start: time.Now(),
		requests: make(chan request, maxRequests),
		links:    make(chan LinkChange, 4*len(planes)+16),
		entries:  snapshot{}, up: make([]bool, len(planes)),
	}
	for i := range planes {
		t.up[i] = planes[i].Up
	}
	t.published.Store(&snapshot{})
	if t.updates, err = subscribe(); err != nil {
		h.Close()
		return nil, err
	}
	return t, nil
}

// Generation grows whenever a template may have changed.
func (t *Table) Generation() uint64 { return t.generation.Load() }

// Links delivers changes of the planes' links.
func (t *Table) Links() <-chan LinkChange { return t.links }

// Resolve returns the frame for packets to a peer. When it is not known, it is
// asked for, and Generation grows once it is. It does not block.
func (t *Table) Resolve(plane int, dst wire.Addr) (frame.Template, bool) {
	if dst.Is4() != t.planes[plane].Addr.Is4() {
		return frame.Template{}, false // no packet can have both
	}
	k := key{plane, netip.AddrFrom16(dst.IP).Unmap()}
	e, ok := (*t.published.Load())[k]
	if ok {
		e.asked.Store(int64(time.Since(t.start)))
		if e.resolved && e.dst == dst {
			return e.template, true
		}
	}
	if !ok || e.dst != dst {
		select {
		case t.requests <- request{k, dst}:
		default: // the packet that asks comes again
		}
	}
	return frame.Template{}, false
}

// PlaneFor returns the plane that reaches an address: the one on whose network
// it is, else one with a route to it.
func (t *Table) PlaneFor(dst netip.Addr) (int, bool) {
	dst = dst.Unmap()
	for i := range t.planes {
		if t.planes[i].Prefix.Contains(dst) {
			return i, true
		}
	}
	for i := range t.planes {
		if _, err := t.nextHop(i, dst); err == nil {
			return i, true
		}
	}
	return 0, false
}

var errNoRoute = errors.New("no route out of this plane")

// nextHop is the neighbour through which a plane reaches an address.
func (t *Table) nextHop(plane int, dst netip.Addr) (netip.Addr, error) {
	p := &t.planes[plane]
	if p.Prefix.Contains(dst) {
		return dst, nil
	}
	routes, err := t.netlink.RouteGetWithOptions(dst.AsSlice(), &netlink.RouteGetOptions{OifIndex: p.Index})
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%w: %w", errNoRoute, err)
	}
	for i := range routes {
		if routes[i].LinkIndex != p.Index {
			continue
		}
		if gw, ok := netip.AddrFromSlice(routes[i].Gw); ok {
			return gw.Unmap(), nil
		}
		return dst, nil
	}
	return netip.Addr{}, errNoRoute
}

// Run follows netlink until ctx ends.
func (t *Table) Run(ctx context.Context) error {
	defer t.netlink.Close()
	defer func() { t.updates.close() }()
	retry := time.NewTicker(retryEvery)
	defer retry.Stop()
	nudge := time.NewTicker(nudgeEvery)
	defer nudge.Stop()
	unresolved := 0
	for {
		ticks := retry.C
		if unresolved == 0 {
			ticks = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case r := <-t.requests:
			t.add(r)
		case <-ticks:
		case <-nudge.C:
			t.nudge()
		case u, ok := <-t.updates.links:
			if !ok {
				if err := t.resubscribe(); err != nil {
					return err
				}
				break
			}
			t.linkChanged(u.Index, isUp(u.Attrs()), u.Header.Type == unix.RTM_DELLINK, u.Attrs().HardwareAddr)
		case _, ok := <-t.updates.neighbors:
			if err := t.tablesChanged(ok); err != nil {
				return err
			}
		case _, ok := <-t.updates.routes:
			if err := t.tablesChanged(ok); err != nil {
				return err
			}
		}
		unresolved = t.refresh()
	}
}

// tablesChanged takes notices of neighbours or routes; refresh reads them.
func (t *Table) tablesChanged(ok bool) error {
	if !ok {
		return t.resubscribe()
	}
	t.updates.drain()
	return nil
}

// resubscribe starts following anew after the kernel dropped notices.
func (t *Table) resubscribe() error {
	t.log.Warn("netlink notices were lost, reading everything again", "error", t.updates.reason())
	t.updates.close()
	next, err := subscribe()
	if err != nil {
		return err
	}
	t.updates = next
	t.readLinks()
	return nil
}

func (t *Table) add(r request) {
	asked := new(atomic.Int64)
	asked.Store(int64(time.Since(t.start)))
	t.entries[r.key] = entry{dst: r.dst, asked: asked}
}

// refresh reads the kernel's neighbours, resolves what it can, publishes and
// returns how many entries are not resolved.
func (t *Table) refresh() (unresolved int) {
	known := t.neighbors()
	changed := false
	now := int64(time.Since(t.start))
	for k, e := range t.entries {
		idle := now - e.asked.Load()
		if !e.resolved && idle > int64(giveUpAfter) {
			delete(t.entries, k)
			changed = true
			continue
		}
		was := e
		next, err := t.nextHop(k.plane, k.ip)
		mac, ok := known[key{k.plane, next}]
		e.next, e.resolved = next, err == nil && ok
		if e.resolved {
			p := &t.planes[k.plane]
			src := wire.Addr{IP: p.Addr.As16(), Port: t.port}
			e.template = frame.MakeTemplate(p.MAC, mac, src, e.dst, dscp)
		} else {
			unresolved++
			if err == nil && t.up[k.plane] {
				t.askKernel(k.plane, next)
			}
		}
		if e.resolved != was.resolved || e.template != was.template {
			changed = true
		}
		t.entries[k] = e
	}
	t.publish(changed)
	return unresolved
}

// dscp is the code point of each class of packets; the fabric needs none.
var dscp = [3]uint8{}

// publish shows the entries to workers.
func (t *Table) publish(changed bool) {
	next := make(snapshot, len(t.entries))
	for k, e := range t.entries {
		next[k] = e
	}
	t.published.Store(&next)
	if changed {
		t.generation.Add(1)
	}
}

// neighbors lists the usable entries of the planes' interfaces.
func (t *Table) neighbors() map[key][6]byte {
	known := map[key][6]byte{}
	for i := range t.planes {
		list, err := t.netlink.NeighList(t.planes[i].Index, netlink.FAMILY_ALL)
		if err != nil {
			continue // the interface is gone
		}
		for j := range list {
			n := &list[j]
			const usable = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT | netlink.NUD_NOARP
			ip, ok := netip.AddrFromSlice(n.IP)
			if ok && n.State&usable != 0 && len(n.HardwareAddr) == 6 {
				known[key{i, ip.Unmap()}] = [6]byte(n.HardwareAddr)
			}
		}
	}
	return known
}

// askKernel has the kernel resolve a neighbour, or verify that it is there.
func (t *Table) askKernel(plane int, ip netip.Addr) {
	family := netlink.FAMILY_V6
	if ip.Is4() {
		family = netlink.FAMILY_V4
	}
	err := t.netlink.NeighSet(&netlink.Neigh{
		LinkIndex: t.planes[plane].Index, Family: family, IP: ip.AsSlice(), Flags: netlink.NTF_USE,
	})
	if err != nil {
		t.log.Debug("neighbour not asked for", "plane", t.planes[plane].Name, "neighbour", ip, "error", err)
	}
}

// nudge keeps the kernel's entries alive that workers use.
func (t *Table) nudge() {
	now := int64(time.Since(t.start))
	for k, e := range t.entries {
		if e.resolved && now-e.asked.Load() < usedWithin {
			t.askKernel(k.plane, e.next)
		}
	}
}
