package umem

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseMemAvailable(t *testing.T) {
	const meminfo = "MemTotal:       24683996 kB\nMemFree:        24247104 kB\nMemAvailable:    1048576 kB\n"
	got, err := parseMemAvailable([]byte(meminfo))
	if err != nil || got != 1<<30 {
		t.Fatalf("%d, %v", got, err)
	}
	for _, bad := range []string{"", "MemFree: 1 kB\n", "MemAvailable: many kB\n"} {
		if _, err := parseMemAvailable([]byte(bad)); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}

func TestMemoryErrorNamesTheNeed(t *testing.T) {
	const need = 1 << 39 // more than test machines have
	_, err := NewArena(Config{FrameBytes: need, SlabBytes: NoSlabs})
	if !errors.Is(err, ErrNoMemory) || !strings.Contains(err.Error(), "549755813888") {
		t.Fatalf("%v", err)
	}
}

func TestControlGroupLimit(t *testing.T) {
	root := t.TempDir()
	group := func(path, limit, used string) {
		t.Helper()
		dir := filepath.Join(root, path)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{"memory.max": limit, "memory.current": used} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	group("system.slice", "536870912", "134217728") // 512 MiB, 128 MiB used
	group("system.slice/metaroced.service", "max", "1000")
	membership := []byte("4:memory:/elsewhere\n0::/system.slice/metaroced.service\n")

	if err := checkControlGroup(root, membership, 256<<20); err != nil {
		t.Fatal(err)
	}
	err := checkControlGroup(root, membership, 384<<20)
	if !errors.Is(err, ErrNoMemory) || !strings.Contains(err.Error(), "/system.slice ") || !strings.Contains(err.Error(), "402653184") {
		t.Fatalf("limit of the group above: %v", err)
	}
	for _, none := range []string{"", "4:memory:/system.slice\n", "0::/\n"} {
		if err := checkControlGroup(root, []byte(none), 1<<40); err != nil {
			t.Errorf("membership %q: %v", none, err)
		}
	}
}

// TestMemlockLimit runs a part of itself without CAP_IPC_LOCK, as root has it.
func TestMemlockLimit(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		t.Fatal(err)
	}
	withoutCapability(t, func() {
		if limit.Max != unix.RLIM_INFINITY {
			err := checkMemlock(int64(limit.Max) + 1)
			if !errors.Is(err, ErrMemlock) || !strings.Contains(err.Error(), "LimitMEMLOCK=") {
				t.Errorf("above the hard limit: %v", err)
			}
		}
		if err := checkMemlock(int64(min(limit.Max, 1<<20))); err != nil {
			t.Errorf("within the hard limit: %v", err)
		}
	})
}

// withoutCapability runs f on a thread of its own without CAP_IPC_LOCK. The
// thread ends with it.
func withoutCapability(t *testing.T, f func()) {
	done := make(chan error)
	go func() {
		// Not unlocked: the runtime then destroys the thread with the goroutine.
		runtime.LockOSThread()
		done <- dropCapability(unix.CAP_IPC_LOCK, f)
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func dropCapability(capability uint, f func()) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[capability/32].Effective &^= 1 << (capability % 32)
	if err := unix.Capset(&header, &data[0]); err != nil {
		return err
	}
	f()
	return nil
}
