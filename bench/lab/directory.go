package lab

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// directoryPrefix begins the name of the directory of a lab's sockets and files.
const directoryPrefix = "metaroced-lab-"

// staleAge is how old a directory nobody holds must be before it is removed: a
// younger one may be about to be held.
const staleAge = time.Minute

// directory is where a lab keeps sockets and configurations. The lab holds it with
// a locked file, and the lock ends with the process: a directory that nobody holds
// was left by a lab that was killed.
type directory struct {
	path string
	held *os.File
}

// newDirectory makes one in the temporary directory, and removes those that labs
// of the same user left there.
func newDirectory() (d directory, err error) {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), directoryPrefix+"*"))
	if err != nil {
		return d, err
	}
	for _, path := range left {
		removeStale(path)
	}
	if d.path, err = os.MkdirTemp("", directoryPrefix+"*"); err != nil {
		return d, err
	}
	if d.held, err = hold(d.path); err != nil {
		return d, errors.Join(err, os.RemoveAll(d.path))
	}
	return d, nil
}

// hold locks a directory's file, or says that somebody else does.
func hold(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, "held"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeStale removes a directory of ours that nobody holds. What it cannot remove
// disturbs nobody and stays.
func removeStale(path string) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || time.Since(time.Unix(st.Mtim.Unix())) < staleAge {
		return
	}
	f, err := hold(path)
	if err != nil {
		return
	}
	_ = os.RemoveAll(path)
	_ = f.Close()
}

// close removes the directory.
func (d *directory) close() error {
	if d.held == nil {
		return nil
	}
	return errors.Join(os.RemoveAll(d.path), d.held.Close())
}
