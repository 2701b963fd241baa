package neighbor

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// subscription is the kernel's notices. Lost ones are reported on failed.
type subscription struct {
	links     chan netlink.LinkUpdate
	neighbors chan netlink.NeighUpdate
	routes    chan netlink.RouteUpdate
	failed    chan error
	done      chan struct{}
}

const noticeBacklog = 256

func subscribe() (*subscription, error) {
	s := &subscription{
		links:     make(chan netlink.LinkUpdate, noticeBacklog),
		neighbors: make(chan netlink.NeighUpdate, noticeBacklog),
		routes:    make(chan netlink.RouteUpdate, noticeBacklog),
		failed:    make(chan error, 1),
		done:      make(chan struct{}),
	}
	report := func(err error) {
		select {
		case s.failed <- err:
		default:
		}
	}
	if err := netlink.LinkSubscribeWithOptions(s.links, s.done, netlink.LinkSubscribeOptions{ErrorCallback: report}); err != nil {
		return nil, fmt.Errorf("metaroced: follow links: %w", err)
	}
	if err := netlink.NeighSubscribeWithOptions(s.neighbors, s.done, netlink.NeighSubscribeOptions{ErrorCallback: report}); err != nil {
		s.close()
		return nil, fmt.Errorf("metaroced: follow neighbours: %w", err)
	}
	if err := netlink.RouteSubscribeWithOptions(s.routes, s.done, netlink.RouteSubscribeOptions{ErrorCallback: report}); err != nil {
		s.close()
		return nil, fmt.Errorf("metaroced: follow routes: %w", err)
	}
	return s, nil
}

func (s *subscription) close() { close(s.done) }

// reason is why a channel was closed, as far as the kernel said.
func (s *subscription) reason() error {
	select {
	case err := <-s.failed:
		return err
	default:
		return nil
	}
}

// drain takes notices that one reading of the tables covers.
func (s *subscription) drain() {
	for {
		select {
		case _, ok := <-s.neighbors:
			if !ok {
				return
			}
		case _, ok := <-s.routes:
			if !ok {
				return
			}
		default:
			return
		}
	}
}

// linkChanged follows one interface.
func (t *Table) linkChanged(index int32, up, gone bool, mac []byte) {
	for i := range t.planes {
		if t.planes[i].Index != int(index) {
			continue
		}
		if len(mac) == 6 {
			t.planes[i].MAC = [6]byte(mac)
		}
		if up = up && !gone; up == t.up[i] && !gone {
			return
		}
		t.up[i] = up
		t.links <- LinkChange{Plane: i, Up: up, Gone: gone}
	}
}

// readLinks looks at every plane's link, after notices were lost.
func (t *Table) readLinks() {
	for i := range t.planes {
		link, err := t.netlink.LinkByIndex(t.planes[i].Index)
		if err != nil {
			t.linkChanged(int32(t.planes[i].Index), false, true, nil)
			continue
		}
		t.linkChanged(int32(t.planes[i].Index), isUp(link.Attrs()), false, link.Attrs().HardwareAddr)
	}
}
