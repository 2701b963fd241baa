package ctrl

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// maxPathBytes is what sockaddr_un takes besides the closing NUL.
const maxPathBytes = 107

// socketFile is the listening socket together with the file that names it.
type socketFile struct {
	*net.UnixListener
	path     string
	dev, ino uint64
}

// listen creates the socket file at path. A file that a dead daemon left is
// replaced; one behind which somebody listens, or that is no socket, is an
// error. The directory is created when only it is missing.
func listen(path string, mode fs.FileMode) (*socketFile, error) {
	if len(path) > maxPathBytes {
		return nil, fmt.Errorf("metaroced: control socket %s: path of %d bytes, the kernel takes %d; choose a shorter daemon.socket",
			path, len(path), maxPathBytes)
	}
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("metaroced: control socket %s: %w", path, err)
	}
	unlock, err := lockSocket(path)
	if err != nil {
		return nil, fmt.Errorf("metaroced: control socket %s: %w", path, err)
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	s, err := bind(path, mode)
	if err != nil {
		return nil, fmt.Errorf("metaroced: control socket %s: %w", path, err)
	}
	return s, nil
}

// How long a starting daemon waits for another one that starts on the same socket.
const (
	lockPatience = 3 * time.Second
	lockPause    = 10 * time.Millisecond
)

// lockSocket keeps other daemons from looking at and replacing the socket file at
// the same time. The lock dies with the process. Its file stays, because a lock on a
// file that may be removed protects nothing, and only the daemon's user may open it:
// whoever else could lock it could keep daemons from starting.
func lockSocket(path string) (unlock func(), err error) {
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(lockPatience); ; time.Sleep(lockPause) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(until) {
			f.Close()
			return nil, fmt.Errorf("lock %s, which another starting daemon may hold: %w", name, err)
		}
	}
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("metaroced: control socket %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("metaroced: control socket %s: a file that is no socket is in the way; remove it or change daemon.socket", path)
	}
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err == nil {
		defer conn.Close()
		who := "another process"
		if cred, err := peerCred(conn); err == nil {
			who = fmt.Sprintf("another daemon (pid %d, uid %d)", cred.Pid, cred.Uid)
		}
		return fmt.Errorf("metaroced: control socket %s: %s listens on it; stop it or change daemon.socket", path, who)
	}
	if !errors.Is(err, unix.ECONNREFUSED) { // refused: nobody listens any more
		return fmt.Errorf("metaroced: control socket %s: cannot tell whether a daemon listens on it: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("metaroced: control socket %s: remove what a dead daemon left: %w", path, err)
	}
	return nil
}

// bind makes the file, gives it its mode, and only then listens, so that nobody
// connects under the mode the umask left.
func bind(path string, mode fs.FileMode) (*socketFile, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close() // FileListener has its own copy
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	s := &socketFile{path: path}
	err = func() error {
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		s.dev, s.ino = st.Dev, st.Ino
		if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		l, err := net.FileListener(f)
		if err != nil {
			return err
		}
		s.UnixListener = l.(*net.UnixListener)
		s.SetUnlinkOnClose(false) // remove does it, and looks first
		return nil
	}()
	if err != nil {
		os.Remove(path)
		return nil, err
	}
	return s, nil
}

// remove deletes the file if it still is the one listen made.
func (s *socketFile) remove() {
	var st unix.Stat_t
	if unix.Lstat(s.path, &st) == nil && st.Dev == s.dev && st.Ino == s.ino {
		os.Remove(s.path)
	}
}

// peerCred returns who was at the other end when the connection was made.
func peerCred(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return cred, credErr
}
