package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metaroced/metaroced/dataplane"
)

// run executes a command line with standard output and error caught.
func runCommand(t *testing.T, args ...string) (status int, out, errors string) {
	t.Helper()
	stdout, stderr := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	dir := t.TempDir()
	catch := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	caughtOut, caughtErr := catch("out"), catch("err")
	os.Stdout, os.Stderr = caughtOut, caughtErr
	status = execute(args)
	read := func(f *os.File) string {
		f.Close()
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	return status, read(caughtOut), read(caughtErr)
}

func TestWrongUsageIsStatus2(t *testing.T) {
	for want, args := range map[string][]string{
		`unknown command "runn"`:               {"runn"},
		"unknown flag: --colour":               {"status", "--colour"},
		`unknown command "x"`:                  {"status", "x"},
		"accepts 1 arg(s), received 0":         {"perf", "client"},
		`"host" is not an IP address`:          {"perf", "client", "host"},
		"--depth 0 is outside 1 to 1024":       {"perf", "client", "127.0.0.1", "--depth", "0"},
		"--duration 0s":                        {"perf", "client", "127.0.0.1", "--duration", "0s"},
		`"0.01" has no percent sign`:           {"lab", "--loss", "0.01"},
		`"2" is not plane@time`:                {"lab", "--fail-plane", "2"},
		"--planes 9 is outside 1 to 8":         {"lab", "--planes", "9"},
		"there are planes 0 to 3":              {"lab", "--fail-plane", "4@1s"},
		`--op "send" is not there yet`:         {"lab", "--op", "send"},
		`"10GB" is not a rate`:                 {"lab", "--plane-rate", "10GB"},
		`--fail-mode "x" is not one of silent`: {"lab", "--fail-mode", "x"},
		"--mtu 9000 is outside 1280 to 3498":   {"lab", "--mtu", "9000"},
		"--rounds 0 is outside 1 to 1000":      {"bench", "--rounds", "0"},
		`--loss: "5" has no percent sign`:      {"bench", "--loss", "5"},
		`--only "x" is not one of throughput`:  {"bench", "--only", "x"},
		`--poll "x" is not one of adaptive`:    {"lab", "--poll", "x"},
	} {
		status, out, errors := runCommand(t, args...)
		if status != exitUsage || !strings.Contains(errors, want) || out != "" || !strings.HasPrefix(errors, "metaroced: ") {
			t.Errorf("%v: status %d, error %q, output %q; want %q", args, status, errors, out, want)
		}
	}
}

func TestFailureIsStatus1(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.sock")
	status, out, errors := runCommand(t, "status", "--socket", missing)
	if status != exitFailure || !strings.Contains(errors, missing) || out != "" || strings.Count(errors, "metaroced: ") != 1 {
		t.Errorf("status %d, error %q, output %q", status, errors, out)
	}
	status, _, errors = runCommand(t, "run", "--config", "/nonexistent.toml")
	if status != exitFailure || !strings.Contains(errors, "/nonexistent.toml") {
		t.Errorf("status %d, error %q", status, errors)
	}
}

func TestVersionAndHelp(t *testing.T) {
	status, out, _ := runCommand(t, "version")
	if status != 0 || !strings.HasPrefix(out, "metaroced ") {
		t.Errorf("version: status %d, output %q", status, out)
	}
	status, out, _ = runCommand(t, "--help")
	for _, name := range []string{"run", "lab", "perf", "status", "bench", "version"} {
		if !strings.Contains(out, "\n  "+name+" ") {
			t.Errorf("help does not list %s:\n%s", name, out)
		}
	}
	if status != 0 || strings.Contains(out, "lab-app") || strings.Contains(out, "raw-side") {
		t.Errorf("help: status %d:\n%s", status, out)
	}
}

// TestLabFlagsThatStay lists the flags users of the lab rely on, with defaults.
func TestLabFlagsThatStay(t *testing.T) {
	command := newLab()
	for name, want := range map[string]string{
		"planes": "4", "paths": "16", "loss": "0%", "mark": "0%", "corrupt": "0%", "duplicate": "0%", "reorder": "0%",
		"fail-plane": "", "restore-plane": "", "op": "write", "size": "1MiB", "depth": "16", "duration": "5s",
		"mtu": "3498", "plane-rate": "0", "json": "false", "fail-mode": "silent", "idle": "0s", "seed": "0",
		"cpu-a": "0", "cpu-b": "1", "cpu-apps": "1",
	} {
		flag := command.Flags().Lookup(name)
		if flag == nil || flag.DefValue != want {
			t.Errorf("--%s: %+v, want default %q", name, flag, want)
		}
	}
}

func TestStatusTable(t *testing.T) {
	s := &dataplane.Status{
		Version: "v1", PID: 7, UptimeMs: int64(90 * time.Second / time.Millisecond), Sessions: 1,
		Planes: []dataplane.PlaneStatus{{Name: "eth2", Address: "10.0.0.1", Mode: "copy", State: "up", TxPackets: 5}},
		Connections: []dataplane.ConnStatus{{
			ID: 3, Peer: "10.0.0.2:4797", Service: "lab", State: "established",
			Paths: []dataplane.PathStatus{{State: "down"}, {State: "active"}, {State: "active"}},
		}},
		Counters: map[string]uint64{"rx_bad_crc": 2, "rx_bad_version": 0},
	}
	var out bytes.Buffer
	if err := printStatus(&out, s); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"metaroced v1, process 7, up 1m30s", "eth2", "10.0.0.2:4797", "2 active 1 down", "rx_bad_crc"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "rx_bad_version") {
		t.Errorf("a counter that is zero is shown:\n%s", out.String())
	}
}
