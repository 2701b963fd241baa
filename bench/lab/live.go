package lab

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/metaroced/metaroced/dataplane"
)

// liveInterval is how often the live table is drawn anew.
const liveInterval = 500 * time.Millisecond

// liveTable draws a table over its predecessor on a terminal.
type liveTable struct {
	out   io.Writer
	lines int // of the table that is there

	lastTime  time.Duration
	lastBytes uint64
	lastTx    map[string]uint64 // bytes sent, by plane
}

// liveView is what one drawing shows.
type liveView struct {
	elapsed  time.Duration // of the job
	progress progress
	status   *dataplane.Status // of host-a
	faults   []string          // what was done to planes so far
}

// draw replaces the table on the terminal. Errors writing to a terminal are
// ignored: the job does not depend on it.
func (t *liveTable) draw(v *liveView) {
	var b strings.Builder
	if t.lines > 0 {
		_, _ = fmt.Fprintf(&b, "\x1b[%dA\x1b[J", t.lines) // up, erase to the end
	}
	text := t.render(v)
	b.WriteString(text)
	t.lines = strings.Count(text, "\n")
	_, _ = io.WriteString(t.out, b.String())
}

// erase removes the table.
func (t *liveTable) erase() {
	if t.lines > 0 {
		_, _ = fmt.Fprintf(t.out, "\x1b[%dA\x1b[J", t.lines)
		t.lines = 0
	}
}

// render returns the table as text and remembers what rates need next time.
func (t *liveTable) render(v *liveView) string {
	var b strings.Builder
	seconds := max((v.elapsed - t.lastTime).Seconds(), 1e-3)
	goodput := float64(v.progress.Bytes-t.lastBytes) * 8 / 1e9 / seconds
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
	line("%.1f s: %.2f Gb/s verified, %d operations, %d wrong bytes, %d errors %s\n",
		v.elapsed.Seconds(), goodput, v.progress.Operations, v.progress.Mismatched, v.progress.Errors, strings.Join(v.faults, ", "))
	line("plane\tlink\tmode\ttx Gb/s\tactive\tsuspect\tprobing\tdown\tsrtt us\tCE %%\tloss %%\tresent\t\n")
	tx := map[string]uint64{}
	for i, p := range v.status.Planes {
		tx[p.Name] = p.TxBytes
		s := summarizePaths(v.status, i)
		line("%s\t%s\t%s\t%.2f\t%d\t%d\t%d\t%d\t%.0f\t%.2f\t%.2f\t%d\t\n", p.Name, p.State, p.Mode,
			float64(p.TxBytes-t.lastTx[p.Name])*8/1e9/seconds,
			s.states["active"], s.states["suspect"], s.states["probing"], s.states["down"],
			s.srttUs, s.ceFraction*100, s.lossFraction*100, s.retransmissions)
	}
	_ = w.Flush() // to memory
	t.lastTime, t.lastBytes, t.lastTx = v.elapsed, v.progress.Bytes, tx
	return b.String()
}

// pathSummary is one plane's line: its paths of all connections together.
type pathSummary struct {
	states                           map[string]int
	srttUs, ceFraction, lossFraction float64 // medians of the paths in use
	retransmissions                  uint64
}

func summarizePaths(status *dataplane.Status, plane int) pathSummary {
	s := pathSummary{states: map[string]int{}}
	var srtt, ce, loss []float64
	for _, c := range status.Connections {
		for _, p := range c.Paths {
			if p.Plane != plane {
				continue
			}
			s.states[p.State]++
			s.retransmissions += p.Retransmissions
			if p.SRTTUs > 0 {
				srtt, ce, loss = append(srtt, p.SRTTUs), append(ce, p.CEFraction), append(loss, p.LossFraction)
			}
		}
	}
	s.srttUs, s.ceFraction, s.lossFraction = Median(srtt), Median(ce), Median(loss)
	return s
}
