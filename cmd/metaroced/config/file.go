package config

import (
	"github.com/metaroced/metaroced/ctrl"
	"github.com/metaroced/metaroced/dataplane/port/xdp"
)

// file mirrors the TOML file. Quantities with a unit are texts here; validate
// turns them into numbers. A key's name in errors is its path: daemon.spin_us.
type file struct {
	Daemon    daemonTable    `toml:"daemon"`
	Planes    []planeTable   `toml:"plane"`
	Transport transportTable `toml:"transport"`
	Limits    limitsTable    `toml:"limits"`
}

type daemonTable struct {
	Socket          string  `toml:"socket"`
	SocketMode      string  `toml:"socket_mode"`
	LogLevel        string  `toml:"log_level"`
	Poll            string  `toml:"poll"`
	SpinUs          int64   `toml:"spin_us"`
	Workers         int64   `toml:"workers"`
	WorkerCPUs      []int64 `toml:"worker_cpus"`
	Nice            int64   `toml:"nice"`
	Mode            string  `toml:"mode"`
	RequireZeroCopy bool    `toml:"require_zerocopy"`
	UDPPort         int64   `toml:"udp_port"`
	BusyPoll        bool    `toml:"busy_poll"`
	ArenaFramesMiB  int64   `toml:"arena_frames_mib"`
	ArenaSlabsMiB   int64   `toml:"arena_slabs_mib"`
	RxRing          int64   `toml:"rx_ring"`
	TxRing          int64   `toml:"tx_ring"`
}

type planeTable struct {
	Interface string `toml:"interface"`
	Queue     int64  `toml:"queue"`
	Address   string `toml:"address"`
	LinkSpeed string `toml:"link_speed"`
}

type transportTable struct {
	Paths             int64  `toml:"paths"`
	RunPackets        int64  `toml:"run_packets"`
	AckEvery          int64  `toml:"ack_every"`
	AckDelayUs        int64  `toml:"ack_delay_us"`
	ConnectionTimeout string `toml:"connection_timeout"`
	MaxConnections    int64  `toml:"max_connections"`
	DSNWindow         int64  `toml:"dsn_window"`
}

type limitsTable struct {
	Sessions              int64  `toml:"sessions"`
	SessionsPerUID        int64  `toml:"sessions_per_uid"`
	ServicesPerSession    int64  `toml:"services_per_session"`
	RegionsPerSession     int64  `toml:"regions_per_session"`
	RegionBytesPerSession string `toml:"region_bytes_per_session"`
	PendingEvents         int64  `toml:"pending_events"`
	HandshakeTimeout      string `toml:"handshake_timeout"`
	UnreadTimeout         string `toml:"unread_timeout"`
}

// defaults is what a key has that the file does not mention.
func defaults() file {
	return file{
		Daemon: daemonTable{
			Socket:         ctrl.DefaultPath,
			SocketMode:     "0660",
			LogLevel:       "info",
			Poll:           "adaptive",
			SpinUs:         50,
			Workers:        1,
			Mode:           "auto",
			UDPPort:        4797,
			ArenaFramesMiB: 64,
			ArenaSlabsMiB:  192,
			RxRing:         xdp.DefaultRing,
			TxRing:         xdp.DefaultRing,
		},
		Transport: transportTable{
			Paths:             16,
			RunPackets:        4,
			AckEvery:          32,
			AckDelayUs:        100,
			ConnectionTimeout: "30s",
			MaxConnections:    4096,
			DSNWindow:         8192,
		},
		Limits: limitsTable{
			Sessions:              1024,
			SessionsPerUID:        64,
			ServicesPerSession:    64,
			RegionsPerSession:     256,
			RegionBytesPerSession: "1GiB",
			PendingEvents:         1024,
			HandshakeTimeout:      "2s",
			UnreadTimeout:         "2s",
		},
	}
}
