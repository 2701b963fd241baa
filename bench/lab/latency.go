package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/metaroced/metaroced/bench/lab/histogram"
	"github.com/metaroced/metaroced/cmd/metaroced/perf"
)

const (
	latencyBytes = 64     // of the operations whose round trip is measured
	latencyTrips = 10_000 // of each kind, after perf.WarmUpTrips that do not count
	latencyLimit = 60 * time.Second
)

// udpCommand is the hidden subcommand that calls RunUDPEcho and RunUDPPing.
const udpCommand = "lab-udp"

// LatencyResult compares round trips of 64 bytes between the two hosts through the
// same switch.
type LatencyResult struct {
	Spinning histogram.Micros `json:"write_spinning_us"` // WRITE, applications spin with yield
	Sleeping histogram.Micros `json:"write_sleeping_us"` // WRITE, applications sleep
	UDP      histogram.Micros `json:"udp_sleeping_us"`   // the kernel's UDP, both sides sleep
}

// RunLatency measures LatencyResult on one plane. Each application, and each side of
// the kernel's UDP, runs on the CPU of its host's worker. All make the same number
// of round trips, one after the other; while UDP is measured the daemons are
// connected to nobody and wait as Options.Poll says.
func RunLatency(ctx context.Context, o Options) (result *LatencyResult, err error) {
	o.Planes = 1
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &run{options: &o}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.setUp(ctx); err != nil {
		return nil, err
	}
	clients, err := newSpawner(o.CPUA)
	if err != nil {
		return nil, err
	}
	defer clients.close()
	servers, err := newSpawner(o.CPUB)
	if err != nil {
		return nil, err
	}
	defer servers.close()
	result = &LatencyResult{}
	if result.Spinning, err = r.perfLatency(ctx, clients, servers, "perf server"); err != nil {
		return nil, err
	}
	if result.Sleeping, err = r.perfLatency(ctx, clients, servers, "sleeping perf server", "--sleep"); err != nil {
		return nil, err
	}
	if result.UDP, err = r.udpLatency(ctx); err != nil {
		return nil, err
	}
	return result, nil
}

// perfLatency runs metaroced perf server and client --lat.
func (r *run) perfLatency(ctx context.Context, clients, servers *spawner, name string, flags ...string) (histogram.Micros, error) {
	o := r.options
	serverArgs := append([]string{"perf", "server", "--socket", r.daemons[hostB].socket}, flags...)
	clientArgs := append([]string{
		"perf", "client", o.addresses(hostB)[0].String(), "--socket", r.daemons[hostA].socket,
		"--lat", "--size", strconv.Itoa(latencyBytes), "--iterations", strconv.Itoa(latencyTrips), "--json",
	}, flags...)
	server, err := startNotifying(ctx, servers.start, name, exec.Command(o.Executable, serverArgs...), r.dir.path)
	if err != nil {
		return histogram.Micros{}, err
	}
	var report perf.Report
	err = r.measure(ctx, clients.start, "perf client", exec.Command(o.Executable, clientArgs...), &report)
	if err = errors.Join(err, server.stop()); err != nil {
		return histogram.Micros{}, err
	}
	if len(report.Results) != 1 {
		return histogram.Micros{}, fmt.Errorf("perf client reports %d results instead of one", len(report.Results))
	}
	return report.Results[0].LatencyUs, nil
}

// udpLatency runs the echo in host-b and the ping in host-a.
func (r *run) udpLatency(ctx context.Context) (latency histogram.Micros, err error) {
	o := r.options
	address := o.addresses(hostB)[0].String()
	echo, err := startNotifying(ctx, r.host(hostB), "udp echo", exec.Command(o.Executable, udpCommand,
		"--echo", address, "--cpu", strconv.Itoa(o.CPUB)), r.dir.path)
	if err != nil {
		return latency, err
	}
	ping := exec.Command(o.Executable, udpCommand, "--ping", address, "--cpu", strconv.Itoa(o.CPUA))
	err = r.measure(ctx, r.host(hostA), "udp ping", ping, &latency)
	_ = echo.stop() // ends by the signal, as it must
	return latency, err
}

// measure runs a command and decodes its output.
func (r *run) measure(ctx context.Context, start starter, name string, command *exec.Cmd, result any) error {
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, r.options.Log
	p, err := newProcess(start, name, command)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, latencyLimit)
	defer cancel()
	select {
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s: %w", name, ctx.Err()), p.stop())
	case <-p.exited:
	}
	if p.err != nil {
		return p.failure()
	}
	if err := json.Unmarshal(out.Bytes(), result); err != nil {
		return fmt.Errorf("output of %s: %w", name, err)
	}
	return nil
}

// WriteSummary prints the result for people.
func (r *LatencyResult) WriteSummary(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "round trip of %d B\tp50 us\tp99 us\tmax us\n", latencyBytes) // Flush reports
	for _, row := range []struct {
		name    string
		latency histogram.Micros
	}{{"WRITE, spinning with yield", r.Spinning}, {"WRITE, sleeping", r.Sleeping}, {"kernel UDP, sleeping", r.UDP}} {
		_, _ = fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\n", row.name, row.latency.P50, row.latency.P99, row.latency.Max)
	}
	return w.Flush()
}
