package units

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// PlaneEvent is a moment at which something happens to one plane.
type PlaneEvent struct {
	Plane int           // counted from 0
	At    time.Duration // since the start of the job
}

// PlaneEvents is a list of them, written with commas: "2@2s,3@2500ms".
type PlaneEvents []PlaneEvent

// MaxPlanes is the highest number of planes a host can have (docs/PROTOCOL.md).
const MaxPlanes = 8

// ParsePlaneEvent reads "plane@time", such as "2@2s".
func ParsePlaneEvent(text string) (PlaneEvent, error) {
	planeText, timeText, found := strings.Cut(strings.TrimSpace(text), "@")
	if !found {
		return PlaneEvent{}, fmt.Errorf("%q is not plane@time; write it like 2@2s", text)
	}
	plane, err := strconv.Atoi(planeText)
	if err != nil || plane < 0 || plane >= MaxPlanes {
		return PlaneEvent{}, fmt.Errorf("%q: plane %q is not a number between 0 and %d", text, planeText, MaxPlanes-1)
	}
	at, err := time.ParseDuration(timeText)
	if err != nil || at < 0 {
		return PlaneEvent{}, fmt.Errorf("%q: %q is not a time since the start; write it like 2s or 2500ms", text, timeText)
	}
	return PlaneEvent{Plane: plane, At: at}, nil
}

// Set parses text and appends what it holds, so that a flag may also be repeated.
func (e *PlaneEvents) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		event, err := ParsePlaneEvent(part)
		if err != nil {
			return err
		}
		*e = append(*e, event)
	}
	return nil
}

// String returns the list as it is written on the command line.
func (e *PlaneEvents) String() string {
	texts := make([]string, len(*e))
	for i, event := range *e {
		texts[i] = fmt.Sprintf("%d@%v", event.Plane, event.At)
	}
	return strings.Join(texts, ",")
}

// Type names the kind of value in usage texts.
func (e *PlaneEvents) Type() string { return "plane@time" }
