package transport

import (
	"github.com/metaroced/metaroced/dataplane/wire"
	"github.com/metaroced/metaroced/pathsel"
)

// ID is the connection's number, unique while it and its quiet time last.
func (c *Conn) ID() wire.ConnID { return c.id }

// State is the connection's state in the words of docs/PROTOCOL.md.
func (c *Conn) State() string { return c.state.String() }

// Owner is the session the connection belongs to.
func (c *Conn) Owner() uint32 { return c.owner }

// Service is what was dialled.
func (c *Conn) Service() string { return c.service }

// Peer is the address of the peer's first plane.
func (c *Conn) Peer() wire.Addr { return c.peerAddr[0] }

// PeerAddr is the peer's address on a plane.
func (c *Conn) PeerAddr(plane int) wire.Addr { return c.peerAddr[plane] }

// Stats returns what the connection has counted.
func (c *Conn) Stats() ConnStats { return c.stats }

// MaxPayload is the payload per packet that was agreed.
func (c *Conn) MaxPayload() int { return c.maxPayload }

// InFlight is how many DSNs the peer has not placed yet, as far as is known.
func (c *Conn) InFlight() int { return int(c.log.next - c.log.cumulative) }

// EachPath calls f for every path the connection has.
func (c *Conn) EachPath(f func(*pathsel.Path)) {
	if c.tx == nil || c.tx[0].paths == nil {
		return
	}
	for plane := range c.planes {
		for path := range c.paths {
			f(c.table.Path(plane, path))
		}
	}
}

// PlaneWindow is the congestion window and what is in flight of one plane, in
// wire bytes.
func (c *Conn) PlaneWindow(plane int) (window, inFlight int64) {
	t := &c.tx[plane]
	return t.cc.Window(), t.cc.InFlight()
}

// PlaneAddr is where peers reach a local plane.
func (e *Engine) PlaneAddr(plane int) wire.Addr { return e.cfg.Planes[plane].Addr }
