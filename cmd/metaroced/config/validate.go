package config

import (
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"github.com/metaroced/metaroced/cmd/metaroced/units"
	"github.com/metaroced/metaroced/dataplane"
)

// Bounds that other places share.
const (
	maxInterfaceName = 15 // IFNAMSIZ without its terminating zero
	maxSocketPath    = 107
	maxCPU           = 8191 // CONFIG_NR_CPUS has no larger value
	maxWorkers       = 1    // one queue per plane is served by one worker
	maxPaths         = 64   // docs/PROTOCOL.md: per plane
	maxConnections   = 1<<20 - 1
	maxDSNWindow     = 1 << 20
)

// validate checks every key and fills a Config, or returns all faults.
func validate(f *file, r *report) (*Config, error) {
	c := &Config{}
	validateDaemon(&f.Daemon, r, c)
	validatePlanes(f.Planes, r, &c.Dataplane)
	validateTransport(&f.Transport, r, &c.Dataplane)
	validateLimits(&f.Limits, r, c)
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}

func validateDaemon(d *daemonTable, r *report, c *Config) {
	c.Control.Path = d.Socket
	if !filepath.IsAbs(d.Socket) || len(d.Socket) > maxSocketPath {
		r.fault("daemon.socket", "= %q is not an absolute path of at most %d bytes", d.Socket, maxSocketPath)
	}
	mode, err := strconv.ParseUint(d.SocketMode, 8, 32)
	if err != nil || mode > 0o777 {
		r.fault("daemon.socket_mode", "= %q is not a mode within \"0000\" to \"0777\" (octal)", d.SocketMode)
	}
	c.Control.Mode = fs.FileMode(mode)
	c.LogLevel = oneOf(r, "daemon.log_level", d.LogLevel, []choice[slog.Level]{
		{"debug", slog.LevelDebug}, {"info", slog.LevelInfo}, {"warn", slog.LevelWarn}, {"error", slog.LevelError},
	})

	p := &c.Dataplane
	p.Poll = oneOf(r, "daemon.poll", d.Poll, []choice[dataplane.PollMode]{
		{"adaptive", dataplane.PollAdaptive}, {"busy", dataplane.PollBusy}, {"interrupt", dataplane.PollInterrupt},
	})
	p.Spin = time.Duration(r.integer("daemon.spin_us", d.SpinUs, 0, 50)) * time.Microsecond
	r.integer("daemon.workers", d.Workers, 1, maxWorkers)
	p.WorkerCPU = validateWorkerCPUs(d, r)
	p.WorkerNice = int(r.integer("daemon.nice", d.Nice, -20, 19))
	p.Mode = oneOf(r, "daemon.mode", d.Mode, []choice[string]{
		{"auto", "auto"}, {"zerocopy", "zerocopy"}, {"copy", "copy"}, {"generic", "generic"},
	})
	p.RequireZeroCopy = d.RequireZeroCopy
	if d.RequireZeroCopy && (d.Mode == "copy" || d.Mode == "generic") {
		r.fault("daemon.require_zerocopy", "= true contradicts daemon.mode = %q", d.Mode)
	}
	p.BusyPoll = d.BusyPoll
	p.UDPPort = uint16(r.integer("daemon.udp_port", d.UDPPort, 1, 65535))
	p.ArenaFrameBytes = r.integer("daemon.arena_frames_mib", d.ArenaFramesMiB, 4, 16<<10) << 20
	p.ArenaSlabBytes = r.integer("daemon.arena_slabs_mib", d.ArenaSlabsMiB, 0, 1<<20) << 20
	p.RxRing = uint32(r.powerOfTwo("daemon.rx_ring", d.RxRing, 64, 32768))
	p.TxRing = uint32(r.powerOfTwo("daemon.tx_ring", d.TxRing, 64, 32768))
}

// validateWorkerCPUs returns the CPU of the worker, -1 when it is not pinned.
func validateWorkerCPUs(d *daemonTable, r *report) int {
	if len(d.WorkerCPUs) == 0 {
		return -1
	}
	if int64(len(d.WorkerCPUs)) != d.Workers {
		r.fault("daemon.worker_cpus", "has %d entries, but daemon.workers = %d; give one CPU per worker or none",
			len(d.WorkerCPUs), d.Workers)
	}
	for _, cpu := range d.WorkerCPUs {
		r.integer("daemon.worker_cpus", cpu, 0, maxCPU)
	}
	return int(d.WorkerCPUs[0])
}

func validatePlanes(planes []planeTable, r *report, c *dataplane.Config) {
	if len(planes) < 1 || len(planes) > units.MaxPlanes {
		r.fault("plane", "is there %d times; configure 1 to %d [[plane]] tables", len(planes), units.MaxPlanes)
		return
	}
	first := map[string]int{}
	for i, p := range planes {
		table := fmt.Sprintf("plane[%d]", i)
		if p.Interface == "" {
			r.fault(table, "has no interface; name one like interface = \"eth2\"")
		} else if len(p.Interface) > maxInterfaceName {
			r.fault(table+".interface", "= %q is longer than %d bytes", p.Interface, maxInterfaceName)
		} else if other, found := first[p.Interface]; found {
			r.fault(table+".interface", "= %q is already plane[%d]; a plane needs an interface of its own", p.Interface, other)
		} else {
			first[p.Interface] = i
		}
		plane := dataplane.PlaneConfig{
			Interface:      p.Interface,
			Queue:          uint32(r.integer(table+".queue", p.Queue, 0, 4095)),
			LinkBitsPerSec: r.rate(table+".link_speed", p.LinkSpeed),
		}
		if p.Address != "" {
			address, err := netip.ParseAddr(p.Address)
			if err != nil || address.IsUnspecified() || address.IsMulticast() || address.Zone() != "" {
				r.fault(table+".address", "= %q is not an address of one host, like \"192.0.2.1\" or \"2001:db8::1\"", p.Address)
			}
			plane.Address = address
		}
		c.Planes = append(c.Planes, plane)
	}
}

func validateTransport(t *transportTable, r *report, c *dataplane.Config) {
	c.Paths = int(r.integer("transport.paths", t.Paths, 1, maxPaths))
	c.RunPackets = int(r.integer("transport.run_packets", t.RunPackets, 1, 64))
	c.AckEvery = int(r.integer("transport.ack_every", t.AckEvery, 1, 64))
	c.AckDelay = time.Duration(r.integer("transport.ack_delay_us", t.AckDelayUs, 0, 10_000)) * time.Microsecond
	c.ConnectionTimeout = r.duration("transport.connection_timeout", t.ConnectionTimeout, 100*time.Millisecond, time.Hour)
	c.MaxConnections = int(r.integer("transport.max_connections", t.MaxConnections, 1, maxConnections))
	c.DSNWindow = int(r.powerOfTwo("transport.dsn_window", t.DSNWindow, 256, maxDSNWindow))
}

func validateLimits(l *limitsTable, r *report, c *Config) {
	const most = 65536
	k := &c.Control
	k.MaxSessions = int(r.integer("limits.sessions", l.Sessions, 1, most))
	k.MaxSessionsPerUID = int(r.integer("limits.sessions_per_uid", l.SessionsPerUID, 1, most))
	k.MaxServicesPerSession = int(r.integer("limits.services_per_session", l.ServicesPerSession, 1, most))
	k.MaxRegionsPerSession = int(r.integer("limits.regions_per_session", l.RegionsPerSession, 1, most))
	k.MaxPendingEvents = int(r.integer("limits.pending_events", l.PendingEvents, 1, most))
	k.HandshakeTimeout = r.duration("limits.handshake_timeout", l.HandshakeTimeout, 10*time.Millisecond, time.Minute)
	k.UnreadTimeout = r.duration("limits.unread_timeout", l.UnreadTimeout, 10*time.Millisecond, time.Minute)
	c.Dataplane.RegionBytesPerSession = r.size("limits.region_bytes_per_session", l.RegionBytesPerSession, 4096, 1<<46)
	c.Dataplane.MaxRegionsPerSession = k.MaxRegionsPerSession
}
