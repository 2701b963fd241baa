package main

import (
	"log/slog"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notifyReady tells whoever started us, systemd or the lab, that we are ready.
func notifyReady(log *slog.Logger) { notify(log, daemon.SdNotifyReady) }

// notify sends a state to the service manager; without one it does nothing.
func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("tell the service manager", "state", state, "error", err)
	}
}
