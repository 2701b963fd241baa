package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/metaroced/metaroced/client"
	"github.com/metaroced/metaroced/ctrl"
	"github.com/metaroced/metaroced/dataplane"
)

// attachLimit bounds how long commands wait for a daemon to answer.
const attachLimit = 5 * time.Second

func newStatus() *cobra.Command {
	var socket string
	var asJSON bool
	command := &cobra.Command{
		Use:   "status",
		Short: "Show planes, connections and counters of the running daemon",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			text, err := fetchStatus(command.Context(), socket)
			if err != nil {
				return err
			}
			if asJSON {
				_, err := fmt.Fprintf(command.OutOrStdout(), "%s\n", text)
				return err
			}
			var status dataplane.Status
			if err := json.Unmarshal(text, &status); err != nil {
				return fmt.Errorf("the daemon's status: %w", err)
			}
			return printStatus(command.OutOrStdout(), &status)
		},
	}
	command.Flags().StringVar(&socket, "socket", ctrl.DefaultPath, "control socket of the daemon")
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return command
}

func fetchStatus(ctx context.Context, socket string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, attachLimit)
	defer cancel()
	session, err := client.Attach(ctx, socket, client.Options{SQEntries: 16, CQEntries: 16})
	if err != nil {
		return nil, err
	}
	defer session.Close()
	return session.Status(ctx)
}

// printStatus prints tables of planes, connections and the counters that are not
// zero.
func printStatus(w io.Writer, s *dataplane.Status) error {
	t := newTable()
	t.line("metaroced %s, process %d, up %v, %.1f s of CPU time, %d sessions, %d regions, %d frames leaked\n",
		s.Version, s.PID, time.Duration(s.UptimeMs)*time.Millisecond, s.CPUSeconds, s.Sessions, s.Regions, s.FramesLeaked)
	t.line("\nplane\taddress\tmode\tstate\ttx packets\ttx bytes\trx packets\trx bytes\trx dropped\n")
	for _, p := range s.Planes {
		t.line("%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\n",
			p.Name, p.Address, p.Mode, p.State, p.TxPackets, p.TxBytes, p.RxPackets, p.RxBytes, p.RxDropped)
	}
	if len(s.Connections) > 0 {
		t.line("\nconnection\tpeer\tservice\tstate\ttx bytes\trx bytes\tresent\tby timer\tduplicates\tpaths\n")
	}
	for _, c := range s.Connections {
		t.line("%d\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n",
			c.ID, c.Peer, c.Service, c.State, c.TxBytes, c.RxBytes, c.Retransmissions, c.RetransmissionsTimer,
			c.Duplicates, pathStates(c.Paths))
	}
	t.counters(s.Counters)
	return t.writeTo(w)
}
