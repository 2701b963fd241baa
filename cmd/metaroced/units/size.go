package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ByteSize is a number of bytes.
type ByteSize int64

var byteFactors = []struct {
	name   string
	factor int64
}{
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"KB", 1e3},
	{"G", 1 << 30},
	{"M", 1 << 20},
	{"K", 1 << 10},
	{"B", 1},
	{"", 1},
}

// ParseByteSize reads a size such as "64", "4KiB", "1MiB" or "1MB". KiB, MiB and
// GiB (also K, M and G) are powers of 1024, kB, MB and GB powers of 1000. The
// result is a whole number of bytes below 2^50.
func ParseByteSize(text string) (ByteSize, error) {
	number := strings.TrimSpace(text)
	factor := int64(1)
	for _, f := range byteFactors {
		if cut, found := strings.CutSuffix(number, f.name); found {
			number, factor = strings.TrimSpace(cut), f.factor
			break
		}
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(value) {
		return 0, fmt.Errorf("%q is not a size; write it like 64, 4KiB or 1MiB", text)
	}
	if value *= float64(factor); value < 0 || value >= 1<<50 {
		return 0, fmt.Errorf("%q is outside 0 to 1024TiB", text)
	}
	if value != math.Trunc(value) {
		return 0, fmt.Errorf("%q is not a whole number of bytes", text)
	}
	return ByteSize(value), nil
}

// Set parses text into s.
func (s *ByteSize) Set(text string) error {
	parsed, err := ParseByteSize(text)
	if err == nil {
		*s = parsed
	}
	return err
}

// String returns the size in the largest binary unit that divides it.
func (s *ByteSize) String() string {
	for _, f := range byteFactors[:3] {
		if value := int64(*s); value != 0 && value%f.factor == 0 {
			return strconv.FormatInt(value/f.factor, 10) + f.name
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type names the kind of value in usage texts.
func (s *ByteSize) Type() string { return "size" }
