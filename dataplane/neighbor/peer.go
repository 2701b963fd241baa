package neighbor

import (
	"maps"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/metaroced/metaroced/dataplane/frame"
	"github.com/metaroced/metaroced/dataplane/wire"
)

// key is a peer as one plane reaches it.
type key struct {
	plane int
	dst   wire.Addr
}

// hop is a neighbour of a plane.
type hop struct {
	plane int
	ip    netip.Addr
}

// peer is what is known of a key.
type peer struct {
	asked    atomic.Bool                    // set by workers, cleared by Run
	template atomic.Pointer[frame.Template] // set by Run; nil: not resolved

	// Owned by Run.
	usedAt   time.Time  // when somebody was last found to have asked
	next     netip.Addr // the neighbour; invalid: no route
	routed   bool       // next is up to date
	attempts int        // at resolving next
	triedAt  time.Time
}

// ask marks the peer as in use. The load spares workers the shared write.
func (p *peer) ask() {
	if !p.asked.Load() {
		p.asked.Store(true)
	}
}

// dscp is the code point of each class: all the default forwarding behaviour, so
// that ECN queues of the fabric see one kind of traffic.
var dscp [frame.Classes]uint8

// admit starts to follow the peer that was asked for, and all others that wait.
func (t *Table) admit(k key) {
	for {
		if _, known := t.peers[k]; !known {
			if len(t.peers) >= maxPeers {
				t.warn("peers are not followed: table full", "limit", maxPeers, "constant", "neighbor.maxPeers")
			} else {
				p := &peer{}
				p.ask()
				t.peers[k] = p
			}
		}
		select {
		case k = <-t.requests:
		default:
			t.publish()
			return
		}
	}
}

// publish shows workers which peers are followed.
func (t *Table) publish() {
	peers := maps.Clone(t.peers)
	t.published.Store(&peers)
}

// step brings all peers up to date and returns how long until the next time it must
// be called, 0 when nothing waits.
func (t *Table) step(now time.Time) time.Duration {
	if len(t.peers) == 0 {
		return 0
	}
	keepAlive := now.Sub(t.keptAliveAt) >= t.timing.keepAlive
	if keepAlive {
		t.keptAliveAt = now
		t.rerouteDue = true // in case some change has no notice
	}
	reroute := t.rerouteDue && now.Sub(t.routedAt) >= t.timing.rerouteGap
	if reroute {
		t.routedAt, t.rerouteDue = now, false
	}
	wait := t.keptAliveAt.Add(t.timing.keepAlive).Sub(now)
	if t.rerouteDue {
		wait = min(wait, t.routedAt.Add(t.timing.rerouteGap).Sub(now))
	}

	changed, before, attempts := keepAlive, len(t.peers), 0
	for k, p := range t.peers {
		if p.asked.Load() {
			p.asked.Store(false)
			p.usedAt = now
		} else if t.unused(p, now) {
			delete(t.peers, k)
			continue
		}
		if reroute || !p.routed {
			t.route(k, p)
		}
		changed = t.update(k, p) || changed
		switch {
		case p.template.Load() != nil:
			p.attempts = 0
			if keepAlive {
				t.use(k, p)
			}
		case attempts == maxAttempts:
			wait = min(wait, t.timing.retry)
		default:
			made, next := t.attempt(k, p, now)
			wait = min(wait, next)
			if made {
				attempts++
			}
		}
	}
	if len(t.peers) != before {
		t.publish()
	}
	if changed {
		t.generation.Add(1)
		t.onChange()
	}
	return max(wait, time.Millisecond)
}

// unused tells whether to forget a peer. Nobody can be left with its template:
// users ask again at every keep-alive, which come more often.
func (t *Table) unused(p *peer, now time.Time) bool {
	idle := now.Sub(p.usedAt)
	return idle >= t.timing.forget || idle >= t.timing.giveUp && p.template.Load() == nil
}

// route looks up the neighbour through which the peer is reached.
func (t *Table) route(k key, p *peer) {
	plane := &t.planes[k.plane]
	p.routed = true
	previous := p.next
	p.next = netip.Addr{}
	if plane.usable.Load() {
		next, err := t.kernel.nextHop(&plane.Plane, netip.AddrFrom16(k.dst.IP).Unmap())
		if err != nil {
			t.log.Debug("no route to peer", "plane", plane.Name, "peer", k.dst.String(), "error", err)
		}
		p.next = next
	}
	if p.next != previous {
		p.attempts = 0
	}
}

// update makes the peer's template anew and tells whether it changed.
func (t *Table) update(k key, p *peer) bool {
	old := p.template.Load()
	mac, ok := t.neighbors[hop{k.plane, p.next}]
	if !ok || !p.next.IsValid() || !t.planes[k.plane].usable.Load() {
		p.template.Store(nil)
		return old != nil
	}
	plane := &t.planes[k.plane]
	src := wire.Addr{IP: plane.Addr.As16(), Port: t.udpPort}
	template := frame.MakeTemplate(plane.MAC, mac, src, k.dst, dscp)
	if old != nil && *old == template {
		return false
	}
	p.template.Store(&template)
	return true
}

// attempt has the kernel resolve the peer's neighbour, if it is time and somebody
// has asked since the last attempt. It returns when to call it again.
func (t *Table) attempt(k key, p *peer, now time.Time) (made bool, wait time.Duration) {
	interval := t.timing.retry
	if p.attempts >= fastRetries {
		interval = t.timing.retrySlow
	}
	if left := p.triedAt.Add(interval).Sub(now); left > 0 && p.attempts > 0 {
		return false, left
	}
	if p.usedAt.Before(p.triedAt) {
		return false, interval
	}
	p.triedAt = now
	p.attempts++
	if p.attempts == fastRetries {
		t.warn("peer does not resolve", "plane", t.planes[k.plane].Name, "peer", k.dst.String(), "neighbour", p.next.String())
	}
	if p.next.IsValid() {
		t.use(k, p)
	}
	return true, interval
}

// use tells the kernel that the peer's neighbour is in use.
func (t *Table) use(k key, p *peer) {
	plane := &t.planes[k.plane]
	if err := t.kernel.use(plane.Index, p.next); err != nil {
		t.log.Debug("neighbour not asked for", "plane", plane.Name, "neighbour", p.next.String(), "error", err)
	}
}

// warn logs, but not more often than a log can take.
func (t *Table) warn(text string, args ...any) {
	if now := time.Now(); now.Sub(t.warnedAt) >= t.timing.warnGap {
		t.warnedAt = now
		t.log.Warn(text, args...)
	}
}
