package transport

import "github.com/metaroced/metaroced/dataplane/wire"

// controlMask is which set-up and closing packets wait to leave on a plane.
// A second request for one that waits already changes nothing.
type controlMask uint8

const (
	controlConnect controlMask = 1 << iota
	controlAccept
	controlConfirm
	controlRefuse
	controlClose
	controlCloseReply
	controlReset
)

// sendControl queues a packet on a plane, or on the first plane when the peer
// has no such plane.
func (c *Conn) sendControl(plane int, m controlMask) {
	if plane >= c.planes {
		plane = 0
	}
	c.tx[plane].control |= m
	c.ready(plane)
}

// writeControl writes the first of a plane's waiting packets.
func (c *Conn) writeControl(plane int, buf []byte, tx *Tx) int {
	t := &c.tx[plane]
	m := t.control & -t.control
	t.control &^= m
	body := buf[wire.HeaderSize:]
	switch m {
	case controlConnect:
		h := wire.Header{Type: wire.CONNECT, Flags: wire.FlagCRC, Plane: uint8(plane), Class: wire.ClassControl}
		var s wire.Setup
		c.offer(&s)
		s.PeerNonce = 0
		s.Service, s.Cookie = []byte(c.service), c.setup.cookie
		return finish(buf, &h, wire.PutSetup(body, &s))
	case controlAccept:
		h := c.header(wire.ACCEPT, plane)
		h.Flags |= wire.FlagCRC
		var s wire.Setup
		c.offer(&s)
		return finish(buf, &h, wire.PutSetup(body, &s))
	case controlConfirm:
		h := c.header(wire.CONFIRM, plane)
		wire.PutConfirm(body, &wire.Confirm{Nonce: c.nonce, PeerNonce: c.peerNonce})
		return finish(buf, &h, wire.ConfirmSize)
	case controlRefuse:
		h := c.header(wire.REFUSE, plane)
		return finish(buf, &h, wire.PutRefuse(body, &wire.Refuse{PeerNonce: c.peerNonce, Reason: c.setup.reason, Text: []byte(clip(c.setup.text))}))
	case controlClose, controlCloseReply:
		h := c.header(wire.CLOSE, plane)
		k := wire.Close{FinalDSN: c.log.next, Reason: c.closing.reason, Nonce: c.peerNonce}
		if m == controlCloseReply {
			h.Flags |= wire.FlagReply
		}
		wire.PutClose(body, &k)
		return finish(buf, &h, wire.CloseSize)
	case controlReset:
		h := c.header(wire.RESET, plane)
		wire.PutReset(body, &wire.Reset{Reason: c.closing.reason, Nonce: c.peerNonce})
		return finish(buf, &h, wire.ResetSize)
	}
	return 0
}

// clip keeps a text within what REFUSE can carry.
func clip(s string) string {
	return s[:min(len(s), wire.MaxRefuseText)]
}

// reply is an answer to somebody we have no connection with.
type reply struct {
	kind   wire.Type
	to     wire.Addr
	header wire.Header // of what is answered
	probe  wire.Probe
	refuse wire.Refuse
	text   string
}

// maxReplies bounds answers to strangers that wait on one plane.
const maxReplies = 64

func (e *Engine) reply(plane int, r reply) {
	if e.replies[plane].len() >= maxReplies {
		e.Counters.RepliesDropped++
		return
	}
	e.replies[plane].push(r)
}

func (e *Engine) writeReply(r reply, buf []byte, tx *Tx) int {
	*tx = Tx{Dst: r.to, SourcePort: e.cfg.Planes[0].Addr.Port, Class: wire.ClassControl}
	h := wire.Header{
		Type: r.kind, Flags: wire.FlagCRC, DestConn: r.header.DestConn, Tag: r.header.Tag,
		Plane: r.header.Plane, Path: r.header.Path, Epoch: r.header.Epoch, Class: wire.ClassControl,
	}
	body := buf[wire.HeaderSize:]
	if r.kind == wire.PROBE_ACK {
		wire.PutProbe(body, &r.probe)
		return finish(buf, &h, wire.ProbeSize)
	}
	r.refuse.Text = []byte(clip(r.text))
	return finish(buf, &h, wire.PutRefuse(body, &r.refuse))
}
