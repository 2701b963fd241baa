package lab

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestDirectoriesOfKilledLabsAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	long := time.Now().Add(-2 * staleAge)
	age := func(path string) {
		t.Helper()
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
	}
	running, err := newDirectory()
	if err != nil {
		t.Fatal(err)
	}
	killed, err := newDirectory()
	if err != nil {
		t.Fatal(err)
	}
	young, err := os.MkdirTemp("", directoryPrefix+"*")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(killed.path, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	killed.held.Close() // as the kernel does
	age(running.path)
	age(killed.path)
	next, err := newDirectory()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{running.path: true, killed.path: false, young: true, next.path: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: there is %v, want %v", path, err == nil, want)
		}
	}
	for _, d := range []*directory{&running, &next} {
		if err := d.close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(d.path); err == nil {
			t.Errorf("%s is still there", d.path)
		}
	}
}
