package umem

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// reserveBytes is what must stay available to the rest of the machine or control
// group after an allocation; below that the kernel starts killing processes.
const reserveBytes = 64 << 20

// checkMemory fails with ErrNoMemory when bytes more would not fit into the
// machine or into the control group the daemon runs in.
func checkMemory(bytes int64) error {
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return fmt.Errorf("metaroced: umem: find out how much memory is available: %w", err)
	}
	available, err := parseMemAvailable(meminfo)
	if err != nil {
		return err
	}
	if bytes > available-reserveBytes {
		return fmt.Errorf("%w: %s needed and %s kept in reserve, but MemAvailable of the machine is %s; use a smaller arena or region, or free memory",
			ErrNoMemory, mebibytes(bytes), mebibytes(reserveBytes), mebibytes(available))
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil // no control groups here
	}
	return checkControlGroup("/sys/fs/cgroup", membership, bytes)
}

// parseMemAvailable returns the bytes that /proc/meminfo calls MemAvailable.
func parseMemAvailable(meminfo []byte) (int64, error) {
	for lines := bufio.NewScanner(bytes.NewReader(meminfo)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			kibibytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("metaroced: umem: MemAvailable in /proc/meminfo: %w", err)
			}
			return kibibytes << 10, nil
		}
	}
	return 0, errors.New("metaroced: umem: /proc/meminfo has no MemAvailable")
}

// checkControlGroup does the check for the version 2 control group named in
// membership, the content of /proc/self/cgroup, and for all groups above it.
func checkControlGroup(root string, membership []byte, bytes int64) error {
	for line := range strings.Lines(string(membership)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		if !ok {
			continue
		}
		for group := filepath.Clean("/" + path); ; group = filepath.Dir(group) {
			limit, limited := readNumber(filepath.Join(root, group, "memory.max"))
			used, known := readNumber(filepath.Join(root, group, "memory.current"))
			if limited && known && bytes > limit-used-reserveBytes {
				return fmt.Errorf("%w: %s needed and %s kept in reserve, but control group %s uses %s of its %s; raise memory.max (systemd: MemoryMax=) or use a smaller arena or region",
					ErrNoMemory, mebibytes(bytes), mebibytes(reserveBytes), group, mebibytes(used), mebibytes(limit))
			}
			if group == "/" {
				break
			}
		}
	}
	return nil
}

// readNumber reads a file with one number; ok is false when there is none, as
// with the word "max".
func readNumber(path string) (number int64, ok bool) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	number, err = strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	return number, err == nil
}

// checkMemlock fails with ErrMemlock when the kernel would refuse to pin bytes
// for a UMEM. Processes with CAP_IPC_LOCK are free of the limit; for the others
// the soft limit is raised as far as the hard one allows.
func checkMemlock(bytes int64) error {
	exempt, err := hasCapability(unix.CAP_IPC_LOCK)
	if err != nil || exempt {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return fmt.Errorf("metaroced: umem: read RLIMIT_MEMLOCK: %w", err)
	}
	need := uint64(bytes)
	if need <= limit.Cur {
		return nil
	}
	if need > limit.Max {
		return fmt.Errorf("%w: %s needed, RLIMIT_MEMLOCK (counted per user) allows %d bytes; raise it (systemd: LimitMEMLOCK=%d, shell: ulimit -l %d) or give the daemon CAP_IPC_LOCK",
			ErrMemlock, mebibytes(bytes), limit.Max, need, (need+1023)/1024)
	}
	limit.Cur = need
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return fmt.Errorf("metaroced: umem: raise RLIMIT_MEMLOCK to %d bytes: %w", need, err)
	}
	return nil
}

// hasCapability reports whether the calling thread has a capability in effect.
func hasCapability(capability uint) (bool, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // version 3 writes two
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false, fmt.Errorf("metaroced: umem: read capabilities: %w", err)
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0, nil
}
