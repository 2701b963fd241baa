package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// BitRate is a rate in bits per second.
type BitRate int64

// maxBitRate is far above any link and far below where arithmetic on it overflows.
const maxBitRate = 100e12

// ParseBitRate reads a rate such as "10G", "2.5Gb/s", "800Mbit/s" or "0". The
// prefixes k, M, G and T are powers of 1000; the unit is always bits per second
// and may be left off.
func ParseBitRate(text string) (BitRate, error) {
	number := strings.TrimSpace(text)
	for _, unit := range []string{"bit/s", "b/s", "bps"} {
		if cut, found := strings.CutSuffix(number, unit); found {
			number = cut
			break
		}
	}
	number, factor := cutPrefixLetter(number, map[byte]float64{'k': 1e3, 'K': 1e3, 'M': 1e6, 'G': 1e9, 'T': 1e12})
	value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(value) {
		return 0, fmt.Errorf("%q is not a rate in bits per second; write it like 10G or 2.5Gb/s", text)
	}
	if value *= factor; value < 0 || value > maxBitRate {
		return 0, fmt.Errorf("%q is outside 0 to 100Tb/s", text)
	}
	return BitRate(math.Round(value)), nil
}

// cutPrefixLetter removes the last letter of a number when it is a known prefix,
// and returns what it stands for.
func cutPrefixLetter(number string, factors map[byte]float64) (rest string, factor float64) {
	number = strings.TrimSpace(number)
	if number == "" {
		return number, 1
	}
	if factor, found := factors[number[len(number)-1]]; found {
		return number[:len(number)-1], factor
	}
	return number, 1
}

// Set parses text into r.
func (r *BitRate) Set(text string) error {
	parsed, err := ParseBitRate(text)
	if err == nil {
		*r = parsed
	}
	return err
}

// String returns the rate with the largest prefix that keeps it exact.
func (r *BitRate) String() string {
	value := int64(*r)
	for _, p := range []struct {
		factor int64
		name   string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if value >= p.factor && value%(p.factor/1000) == 0 {
			return strconv.FormatFloat(float64(value)/float64(p.factor), 'f', -1, 64) + p.name + "b/s"
		}
	}
	if value == 0 {
		return "0"
	}
	return strconv.FormatInt(value, 10) + "b/s"
}

// Type names the kind of value in usage texts.
func (r *BitRate) Type() string { return "rate" }
