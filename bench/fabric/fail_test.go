package fabric

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/internal/testenv"
)

func TestSilentFailure(t *testing.T) {
	f := open(t, Options{Planes: 2})
	there, back, spared := connect(t, f, 1, AToB), connect(t, f, 1, BToA), connect(t, f, 0, AToB)
	if err := f.FailPlane(1, Silent); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*wire{there, back} {
		for n := range 10 {
			if _, err := w.sender.WriteToUDPAddrPort(payload(uint32(n), size), w.to); err != nil {
				t.Fatal(err)
			}
		}
	}
	spared.send(10, size)
	spared.receive(10)
	// Neighbours were not known before, so what is black-holed is ARP.
	waitFor(t, func() bool { return counters(t, f)[1][AToB].OtherFrames > 0 })
	if err := f.RestorePlane(1); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*wire{there, back} {
		w.flush()
		w.receive(0)
		w.send(10, size)
		w.receive(10)
	}
	if err := f.FailPlane(1, Silent); err != nil {
		t.Fatal(err)
	}
	before := counters(t, f)
	for n := range 10 {
		if _, err := there.sender.WriteToUDPAddrPort(payload(uint32(n), size), there.to); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, func() bool { return counters(t, f).Since(before)[1][AToB].BlackHoled == 10 })
	if got := there.receive(0); len(got) != 0 {
		t.Errorf("%d packets crossed a failed plane", len(got))
	}
}

func TestLinkDown(t *testing.T) {
	f := open(t, Options{Planes: 2})
	state := func(host Host) (state netlink.LinkOperState) {
		err := f.Do(host, func() error {
			link, err := netlink.LinkByName(Interface(1))
			if err == nil {
				state = link.Attrs().OperState
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	w := connect(t, f, 1, AToB)
	for range 3 {
		w.send(10, size)
		w.receive(10)
		if err := f.FailPlane(1, LinkDown); err != nil {
			t.Fatal(err)
		}
		for _, host := range []Host{HostA, HostB} {
			waitFor(t, func() bool { return state(host) != netlink.OperUp })
		}
		if err := f.RestorePlane(1); err != nil {
			t.Fatal(err)
		}
	}
	w.send(10, size)
	w.receive(10)
}

// A burst into an empty virtual queue is passed, then marked, then dropped.
func TestRateMarksBeforeItDrops(t *testing.T) {
	f := open(t, Options{Planes: 1})
	w := connect(t, f, 0, AToB)
	// 10 Mb/s: a packet of 1,000 bytes takes 853 us of the plane's time, and next
	// to none of ours.
	rate := Rate{BitsPerSecond: 10_000_000, MarkBacklog: 100 * time.Millisecond, DropBacklog: 400 * time.Millisecond}
	if err := f.SetRate(0, AToB, rate); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	w.send(1000, size)
	elapsed := time.Since(start)
	got := w.receive(0)
	firstMark := -1
	for n, a := range got {
		if a.tos == 3 {
			firstMark = n
			break
		}
	}
	c := counters(t, f)[0][AToB]
	wire := time.Duration((size + 42 + 24) * 8 * 100) // ns at 10 Mb/s
	fits, marks := int((rate.DropBacklog+elapsed)/wire)+2, int(rate.MarkBacklog/wire)
	if firstMark < marks || firstMark > int((rate.MarkBacklog+elapsed)/wire)+2 {
		t.Errorf("first mark on packet %d, expected from %d on", firstMark, marks)
	}
	if len(got) < int(rate.DropBacklog/wire) || len(got) > fits || c.RateDropped != uint64(1000-len(got)) {
		t.Errorf("%d packets passed in %v, at most %d fit; counters %+v", len(got), elapsed, fits, c)
	}
	if err := f.SetRate(0, AToB, Rate{}); err != nil {
		t.Fatal(err)
	}
	w.send(1000, size)
	w.receive(1000)
}

func TestRateDefaults(t *testing.T) {
	for rate, mark := range map[int64]time.Duration{
		100_000_000:    8 * time.Millisecond,
		3_200_000_000:  250 * time.Microsecond,
		10_000_000_000: 250 * time.Microsecond,
	} {
		r := Rate{BitsPerSecond: rate}.withDefaults()
		if r.MarkBacklog != mark || r.DropBacklog != 4*mark {
			t.Errorf("%d b/s: %+v", rate, r)
		}
	}
}

func TestCloseKillsTheHostsProcesses(t *testing.T) {
	f := open(t, Options{Planes: 1})
	sleeper := exec.Command("sleep", "1000")
	if err := f.Start(HostB, sleeper); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := sleeper.Wait(); err == nil || sleeper.ProcessState.Sys().(interface{ Signaled() bool }).Signaled() == false {
		t.Errorf("sleeper ended with %v", err)
	}
	if err := f.FailPlane(0, Silent); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// victimEnv makes the test binary build a fabric, print who lives in it, and wait.
const victimEnv = "METAROCED_TEST_FABRIC_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		victim()
	}
	os.Exit(m.Run())
}

func victim() {
	f, err := Open(Options{Planes: 2})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	sleeper := exec.Command("sleep", "1000")
	if err := f.Start(HostA, sleeper); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var names []string
	for _, ns := range []*namespace{f.hosts[HostA], f.hosts[HostB], f.switches} {
		name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", ns.fd))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		names = append(names, name)
	}
	fmt.Println(sleeper.Process.Pid, strings.Join(names, " "))
	_ = sleeper.Wait()
	_ = f.Close()
}

// A lab that is killed leaves no process and nobody in its namespaces.
func TestNothingSurvivesKill(t *testing.T) {
	testenv.RequireRoot(t)
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), victimEnv+"=1")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		rest, _ := io.ReadAll(out)
		t.Fatalf("%v: %s%s", err, line, rest)
	}
	words := strings.Fields(line)
	var sleeper int
	if _, err := fmt.Sscan(words[0], &sleeper); err != nil || len(words) != 4 {
		t.Fatalf("victim said %q", line)
	}
	if users(t, words[1]) == 0 {
		t.Fatal("nobody in the namespace: the test looks in the wrong place")
	}
	if err := command.Process.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	waitFor(t, func() bool {
		if !errors.Is(unix.Kill(sleeper, 0), unix.ESRCH) && !zombie(sleeper) {
			return false
		}
		for _, name := range words[1:] {
			if users(t, name) > 0 {
				return false
			}
		}
		return true
	})
}

// users returns how many threads and open files hold a namespace.
func users(t *testing.T, name string) (count int) {
	t.Helper()
	for _, pattern := range []string{"/proc/[0-9]*/task/[0-9]*/ns/net", "/proc/[0-9]*/fd/*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if target, err := os.Readlink(path); err == nil && target == name {
				count++
			}
		}
	}
	return count
}

// zombie says that a process has ended and waits for its parent to notice.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("condition still does not hold after %v", patience)
		}
		<-tick.C
	}
}
