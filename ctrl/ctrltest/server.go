package ctrltest

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/metaroced/metaroced/ctrl"
)

// Serve runs a server for b in a directory of its own until the test ends, and
// returns the path of its socket. cfg.Path is overwritten.
func Serve(t testing.TB, cfg ctrl.Config, b ctrl.Backend) (path string, server *ctrl.Server) {
	t.Helper()
	cfg.Path = filepath.Join(t.TempDir(), "control.sock")
	server, err := ctrl.NewServer(cfg, b, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.Background()) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return cfg.Path, server
}
