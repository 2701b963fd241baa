package config

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metaroced/metaroced/ctrl"
	"github.com/metaroced/metaroced/dataplane"
)

const minimal = "[[plane]]\ninterface = \"eth2\"\n"

func TestDefaults(t *testing.T) {
	c, err := parse("x.toml", []byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	if c.Control.Path != ctrl.DefaultPath || c.Control.Mode != 0o660 || c.LogLevel != slog.LevelInfo {
		t.Errorf("daemon: %+v", c)
	}
	d := c.Dataplane
	if d.UDPPort != 4797 || d.WorkerCPU != -1 || d.Spin != 50*time.Microsecond || d.Poll != dataplane.PollAdaptive ||
		d.ArenaFrameBytes != 64<<20 || d.ArenaSlabBytes != 192<<20 || d.Paths != 16 || d.DSNWindow != 8192 ||
		d.ConnectionTimeout != 30*time.Second || d.AckDelay != 100*time.Microsecond || d.Mode != "auto" {
		t.Errorf("dataplane: %+v", d)
	}
	if len(d.Planes) != 1 || d.Planes[0] != (dataplane.PlaneConfig{Interface: "eth2"}) {
		t.Errorf("planes: %+v", d.Planes)
	}
}

func TestEverythingSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metaroced.toml")
	if err := os.WriteFile(path, []byte(`
[daemon]
socket = "/tmp/m.sock"
socket_mode = "0600"
log_level = "debug"
poll = "busy"
spin_us = 10
workers = 1
worker_cpus = [3]
nice = -5
mode = "copy"
udp_port = 5000
busy_poll = true
arena_frames_mib = 8
arena_slabs_mib = 16
rx_ring = 512
tx_ring = 1024
[[plane]]
interface = "eth2"
queue = 1
address = "10.0.0.1"
link_speed = "100Gb/s"
[[plane]]
interface = "eth3"
address = "fd00::1"
[transport]
paths = 4
run_packets = 8
ack_every = 16
ack_delay_us = 50
connection_timeout = "2s"
max_connections = 10
dsn_window = 1024
[limits]
sessions = 5
sessions_per_uid = 2
region_bytes_per_session = "64MiB"
regions_per_session = 7
handshake_timeout = "1s"
`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	d := c.Dataplane
	if d.Planes[0] != (dataplane.PlaneConfig{
		Interface: "eth2", Queue: 1, Address: netip.MustParseAddr("10.0.0.1"), LinkBitsPerSec: 100e9,
	}) || d.Planes[1].Address != netip.MustParseAddr("fd00::1") {
		t.Errorf("planes: %+v", d.Planes)
	}
	if d.WorkerCPU != 3 || d.WorkerNice != -5 || d.Poll != dataplane.PollBusy || !d.BusyPoll || d.RxRing != 512 ||
		d.TxRing != 1024 || d.RegionBytesPerSession != 64<<20 || d.MaxRegionsPerSession != 7 ||
		d.RunPackets != 8 || d.AckEvery != 16 || d.MaxConnections != 10 {
		t.Errorf("dataplane: %+v", d)
	}
	if c.Control.MaxSessions != 5 || c.Control.MaxSessionsPerUID != 2 || c.Control.MaxRegionsPerSession != 7 || c.Control.Mode != 0o600 ||
		c.Control.HandshakeTimeout != time.Second || c.LogLevel != slog.LevelDebug {
		t.Errorf("daemon: %+v", c)
	}
}

func TestUnknownKeys(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a typo":         {minimal + "[daemon]\nsokcet = \"/x\"\n", `x.toml:4: unknown key "daemon.sokcet"; did you mean "socket"?`},
		"a table's typo": {minimal + "[transprt]\npaths = 3\n", `unknown key "transprt"; did you mean "transport"?`},
		"in a plane":     {minimal + "[[plane]]\ninterfaces = \"eth3\"\n", `x.toml:4: unknown key "plane.interfaces"; did you mean "interface"?`},
		"nothing alike":  {minimal + "[limits]\ncolour = 1\n", `x.toml:4: unknown key "limits.colour"; [limits] has: handshake_timeout, pending_events, region_bytes_per_session,`},
		"at the top":     {"zzzzzzzzzzzz = 1\n" + minimal, `x.toml:1: unknown key "zzzzzzzzzzzz"; the file has: daemon, limits, plane, transport`},
	} {
		_, err := parse("x.toml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", name, err, c.want)
		}
	}
	_, err := parse("x.toml", []byte(minimal+"[daemon]\npol = 1\nspin = 2\n"))
	if err == nil || !strings.Contains(err.Error(), ":4:") || !strings.Contains(err.Error(), ":5:") {
		t.Errorf("two unknown keys: %v", err)
	}
}

// TestBadValues has every key with values just outside what it takes. The line is
// always 4: the key stands alone in its table, behind the minimal plane.
func TestBadValues(t *testing.T) {
	for _, c := range []struct{ table, line, want string }{
		{"daemon", `socket = "run/m.sock"`, `daemon.socket = "run/m.sock" is not an absolute path`},
		{"daemon", `socket = "/` + strings.Repeat("x", 107) + `"`, "at most 107 bytes"},
		{"daemon", `socket = 5`, "daemon.socket"},
		{"daemon", `socket_mode = "0999"`, `daemon.socket_mode = "0999" is not a mode within "0000" to "0777"`},
		{"daemon", `socket_mode = "1777"`, "daemon.socket_mode"},
		{"daemon", `log_level = "loud"`, `daemon.log_level = "loud" is not one of debug, info, warn, error`},
		{"daemon", `poll = "fast"`, `daemon.poll = "fast" is not one of adaptive, busy, interrupt`},
		{"daemon", `spin_us = 51`, "daemon.spin_us = 51 is outside 0 to 50"},
		{"daemon", `spin_us = -1`, "daemon.spin_us = -1 is outside"},
		{"daemon", `spin_us = "50"`, "daemon.spin_us"},
		{"daemon", `workers = 0`, "daemon.workers = 0 is outside 1 to 1"},
		{"daemon", `workers = 2`, "daemon.workers = 2 is outside 1 to 1"},
		{"daemon", `worker_cpus = [0, 1]`, "daemon.worker_cpus has 2 entries, but daemon.workers = 1"},
		{"daemon", `worker_cpus = [-1]`, "daemon.worker_cpus = -1 is outside 0 to 8191"},
		{"daemon", `nice = -21`, "daemon.nice = -21 is outside -20 to 19"},
		{"daemon", `nice = 20`, "daemon.nice = 20 is outside"},
		{"daemon", `mode = "native"`, `daemon.mode = "native" is not one of auto, zerocopy, copy, generic`},
		{"daemon", `udp_port = 0`, "daemon.udp_port = 0 is outside 1 to 65535"},
		{"daemon", `udp_port = 65536`, "daemon.udp_port = 65536 is outside"},
		{"daemon", `busy_poll = 1`, "daemon.busy_poll"},
		{"daemon", `arena_frames_mib = 3`, "daemon.arena_frames_mib = 3 is outside 4 to 16384"},
		{"daemon", `arena_slabs_mib = -1`, "daemon.arena_slabs_mib = -1 is outside 0 to"},
		{"daemon", `rx_ring = 100`, "daemon.rx_ring = 100 is not a power of two within 64 to 32768"},
		{"daemon", `tx_ring = 32`, "daemon.tx_ring = 32 is not a power of two"},
		{"transport", `paths = 0`, "transport.paths = 0 is outside 1 to 64"},
		{"transport", `paths = 65`, "transport.paths = 65 is outside"},
		{"transport", `run_packets = 65`, "transport.run_packets = 65 is outside 1 to 64"},
		{"transport", `ack_every = 0`, "transport.ack_every = 0 is outside 1 to 64"},
		{"transport", `ack_delay_us = 10001`, "transport.ack_delay_us = 10001 is outside 0 to 10000"},
		{"transport", `connection_timeout = "30"`, `transport.connection_timeout = "30" is not a time within 100ms to 1h0m0s`},
		{"transport", `connection_timeout = "1ms"`, "transport.connection_timeout"},
		{"transport", `max_connections = 1048576`, "transport.max_connections = 1048576 is outside 1 to 1048575"},
		{"transport", `dsn_window = 8000`, "transport.dsn_window = 8000 is not a power of two within 256 to 1048576"},
		{"limits", `sessions = 0`, "limits.sessions = 0 is outside 1 to 65536"},
		{"limits", `sessions_per_uid = 0`, "limits.sessions_per_uid = 0 is outside"},
		{"limits", `region_bytes_per_session = "1Gbit"`, `limits.region_bytes_per_session = "1Gbit" is not a size`},
		{"limits", `region_bytes_per_session = "1KiB"`, `limits.region_bytes_per_session = "1KiB" is outside 4KiB to`},
		{"limits", `services_per_session = 0`, "limits.services_per_session = 0 is outside"},
		{"limits", `pending_events = 70000`, "limits.pending_events = 70000 is outside"},
		{"limits", `handshake_timeout = "1ms"`, `limits.handshake_timeout = "1ms" is not a time within 10ms to 1m0s`},
		{"limits", `unread_timeout = "x"`, "limits.unread_timeout"},
		{"limits", `regions_per_session = 0`, "limits.regions_per_session = 0 is outside"},
	} {
		_, err := parse("x.toml", []byte(minimal+"["+c.table+"]\n"+c.line+"\n"))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "x.toml:4: ") {
			t.Errorf("%s:\n got %v\nwant x.toml:4: %s", c.line, err, c.want)
		}
	}
}

func TestBadPlanes(t *testing.T) {
	nine := ""
	for i := range 9 {
		nine += "[[plane]]\ninterface = \"eth" + string(rune('0'+i)) + "\"\n"
	}
	for _, c := range []struct{ text, want string }{
		{"", "x.toml: plane is there 0 times; configure 1 to 8 [[plane]] tables"},
		{nine, "plane is there 9 times"},
		{"[[plane]]\nqueue = 1\n", "x.toml:1: plane[0] has no interface"},
		{minimal + minimal, `x.toml:4: plane[1].interface = "eth2" is already plane[0]`},
		{"[[plane]]\ninterface = \"a123456789012345\"\n", "longer than 15 bytes"},
		{minimal + "queue = -1\n", "x.toml:3: plane[0].queue = -1 is outside 0 to 4095"},
		{minimal + "address = \"10.0.0.0/24\"\n", "x.toml:3: plane[0].address"},
		{minimal + "address = \"0.0.0.0\"\n", "plane[0].address"},
		{minimal + "link_speed = \"100GB\"\n", `x.toml:3: plane[0].link_speed = "100GB" is not a rate`},
		{"plane = 3\n", "x.toml:1: "},
	} {
		_, err := parse("x.toml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestContradictionAndSyntax(t *testing.T) {
	_, err := parse("x.toml", []byte(minimal+"[daemon]\nmode = \"copy\"\nrequire_zerocopy = true\n"))
	if err == nil || !strings.Contains(err.Error(), `x.toml:5: daemon.require_zerocopy = true contradicts daemon.mode = "copy"`) {
		t.Errorf("contradiction: %v", err)
	}
	_, err = parse("x.toml", []byte(minimal+"[daemon\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "x.toml:3: ") {
		t.Errorf("syntax: %v", err)
	}
	if _, err := Load("/nonexistent/metaroced.toml"); err == nil || !strings.Contains(err.Error(), "/nonexistent/metaroced.toml") {
		t.Errorf("no file: %v", err)
	}
	// TOML keys are matched whatever their case, as go-toml does it.
	_, err = parse("x.toml", []byte(minimal+"[daemon]\nUDP_Port = 0\n"))
	if err == nil || !strings.Contains(err.Error(), "x.toml:4: daemon.udp_port = 0") {
		t.Errorf("another case: %v", err)
	}
	// All faults come together.
	_, err = parse("x.toml", []byte(minimal+"[daemon]\nspin_us = 99\nudp_port = 0\n"))
	if err == nil || !strings.Contains(err.Error(), ":4:") || !strings.Contains(err.Error(), ":5:") {
		t.Errorf("two faults: %v", err)
	}
}
