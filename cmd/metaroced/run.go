package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/metaroced/metaroced/cmd/metaroced/config"
	"github.com/metaroced/metaroced/ctrl"
	"github.com/metaroced/metaroced/dataplane"
)

const (
	// stopLimit is how long a clean stop may take; systemd kills after 10 s.
	stopLimit = 8 * time.Second
	// sparePs is how many threads may run Go code beside the spinning workers.
	sparePs = 2
	// gcPercent makes collections rare: the heap holds set-up state of a few
	// megabytes and nothing of the packets' path.
	gcPercent = 400
)

func newRun() *cobra.Command {
	var file string
	command := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon",
		Long: `Run the daemon in the foreground until SIGTERM or SIGINT. The first signal stops it
cleanly, a second one at once. Logs go to standard error.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := config.Load(file)
			if err != nil {
				return err
			}
			return runDaemon(command.Context(), c)
		},
	}
	command.Flags().StringVar(&file, "config", config.DefaultFile, "configuration file")
	return command
}

// runDaemon runs the daemon until ctx ends or something it cannot do without fails.
func runDaemon(ctx context.Context, c *config.Config) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: c.LogLevel}))
	debug.SetGCPercent(gcPercent)
	const workers = 1
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), workers+sparePs))

	plane, err := dataplane.New(c.Dataplane, log)
	if err != nil {
		return err
	}
	// The dataplane outlives the control socket: sessions end through it. And
	// without a dataplane there is nothing to serve.
	planeCtx, stopPlane := context.WithCancel(context.Background())
	defer stopPlane()
	serveCtx, stopServing := context.WithCancel(ctx)
	defer stopServing()
	ran := make(chan error, 1)
	go func() {
		ran <- plane.Run(planeCtx)
		stopServing()
	}()
	server, err := ctrl.NewServer(c.Control, backend{plane}, log)
	if err != nil {
		stopPlane()
		return errors.Join(err, within(stopLimit, ran))
	}
	ended := make(chan error, 1)
	go func() {
		served := server.Serve(serveCtx)
		stopPlane()
		ended <- errors.Join(served, <-ran)
	}()
	notify(log, daemon.SdNotifyReady)
	log.Info("ready", "version", dataplane.Version(), "socket", c.Control.Path, "planes", len(c.Dataplane.Planes))
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	notify(log, daemon.SdNotifyStopping)
	log.Info("stopping")
	return within(stopLimit, ended)
}

// within returns what comes out of ended, but does not wait for it longer than the
// limit: what a process leaves behind then, the kernel takes back when it exits.
func within(limit time.Duration, ended <-chan error) error {
	select {
	case err := <-ended:
		return err
	case <-time.After(limit):
		return fmt.Errorf("did not stop within %v; leaving nevertheless", limit)
	}
}

// backend is the dataplane as the control socket sees it.
type backend struct{ *dataplane.Dataplane }

// OpenSession returns the dataplane's session as the interface ctrl asks for.
func (b backend) OpenSession(spec dataplane.SessionSpec) (ctrl.Session, error) {
	session, err := b.Dataplane.OpenSession(spec)
	if err != nil {
		return nil, err
	}
	return session, nil
}
