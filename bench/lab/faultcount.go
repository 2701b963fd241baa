package lab

import "fmt"

// faultCount counts what went wrong and keeps the text of the first.
type faultCount struct {
	errors uint64
	first  string
}

func (f *faultCount) add(format string, args ...any) {
	f.errors++
	f.note(format, args...)
}

// note keeps the text without counting an error, for wrong bytes, which are
// counted as bytes.
func (f *faultCount) note(format string, args ...any) {
	if f.first == "" {
		f.first = fmt.Sprintf(format, args...)
	}
}
