package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/dataplane"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	os.Exit(execute(os.Args[1:]))
}

// execute runs one command line and returns the exit status.
func execute(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	// The first signal asks for a clean end; from then on the default action is
	// back, so the second ends the process at once.
	context.AfterFunc(ctx, stop)

	root := newRoot()
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "metaroced: "+strings.TrimPrefix(err.Error(), "metaroced: "))
	if isUsage(err) {
		fmt.Fprintf(os.Stderr, "See %q.\n", command.CommandPath()+" --help")
		return exitUsage
	}
	return exitFailure
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "metaroced",
		Short:         "Reliable multipath remote memory over plain Ethernet, on AF_XDP",
		SilenceErrors: true, // execute prints them once
		SilenceUsage:  true,
		Version:       dataplane.Version(),
		Args:          usageArgs(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			return command.Help()
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newRun(), newStatus(), newPerf(), newLab(), newLabApp(), newLabUDP(), newBench(), newRawSide(), newVersion())
	return root
}

// usageError marks an error in how the command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// isUsage tells usage errors, ours and those cobra makes itself, from others.
func isUsage(err error) bool {
	var usage usageError
	return errors.As(err, &usage) ||
		strings.HasPrefix(err.Error(), "unknown command") ||
		strings.HasPrefix(err.Error(), "required flag")
}

// usageArgs makes what a check of arguments refuses a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if err := check(command, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}
