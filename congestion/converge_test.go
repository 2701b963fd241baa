package congestion

import (
	"math/rand/v2"
	"testing"
)

const (
	ms   = 1_000_000
	us   = 1_000
	gbps = 1_000_000_000
)

func shallow(bits int64) *bottleneck {
	return &bottleneck{bitsPerSec: bits, markNanos: 50 * us, dropNanos: 400 * us, rng: rand.New(rand.NewPCG(1, 2))}
}

// deliveredIn runs the flows and returns what each delivered in that time.
func deliveredIn(from, to int64, b *bottleneck, a *Allocator, flows []*flow) []int64 {
	d := make([]int64, len(flows))
	for i, f := range flows {
		d[i] = -f.delivered
	}
	run(from, to, b, a, flows)
	for i, f := range flows {
		d[i] += f.delivered
	}
	return d
}

func total(d []int64) (sum int64) {
	for _, v := range d {
		sum += v
	}
	return sum
}

// utilization is the delivered part of what the link carries in a time.
func utilization(d []int64, bits, nanos int64) float64 {
	return float64(total(d)) * simPacket * 8 * nanosPerSec / float64(bits) / float64(nanos)
}

func TestMarkedLinkIsSharedFairly(t *testing.T) {
	for _, tc := range []struct {
		name    string
		rtts    []int64
		fair    float64
		minUtil float64
	}{
		{"two equal", []int64{100 * us, 100 * us}, 0.97, 0.85},
		{"two, the second late", []int64{100 * us, 100 * us}, 0.97, 0.85},
		{"eight", []int64{100 * us, 100 * us, 100 * us, 100 * us, 100 * us, 100 * us, 100 * us, 100 * us}, 0.95, 0.85},
		{"RTT 1:5", []int64{100 * us, 500 * us}, 0.9, 0.8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := shallow(10 * gbps)
			var flows []*flow
			for i, rtt := range tc.rtts {
				f := newFlow(rtt, Config{LinkBitsPerSec: 10 * gbps})
				if tc.name == "two, the second late" {
					f.startAt = int64(i) * 20 * ms
				}
				flows = append(flows, f)
			}
			run(0, 60*ms, b, nil, flows)
			dropsBefore := b.drops
			d := deliveredIn(60*ms, 160*ms, b, nil, flows)
			u := utilization(d, 10*gbps, 100*ms)
			t.Logf("delivered %v, fairness %.3f, utilization %.3f, drops %d", d, jain(d), u, b.drops)
			if jain(d) < tc.fair {
				t.Errorf("fairness %.3f, want at least %.2f", jain(d), tc.fair)
			}
			if u < tc.minUtil {
				t.Errorf("utilization %.3f, want at least %.2f", u, tc.minUtil)
			}
			if b.drops != dropsBefore {
				t.Errorf("%d drops in the steady state; marks must prevent them", b.drops-dropsBefore)
			}
		})
	}
}

// Random loss shrinks nothing: the link stays full at 10 %.
func TestRandomLossKeepsThroughput(t *testing.T) {
	for _, perMille := range []int{0, 10, 100} {
		b := shallow(10 * gbps)
		b.lossPerMille = perMille
		flows := []*flow{newFlow(100*us, Config{LinkBitsPerSec: 10 * gbps}), newFlow(100*us, Config{LinkBitsPerSec: 10 * gbps})}
		run(0, 40*ms, b, nil, flows)
		d := deliveredIn(40*ms, 100*ms, b, nil, flows)
		u := utilization(d, 10*gbps, 60*ms)
		t.Logf("%d per mille lost: delivered %v, utilization %.3f", perMille, d, u)
		if u < 0.85 {
			t.Errorf("%d per mille lost: utilization %.3f, want at least 0.85", perMille, u)
		}
	}
}

// A network without marks and with a small buffer must not collapse: heavy
// loss shrinks the windows.
func TestLossWithoutMarksDoesNotCollapse(t *testing.T) {
	b := shallow(1 * gbps)
	b.markNanos = never
	var flows []*flow
	for range 4 {
		flows = append(flows, newFlow(100*us, Config{LinkBitsPerSec: 10 * gbps}))
	}
	run(0, 100*ms, b, nil, flows)
	carried, drops := b.carried, b.drops
	d := deliveredIn(100*ms, 300*ms, b, nil, flows)
	carried, drops = b.carried-carried, b.drops-drops
	t.Logf("carried %d, dropped %d", carried, drops)
	if u := utilization(d, 1*gbps, 200*ms); u < 0.9 {
		t.Errorf("utilization %.3f, want at least 0.9", u)
	}
	if drops > 2*carried {
		t.Errorf("%d dropped for %d carried: the windows did not shrink", drops, carried)
	}
}

// Incast with the receiver's shares: 16 senders finish together, at the link's
// speed, nearly without loss.
func TestIncastUnderAllocator(t *testing.T) {
	const senders, packets = 16, 512
	b := shallow(10 * gbps)
	var a Allocator
	a.Init(10*gbps, 0, 64)
	var flows []*flow
	for range senders {
		f := newFlow(100*us, Config{LinkBitsPerSec: 10 * gbps, InitialPackets: 4})
		f.backlog = packets
		flows = append(flows, f)
	}
	ideal := int64(senders*packets) * simPacket * 8 * nanosPerSec / (10 * gbps)
	run(0, 2*ideal, b, &a, flows)
	first, last := int64(never), int64(0)
	for i, f := range flows {
		if f.doneAt == 0 {
			t.Fatalf("sender %d has not finished in twice the ideal time; %d packets left", i, f.backlog)
		}
		first, last = min(first, f.doneAt), max(last, f.doneAt)
	}
	t.Logf("ideal %d us, first %d us, last %d us, drops %d of %d", ideal/us, first/us, last/us, b.drops, senders*packets)
	if last > ideal*115/100 {
		t.Errorf("last finished after %d us, ideal %d us", last/us, ideal/us)
	}
	if first < ideal*80/100 {
		t.Errorf("first finished after %d us, unfairly early; ideal %d us", first/us, ideal/us)
	}
	if b.drops > senders*packets/100 {
		t.Errorf("%d drops of %d packets", b.drops, senders*packets)
	}
}

// A newcomer takes its part within a few RTTs, and what a sender leaves is
// taken within a few milliseconds.
func TestAllocatorFollowsComingAndGoing(t *testing.T) {
	b := shallow(10 * gbps)
	var a Allocator
	a.Init(10*gbps, 0, 64)
	old := newFlow(100*us, Config{LinkBitsPerSec: 10 * gbps})
	young := newFlow(100*us, Config{LinkBitsPerSec: 10 * gbps})
	young.startAt, young.backlog = 20*ms, 10*ms*5*gbps/nanosPerSec/8/simPacket
	flows := []*flow{old, young}
	run(0, 20*ms, b, &a, flows)
	run(20*ms, 21*ms, b, &a, flows)
	d := deliveredIn(21*ms, 25*ms, b, &a, flows)
	if jain(d) < 0.97 {
		t.Errorf("1 ms after the second came: delivered %v, fairness %.3f", d, jain(d))
	}
	run(25*ms, 40*ms, b, &a, flows)
	if young.doneAt == 0 || young.doneAt > 35*ms {
		t.Fatalf("the second finished at %d us, want before 35 ms", young.doneAt/us)
	}
	d = deliveredIn(40*ms, 45*ms, b, &a, flows)
	if u := utilization(d, 10*gbps, 5*ms); u < 0.9 {
		t.Errorf("5 ms after the second went the first uses %.3f of the link", u)
	}
}
