package bars

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// scripted returns samples one after the other.
func scripted(name string, order *[]string, gbps ...float64) Contender {
	next := 0
	return Contender{Name: name, Run: func(context.Context) (Sample, error) {
		*order = append(*order, name)
		next++
		return Sample{Gbps: gbps[next-1], CPUPerGB: 1 / gbps[next-1]}, nil
	}}
}

func TestCompareInterleavesAndTakesMedianRatios(t *testing.T) {
	var order, told []string
	progress := func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
	results, err := Compare(context.Background(), 3, []Contender{
		scripted("raw", &order, 10, 20, 30),
		scripted("lab", &order, 5, 16, 12),
	}, progress)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, " "); got != "raw lab raw lab raw lab" {
		t.Errorf("order: %s", got)
	}
	if len(told) != 6 || told[3] != "round 2: lab: 16.00 Gb/s" {
		t.Errorf("progress: %q", told)
	}
	// The ratios are 0.5, 0.8 and 0.4; the ratio of the medians would be 0.6.
	if results[0].Gbps != 20 || results[1].Gbps != 12 || results[1].Ratios[0] != 0.5 || len(results[0].Ratios) != 0 {
		t.Errorf("%+v", results)
	}
	if got := results[1].ratio(&results[0], cpuPerGB); got != 2 {
		t.Errorf("ratio of CPU time: %v", got)
	}
}

func TestCompareSaysWhoFailed(t *testing.T) {
	for want, sample := range map[string]func() (Sample, error){
		"broken, round 1: no link":                 func() (Sample, error) { return Sample{}, errors.New("no link") },
		"broken, round 1: nothing was moved: dead": func() (Sample, error) { return Sample{Failure: "dead"}, nil },
	} {
		broken := Contender{Name: "broken", Run: func(context.Context) (Sample, error) { return sample() }}
		_, err := Compare(context.Background(), 1, []Contender{broken}, nil)
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
