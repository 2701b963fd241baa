package ctrl

import (
	"fmt"
	"io/fs"
	"time"
)

// DefaultPath is where applications look for the daemon.
const DefaultPath = "/run/metaroced/metaroced.sock"

// Config of a Server. A zero field takes the default; the names in quotes are
// the keys of the daemon's configuration that errors send people to.
type Config struct {
	Path string      // "daemon.socket"; default DefaultPath, at most 107 bytes
	Mode fs.FileMode // permission bits of the socket; default 0660: owner and group may attach

	MaxSessions           int // "limits.sessions"; default 1024, handshakes included
	MaxSessionsPerUID     int // "limits.sessions_per_uid"; default 64, handshakes included
	MaxServicesPerSession int // "limits.services_per_session"; default 64
	MaxRegionsPerSession  int // "limits.regions_per_session"; default 256
	MaxPendingEvents      int // "limits.pending_events"; default 1024, waiting for a slow application

	HandshakeTimeout time.Duration // "limits.handshake_timeout"; default 2 s from accept to HELLO
	UnreadTimeout    time.Duration // "limits.unread_timeout"; default 2 s for reading what is over the unread limit
}

func (c *Config) setDefaults() error {
	if c.Path == "" {
		c.Path = DefaultPath
	}
	if c.Mode == 0 {
		c.Mode = 0o660
	}
	if c.Mode&^fs.ModePerm != 0 {
		return fmt.Errorf("metaroced: control socket: mode %v has more than permission bits", c.Mode)
	}
	for _, l := range []struct {
		key      string
		value    *int
		standard int
	}{
		{"limits.sessions", &c.MaxSessions, 1024},
		{"limits.sessions_per_uid", &c.MaxSessionsPerUID, 64},
		{"limits.services_per_session", &c.MaxServicesPerSession, 64},
		{"limits.regions_per_session", &c.MaxRegionsPerSession, 256},
		{"limits.pending_events", &c.MaxPendingEvents, 1024},
	} {
		if *l.value == 0 {
			*l.value = l.standard
		}
		if *l.value < 0 {
			return fmt.Errorf("metaroced: control socket: %s is %d, want at least 1", l.key, *l.value)
		}
	}
	for _, l := range []struct {
		key   string
		value *time.Duration
	}{
		{"limits.handshake_timeout", &c.HandshakeTimeout},
		{"limits.unread_timeout", &c.UnreadTimeout},
	} {
		if *l.value == 0 {
			*l.value = 2 * time.Second
		}
		if *l.value < 0 {
			return fmt.Errorf("metaroced: control socket: %s is %v, want more than 0", l.key, *l.value)
		}
	}
	return nil
}
