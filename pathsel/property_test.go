package pathsel

import (
	"math/bits"
	"math/rand/v2"
	"testing"
)

// Ten per cent of packets, acknowledgments, probes and answers vanish at
// random. No path may ever be condemned, and sending hardly ever stops.
func TestRandomLossNeverCondemns(t *testing.T) {
	const packets, paths, rtt = 1_000_000, 16, 200 * us
	tb := newTable(Config{PathsPerPlane: paths, MinRTONanos: 1 * ms, AckDelayNanos: 100 * us})
	rng := rand.New(rand.NewPCG(3, 4))
	lost := func() bool { return rng.IntN(10) == 0 }
	now, refused, suspicions := int64(0), 0, 0
	for sent := 0; sent < packets; now += rtt {
		var out [paths]int
		for range 1 + rng.IntN(1<<rng.IntN(8)) {
			id := tb.Pick(now, 0, 128)
			if id < 0 {
				refused++
				break
			}
			tb.OnSent(now, 0, id)
			out[id]++
			sent++
		}
		for id, n := range out {
			if n == 0 {
				continue
			}
			arrived := 0
			for range n {
				if !lost() {
					arrived++
				}
			}
			if arrived == 0 || lost() {
				// Nothing is heard in time: the tail timer.
				tb.OnLost(now+rtt, 0, id, n)
				if s := tb.OnTimeout(now+rtt, 0, id); s == Down {
					t.Fatalf("path %d is down after %d packets", id, sent)
				}
				suspicions++
				continue
			}
			tb.OnLost(now+rtt, 0, id, n-arrived)
			tb.OnAcked(now+rtt, 0, id, arrived, 0, rtt)
		}
		for {
			_, id, ok := tb.NextProbe(now + rtt)
			if !ok {
				break
			}
			if probeLost, answerLost := lost(), lost(); !probeLost && !answerLost {
				tb.OnProbeAck(now+2*rtt, 0, id, rtt)
			}
		}
		if tb.planes[0].down != 0 {
			t.Fatalf("paths %b are down after %d packets", tb.planes[0].down, sent)
		}
	}
	t.Logf("%d suspicions, %d refusals", suspicions, refused)
	if refused > packets/1000 {
		t.Errorf("sending was refused %d times in %d packets", refused, packets)
	}
}

// checkPlane compares the masks with what the paths say, and asks for life:
// whoever is not active must be going to be asked.
func checkPlane(t *testing.T, tb *Table, plane int) {
	t.Helper()
	pl := &tb.planes[plane]
	var masks [4]uint64
	var full, cut uint64
	var inFlight int32
	for id := range tb.cfg.PathsPerPlane {
		p := tb.Path(plane, id)
		masks[p.State] |= 1 << id
		inFlight += p.InFlight
		if int(p.InFlight) >= tb.cfg.PathInFlight {
			full |= 1 << id
		}
		if p.Weight < fullWeight {
			cut |= 1 << id
		}
		if p.Weight < minWeight || p.Weight > fullWeight || p.InFlight < 0 {
			t.Fatalf("path %d/%d: weight %d, in flight %d", plane, id, p.Weight, p.InFlight)
		}
		if s := p.State; (s == Suspect || s == Probing) && pl.probeAt > p.probeAt {
			t.Fatalf("path %d/%d is %v and will not be probed in time", plane, id, s)
		}
	}
	if masks != [4]uint64{pl.active, pl.suspect, pl.probing, pl.down} {
		t.Fatalf("plane %d: masks %b, states %b", plane, []uint64{pl.active, pl.suspect, pl.probing, pl.down}, masks)
	}
	if full != pl.full || cut&^pl.cut != 0 || inFlight != pl.inFlight || pl.set&^pl.active != 0 {
		t.Fatalf("plane %d: full %b want %b, cut %b want %b, in flight %d want %d, set %b of %b",
			plane, pl.full, full, pl.cut, cut, pl.inFlight, inFlight, pl.set, pl.active)
	}
	if !pl.linkUp && (pl.down != lowBits(tb.cfg.PathsPerPlane) || pl.probeAt != never || pl.downAt != never) {
		t.Fatalf("plane %d: link down, yet paths %b are not or probes are due", plane, ^pl.down)
	}
	if pl.linkUp && pl.active == 0 && pl.probeAt == never && pl.downAt == never {
		t.Fatalf("plane %d will never come back", plane)
	}
	if pl.linkUp && pl.down != 0 && pl.downAt == never && (!pl.silent || pl.probing == 0) {
		t.Fatalf("plane %d: down paths %b will never be asked", plane, pl.down)
	}
}

func TestTableProperties(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		cfg := Config{
			Planes: 1 + rng.IntN(MaxPlanes), PathsPerPlane: 1 + rng.IntN(MaxPaths), RunPackets: 1 + rng.IntN(8),
			PathInFlight: 1 + rng.IntN(64), SuspectLimit: 1 + rng.IntN(6), MinRTONanos: int64(rng.IntN(2)) * ms,
		}
		tb := newTable(cfg)
		now := int64(0)
		for range 4000 {
			now += rng.Int64N(1 << rng.IntN(22))
			randomCall(t, tb, rng, now)
			for plane := range cfg.Planes {
				checkPlane(t, tb, plane)
			}
		}
	}
}

// randomCall does one thing to a table and checks what it returns.
func randomCall(t *testing.T, tb *Table, rng *rand.Rand, now int64) {
	t.Helper()
	plane, id := rng.IntN(tb.cfg.Planes), rng.IntN(tb.cfg.PathsPerPlane)
	pl, p := &tb.planes[plane], tb.Path(plane, id)
	flight := int(p.InFlight)
	n := rng.IntN(flight + 1)
	switch rng.IntN(24) {
	case 0:
		tb.OnAcked(now, plane, id, n, rng.IntN(n+1), rng.Int64N(5*ms))
	case 1, 2:
		tb.OnAcked(now, plane, id, n, 0, rng.Int64N(5*ms))
	case 3:
		tb.OnLost(now, plane, id, n)
	case 4:
		tb.OnRemoved(plane, id, n)
	case 5:
		tb.Heard(now, plane, id)
	case 6, 7:
		tb.OnTimeout(now, plane, id)
	case 8:
		if rng.IntN(8) == 0 {
			tb.PlaneSilent(now, plane)
		}
	case 9:
		if rng.IntN(4) == 0 {
			tb.SetPlaneUp(plane, rng.IntN(3) > 0)
		}
	case 10, 11:
		tb.OnProbeAck(now, plane, id, rng.Int64N(ms))
	case 12, 13:
		for k := 0; ; k++ {
			plane, id, ok := tb.NextProbe(now)
			if !ok {
				break
			}
			if tb.Path(plane, id).State == Active || !tb.planes[plane].linkUp {
				t.Fatalf("probe for path %d/%d, which is %v", plane, id, tb.Path(plane, id).State)
			}
			if k > MaxPlanes*MaxPaths {
				t.Fatal("probes without end at one time")
			}
		}
		if at := tb.ProbeDeadline(); at <= now {
			t.Fatalf("deadline %d at %d with no probe due", at, now)
		}
	case 14:
		checkPick(t, tb, plane, tb.PickOther(now, plane, id), id)
	default:
		for range rng.IntN(32) {
			got := tb.Pick(now, plane, rng.Int64N(1<<rng.IntN(12)))
			checkPick(t, tb, plane, got, -1)
			if got < 0 {
				if open := pl.active &^ pl.full; open != 0 {
					t.Fatalf("plane %d: nothing picked with paths %b open", plane, open)
				}
				break
			}
			tb.OnSent(now, plane, got)
		}
	}
}

func checkPick(t *testing.T, tb *Table, plane, id, not int) {
	t.Helper()
	if id < 0 {
		return
	}
	pl, p := &tb.planes[plane], tb.Path(plane, id)
	switch {
	case id == not:
		t.Fatalf("path %d picked as other than itself", id)
	case int(p.InFlight) >= tb.cfg.PathInFlight:
		t.Fatalf("full path %d/%d picked", plane, id)
	case p.State == Suspect && bits.OnesCount64(pl.active) == 0 && p.InFlight < suspectPackets:
	case p.State != Active:
		t.Fatalf("path %d/%d picked in state %v", plane, id, p.State)
	}
}
