package ctrl_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metaroced/metaroced/ctrl"
	"github.com/metaroced/metaroced/ctrl/ctrltest"
	"github.com/metaroced/metaroced/ctrl/msg"
	"golang.org/x/sys/unix"
)

func newServer(t testing.TB, cfg ctrl.Config) (*ctrl.Server, error) {
	t.Helper()
	s, err := ctrl.NewServer(cfg, ctrltest.NewBackend(t), slog.New(slog.DiscardHandler))
	if err == nil {
		t.Cleanup(s.Close)
	}
	return s, err
}

func TestSocketFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "control.sock") // the last directory is made
	s, err := newServer(t, ctrl.Config{Path: path, Mode: 0o600})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("socket file %v, %v", info.Mode(), err)
	}

	_, err = newServer(t, ctrl.Config{Path: path})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("another daemon (pid %d", os.Getpid())) {
		t.Errorf("second daemon on one socket: %v", err)
	}
	dial(t, path).conn.Close() // and the first one is still there

	s.Close()
	s.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("closing left the file: %v", err)
	}
	if err := s.Serve(context.Background()); err != nil {
		t.Errorf("serve after close: %v", err)
	}
}

func TestStaleSocketFileIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	dead, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	s, err := newServer(t, ctrl.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	// Another one in its place is not ours to remove.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("closing removed somebody else's file: %v", err)
	}
	if _, err := newServer(t, ctrl.Config{Path: path}); err == nil || !strings.Contains(err.Error(), "no socket is in the way") {
		t.Errorf("a file in the way: %v", err)
	}
}

// TestOneOfManyDaemonsWins starts them all at once over a stale file.
func TestOneOfManyDaemonsWins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	dead, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	var wait sync.WaitGroup
	won := make(chan struct{}, 8)
	for range cap(won) {
		wait.Go(func() {
			if _, err := newServer(t, ctrl.Config{Path: path}); err == nil {
				won <- struct{}{}
			} else if !strings.Contains(err.Error(), "another daemon") {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if len(won) != 1 {
		t.Errorf("%d daemons serve one socket", len(won))
	}
}

func TestConfigErrors(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		cfg  ctrl.Config
		want string
	}{
		{ctrl.Config{Path: dir + "/" + strings.Repeat("x", 107)}, "daemon.socket"},
		{ctrl.Config{Path: dir + "/no/such/socket"}, "no such file"},
		{ctrl.Config{Path: dir + "/a", Mode: os.ModeSetuid | 0o600}, "mode"},
		{ctrl.Config{Path: dir + "/a", MaxSessions: -1}, "limits.sessions is -1"},
		{ctrl.Config{Path: dir + "/a", MaxPendingEvents: -1}, "limits.pending_events is -1"},
		{ctrl.Config{Path: dir + "/a", HandshakeTimeout: -time.Second}, "limits.handshake_timeout is -1s"},
	} {
		if _, err := newServer(t, c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	b := ctrltest.NewBackend(t)
	s, err := ctrl.NewServer(ctrl.Config{Path: path}, b, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	attached, shaking := attach(t, path), dial(t, path)
	if err := shaking.send(nil); err == nil { // an empty packet counts as the end
		if e := shaking.hungUp(); e != nil {
			t.Errorf("empty packet: %+v", e)
		}
	}
	shaking = dial(t, path)
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	expectText(t, attached.hungUp(), msg.CodeEnded, "daemon is stopping")
	if _, _, _, err := shaking.receive(); err == nil { // told, when it was accepted in time
		shaking.hungUp()
	}
	for _, session := range b.Sessions() {
		<-session.Closed()
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("stopping left the file: %v", err)
	}
}

// Whoever may read the directory must not be able to keep daemons from starting by
// locking something.
func TestOthersCannotHoldTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	s, err := newServer(t, ctrl.Config{Path: path, Mode: 0o666})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if info, err := os.Stat(path + ".lock"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("lock file: %v, %v", info, err)
	}
}
