package pathsel

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt with what happens now")

// A transcript is a script of calls; lines that start with "=" hold what the
// call before returned. Times are in microseconds.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(raw))
			if *update {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(raw) {
				t.Errorf("%s differs; got:\n%s", name, got)
			}
		})
	}
}

// script is a table and a clock.
type script struct {
	table Table
	now   int64
}

func play(t *testing.T, text string) string {
	var s script
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "=") {
			continue
		}
		fmt.Fprintln(&out, line)
		code, _, _ := strings.Cut(line, "#")
		words := strings.Fields(code)
		if len(words) == 0 {
			continue
		}
		var args [6]int
		for i, w := range words[1:] {
			if _, err := fmt.Sscan(w, &args[i]); err != nil {
				t.Fatalf("line %q: %v", line, err)
			}
		}
		for _, l := range s.call(t, words[0], args) {
			fmt.Fprintln(&out, "= "+l)
		}
	}
	return out.String()
}

func (s *script) call(t *testing.T, verb string, a [6]int) []string {
	tb, now := &s.table, s.now
	switch verb {
	case "init": // planes paths
		tb.Init(Config{Planes: a[0], PathsPerPlane: a[1], MinRTONanos: 1_000_000, AckDelayNanos: 100_000}, 1)
	case "wait": // us
		s.now += int64(a[0]) * 1000
	case "send": // plane packets window
		return []string{s.send(a[0], a[1], int64(a[2]))}
	case "pick": // plane window
		return []string{fmt.Sprint(tb.Pick(now, a[0], int64(a[1])))}
	case "pickother": // plane path
		return []string{fmt.Sprint(tb.PickOther(now, a[0], a[1]))}
	case "acked": // plane path packets ce rtt
		tb.OnAcked(now, a[0], a[1], a[2], a[3], int64(a[4])*1000)
	case "lost": // plane path packets
		tb.OnLost(now, a[0], a[1], a[2])
	case "removed": // plane path packets
		tb.OnRemoved(a[0], a[1], a[2])
	case "heard": // plane path
		tb.Heard(now, a[0], a[1])
	case "timeout": // plane path
		return []string{tb.OnTimeout(now, a[0], a[1]).String()}
	case "silent": // plane
		tb.PlaneSilent(now, a[0])
	case "link": // plane up
		tb.SetPlaneUp(a[0], a[1] != 0)
	case "answer": // plane path rtt
		return []string{tb.OnProbeAck(now, a[0], a[1], int64(a[2])*1000).String()}
	case "probes": // us: all that are due in this time
		return s.probes(int64(a[0]) * 1000)
	case "state": // plane
		return []string{s.state(a[0])}
	case "weight": // plane path
		return []string{fmt.Sprint(tb.Path(a[0], a[1]).Weight)}
	default:
		t.Fatalf("no such call: %s", verb)
	}
	return nil
}

// send sprays packets and returns the paths they took, runs as path x length.
func (s *script) send(plane, packets int, window int64) string {
	var runs []string
	last, n := -2, 0
	flush := func() {
		if n > 0 {
			runs = append(runs, fmt.Sprintf("%dx%d", last, n))
		}
	}
	for range packets {
		id := s.table.Pick(s.now, plane, window)
		if id != last {
			flush()
			last, n = id, 0
		}
		n++
		if id >= 0 {
			s.table.OnSent(s.now, plane, id)
		}
	}
	flush()
	return strings.Join(runs, " ")
}

// probes sends every probe that is due until some time from now, at its time.
func (s *script) probes(span int64) (out []string) {
	until := s.now + span
	for at := s.table.ProbeDeadline(); at <= until; at = s.table.ProbeDeadline() {
		s.now = max(s.now, at)
		var sent []string
		for {
			plane, id, ok := s.table.NextProbe(s.now)
			if !ok {
				break
			}
			sent = append(sent, fmt.Sprintf("%d/%d", plane, id))
		}
		if len(sent) > 0 {
			out = append(out, fmt.Sprintf("%d us: %s", s.now/1000, strings.Join(sent, " ")))
		}
	}
	s.now = until
	return out
}

// state shows the plane's state and each path's by its first letter.
func (s *script) state(plane int) string {
	var b strings.Builder
	for id := range s.table.cfg.PathsPerPlane {
		b.WriteByte("ASPD"[s.table.Path(plane, id).State])
	}
	return s.table.PlaneState(plane).String() + " " + b.String()
}
