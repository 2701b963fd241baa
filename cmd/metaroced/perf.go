package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/metaroced/metaroced/client"
	"github.com/metaroced/metaroced/cmd/metaroced/perf"
	"github.com/metaroced/metaroced/cmd/metaroced/units"
	"github.com/metaroced/metaroced/ctrl"
)

// perfFlags are those of both sides.
type perfFlags struct {
	socket, service string
	sleep           bool
}

func (f *perfFlags) register(command *cobra.Command) {
	command.Flags().StringVar(&f.socket, "socket", ctrl.DefaultPath, "control socket of this host's daemon")
	command.Flags().StringVar(&f.service, "service", perf.DefaultService, "name under which the server is found")
	command.Flags().BoolVar(&f.sleep, "sleep", false, "sleep while waiting, instead of spinning with yield")
}

func (f *perfFlags) attach(ctx context.Context) (*client.Session, error) {
	options := client.Options{Spin: perf.Spin}
	if f.sleep {
		options.Spin = 0
	}
	ctx, cancel := context.WithTimeout(ctx, attachLimit)
	defer cancel()
	return client.Attach(ctx, f.socket, options)
}

func newPerf() *cobra.Command {
	command := &cobra.Command{
		Use:   "perf",
		Short: "Measure bandwidth and latency between two hosts",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newPerfServer(), newPerfClient())
	return command
}

func newPerfServer() *cobra.Command {
	var flags perfFlags
	command := &cobra.Command{
		Use:   "server",
		Short: "Wait for perf clients until interrupted",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			session, err := flags.attach(command.Context())
			if err != nil {
				return err
			}
			defer session.Close()
			log := slog.New(slog.NewTextHandler(os.Stderr, nil))
			return perf.Serve(command.Context(), session, flags.service, func() { notifyReady(log) }, log)
		},
	}
	flags.register(command)
	return command
}

// perfClient holds the flags of perf client.
type perfClient struct {
	perfFlags
	measure perf.Measure
	size    units.ByteSize
	depth   int
	latency bool
	asJSON  bool
}

func newPerfClient() *cobra.Command {
	c := perfClient{}
	command := &cobra.Command{
		Use:   "client ADDRESS[,ADDRESS...]",
		Short: "Measure against a perf server at these plane addresses",
		Long: `Measure bandwidth of RDMA WRITE for sizes from 64 B to 4 MiB, or with --lat the
round trip of a small WRITE with immediate and the one that answers it. Both sides
of a round trip wait for completions.`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(command *cobra.Command, args []string) error {
			target, err := c.parse(args[0])
			if err != nil {
				return usageError{err}
			}
			return c.run(command.Context(), target, command.OutOrStdout())
		},
	}
	c.register(command)
	command.Flags().DurationVar(&c.measure.Duration, "duration", time.Second, "time per size")
	command.Flags().Uint64Var(&c.measure.Iterations, "iterations", 0, "operations per size, instead of a time")
	command.Flags().Var(&c.size, "size", "one size instead of the sweep (with --lat default 64)")
	command.Flags().IntVar(&c.depth, "depth", 64, "operations outstanding")
	command.Flags().BoolVar(&c.latency, "lat", false, "measure round trips")
	command.Flags().BoolVar(&c.asJSON, "json", false, "print one JSON object")
	return command
}

// parse checks flags and addresses.
func (c *perfClient) parse(addresses string) (perf.Target, error) {
	target := perf.Target{Service: c.service}
	for text := range strings.SplitSeq(addresses, ",") {
		address, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil {
			return target, fmt.Errorf("%q is not an IP address of the server's host", text)
		}
		target.Addresses = append(target.Addresses, address)
	}
	const maxDepth = 1024
	if c.depth < 1 || c.depth > maxDepth {
		return target, fmt.Errorf("--depth %d is outside 1 to %d", c.depth, maxDepth)
	}
	if c.size < 0 || c.size > perf.MaxSize {
		return target, fmt.Errorf("--size %d is outside 1 to %d", c.size, perf.MaxSize)
	}
	if c.measure.Duration <= 0 {
		return target, fmt.Errorf("--duration %v is not above 0", c.measure.Duration)
	}
	return target, nil
}

func (c *perfClient) run(ctx context.Context, target perf.Target, out io.Writer) error {
	session, err := c.attach(ctx)
	if err != nil {
		return err
	}
	defer session.Close()
	report := perf.Report{Test: "bandwidth", Depth: c.depth}
	if !c.asJSON {
		perf.Header(out)
	}
	add := func(row perf.Row) {
		report.Results = append(report.Results, row)
		if !c.asJSON {
			row.Print(out)
		}
	}
	if c.latency {
		report.Test, report.Depth = "latency", 1
		size := max(int64(c.size), 0)
		if size == 0 {
			size = 64
		}
		row, err := perf.Latency(ctx, session, target, size, c.measure)
		if err != nil {
			return err
		}
		add(row)
	} else {
		sizes := perf.Sweep(64, 4<<20)
		if c.size > 0 {
			sizes = []int64{int64(c.size)}
		}
		if err := perf.Bandwidth(ctx, session, target, sizes, c.depth, c.measure, add); err != nil {
			return err
		}
	}
	if c.asJSON {
		return json.NewEncoder(out).Encode(&report)
	}
	return nil
}
