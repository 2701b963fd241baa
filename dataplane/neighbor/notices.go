package neighbor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// noticeBuffer is what the kernel may hold back of notices, in bytes. Beyond, they
// are lost and everything is read again.
const noticeBuffer = 1 << 20

// drainTime bounds how long a queue is emptied that fills again. Draining
// noticeBuffer takes milliseconds.
const drainTime = time.Second

// noticeGroups is everything that can change how a peer is reached.
var noticeGroups = []uint{
	unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH,
	unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE,
	unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE,
	unix.RTNLGRP_NEXTHOP,
}

// notices receives what the kernel announces. One socket for all groups keeps the
// order between, say, an interface and its addresses.
type notices struct {
	socket  *nl.NetlinkSocket
	batches chan batch
	done    chan struct{}
}

// batch is what one read returned.
type batch struct {
	messages []syscall.NetlinkMessage
	lost     bool  // some notices were lost before these
	err      error // nothing more will come
}

// subscribe opens the socket in the calling thread's network namespace.
func subscribe() (*notices, error) {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, noticeGroups...)
	if err != nil {
		return nil, fmt.Errorf("subscribe to netlink notices: %w", err)
	}
	// Beyond the limit for ordinary sockets if we may, else up to it.
	if socket.SetReceiveBufferSize(noticeBuffer, true) != nil {
		if err := socket.SetReceiveBufferSize(noticeBuffer, false); err != nil {
			socket.Close()
			return nil, fmt.Errorf("netlink receive buffer: %w", err)
		}
	}
	return &notices{socket: socket, batches: make(chan batch), done: make(chan struct{})}, nil
}

// close ends read.
func (n *notices) close() {
	close(n.done)
	n.socket.Close()
}

// read passes on what comes in, until close or an error.
func (n *notices) read() {
	for {
		messages, from, err := n.socket.Receive()
		b := batch{messages: messages}
		switch {
		case err == nil && from.Pid != nl.PidKernel:
			continue
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EINVAL):
			// An overrun, or a message larger than the library's buffer.
			b.lost = true
			n.drain()
		case err != nil:
			b.err = err
		}
		select {
		case n.batches <- b:
		case <-n.done:
			return
		}
		if b.err != nil {
			return
		}
	}
}

// drain discards what is queued. After an overrun the kernel drops further notices
// without a word until the queue has been empty (net/netlink/af_netlink.c,
// NETLINK_S_CONGESTED): only then is reading everything again worth it.
func (n *notices) drain() {
	poll := unix.NsecToTimeval(time.Millisecond.Nanoseconds())
	if n.socket.SetReceiveTimeout(&poll) != nil {
		return
	}
	for deadline := time.Now().Add(drainTime); time.Now().Before(deadline); {
		_, _, err := n.socket.Receive()
		if err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR) {
			break // empty; anything worse shows at the next read
		}
	}
	_ = n.socket.SetReceiveTimeout(&unix.Timeval{})
}

// addressNoticeIndex returns the interface an RTM_NEWADDR or RTM_DELADDR is about
// (struct ifaddrmsg).
func addressNoticeIndex(data []byte) (int, bool) {
	if len(data) < unix.SizeofIfAddrmsg {
		return 0, false
	}
	return int(binary.NativeEndian.Uint32(data[4:])), true
}
