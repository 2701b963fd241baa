package ctrl

import (
	"errors"
	"fmt"
	"time"

	"github.com/metaroced/metaroced/ctrl/msg"
	"github.com/metaroced/metaroced/dataplane"
	"golang.org/x/sys/unix"
)

// drainCheck is how often the kernel is asked whether an application that is
// over its unread limit has caught up; there is no event for that.
const drainCheck = time.Millisecond

// backlog is what waits for an application to read. It keeps the order in which
// replies and events came.
type backlog struct {
	waiting []outgoing
	events  int       // of waiting
	replies int       // of waiting: 0 or 1
	since   time.Time // when the oldest began to wait; zero when nothing does
}

func (b *backlog) push(o outgoing) {
	b.waiting = append(b.waiting, o)
	if o.reply {
		b.replies++
	} else {
		b.events++
	}
}

func (b *backlog) pop() outgoing {
	o := b.waiting[0]
	b.waiting = b.waiting[1:]
	if o.reply {
		b.replies--
	} else {
		b.events--
	}
	b.since = time.Time{}
	return o
}

// pump is the one sender of an attached session: replies from the reader,
// events from the dataplane. It takes events at all times, so the dataplane
// never waits for an application. When it ends it shuts the socket, which ends
// the reader.
func (c *session) pump(events <-chan dataplane.SessionEvent) {
	defer close(c.pumpDone)
	var b backlog
	defer func() {
		for _, o := range b.waiting {
			o.discard()
		}
	}()
	for {
		if !c.flush(&b) {
			c.hangUp()
			return
		}
		replies := c.replies
		if b.replies > 0 {
			replies = nil
		}
		var check <-chan time.Time
		if len(b.waiting) > 0 {
			check = time.After(drainCheck)
		}
		select {
		case o := <-replies:
			b.push(o)
		case e, ok := <-events:
			if text := c.take(&b, e, ok); text != "" {
				c.out.sendLast(&msg.Error{Code: msg.CodeEnded, Text: text})
				c.hangUp()
				return
			}
		case <-check:
		case <-c.stopping:
			c.out.sendLast(&msg.Error{Code: msg.CodeEnded, Text: c.stopText})
			c.hangUp()
			return
		case <-c.readDone:
			select {
			case <-c.stopping: // which ended the reader, and maybe first
				c.out.sendLast(&msg.Error{Code: msg.CodeEnded, Text: c.stopText})
			default:
			}
			return
		}
	}
}

// flush sends what the application has room for. False means that the session
// must end.
func (c *session) flush(b *backlog) bool {
	for len(b.waiting) > 0 && c.out.room(len(b.waiting[0].files)) {
		o := b.pop()
		if err := c.out.send(o); err != nil {
			if !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
				c.server.counters.add(reasonSendFailed)
				c.server.log.Warn("control socket: send", "uid", c.uid, "pid", c.pid, "error", err)
			}
			return false
		}
		if o.reply {
			select {
			case c.replied <- struct{}{}:
			case <-c.readDone:
			}
		}
	}
	switch {
	case len(b.waiting) == 0:
	case b.since.IsZero():
		b.since = time.Now()
	case time.Since(b.since) > c.server.cfg.UnreadTimeout:
		c.server.counters.add(reasonSlowReader)
		return false
	}
	return true
}

// take queues one event. A text means that the session must end, and why.
func (c *session) take(b *backlog, e dataplane.SessionEvent, open bool) string {
	if !open {
		c.server.counters.add(reasonEndedByDataplane)
		return "the dataplane ended this session: its queues hold impossible values, or the daemon is stopping"
	}
	packet, err := msg.Append(nil, 0, eventMessage(&e))
	if err != nil {
		c.server.counters.add(reasonBadEvent)
		c.server.log.Error("control socket: event", "uid", c.uid, "pid", c.pid, "kind", e.Kind, "error", err)
		return fmt.Sprintf("an event could not be told: %v", err)
	}
	if limit := c.server.cfg.MaxPendingEvents; b.events >= limit {
		c.server.counters.add(reasonPendingEvents)
		return fmt.Sprintf("limit of %d events waiting to be read reached; read faster or raise limits.pending_events", limit)
	}
	b.push(outgoing{packet: packet})
	return ""
}

// eventMessage translates what the dataplane reports; an unknown kind becomes a
// message that breaks the rules.
func eventMessage(e *dataplane.SessionEvent) msg.Message {
	switch e.Kind {
	case dataplane.EventIncoming:
		return &msg.Incoming{Conn: e.Conn, Peer: e.Peer, Service: e.Service, Private: e.Private}
	case dataplane.EventEstablished:
		return &msg.Established{Token: e.Token, Conn: e.Conn, Peer: e.Peer, Private: e.Private}
	case dataplane.EventRefused:
		return &msg.Refused{Token: e.Token, Reason: e.Reason, Text: msg.CleanText(e.Text)}
	case dataplane.EventClosed:
		return &msg.Closed{Conn: e.Conn, Reason: e.Reason, Text: msg.CleanText(e.Text)}
	}
	return &msg.Incoming{}
}

// hangUp makes the reader's next read fail. The socket stays open for what the
// application has not read yet, until run closes it.
func (c *session) hangUp() {
	_ = c.conn.CloseRead() // fails on a closed socket only
}
