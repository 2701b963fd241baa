package raw

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/metaroced/metaroced/internal/testenv"
)

// sideEnv makes the test binary a side.
const sideEnv = "METAROCED_TEST_RAW_SIDE"

func TestMain(m *testing.M) {
	if os.Getenv(sideEnv) != "" {
		if err := RunSide(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func short(t *testing.T) Config {
	t.Setenv(sideEnv, "1")
	return Config{
		Planes: 2, CPUA: -1, CPUB: -1, Duration: 200 * time.Millisecond, WarmUp: 10 * time.Millisecond,
		Command: []string{os.Args[0]}, Log: os.Stderr,
	}
}

func TestRun(t *testing.T) {
	testenv.RequireRoot(t)
	for _, tc := range []struct {
		name   string
		change func(*Config)
	}{
		{"raw", func(*Config) {}},
		{"copy", func(c *Config) { c.Copy = true }},
		{"busy poll, small packets", func(c *Config) { c.Copy, c.BusyPoll, c.PayloadBytes = true, true, 64 }},
		{"eight planes, small rings", func(c *Config) { c.Planes, c.RxRing, c.TxRing = 8, 256, 256 }},
		{"sleeping, pinned", func(c *Config) { c.Spin, c.CPUA, c.CPUB = time.Microsecond, 0, 0 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			config := short(t)
			tc.change(&config)
			r, err := Run(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			if r.Packets == 0 || r.Sent < r.Packets/2 || r.Seconds < 0.2 || r.CPUReceiver <= 0 || r.CPUSender <= 0 || r.Mode != "copy" {
				t.Errorf("%+v", r)
			}
			if want := float64(r.Packets) * float64(r.FrameBytes) * 8 / r.Seconds / 1e9; math.Abs(r.FrameGbps-want) > want/1e6 {
				t.Errorf("%v Gb/s, want %v", r.FrameGbps, want)
			}
			t.Logf("%+v", r)
		})
	}
}

// A side's failure is reported, with its reason on stderr, and nothing is left.
func TestSideThatFails(t *testing.T) {
	testenv.RequireRoot(t)
	config := short(t)
	config.TxBudget = 1 << 20
	config.Log = nil
	if _, err := Run(t.Context(), config); err == nil {
		t.Error("no error")
	}
}

func TestCancel(t *testing.T) {
	testenv.RequireRoot(t)
	ctx, cancel := context.WithCancel(t.Context())
	config := short(t)
	config.Duration = time.Hour
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := Run(ctx, config); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	for _, c := range []Config{
		{},
		{Command: []string{"x"}, PayloadBytes: 4000},
		{Command: []string{"x"}, Batch: -1},
		{Command: []string{"x"}, Duration: -1},
	} {
		if _, err := Run(t.Context(), c); err == nil {
			t.Errorf("%+v accepted", c)
		}
	}
}
