package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/metaroced/metaroced/client"
	"github.com/metaroced/metaroced/dataplane"
)

const (
	statusLimit = 5 * time.Second
	// veth claims 10 Gb/s, which has nothing to do with what it carries.
	unlimitedLinkBits = 100_000_000_000
)

// daemonSpec is what the daemons of the two hosts differ in.
type daemonSpec struct {
	host string // names files and log lines
	cpu  int    // of the worker; -1: not pinned
}

// daemon is a running metaroced run and a session with it for its status.
type daemon struct {
	*process
	socket  string
	session *client.Session
}

// configuration returns the TOML of a daemon.
func (o *Options) configuration(spec daemonSpec, socket string) string {
	var b strings.Builder
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	line("[daemon]")
	line("socket = %q", socket)
	line("log_level = \"warn\"")
	line("poll = %q", o.Poll)
	if spec.cpu >= 0 {
		line("worker_cpus = [%d]", spec.cpu)
	}
	link := o.PlaneRate
	if link == 0 {
		link = unlimitedLinkBits
	}
	for _, name := range o.interfaces() {
		line("[[plane]]")
		line("interface = %q", name)
		line("link_speed = \"%db/s\"", link)
	}
	line("[transport]")
	line("paths = %d", o.Paths)
	line("[limits]")
	slots := SlotLayout{Size: o.Size, Count: o.Depth}
	line("region_bytes_per_session = \"%dB\"", slots.Bytes()+16<<20)
	return b.String()
}

// startDaemon starts a daemon in its host's namespace and waits until it says
// that it is ready.
func startDaemon(ctx context.Context, start starter, o *Options, spec daemonSpec, dir string) (*daemon, error) {
	name := "daemon of " + spec.host
	file := filepath.Join(dir, spec.host+".toml")
	d := &daemon{socket: filepath.Join(dir, spec.host+".sock")}
	if err := os.WriteFile(file, []byte(o.configuration(spec, d.socket)), 0o600); err != nil {
		return nil, fmt.Errorf("configuration of the %s: %w", name, err)
	}
	command := exec.Command(o.Executable, "run", "--config", file)
	command.Stderr = o.Log
	var err error
	if d.process, err = startNotifying(ctx, start, name, command, dir); err != nil {
		return nil, err
	}
	return d, nil
}

// status asks the daemon what it is doing.
func (d *daemon) status(ctx context.Context) (*dataplane.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	if d.session == nil {
		session, err := client.Attach(ctx, d.socket, client.Options{SQEntries: 16, CQEntries: 16})
		if err != nil {
			return nil, err
		}
		d.session = session
	}
	text, err := d.session.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("status of the %s: %w", d.name, err)
	}
	status := &dataplane.Status{}
	if err := json.Unmarshal(text, status); err != nil {
		return nil, fmt.Errorf("status of the %s: %w", d.name, err)
	}
	return status, nil
}

// close ends the session and the daemon.
func (d *daemon) close() error {
	if d.session != nil {
		_ = d.session.Close() // the daemon drops it in any case
	}
	return d.stop()
}
