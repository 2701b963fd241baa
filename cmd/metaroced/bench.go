package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/metaroced/metaroced/bench/lab"
	"github.com/metaroced/metaroced/bench/raw"
	"github.com/metaroced/metaroced/cmd/metaroced/units"
)

// benchFlags are the lab's, and what is compared.
type benchFlags struct {
	labFlags
	rounds int
	losses []string
}

func newBench() *cobra.Command {
	flags := &benchFlags{}
	command := &cobra.Command{
		Use:   "bench",
		Short: "Compare the lab with raw packets through the same switch",
		Long: `Measure in turn, several rounds: raw AF_XDP packets through the lab's switch (push at
one host, drop at the other); the same with one copy and one CRC-32C per packet on each
side, which is the least any transport that moves memory does; the lab without loss; and
the lab with loss. Printed are medians, and each one's ratio to those above it, taken
within a round. Needs root.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			contenders, err := flags.contenders()
			if err != nil {
				return err
			}
			results, err := lab.Compare(command.Context(), flags.rounds, contenders, printSample)
			if err != nil {
				return err
			}
			if flags.asJSON {
				return json.NewEncoder(command.OutOrStdout()).Encode(results)
			}
			return lab.WriteComparisons(command.OutOrStdout(), results)
		},
	}
	flags.register(command)
	command.Flags().IntVar(&flags.rounds, "rounds", 5, "measurements of each")
	command.Flags().StringSliceVar(&flags.losses, "loss", []string{"1%", "10%"}, "losses to measure the lab with")
	command.Flags().BoolVar(&flags.asJSON, "json", false, "print one JSON array on standard output, nothing else")
	return command
}

// contenders returns what is measured in each round.
func (f *benchFlags) contenders() ([]lab.Contender, error) {
	const maxRounds = 1000
	if f.rounds < 1 || f.rounds > maxRounds {
		return nil, usageError{fmt.Errorf("--rounds %d is outside 1 to %d", f.rounds, maxRounds)}
	}
	f.failMode, f.options.Op = string(lab.FailSilent), "write"
	clean, err := f.parse()
	if err != nil {
		return nil, err
	}
	contenders := []lab.Contender{
		rawContender("raw", clean, false), rawContender("raw, copy and CRC", clean, true), lab.LabContender("lab", clean),
	}
	for _, text := range f.losses {
		loss, err := units.ParseProbability(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--loss: %w", err)}
		}
		lossy := clean
		lossy.Loss = float64(loss)
		contenders = append(contenders, lab.LabContender("lab, loss "+strings.TrimSpace(text), lossy))
	}
	return contenders, nil
}

// printSample reports progress where results do not go.
func printSample(name string, round int, s lab.Sample) {
	fmt.Fprintf(os.Stderr, "round %d: %s: %.2f Gb/s\n", round, name, s.Gbps)
}

// rawCommand is the hidden subcommand that a side of the raw measurement runs.
const rawCommand = "raw-side"

// rawContender measures packets without a transport between hosts like the lab's.
func rawContender(name string, o lab.Options, withCopy bool) lab.Contender {
	config := raw.Config{
		Copy: withCopy, Planes: o.Planes, MTU: o.MTU, CPUA: o.CPUA, CPUB: o.CPUB, Duration: o.Duration,
		Command: []string{o.Executable, rawCommand}, Log: o.Log,
	}
	return lab.Contender{Name: name, Run: func(ctx context.Context) (lab.Sample, error) {
		r, err := raw.Run(ctx, config)
		if err != nil {
			return lab.Sample{}, err
		}
		gigabytes := float64(r.Packets) * float64(r.PayloadBytes) / 1e9
		return lab.Sample{Gbps: r.PayloadGbps, CPUPerGB: (r.CPUSender + r.CPUReceiver) / max(gigabytes, 1e-9)}, nil
	}}
}

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
