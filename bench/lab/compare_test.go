package lab

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

// scripted returns samples one after the other.
func scripted(name string, order *[]string, gbps ...float64) Contender {
	next := 0
	return Contender{Name: name, Run: func(context.Context) (Sample, error) {
		*order = append(*order, name)
		next++
		return Sample{Gbps: gbps[next-1]}, nil
	}}
}

func TestCompareInterleavesAndTakesMedianRatios(t *testing.T) {
	var order []string
	results, err := Compare(context.Background(), 3, []Contender{
		scripted("raw", &order, 10, 20, 30),
		scripted("lab", &order, 5, 16, 12),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, " "); got != "raw lab raw lab raw lab" {
		t.Errorf("order: %s", got)
	}
	// The ratios are 0.5, 0.8 and 0.4; the ratio of the medians would be 0.6.
	if results[0].Gbps != 20 || results[1].Gbps != 12 || results[1].Ratios[0] != 0.5 || len(results[0].Ratios) != 0 {
		t.Errorf("%+v", results)
	}
	var out bytes.Buffer
	if err := WriteComparisons(&out, results); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "(2) lab") || !strings.Contains(out.String(), "0.50") {
		t.Errorf("table:\n%s", out.String())
	}
}

func TestCompareSaysWhoFailed(t *testing.T) {
	broken := Contender{Name: "broken", Run: func(context.Context) (Sample, error) { return Sample{}, errors.New("no link") }}
	_, err := Compare(context.Background(), 1, []Contender{broken}, nil)
	if err == nil || err.Error() != "broken, round 1: no link" {
		t.Errorf("%v", err)
	}
}
