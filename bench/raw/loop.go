package raw

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/dataplane/frame"
	"github.com/metaroced/metaroced/dataplane/port"
	"github.com/metaroced/metaroced/dataplane/port/xdp"
	"github.com/metaroced/metaroced/dataplane/wire"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A packet looks like the transport's: frame headers, its headers, payload, CRC.
const (
	sourcePort    = 49152
	payloadOffset = frame.HeaderBytes4 + wire.DataOverhead - wire.TrailerSize
	maxSleepMs    = 100
)

// datagramBytes is the UDP payload of a packet.
func datagramBytes(payload int) int { return payload + wire.DataOverhead }

// frameBytes is the Ethernet frame of a packet.
func frameBytes(payload int) int { return frame.HeaderBytes4 + datagramBytes(payload) }

// send pushes packets on all planes in turn.
func (s *side) send() error {
	s.prefill()
	descs := make([]port.Desc, s.spec.Batch)
	kept := make([]int, len(s.ports)) // frames of descs[plane] not yet sent
	waiting := make([][]port.Desc, len(s.ports))
	for plane := range waiting {
		waiting[plane] = make([]port.Desc, s.spec.Batch)
	}
	total := uint64(0)
	for !s.stop.Load() {
		for plane, p := range s.ports {
			w := waiting[plane]
			n := kept[plane] + p.AllocTx(w[kept[plane]:])
			for i := kept[plane]; i < n; i++ {
				s.write(p, plane, &w[i])
			}
			copy(descs, w[:n])
			sent := p.Send(descs[:n])
			kept[plane] = copy(w, w[sent:n])
			if err := p.Kick(); err != nil {
				return err
			}
			total += uint64(sent)
		}
		s.packets.Store(total)
	}
	for plane, p := range s.ports {
		p.FreeTx(waiting[plane][:kept[plane]])
	}
	return nil
}

// prefill writes headers into all frames once, so that without Copy none is
// touched again.
func (s *side) prefill() {
	for plane, p := range s.ports {
		all := make([]port.Desc, s.spec.Port.TxFrames)
		all = all[:p.AllocTx(all)]
		for i := range all {
			all[i].Len = uint32(frameBytes(s.spec.PayloadBytes))
			s.headers[plane].Put(p.Bytes(all[i]), datagramBytes(s.spec.PayloadBytes), sourcePort, wire.ClassBulk)
		}
		p.FreeTx(all)
	}
}

// write fills a frame.
func (s *side) write(p *xdp.Port, plane int, d *port.Desc) {
	d.Len = uint32(frameBytes(s.spec.PayloadBytes))
	if !s.spec.Copy {
		return
	}
	packet := p.Bytes(*d)
	s.headers[plane].Put(packet, datagramBytes(s.spec.PayloadBytes), sourcePort, wire.ClassBulk)
	copy(packet[payloadOffset:], s.nextPayload())
	datagram := packet[frame.HeaderBytes4:]
	covered := len(datagram) - wire.TrailerSize
	binary.BigEndian.PutUint32(datagram[covered:], crc32.Checksum(datagram[:covered], castagnoli))
}

// receive takes packets from all planes in turn and drops them.
func (s *side) receive() error {
	descs := make([]port.Desc, s.spec.Batch)
	fds := s.sleepers()
	spin := s.spec.Spin
	if spin == 0 {
		spin = forever
	}
	var idleSince time.Time
	total, damaged := uint64(0), uint64(0)
	for !s.stop.Load() {
		got := 0
		for _, p := range s.ports {
			if err := p.BusyPoll(); err != nil {
				return err
			}
			n := p.Receive(descs)
			for i := range n {
				if s.spec.Copy && !s.take(p.Bytes(descs[i])) {
					damaged++
				}
			}
			p.Release(descs[:n])
			got += n
		}
		if got > 0 {
			total += uint64(got)
			s.packets.Store(total)
			s.damaged.Store(damaged)
			idleSince = time.Time{}
			continue
		}
		if idleSince.IsZero() {
			idleSince = time.Now()
		}
		if time.Since(idleSince) < spin {
			yield()
			continue
		}
		if _, err := unix.Poll(fds, maxSleepMs); err != nil && err != unix.EINTR {
			return err
		}
	}
	return nil
}

// take checks a packet and copies its payload, and says whether it was undamaged.
func (s *side) take(packet []byte) bool {
	if len(packet) != frameBytes(s.spec.PayloadBytes) {
		return false
	}
	datagram := packet[frame.HeaderBytes4:]
	covered := len(datagram) - wire.TrailerSize
	good := crc32.Checksum(datagram[:covered], castagnoli) == binary.BigEndian.Uint32(datagram[covered:])
	copy(s.nextPayload(), packet[payloadOffset:])
	return good
}

// leaked returns the frames of a closed port that nobody accounts for.
func leaked(p *xdp.Port) uint64 {
	var stats port.Stats
	p.Stats(&stats)
	return stats.FramesLeaked
}
