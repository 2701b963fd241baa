package lab

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metaroced/metaroced/cmd/metaroced/perf"
	"github.com/metaroced/metaroced/internal/testenv"
)

// executable builds the command once for all tests.
var executable = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "metaroced-lab-binary-")
	if err != nil {
		return "", err
	}
	executableDir = dir
	path := filepath.Join(dir, "metaroced")
	command := exec.Command("go", "build", "-buildvcs=false", "-o", path, "github.com/metaroced/metaroced/cmd/metaroced")
	if text, err := command.CombinedOutput(); err != nil {
		return "", &exec.Error{Name: "go build: " + string(text), Err: err}
	}
	return path, nil
})

// executableDir is where it is, "" when no test needed it.
var executableDir string

func TestMain(m *testing.M) {
	status := m.Run()
	if executableDir != "" {
		_ = os.RemoveAll(executableDir) // in the temporary directory; a rest harms nobody
	}
	os.Exit(status)
}

// privilegedOptions returns a short job on this machine, or skips.
func privilegedOptions(t *testing.T) Options {
	t.Helper()
	testenv.RequireRoot(t)
	path, err := executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir()) // for the lab's files, so that what is left of them is seen
	last := runtime.NumCPU() - 1
	o := goodOptions()
	o.Executable, o.Log, o.Seed = path, testLog{t}, 1
	o.Duration, o.CPUB, o.CPUApps = time.Second, last, last
	return o
}

// testLog writes what daemons and applications say to the test's log.
type testLog struct{ t *testing.T }

func (l testLog) Write(text []byte) (int, error) {
	l.t.Logf("%s", bytes.TrimRight(text, "\n"))
	return len(text), nil
}

func runLab(t *testing.T, o Options) *Result {
	t.Helper()
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if failure := r.Failure(); failure != "" {
		t.Errorf("%s\n%+v", failure, *r)
	}
	if r.Operations == 0 || r.Bytes != r.Operations*uint64(o.Size) || r.GoodputGbps <= 0 || r.SetupMs <= 0 || len(r.Timeline) == 0 {
		t.Errorf("result: %+v", r)
	}
	if len(r.Planes) != o.Planes || len(r.Paths) != o.Planes*o.Paths {
		t.Errorf("%d planes, %d paths", len(r.Planes), len(r.Paths))
	}
	checkNothingLeft(t)
	return r
}

// checkNothingLeft looks for processes that outlived their lab; the namespaces they
// would be in go with them (bench/fabric tests that).
func checkNothingLeft(t *testing.T) {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		t.Fatalf("no lists of children: %v", err)
	}
	for _, list := range lists {
		if children, err := os.ReadFile(list); err == nil && len(children) > 0 {
			t.Errorf("processes are left: %s", children)
		}
	}
	directories, err := filepath.Glob(filepath.Join(os.TempDir(), directoryPrefix+"*"))
	if err != nil || len(directories) > 0 {
		t.Errorf("directories are left: %v, %v", directories, err)
	}
}

func TestLabClean(t *testing.T) {
	r := runLab(t, privilegedOptions(t))
	if r.Switch.Dropped+r.Switch.Corrupted+r.Switch.Duplicated+r.Switch.Held > 0 {
		t.Errorf("the switch did damage: %+v", r.Switch)
	}
	t.Logf("%.2f Gb/s, set-up %.0f ms", r.GoodputGbps, r.SetupMs)
}

func TestLabWithEveryImpairment(t *testing.T) {
	o := privilegedOptions(t)
	o.Loss, o.Mark, o.Corrupt, o.Duplicate, o.Reorder = 0.01, 0.01, 0.01, 0.01, 0.05
	o.Duration = 2 * time.Second
	r := runLab(t, o)
	s := r.Switch
	if s.Dropped == 0 || s.Marked == 0 || s.Corrupted == 0 || s.Duplicated == 0 || s.Held == 0 || r.Retransmissions == 0 {
		t.Errorf("impairments are missing: %+v, %d retransmissions", s, r.Retransmissions)
	}
}

func TestLabWithSmallOperations(t *testing.T) {
	o := privilegedOptions(t)
	o.Size, o.Depth, o.Loss = 100, 64, 0.01
	runLab(t, o)
}

func TestLabSurvivesAPlane(t *testing.T) {
	for _, mode := range []FailMode{FailSilent, FailLinkDown} {
		t.Run(string(mode), func(t *testing.T) {
			o := privilegedOptions(t)
			o.FailMode = mode
			o.Duration = 2 * time.Second
			o.FailPlanes = []PlaneEvent{{2, 800 * time.Millisecond}}
			o.RestorePlanes = []PlaneEvent{{2, 1600 * time.Millisecond}}
			runLab(t, o)
		})
	}
}

func TestLabLatency(t *testing.T) {
	o := privilegedOptions(t)
	o.Duration = 300 * time.Millisecond
	r, err := RunLatency(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Spinning.P50 <= 0 || r.Sleeping.P50 <= 0 || r.UDP.P50 <= 0 {
		t.Errorf("%+v", r)
	}
	t.Logf("p50: spinning %.1f us, sleeping %.1f us, UDP %.1f us", r.Spinning.P50, r.Sleeping.P50, r.UDP.P50)
}

// The bandwidth test of metaroced perf between the lab's hosts, all sizes.
func TestPerfBandwidth(t *testing.T) {
	o := privilegedOptions(t)
	ctx := context.Background()
	r := &run{options: &o}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := r.setUp(ctx); err != nil {
		t.Fatal(err)
	}
	server := exec.Command(o.Executable, "perf", "server", "--socket", r.daemons[hostB].socket)
	p, err := startNotifying(ctx, r.apps.start, "perf server", server, r.dir.path)
	if err != nil {
		t.Fatal(err)
	}
	var report perf.Report
	command := exec.Command(o.Executable, "perf", "client", o.addresses(hostB)[0].String(),
		"--socket", r.daemons[hostA].socket, "--iterations", "200", "--depth", "8", "--json")
	if err := r.measure(ctx, r.apps.start, "perf client", command, &report); err != nil {
		t.Fatal(err)
	}
	if err := p.stop(); err != nil {
		t.Errorf("server: %v", err)
	}
	sizes := perf.Sweep(64, 4<<20)
	if report.Test != "bandwidth" || report.Depth != 8 || len(report.Results) != len(sizes) {
		t.Fatalf("%+v", report)
	}
	for i, row := range report.Results {
		if row.Size != sizes[i] || row.Iterations != 200 || row.Gbps <= 0 || row.LatencyUs.P50 <= 0 {
			t.Errorf("%+v", row)
		}
	}
}

// An interrupt in the middle leaves nothing behind.
func TestLabInterrupted(t *testing.T) {
	o := privilegedOptions(t)
	ctx, cancel := context.WithCancel(context.Background())
	o.Duration = 5 * time.Second
	time.AfterFunc(1500*time.Millisecond, cancel)
	if _, err := Run(ctx, o); err == nil || !strings.Contains(err.Error(), "cancel") {
		t.Errorf("interrupted: %v", err)
	}
	checkNothingLeft(t)
}
