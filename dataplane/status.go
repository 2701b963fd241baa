package dataplane

import (
	"os"
	"runtime/debug"
	"time"

	"github.com/metaroced/metaroced/dataplane/frame"
	"github.com/metaroced/metaroced/dataplane/transport"
	"github.com/metaroced/metaroced/pathsel"
	"golang.org/x/sys/unix"
)

// Status takes a snapshot. The worker fills it between two loops.
func (d *Dataplane) Status() *Status {
	s := &Status{
		Version:  Version(),
		UptimeMs: time.Since(d.started).Milliseconds(),
		PID:      os.Getpid(),
		Counters: map[string]uint64{},
	}
	s.CPUSeconds = cpuSeconds()
	d.mu.Lock()
	s.Sessions = len(d.sessions)
	d.mu.Unlock()
	_ = d.worker.do(func() { d.worker.report(s) }) // a stopped worker has nothing to add
	if n := d.plainRegions.Load(); n > 0 {
		s.Counters["regions outside the arena"] = uint64(n)
	}
	return s
}

// Version is the version of the build.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// cpuSeconds is the processor time this process has used.
func cpuSeconds() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// report fills in what the worker knows.
func (w *worker) report(s *Status) {
	for i := range w.planes {
		p := &w.planes[i]
		p.port.Stats(&p.stats)
		s.Planes = append(s.Planes, PlaneStatus{
			Name: p.name, Address: w.engine.PlaneAddr(i).String(), Mode: p.port.Mode(), State: p.state(),
			TxPackets: p.stats.TxPackets, TxBytes: p.stats.TxBytes,
			RxPackets: p.stats.RxPackets, RxBytes: p.stats.RxBytes,
			RxDropped:    p.stats.RxDropped + p.stats.RxRingFull,
			FramesLeaked: p.stats.FramesLeaked,
		})
		s.FramesLeaked += p.stats.FramesLeaked
		for name, v := range map[string]uint64{
			"receive ring full":     p.stats.RxRingFull,
			"no frame to receive":   p.stats.FillEmpty,
			"transmit invalid":      p.stats.TxInvalid,
			"receive invalid":       p.stats.RxInvalid,
			"foreign completions":   p.stats.CompletionForeign,
			"frame errors":          p.stats.FrameErrors,
			"transmit kick errors":  p.stats.TxKickErrors,
			"transmit system calls": p.stats.TxKicks,
		} {
			s.Counters["port: "+name] += v
		}
	}
	for _, q := range w.sessions {
		if q != nil {
			for _, key := range q.regions {
				if key != 0 {
					s.Regions++
				}
			}
		}
	}
	w.engine.Counters.Each(func(name string, v uint64) { s.Counters[name] = v })
	for reason, n := range w.counters.Frames {
		s.Counters["refused: frame: "+frame.Reason(reason).String()] = n
	}
	s.Counters["worker: no neighbour"] = w.counters.NoNeighbor
	s.Counters["worker: memory faults"] = w.counters.Faults
	s.Counters["worker: sleeps"] = w.counters.Sleeps
	s.Counters["worker: loops"] = w.counters.Loops
	for name, v := range s.Counters {
		if v == 0 {
			delete(s.Counters, name)
		}
	}
	w.engine.Connections(func(c *transport.Conn) { s.Connections = append(s.Connections, connStatus(c)) })
}

func connStatus(c *transport.Conn) ConnStatus {
	k := c.Stats()
	s := ConnStatus{
		ID: uint32(c.ID()), Peer: c.Peer().String(), Service: c.Service(), State: c.State(),
		TxBytes: k.TxBytes, RxBytes: k.RxBytes,
		Retransmissions: k.Retransmissions, RetransmissionsTimer: k.ByTimer,
		Spurious: k.Spurious, Duplicates: k.Duplicates,
	}
	c.EachPath(func(p *pathsel.Path) {
		s.Paths = append(s.Paths, PathStatus{
			Plane: int(p.Plane), ID: int(p.ID), State: p.State.String(), SRTTUs: float64(p.SRTT) / 1000,
			CEFraction: float64(p.CEFraction), LossFraction: float64(p.LossFraction),
			TxPackets: p.TxPackets, Retransmissions: p.Retransmissions, InFlight: int(p.InFlight),
		})
	})
	return s
}
