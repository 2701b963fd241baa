package main

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"

	"github.com/spf13/cobra"

	"github.com/metaroced/metaroced/bench/lab"
)

// newLabApp is what the lab starts as its applications.
func newLabApp() *cobra.Command {
	return &cobra.Command{
		Use:    "lab-app",
		Short:  "An application of the lab, started by it",
		Hidden: true,
		Args:   usageArgs(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			return lab.RunApp(command.Context(), os.Stdin, os.Stdout)
		},
	}
}

// newLabUDP is what the lab starts to measure the kernel's UDP.
func newLabUDP() *cobra.Command {
	var echo, ping string
	var cpu int
	command := &cobra.Command{
		Use:    "lab-udp",
		Short:  "The kernel's UDP between the lab's hosts, started by the lab",
		Hidden: true,
		Args:   usageArgs(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			text := echo + ping // one of them is empty
			address, err := netip.ParseAddr(text)
			if err != nil || !address.Is4() {
				return usageError{fmt.Errorf("%q is not an IPv4 address; give one with --echo or --ping", text)}
			}
			if echo != "" {
				log := slog.New(slog.NewTextHandler(os.Stderr, nil))
				return lab.RunUDPEcho(address, cpu, func() { notifyReady(log) })
			}
			return lab.RunUDPPing(address, cpu, command.OutOrStdout())
		},
	}
	command.Flags().StringVar(&echo, "echo", "", "answer datagrams to this address")
	command.Flags().StringVar(&ping, "ping", "", "measure round trips to this address")
	command.Flags().IntVar(&cpu, "cpu", -1, "run on this CPU (-1: any)")
	command.MarkFlagsOneRequired("echo", "ping")
	command.MarkFlagsMutuallyExclusive("echo", "ping")
	return command
}
