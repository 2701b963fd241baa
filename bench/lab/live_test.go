package lab

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/metaroced/metaroced/dataplane"
)

func TestLiveTableShowsRatesAndReplacesItself(t *testing.T) {
	var out bytes.Buffer
	table := &liveTable{out: &out}
	status := func(tx uint64) *dataplane.Status {
		return &dataplane.Status{
			Planes: []dataplane.PlaneStatus{{Name: "p0", State: "up", Mode: "copy", TxBytes: tx}, {Name: "p1", State: "down", Mode: "copy"}},
			Connections: []dataplane.ConnStatus{{Paths: []dataplane.PathStatus{
				{Plane: 0, ID: 0, State: "active", SRTTUs: 90, LossFraction: 0.01, Retransmissions: 3},
				{Plane: 0, ID: 1, State: "active", SRTTUs: 110, LossFraction: 0.03, Retransmissions: 4},
				{Plane: 1, ID: 0, State: "down"},
			}}},
		}
	}
	table.draw(&liveView{elapsed: time.Second, status: status(125e6), progress: progress{Bytes: 125e6, Operations: 9}})
	first := out.String()
	out.Reset()
	table.draw(&liveView{
		elapsed: 2 * time.Second, status: status(375e6), progress: progress{Bytes: 375e6, Operations: 20},
		faults: []string{"plane 1 failed (silent) at 2s"},
	})
	second := out.String()
	for text, wants := range map[string][]string{
		first:  {"1.0 s: 1.00 Gb/s verified, 9 operations"},
		second: {"2.0 s: 2.00 Gb/s verified", "plane 1 failed", "\x1b[4A\x1b[J"},
	} {
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in:\n%s", want, text)
			}
		}
	}
	if strings.Contains(first, "\x1b") {
		t.Errorf("the first table erases something:\n%q", first)
	}
	var p0 []string
	for line := range strings.Lines(second) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == "p0" {
			p0 = fields
		}
	}
	if got := strings.Join(p0, " "); got != "p0 up copy 2.00 2 0 0 0 100 0.00 2.00 7" {
		t.Errorf("plane p0: %s", got)
	}
	out.Reset()
	table.erase()
	table.erase()
	if out.String() != "\x1b[4A\x1b[J" {
		t.Errorf("erasing wrote %q", out.String())
	}
}

func TestSummaryMentionsWhatMatters(t *testing.T) {
	recovery, idle := 40.0, 0.005
	r := Result{
		GoodputGbps: 12.5, Operations: 7, Bytes: 7 << 20, Seed: 99, RecoveryMs: &recovery, IdleCPUFraction: &idle,
		Planes: []Plane{{Name: "p0", State: "up", Mode: "copy"}}, RateDropped: 3, CPUSeconds: CPUSeconds{1, 2},
	}
	var out bytes.Buffer
	if err := r.WriteSummary(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"12.50 Gb/s, 7 operations", "40 ms after the fault", "0.50 % of a core", "plane p0", "99", "dropped 3 by rate"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}
