package testenv

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// RequirePrivilegedEnv is the environment variable that turns a test skipped for
// want of privileges into a failed one. CI sets it to "1".
const RequirePrivilegedEnv = "METAROCED_REQUIRE_PRIVILEGED"

// neededCapabilities are what namespaces, XDP and AF_XDP sockets together ask for.
var neededCapabilities = []struct {
	bit  uint
	name string
}{
	{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"},
	{unix.CAP_NET_RAW, "CAP_NET_RAW"},
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},
	{unix.CAP_BPF, "CAP_BPF"},
	{unix.CAP_IPC_LOCK, "CAP_IPC_LOCK"},
}

// RequireRoot ends the test when the process lacks the privileges that kernel
// tests need: it fails when METAROCED_REQUIRE_PRIVILEGED is "1" and skips, saying
// what is missing, otherwise.
func RequireRoot(t testing.TB) {
	t.Helper()
	missing := missingPrivilege()
	if missing == "" {
		return
	}
	if os.Getenv(RequirePrivilegedEnv) == "1" {
		t.Fatalf("this test needs root, and %s=1 forbids skipping it: %s", RequirePrivilegedEnv, missing)
	}
	t.Skipf("needs root: %s", missing)
}

// missingPrivilege names the first privilege that is absent, "" when none is.
func missingPrivilege() string {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Sprintf("the effective user id is %d", uid)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Sprintf("capget: %v", err)
	}
	for _, c := range neededCapabilities {
		if data[c.bit/32].Effective&(1<<(c.bit%32)) == 0 {
			return c.name + " is not in the effective set"
		}
	}
	return ""
}
