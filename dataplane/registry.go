package dataplane

import (
	"fmt"
	"net/netip"

	"github.com/metaroced/metaroced/dataplane/transport"
	"github.com/metaroced/metaroced/dataplane/wire"
)

// slotBits is how much of an owner number names the session's slot; the rest is
// the slot's generation.
const slotBits = 12

// addSession gives a session a slot, which names it in the engine.
func (w *worker) addSession(s *appQueue) error {
	slot := -1
	for i := range w.sessions {
		if w.sessions[i] == nil {
			slot = i
			break
		}
	}
	if slot < 0 {
		if slot = len(w.sessions); slot >= 1<<slotBits {
			return fmt.Errorf("metaroced: %d sessions are open, the most a worker serves", slot)
		}
		w.sessions = append(w.sessions, nil)
		w.used = append(w.used, 0)
	}
	if err := w.waiter.add(s.wakeFD, waitSession, slot); err != nil {
		return err
	}
	w.used[slot]++
	s.slot = slot
	s.owner = w.used[slot]<<slotBits | uint32(slot)
	s.lastWork = w.now
	w.sessions[slot] = s
	w.activate(s)
	return nil
}

// owner returns the session with this number, or nil.
func (w *worker) owner(number uint32) *appQueue {
	slot := number & (1<<slotBits - 1)
	if int(slot) >= len(w.sessions) {
		return nil
	}
	if s := w.sessions[slot]; s != nil && s.owner == number {
		return s
	}
	return nil
}

// removeSession takes everything of a session out of the engine. After it
// returns the worker touches none of its memory.
func (w *worker) removeSession(session *Session) {
	s := session.queue
	if s.gone {
		return
	}
	s.gone = true
	for service := range session.services {
		w.engine.Unlisten(service, s.owner)
	}
	w.engine.Connections(func(c *transport.Conn) {
		if c.Owner() == s.owner {
			c.Abort(w.now, wire.CloseApplicationGone)
		}
	})
	for _, key := range s.regions {
		if key != 0 {
			_ = w.engine.RemoveRegion(w.now, key) // it was added under this key
		}
	}
	s.regions = nil
	w.forget(s)
	w.waiter.remove(s.wakeFD)
	w.sessions[s.slot] = nil
}

// forget takes a session out of the worker's lists.
func (w *worker) forget(s *appQueue) {
	for _, list := range []*[]*appQueue{&w.active, &w.broken, &w.dirty, &w.resting} {
		kept := (*list)[:0]
		for _, q := range *list {
			if q != s {
				kept = append(kept, q)
			}
		}
		clear((*list)[len(kept):])
		*list = kept
	}
	s.active = false
}

// endBroken ends sessions that broke their queues or lost their memory: the
// worker lets go at once, and closing the event channel has the control plane
// do the rest.
func (w *worker) endBroken() {
	for len(w.broken) > 0 {
		s := w.broken[len(w.broken)-1]
		w.broken = w.broken[:len(w.broken)-1]
		if s.gone {
			continue
		}
		w.log.Error("session ended by the daemon", "uid", s.session.spec.UID, "pid", s.session.spec.PID, "reason", s.failed)
		w.removeSession(s.session)
		s.session.ended.Do(func() { close(s.session.events) })
	}
}

// drainEvents hands the engine's events to applications.
func (w *worker) drainEvents() {
	for w.engine.PollEvent(&w.event) {
		ev := &w.event
		s := w.owner(ev.Owner)
		if s == nil {
			continue // the session has ended meanwhile
		}
		switch ev.Kind {
		case transport.EventSent:
			w.completeSent(s, ev)
		case transport.EventReceived:
			w.deliverReceived(s, ev)
		default:
			w.tell(s, ev)
		}
	}
}

// tell passes what concerns set-up and the end of connections to the control
// plane, and the end to the completion queue as well.
func (w *worker) tell(s *appQueue, ev *transport.Event) {
	e := SessionEvent{
		Token: ev.Token, Conn: uint32(ev.Conn), Service: ev.Service,
		Peer: fromWire(ev.Peer), Private: ev.Private, Reason: ev.Reason, Text: ev.Text,
	}
	switch ev.Kind {
	case transport.EventIncoming:
		e.Kind = EventIncoming
	case transport.EventEstablished:
		e.Kind = EventEstablished
		w.resolveAll(ev.Conn)
	case transport.EventRefused:
		e.Kind = EventRefused
	case transport.EventClosed:
		e.Kind = EventClosed
		w.deliverReceived(s, ev)
	}
	s.session.emit(e)
	if s.failed != nil {
		w.broken = append(w.broken, s)
	}
}

// resolveAll asks for the peer's neighbours on every plane before data goes
// there.
func (w *worker) resolveAll(id wire.ConnID) {
	c := w.engine.Conn(id)
	if c == nil {
		return
	}
	for i := range w.planes {
		if dst := c.PeerAddr(i); dst != (wire.Addr{}) {
			w.neighbors.Resolve(i, dst)
		}
	}
}

// publish makes completions visible and says whether there were any.
func (w *worker) publish() bool {
	if len(w.dirty) == 0 {
		return false
	}
	for _, s := range w.dirty {
		s.unread = false
		s.publish()
		if s.failed != nil && !s.gone {
			w.broken = append(w.broken, s)
		}
	}
	clear(w.dirty)
	w.dirty = w.dirty[:0]
	return true
}

func toWire(ip netip.Addr, port uint16) wire.Addr {
	return wire.Addr{IP: ip.As16(), Port: port}
}

func fromWire(a wire.Addr) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(a.IP).Unmap(), a.Port)
}
