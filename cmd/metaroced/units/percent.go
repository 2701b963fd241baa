package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Probability is a chance between 0 and 1, written as a percentage.
type Probability float64

// ParseProbability reads a percentage between 0% and 100%, such as "0.5%". The
// percent sign may be left off only for 0: a bare "0.01" could mean either of two
// things, so it is refused.
func ParseProbability(text string) (Probability, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(value) {
		return 0, fmt.Errorf("%q is not a percentage; write it like 1%% or 0.5%%", text)
	}
	if !percent && value != 0 {
		return 0, fmt.Errorf("%q has no percent sign; write it like 1%% or 0.5%%", text)
	}
	if value < 0 || value > 100 {
		return 0, fmt.Errorf("%q is outside 0%% to 100%%", text)
	}
	return Probability(value / 100), nil
}

// Set parses text into p.
func (p *Probability) Set(text string) error {
	parsed, err := ParseProbability(text)
	if err == nil {
		*p = parsed
	}
	return err
}

// String returns the percentage.
func (p *Probability) String() string {
	// Twelve digits hide the binary rounding of the division by 100.
	return strconv.FormatFloat(float64(*p)*100, 'g', 12, 64) + "%"
}

// Type names the kind of value in usage texts.
func (p *Probability) Type() string { return "percent" }
