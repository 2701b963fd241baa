package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/metaroced/metaroced/dataplane"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(command.OutOrStdout(), "metaroced", dataplane.Version())
			return err
		},
	}
}
