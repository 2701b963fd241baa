package xdp

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// holders names the processes that may hold a busy queue. Kernels rarely tell who
// has bound what (CONFIG_XDP_SOCKETS_DIAG), but whoever drives an AF_XDP socket
// has mapped its rings, and such mappings show in /proc/PID/maps.
func holders() string {
	maps, _ := filepath.Glob("/proc/[0-9]*/maps")
	var found []string
	for _, path := range maps {
		content, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(content, []byte(" socket:[")) {
			continue // ended meanwhile, not ours to look at, or innocent
		}
		dir := filepath.Dir(path)
		pid, _ := strconv.Atoi(filepath.Base(dir))
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		entry := fmt.Sprintf("pid %d %q", pid, strings.TrimSpace(string(name)))
		if pid == os.Getpid() {
			entry += " (this daemon)"
		}
		found = append(found, entry)
	}
	if len(found) == 0 {
		return "holder unknown; stop it or choose another queue"
	}
	return "processes with AF_XDP or packet sockets: " + strings.Join(found, ", ") + "; stop the holder or choose another queue"
}
