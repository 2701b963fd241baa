package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/bench/lab"
	"github.com/metaroced/metaroced/cmd/metaroced/units"
)

// processStart is when this process began, as near as a Go program can tell.
var processStart = time.Now()

// labFlags are the lab's flags in the forms in which people write them.
type labFlags struct {
	options                                 lab.Options
	loss, mark, corrupt, duplicate, reorder units.Probability
	failPlanes, restorePlanes               units.PlaneEvents
	failMode                                string
	size                                    units.ByteSize
	planeRate                               units.BitRate
	asJSON, latency                         bool
}

// register adds the flags that lab and bench share.
func (f *labFlags) register(command *cobra.Command) {
	f.size = 1 << 20
	o, flags := &f.options, command.Flags()
	flags.IntVar(&o.Planes, "planes", 4, "planes per host")
	flags.IntVar(&o.Paths, "paths", 16, "paths per plane")
	flags.Var(&f.size, "size", "bytes per operation")
	flags.IntVar(&o.Depth, "depth", 16, "operations outstanding")
	flags.DurationVar(&o.Duration, "duration", 5*time.Second, "how long operations are posted")
	flags.IntVar(&o.MTU, "mtu", 3498, "MTU of the hosts' interfaces")
	flags.Uint64Var(&o.Seed, "seed", 0, "seed of the byte pattern (0: a random one)")
	flags.IntVar(&o.CPUA, "cpu-a", 0, "CPU of host-a's worker (-1: not pinned)")
	flags.IntVar(&o.CPUB, "cpu-b", 1, "CPU of host-b's worker (-1: not pinned)")
	flags.IntVar(&o.CPUApps, "cpu-apps", 1, "CPU of both applications (-1: any)")
	flags.StringVar(&o.Poll, "poll", "adaptive", "how the daemons' workers wait: adaptive, busy, interrupt")
}

// registerFaults adds the flags that say what happens to packets.
func (f *labFlags) registerFaults(command *cobra.Command) {
	flags := command.Flags()
	flags.Var(&f.loss, "loss", "chance that the switch drops a packet")
	flags.Var(&f.mark, "mark", "chance that it marks a packet with ECN CE")
	flags.Var(&f.corrupt, "corrupt", "chance that it changes a byte of a packet")
	flags.Var(&f.duplicate, "duplicate", "chance that it sends a packet twice")
	flags.Var(&f.reorder, "reorder", "chance that it holds a packet back")
	flags.Var(&f.failPlanes, "fail-plane", "planes that fail and when, like 2@2s")
	flags.Var(&f.restorePlanes, "restore-plane", "planes that come back and when, like 2@4s")
	flags.StringVar(&f.failMode, "fail-mode", string(lab.FailSilent), "how they fail: silent or link-down")
	flags.Var(&f.planeRate, "plane-rate", "bits per second of each plane and direction, marked, then dropped beyond (0: unlimited)")
	flags.StringVar(&f.options.Op, "op", "write", "operation: write")
	flags.DurationVar(&f.options.Idle, "idle", 0, "after the job measure idle daemons for this long")
}

// parse fills and checks the options.
func (f *labFlags) parse() (lab.Options, error) {
	o := f.options
	o.Loss, o.Mark, o.Corrupt = float64(f.loss), float64(f.mark), float64(f.corrupt)
	o.Duplicate, o.Reorder = float64(f.duplicate), float64(f.reorder)
	for _, e := range f.failPlanes {
		o.FailPlanes = append(o.FailPlanes, lab.PlaneEvent(e))
	}
	for _, e := range f.restorePlanes {
		o.RestorePlanes = append(o.RestorePlanes, lab.PlaneEvent(e))
	}
	o.FailMode = lab.FailMode(f.failMode)
	o.Size, o.PlaneRate = int64(f.size), int64(f.planeRate)
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	executable, err := os.Executable()
	if err != nil {
		return o, err
	}
	o.Executable, o.Log = executable, os.Stderr
	if err := o.Validate(); err != nil {
		return o, usageError{err}
	}
	return o, nil
}

func newLab() *cobra.Command {
	flags := &labFlags{}
	command := &cobra.Command{
		Use:   "lab",
		Short: "Run two hosts, a damaging switch and a checked job on this machine",
		Long: `Run the main job end to end: two hosts as network namespaces, a switch between them
that damages packets as told, a daemon on each host, and two applications that keep
RDMA WRITEs going while every byte is checked. Needs root. Everything is removed at
the end. The exit status is 0 only when every byte was right and no operation failed.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			options, err := flags.parse()
			if err != nil {
				return err
			}
			if flags.latency {
				return runLabLatency(command.Context(), options, flags.asJSON, command.OutOrStdout())
			}
			options.Started = processStart
			if !flags.asJSON && isTerminal(os.Stdout) {
				options.Live = os.Stdout
			}
			return runLab(command.Context(), options, flags.asJSON, command.OutOrStdout())
		},
	}
	flags.register(command)
	flags.registerFaults(command)
	command.Flags().BoolVar(&flags.asJSON, "json", false, "print one JSON object on standard output, nothing else")
	command.Flags().BoolVar(&flags.latency, "lat", false,
		"instead of the job: 10,000 round trips of a 64 B WRITE, spinning and sleeping, and of the kernel's UDP")
	return command
}

func runLab(ctx context.Context, options lab.Options, asJSON bool, out io.Writer) error {
	result, err := lab.Run(ctx, options)
	if err != nil {
		return err
	}
	if err := printResult(result, asJSON, out); err != nil {
		return err
	}
	if failure := result.Failure(); failure != "" {
		return errors.New("lab: " + failure)
	}
	return nil
}

func runLabLatency(ctx context.Context, options lab.Options, asJSON bool, out io.Writer) error {
	result, err := lab.RunLatency(ctx, options)
	if err != nil {
		return err
	}
	return printResult(result, asJSON, out)
}

// printResult prints for programs or for people.
func printResult(result interface{ WriteSummary(io.Writer) error }, asJSON bool, out io.Writer) error {
	if asJSON {
		return json.NewEncoder(out).Encode(result)
	}
	return result.WriteSummary(out)
}

// isTerminal tells whether a file is a terminal, where a live table makes sense.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
