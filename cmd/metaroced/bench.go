package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/metaroced/metaroced/bench/bars"
	"github.com/metaroced/metaroced/bench/lab"
	"github.com/metaroced/metaroced/bench/raw"
	"github.com/metaroced/metaroced/cmd/metaroced/units"
)

// benchFlags are the lab's, and what is measured and judged.
type benchFlags struct {
	labFlags
	rounds       int
	losses, only []string
	enforce      bool
}

func newBench() *cobra.Command {
	flags := &benchFlags{}
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure how good it is, each figure beside its bar",
		Long: `Measure the lab and print every figure beside the bar it must reach:

  throughput  in turn: raw AF_XDP packets through the lab's switch (push at one host,
              drop at the other); the same with one copy and one CRC-32C per packet on
              each side, which is the least any transport that moves memory does; the
              lab without loss; the lab with loss. Medians of ratios within a round.
  failure     one plane is lost, silently or with its links; planes are limited so
              that together they carry 0.6 of what the lab reached without limits
  mixed       corruption, duplicates, reordering and loss at once for 10 s
  idle        CPU time of daemons that are connected and have nothing to do
  latency     round trips of a 64 B WRITE beside those of the kernel's UDP

It takes about five minutes. Needs root. The exit status tells whether everything could
be measured; with --enforce also whether every bar was reached.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			options, err := flags.benchOptions()
			if err != nil {
				return err
			}
			report, err := bars.Run(command.Context(), options)
			if err != nil {
				return err
			}
			if err := printResult(report, flags.asJSON, command.OutOrStdout()); err != nil {
				return err
			}
			return judge(report, flags.enforce)
		},
	}
	flags.register(command)
	f := command.Flags()
	f.IntVar(&flags.rounds, "rounds", 5, "how often each thing is measured (mixed and idle: once)")
	f.StringSliceVar(&flags.losses, "loss", []string{"1%", "10%"}, "losses to measure throughput with")
	f.StringSliceVar(&flags.only, "only", bars.PartNames(), "parts to measure")
	f.BoolVar(&flags.enforce, "enforce", false, "exit with status 1 when a bar is missed")
	f.BoolVar(&flags.asJSON, "json", false, "print one JSON object on standard output, nothing else")
	return command
}

// benchOptions fills and checks what is measured.
func (f *benchFlags) benchOptions() (bars.Options, error) {
	f.failMode, f.options.Op = string(lab.FailSilent), "write"
	clean, err := f.parse()
	if err != nil {
		return bars.Options{}, err
	}
	o := bars.Options{
		Lab: clean, RawCommand: []string{clean.Executable, rawCommand}, Rounds: f.rounds, Progress: printProgress,
	}
	for _, name := range f.only {
		o.Parts = append(o.Parts, bars.Part(strings.TrimSpace(name)))
	}
	for _, text := range f.losses {
		loss, err := units.ParseProbability(text)
		if err != nil {
			return o, usageError{fmt.Errorf("--loss: %w", err)}
		}
		o.Losses = append(o.Losses, float64(loss))
	}
	if err := o.Validate(); err != nil {
		return o, usageError{err}
	}
	return o, nil
}

// judge returns the error that makes the exit status.
func judge(report *bars.Report, enforce bool) error {
	if len(report.Problems) > 0 {
		return errors.New("bench: " + strings.Join(report.Problems, "; "))
	}
	if enforce && !report.Passed {
		return errors.New("bench: not every bar was reached")
	}
	return nil
}

// printProgress reports progress where results do not go.
func printProgress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// rawCommand is the hidden subcommand that a side of the raw measurement runs.
const rawCommand = "raw-side"

// newRawSide is what a raw measurement starts as its two sides.
func newRawSide() *cobra.Command {
	return &cobra.Command{
		Use:    rawCommand,
		Short:  "A side of the raw measurement, started by metaroced bench",
		Hidden: true,
		Args:   usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return raw.RunSide(os.Stdin, os.Stdout)
		},
	}
}
