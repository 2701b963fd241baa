package lab

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/cmd/metaroced/config"
)

func newTestSpawner(t *testing.T, cpu int) *spawner {
	t.Helper()
	s, err := newSpawner(cpu)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func TestChildrenInheritTheSpawnersCPU(t *testing.T) {
	cpu := runtime.NumCPU() - 1
	s := newTestSpawner(t, cpu)
	var out strings.Builder
	command := exec.Command("grep", "Cpus_allowed_list", "/proc/self/status")
	command.Stdout = &out
	p, err := newProcess(s.start, "grep", command)
	if err != nil {
		t.Fatal(err)
	}
	<-p.exited
	if fields := strings.Fields(out.String()); len(fields) != 2 || fields[1] != strconv.Itoa(cpu) {
		t.Errorf("a child may run on %q, want %d", out.String(), cpu)
	}
	var ours unix.CPUSet
	if err := unix.SchedGetaffinity(0, &ours); err != nil || ours.Count() < min(2, runtime.NumCPU()) {
		t.Errorf("a thread of our own is confined to %d CPUs (%v)", ours.Count(), err)
	}
}

func TestSpawnerReportsWhatItCannotDo(t *testing.T) {
	if _, err := newSpawner(8191); err == nil || !strings.Contains(err.Error(), "CPU 8191") {
		t.Errorf("a CPU that does not exist: %v", err)
	}
	s := newTestSpawner(t, -1)
	if _, err := newProcess(s.start, "nothing", exec.Command("/nonexistent")); err == nil || !strings.Contains(err.Error(), "start nothing") {
		t.Errorf("a program that does not exist: %v", err)
	}
}

// A child that ignores the request to leave is not waited for forever; one that
// left by itself is reported as what it was.
func TestStop(t *testing.T) {
	s := newTestSpawner(t, -1)
	p, err := newProcess(s.start, "sleeper", exec.Command("sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.stop(); err == nil || !strings.Contains(err.Error(), "sleeper: signal: terminated") {
		t.Errorf("stopped by the signal: %v", err)
	}
	p, err = newProcess(s.start, "quitter", exec.Command("true"))
	if err != nil {
		t.Fatal(err)
	}
	<-p.exited
	if err := p.stop(); err != nil || p.failure().Error() != "quitter left early" {
		t.Errorf("left by itself: %v, %v", err, p.failure())
	}
}

func TestReadiness(t *testing.T) {
	s := newTestSpawner(t, -1)
	ctx := context.Background()
	if _, err := startNotifying(ctx, s.start, "the mute", exec.Command("false"), t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "the mute ended: exit status 1") {
		t.Errorf("a process that ends instead: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := startNotifying(cancelled, s.start, "the slow", exec.Command("sleep", "1000"), t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "the slow is not ready") {
		t.Errorf("a process that never is: %v", err)
	}
}

func TestProcessCPUOfOurselves(t *testing.T) {
	before, err := processCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	p, content := NewPattern(1), make([]byte, 1<<20)
	for after := before; after == before; {
		p.Fill(content, 1)
		if after, err = processCPU(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := processCPU(1<<22 - 1); err == nil {
		t.Error("a process that does not exist has CPU time")
	}
}

// The daemon accepts the configurations the lab writes.
func TestDaemonConfigurationIsValid(t *testing.T) {
	o := goodOptions()
	for _, rate := range []int64{0, 2_500_000_000} {
		o.PlaneRate = rate
		path := filepath.Join(t.TempDir(), "lab.toml")
		spec := daemonSpec{host: "host-a", cpu: 1}
		if err := os.WriteFile(path, []byte(o.configuration(spec, "/tmp/lab.sock")), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		want := rate
		if want == 0 {
			want = unlimitedLinkBits
		}
		d := c.Dataplane
		if len(d.Planes) != 4 || d.Planes[1].Interface != "plane1" || d.Planes[1].LinkBitsPerSec != want || d.WorkerCPU != 1 ||
			d.Paths != o.Paths || c.Control.Path != "/tmp/lab.sock" || d.RegionBytesPerSession < int64(o.Depth)*o.Size {
			t.Errorf("%+v", c)
		}
	}
}
