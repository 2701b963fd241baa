package units

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestProbability(t *testing.T) {
	for _, c := range []struct {
		text string
		want float64
		bad  string
	}{
		{text: "1%", want: 0.01},
		{text: "0.5%", want: 0.005},
		{text: " 10 % ", want: 0.1},
		{text: "0", want: 0},
		{text: "0%", want: 0},
		{text: "100%", want: 1},
		{text: "1", bad: "no percent sign"},
		{text: "0.01", bad: "no percent sign"},
		{text: "101%", bad: "outside"},
		{text: "-1%", bad: "outside"},
		{text: "NaN%", bad: "not a percentage"},
		{text: "", bad: "not a percentage"},
		{text: "one%", bad: "not a percentage"},
	} {
		got, err := ParseProbability(c.text)
		checkParsed(t, c.text, float64(got), c.want, err, c.bad)
		if err == nil {
			again, err := ParseProbability(got.String())
			if err != nil || math.Abs(float64(again-got)) > 1e-12 {
				t.Errorf("%q printed as %q reads back as %v, %v", c.text, got.String(), again, err)
			}
		}
	}
}

func TestBitRate(t *testing.T) {
	for _, c := range []struct {
		text string
		want float64
		bad  string
	}{
		{text: "10G", want: 10e9},
		{text: "2.5Gb/s", want: 2.5e9},
		{text: "800Mbit/s", want: 800e6},
		{text: "64kbps", want: 64e3},
		{text: "1T", want: 1e12},
		{text: "0", want: 0},
		{text: "1500", want: 1500},
		{text: "10 Gb/s", want: 10e9},
		{text: "-1G", bad: "outside"},
		{text: "1000T", bad: "outside"},
		{text: "10GB", bad: "not a rate"},
		{text: "fast", bad: "not a rate"},
		{text: "", bad: "not a rate"},
		{text: "G", bad: "not a rate"},
	} {
		got, err := ParseBitRate(c.text)
		checkParsed(t, c.text, float64(got), c.want, err, c.bad)
		if err == nil {
			if again, err := ParseBitRate(got.String()); err != nil || again != got {
				t.Errorf("%q printed as %q reads back as %v, %v", c.text, got.String(), again, err)
			}
		}
	}
}

func TestByteSize(t *testing.T) {
	for _, c := range []struct {
		text string
		want float64
		bad  string
	}{
		{text: "64", want: 64},
		{text: "64B", want: 64},
		{text: "4KiB", want: 4096},
		{text: "4K", want: 4096},
		{text: "4kB", want: 4000},
		{text: "1MiB", want: 1 << 20},
		{text: "1.5MiB", want: 1.5 * (1 << 20)},
		{text: "1MB", want: 1e6},
		{text: "2GiB", want: 2 << 30},
		{text: "0", want: 0},
		{text: "1.5", bad: "whole number"},
		{text: "-1", bad: "outside"},
		{text: "2000000GiB", bad: "outside"},
		{text: "1MB/s", bad: "not a size"},
		{text: "", bad: "not a size"},
	} {
		got, err := ParseByteSize(c.text)
		checkParsed(t, c.text, float64(got), c.want, err, c.bad)
		if err == nil {
			if again, err := ParseByteSize(got.String()); err != nil || again != got {
				t.Errorf("%q printed as %q reads back as %v, %v", c.text, got.String(), again, err)
			}
		}
	}
}

func TestPlaneEvents(t *testing.T) {
	var events PlaneEvents
	if err := events.Set("2@2s,3@2500ms"); err != nil {
		t.Fatal(err)
	}
	if err := events.Set("0@0s"); err != nil {
		t.Fatal(err)
	}
	want := PlaneEvents{{2, 2 * time.Second}, {3, 2500 * time.Millisecond}, {0, 0}}
	if events.String() != want.String() {
		t.Errorf("read %v, want %v", events.String(), want.String())
	}
	for text, bad := range map[string]string{
		"2":     "plane@time",
		"x@2s":  "not a number",
		"-1@2s": "not a number",
		"8@2s":  "between 0 and 7",
		"2@2":   "not a time",
		"2@-1s": "not a time",
		"":      "plane@time",
		"1@1s,": "plane@time",
		"2@@2s": "not a time",
	} {
		var e PlaneEvents
		if err := e.Set(text); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: error %v, want one with %q", text, err, bad)
		}
	}
}

func checkParsed(t *testing.T, text string, got, want float64, err error, bad string) {
	t.Helper()
	switch {
	case bad == "" && err != nil:
		t.Errorf("%q: %v", text, err)
	case bad == "" && math.Abs(got-want) > 1e-12*math.Max(1, want):
		t.Errorf("%q is %v, want %v", text, got, want)
	case bad != "" && (err == nil || !strings.Contains(err.Error(), bad)):
		t.Errorf("%q: error %v, want one with %q", text, err, bad)
	}
}
