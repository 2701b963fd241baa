package congestion

import "testing"

// paced sends greedily with an endless window, woken every tick, and returns
// the packets sent. The share is renewed when news is set.
func paced(p *Plane, from, to, tick, share int64, news bool) (sent int64) {
	for now := from; now < to; now += tick {
		if news {
			p.OnShare(now, share, 4)
		}
		n := int64(fill(p, now, 1<<20))
		sent += n
		p.OnRemoved(n * packet)
	}
	return sent
}

func TestPaceFollowsShare(t *testing.T) {
	for _, tc := range []struct{ share, tick int64 }{
		{100 * gbps, 20 * us},
		{10 * gbps, 40 * us},
		{1 * gbps, 1 * us},
		{1 * gbps, 200 * us}, // eight packets take 262 us: still kept up
		{10_000_000, 100 * us},
	} {
		p := newPlane(Config{MaxWindowBytes: 1 << 40, InitialPackets: 1 << 20})
		sent := paced(p, 0, 1_000_000_000, tc.tick, tc.share, true)
		want := tc.share / 8 / packet
		burst := max(burstPackets, want*defaultBurstNanos/nanosPerSec) + 1
		if sent < want*99/100 || sent > want+burst {
			t.Errorf("share %d, woken every %d us: %d packets in a second, want %d to %d", tc.share, tc.tick/us, sent, want*99/100, want+burst)
		}
	}
}

func TestBurst(t *testing.T) {
	for _, tc := range []struct {
		share int64
		want  int
	}{
		{1 * gbps, 8},     // eight packets
		{100 * gbps, 153}, // 50 us and the packet in hand
	} {
		p := newPlane(Config{MaxWindowBytes: 1 << 40, InitialPackets: 1 << 20})
		p.OnShare(1000, tc.share, 4)
		if got := fill(p, 1000, 1<<20); got != tc.want {
			t.Errorf("share %d: a burst of %d packets, want %d", tc.share, got, tc.want)
		}
		if p.NextAllowed(1000) <= 1000 {
			t.Error("NextAllowed is not later after a burst")
		}
	}
}

// Rule 25: without news the share halves per lifetime, never rises, and ends
// at the start rate, which never stops.
func TestShareExpires(t *testing.T) {
	const rtt = 100 * us
	p := newPlane(Config{MaxWindowBytes: 1 << 40, InitialPackets: 1 << 20, LinkBitsPerSec: 10 * gbps})
	p.OnAck(0, Ack{SRTT: rtt, MinRTT: rtt})
	p.OnShare(0, 10*gbps, 2)
	life := p.shareLife()
	if life != shareRTTs*rtt {
		t.Fatalf("the share lives %d us, want %d us", life/us, shareRTTs*rtt/us)
	}
	previous := int64(10 * gbps)
	for i := int64(1); i < 12; i++ {
		p.Allowed(i*life-1, packet)
		if p.pace.share != previous {
			t.Fatalf("share %d before lifetime %d is over, want %d", p.pace.share, i, previous)
		}
		p.Allowed(i*life, packet)
		want := max(previous/2, 2*packet*8*nanosPerSec/rtt)
		if p.pace.share != want {
			t.Fatalf("share %d after lifetime %d, want %d", p.pace.share, i, want)
		}
		previous = want
	}
	start := p.pace.share
	sent := paced(p, 1_000_000_000, 1_100_000_000, 10*us, 0, false)
	if want := start / 8 / packet / 10; sent < want*99/100 || sent > want+2 {
		t.Errorf("%d packets in 100 ms at the start rate, want %d", sent, want)
	}
	// One look after a long time does all halvings, and burst is the allowance.
	q := newPlane(Config{MaxWindowBytes: 1 << 40, InitialPackets: 1 << 20})
	q.OnAck(0, Ack{SRTT: rtt, MinRTT: rtt})
	q.OnShare(0, 100*gbps, 2)
	if got := fill(q, 3600*nanosPerSec, 100); got != 2 {
		t.Errorf("%d packets at once an hour later, want the allowance of 2", got)
	}
	if q.pace.share != start {
		t.Errorf("share %d an hour later, want %d", q.pace.share, start)
	}
	// News restores it at once.
	q.OnShare(3600*nanosPerSec, 100*gbps, 2)
	if got := fill(q, 3600*nanosPerSec, 10); got != 10 {
		t.Errorf("%d packets after news, want 10", got)
	}
}

func TestExpiryNeverRaises(t *testing.T) {
	p := newPlane(Config{})
	p.OnAck(0, Ack{SRTT: 10 * us, MinRTT: 10 * us})
	p.OnShare(0, 1_000_000, 16)
	for now := int64(0); now < 10*nanosPerSec; now += ms {
		p.Allowed(now, packet)
	}
	if p.pace.share != 1_000_000 {
		t.Errorf("share %d after expiry, want 1000000", p.pace.share)
	}
}

// A raise must not wait out the gap of the old pace.
func TestRaiseActsAtOnce(t *testing.T) {
	p := newPlane(Config{MaxWindowBytes: 1 << 40, InitialPackets: 1 << 20})
	p.OnShare(0, minPaceBits, 1)
	fill(p, 0, 100)
	if at := p.NextAllowed(0); at < nanosPerSec {
		t.Fatalf("at the slowest pace the next packet goes at %d", at)
	}
	p.OnShare(1, 10*gbps, 1)
	if at := p.NextAllowed(1); at > 10*us {
		t.Errorf("after the raise the next packet goes at %d", at)
	}
}

// The share counts arrivals: what the network loses is sent on top.
func TestPaceCompensatesLoss(t *testing.T) {
	p := newPlane(Config{MaxWindowBytes: 1 << 40, InitialPackets: 1 << 20})
	p.OnShare(0, 10*gbps, 4)
	clean := p.pace.costPerByte
	for i := range int64(100) {
		now := i * ms
		p.OnAck(now, Ack{Packets: 90, SRTT: 100 * us, MinRTT: 100 * us})
		p.OnLoss(now+200*us, 0, 10)
	}
	if ratio := float64(clean) / float64(p.pace.costPerByte); ratio < 1.08 || ratio > 1.13 {
		t.Errorf("pace raised by %.3f at 10 %% loss, want 1.11", ratio)
	}
}

func TestNoAllocation(t *testing.T) {
	p := newPlane(Config{})
	var a Allocator
	a.Init(10*gbps, 0, 16)
	now := int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += 10 * us
		id, _ := a.Add(now)
		a.OnArrival(now, id, packet, 1)
		p.OnShare(now, a.Share(now, id), a.StartAllowance(now))
		sent := int64(fill(p, now, 16))
		p.OnAck(now, Ack{Bytes: sent * packet, Packets: sent, CEPackets: sent / 2, RTT: us, SRTT: us, MinRTT: us})
		p.OnLoss(now, 0, 1)
		a.Remove(id)
	}); n != 0 {
		t.Errorf("%v allocations per run", n)
	}
}

func BenchmarkAllowedSent(b *testing.B) {
	p := newPlane(Config{MaxWindowBytes: 1 << 60, InitialPackets: 1 << 40})
	p.OnShare(0, 100*gbps, 4)
	p.pace.expires = never
	now := int64(0)
	for b.Loop() {
		now += 330
		if p.Allowed(now, packet) {
			p.OnSent(now, packet)
		}
	}
}

func BenchmarkOnAck(b *testing.B) {
	p := newPlane(Config{})
	now := int64(0)
	for b.Loop() {
		now += 1000
		p.OnSent(now, packet)
		p.OnAck(now, Ack{Bytes: packet, Packets: 1, RTT: 50 * us, SRTT: 50 * us, MinRTT: 40 * us})
	}
}

func BenchmarkArrivalShare(b *testing.B) {
	var a Allocator
	a.Init(100*gbps, 0, 1024)
	for range 128 {
		a.Add(0)
	}
	now, id := int64(0), 0
	for b.Loop() {
		now += 1000
		id = (id + 1) & 127
		a.OnArrival(now, id, packet, packet)
		a.Share(now, id)
	}
}
