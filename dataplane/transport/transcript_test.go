package transport

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metaroced/metaroced/dataplane/wire"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt with what happens now")

// A transcript is a script of commands; lines that start with "=" hold what
// happened: packets as they leave, and events. Times are microseconds since the
// start. Each begins with what it guards.
func TestTranscripts(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := playTranscript(t, string(raw))
			if *update {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(raw) {
				t.Errorf("%s differs (rewrite with -update); got:\n%s", name, got)
			}
		})
	}
}

// theatre plays one transcript.
type theatre struct {
	*pair
	start  int64
	ca, cb *Conn
	lose   map[string]int // how many of "a DATA" and so on are still to be lost
	trace  bool
	lines  []string
	posted int
}

func playTranscript(t *testing.T, text string) string {
	s := &theatre{lose: map[string]int{}, trace: true}
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "=") {
			continue
		}
		fmt.Fprintln(&out, line)
		code, _, _ := strings.Cut(line, "#")
		if words := strings.Fields(code); len(words) > 0 {
			s.command(t, line, words[0], words[1:])
		}
		for _, l := range s.lines {
			fmt.Fprintln(&out, "= "+l)
		}
		s.lines = nil
	}
	return out.String()
}

func (s *theatre) printf(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// command does one line of a script.
func (s *theatre) command(t *testing.T, line, verb string, words []string) {
	var n [4]int64
	for i, w := range words {
		if i < len(n) {
			_, _ = fmt.Sscan(w, &n[i]) // what is no number stays 0
		}
	}
	switch verb {
	case "pair": // planes, paths, message depth
		s.begin(t, int(n[0]), int(n[1]), int(n[2]))
	case "connect": // without showing the packets
		s.trace = false
		s.ca, s.cb = s.connect()
		s.trace = true
		s.watch()
	case "dial":
		s.watch()
		s.ca = s.dial()
	case "accept":
		s.must(s.cb.Accept(s.now, nil))
	case "refuse": // text
		s.must(s.cb.Refuse(s.now, strings.Join(words, " ")))
	case "write": // bytes, stream, then any of: imm, badkey
		s.post(uint32(n[0]), uint16(n[1]), strings.Contains(line, "imm"), strings.Contains(line, "badkey"))
	case "consume": // stream, messages at b
		for range n[1] {
			s.cb.Consumed(uint16(n[0]))
		}
	case "lose": // side, type, how many: the next of these
		s.lose[words[0]+" "+words[1]] = int(n[2])
	case "black": // plane, 0 or 1
		s.faults.black[n[0]] = n[1] != 0
	case "link": // side, plane, 0 or 1
		s.side(words[0]).engine.HandlePlane(s.now, int(n[1]), n[2] != 0)
	case "restart": // b, without its memory of connections
		s.b = s.endpoint("b", testConfig(len(s.b.addrs), 2, 77))
		s.cb = nil
	case "close": // side
		s.must(s.conn(words[0]).Close(s.now, 0))
	case "abort": // side
		s.conn(words[0]).Abort(s.now, wire.CloseApplicationGone)
	case "run": // us
		s.idle(n[0] * 1000)
	case "quiet": // us: only events are shown
		s.trace = false
		s.idle(n[0] * 1000)
		s.trace = true
	case "state":
		s.state()
	default:
		t.Fatalf("no such command: %q", line)
	}
}

func (s *theatre) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *theatre) begin(t *testing.T, planes, paths, depth int) {
	s.pair = newPair(t, planes, 1, func(a, b *Config) {
		for _, c := range []*Config{a, b} {
			c.Paths, c.MessageDepth = paths, depth
		}
	})
	s.start = s.now
	s.b.taken = true
	s.tap = s.packet
	s.region(s.a, keyA, 1<<20, 0)
	s.region(s.b, keyB, 1<<20, RemoteWrite)
}

// watch has events shown from now on, and a's CONNECT noticed.
func (s *theatre) watch() {
	s.onEvent = func(e *endpoint, ev *Event) {
		if ev.Kind == EventIncoming {
			s.cb = e.engine.Conn(ev.Conn)
		}
		names := [...]string{
			EventIncoming: "incoming", EventEstablished: "established", EventRefused: "refused",
			EventSent: "sent", EventReceived: "received", EventClosed: "closed",
		}
		what := names[ev.Kind]
		switch ev.Kind {
		case EventSent:
			what = fmt.Sprintf("sent: operation %d, stream %d, %v", ev.UserData, ev.Stream, ev.Status)
		case EventReceived:
			what = fmt.Sprintf("received: stream %d, MSN %d, %d bytes", ev.Stream, ev.MSN, ev.Bytes)
		case EventRefused, EventClosed:
			what += ": " + ev.Text
		}
		s.printf("%6d   %s: event %s", (s.now-s.start)/1000, e.name, what)
	}
}

func (s *theatre) side(name string) *endpoint {
	if name == "a" {
		return s.a
	}
	return s.b
}

func (s *theatre) conn(name string) *Conn {
	if name == "a" {
		return s.ca
	}
	return s.cb
}

func (s *theatre) post(length uint32, stream uint16, imm, bad bool) {
	w := Work{
		Owner: testOwner, Stream: stream, Length: length, HasImm: imm,
		LocalKey: keyA, RemoteKey: keyB, UserData: uint64(s.posted),
	}
	if bad {
		w.RemoteKey = 0x999
	}
	s.printf("operation %d: %v", s.posted, s.ca.Post(s.now, &w))
	s.posted++
}

// packet shows a packet, and loses it if the script says so.
func (s *theatre) packet(from *endpoint, pkt []byte) bool {
	var h wire.Header
	if r := wire.ParseHeader(pkt, &h); r != 0 {
		s.t.Fatalf("%s sends what is refused: %v", from.name, r)
	}
	key := from.name + " " + h.Type.String()
	lost := ""
	if s.lose[key] > 0 {
		s.lose[key]--
		lost = "  (lost)"
	} else if s.faults.black[h.Plane] {
		lost = "  (black)"
	}
	if s.trace {
		s.printf("%6d %s>  plane %d %s%s", (s.now-s.start)/1000, from.name, h.Plane, describePacket(&h, h.Body(pkt)), lost)
	}
	return !strings.Contains(lost, "lost")
}

// describePacket shows what a reader of the protocol wants to know.
func describePacket(h *wire.Header, body []byte) string {
	var b strings.Builder
	flags := ""
	for _, f := range []wire.Flags{wire.FlagVoid, wire.FlagAckNow, wire.FlagRetransmission, wire.FlagReply} {
		if h.Flags&f != 0 {
			flags += " " + f.String()
		}
	}
	switch h.Type {
	case wire.DATA:
		var d wire.Data
		payload, _ := wire.ParseData(body, &d)
		fmt.Fprintf(&b, "path %d PSN %d %v DSN %d stream %d MSN %d packet %d of %d, %d bytes", h.Path, h.PSN, h.Type, d.DSN, d.Stream, d.MSN, d.PacketIndex+1, d.PacketCount, len(payload))
	case wire.CONTROL:
		var k wire.Control
		wire.ParseControl(body, &k)
		fmt.Fprintf(&b, "path %d PSN %d %v DSN %d %v stream %d MSN %d", h.Path, h.PSN, h.Type, k.DSN, k.Kind, k.Stream, k.MSN)
	case wire.ACK:
		var a wire.Ack
		wire.ParseAck(body, &a)
		fmt.Fprintf(&b, "%v cumulative %d, planes %02b", h.Type, a.CumulativeDSN, a.PlanesUp)
		for i := range int(a.ReportCount) {
			var r wire.PathReport
			a.Report(i, &r)
			fmt.Fprintf(&b, "; path %d/%d to PSN %d, %d arrived", r.Plane, r.Path, int32(r.HighestPSN), r.PacketCount)
		}
		for i := range int(a.CreditCount) {
			fmt.Fprintf(&b, "; credit stream %d to MSN %d", a.Credit(i).Stream, a.Credit(i).MSNLimit)
		}
	case wire.PROBE, wire.PROBE_ACK:
		var p wire.Probe
		wire.ParseProbe(body, &p)
		fmt.Fprintf(&b, "path %d %v", h.Path, h.Type)
		if p.Flags&wire.ProbeFullAck != 0 {
			b.WriteString(" full")
		}
		if p.Flags&wire.ProbeUnknown != 0 {
			b.WriteString(" unknown")
		}
	case wire.CLOSE:
		var m wire.Close
		wire.ParseClose(body, &m)
		fmt.Fprintf(&b, "%v final DSN %d", h.Type, m.FinalDSN)
	default:
		b.WriteString(h.Type.String())
	}
	return b.String() + flags
}

// state shows both ends.
func (s *theatre) state() {
	for _, name := range []string{"a", "b"} {
		c := s.conn(name)
		if c == nil {
			continue
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s: %s", name, c.State())
		if c.state.carriesData() {
			for plane := range c.planes {
				fmt.Fprintf(&b, ", plane %d %v", plane, c.table.PlaneState(plane))
				if !c.usable(plane) {
					b.WriteString(" unusable")
				}
			}
			fmt.Fprintf(&b, ", %d DSNs outstanding", c.InFlight())
		}
		fmt.Fprintf(&b, ", %d retransmissions, %d by timer", c.stats.Retransmissions, c.stats.ByTimer)
		s.printf("%s", b.String())
	}
	s.printf("connections: a %d, b %d", s.a.engine.active, s.b.engine.active)
}
