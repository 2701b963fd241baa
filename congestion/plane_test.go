package congestion

import (
	"math/rand/v2"
	"testing"
)

const packet = 4096

func newPlane(cfg Config) *Plane {
	p := new(Plane)
	cfg.PacketBytes = packet
	p.Init(&cfg, 0)
	return p
}

// fill sends full packets while allowed, at most n.
func fill(p *Plane, now int64, n int) (sent int) {
	for sent < n && p.Allowed(now, packet) {
		p.OnSent(now, packet)
		sent++
	}
	return sent
}

// rounds acknowledges the whole flight once per RTT and fills the window anew.
func rounds(p *Plane, now, rtt int64, n int, cePerMille int64) int64 {
	for range n {
		fill(p, now, 1<<20)
		now += rtt
		packets := p.InFlight() / packet
		p.OnAck(now, Ack{Bytes: p.InFlight(), Packets: packets, CEPackets: packets * cePerMille / 1000, RTT: rtt, SRTT: rtt, MinRTT: rtt})
	}
	return now
}

func TestWindow(t *testing.T) {
	const rtt = 100 * us
	// 1 % of 32.768 Gb/s is one packet per 100 us.
	cfg := Config{LinkBitsPerSec: 32_768_000_000, InitialPackets: 4, MaxWindowBytes: 1024 * packet}
	for _, tc := range []struct {
		name     string
		cfg      func(*Config)
		act      func(p *Plane)
		min, max int64 // packets
	}{
		{"starts small", nil, func(*Plane) {}, 4, 4},
		{"doubles per round", nil, func(p *Plane) { rounds(p, 0, rtt, 5, 0) }, 128, 128},
		{"stops at the largest", nil, func(p *Plane) { rounds(p, 0, rtt, 12, 0) }, 1024, 1024},
		{"the first mark ends doubling", nil, func(p *Plane) {
			now := rounds(p, 0, rtt, 5, 0)
			now = rounds(p, now, rtt, 1, 100)
			rounds(p, now, rtt, 10, 0)
		}, 128 - 7 + 9, 128 - 6 + 12},
		{"a fully marked round halves", nil, func(p *Plane) {
			now := rounds(p, 0, rtt, 5, 0)
			rounds(p, now, rtt, 1, 1000)
		}, 64, 65},
		{"one path's marks of sixteen cost a thirty-second", nil, func(p *Plane) {
			now := rounds(p, 0, rtt, 5, 0)
			rounds(p, now, rtt, 1, 63)
		}, 124, 126},
		{"marks go on: below a packet", nil, func(p *Plane) { rounds(p, 0, rtt, 64, 1000) }, 0, 0},
		{"an application that sends little grows nothing", nil, func(p *Plane) {
			now := rounds(p, 0, rtt, 5, 0)
			for range 50 {
				p.OnSent(now, packet)
				now += rtt
				p.OnAck(now, Ack{Bytes: packet, Packets: 1, RTT: rtt, SRTT: rtt, MinRTT: rtt})
			}
		}, 128, 129},
		{"idling forgets", nil, func(p *Plane) {
			now := rounds(p, 0, rtt, 9, 0)
			p.OnSent(now+idleNanos+1, packet)
		}, 4, 4},
		{"a short pause does not", nil, func(p *Plane) {
			now := rounds(p, 0, rtt, 5, 0)
			p.OnSent(now+idleNanos/2, packet)
		}, 128, 128},
		{"doubling stops at twice the share's need", nil, func(p *Plane) {
			p.OnShare(0, 8_192_000_000, 16) // 250,000 packets/s
			now := int64(0)
			for range 400 {
				fill(p, now, 1<<20)
				now += rtt / 10
				p.OnShare(now, 8_192_000_000, 16)
				if n := min(p.InFlight()/packet, 25); n > 0 {
					p.OnAck(now, Ack{Bytes: n * packet, Packets: n, RTT: rtt, SRTT: rtt, MinRTT: rtt})
				}
			}
		}, 5, 2 * 250_000 * (rtt + rampSlackNanos) / nanosPerSec},
		{"delay above target shrinks by up to a quarter", func(c *Config) { c.DelayTargetNanos = 50 * us }, func(p *Plane) {
			now := rounds(p, 0, rtt, 5, 0)
			fill(p, now, 1<<20)
			p.OnAck(now+500*us, Ack{Bytes: p.InFlight(), Packets: 128, RTT: 500 * us, SRTT: rtt, MinRTT: rtt})
		}, (128 + 128) * 3 / 4, (128 + 128) * 85 / 100},
		{"delay is nothing without a target", nil, func(p *Plane) {
			now := rounds(p, 0, rtt, 5, 0)
			fill(p, now, 1<<20)
			p.OnAck(now+500*us, Ack{Bytes: p.InFlight(), Packets: 128, RTT: 500 * us, SRTT: rtt, MinRTT: rtt})
		}, 256, 256},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := cfg
			if tc.cfg != nil {
				tc.cfg(&c)
			}
			p := newPlane(c)
			tc.act(p)
			if w := p.Window() / packet; w < tc.min || w > tc.max {
				t.Errorf("window %d packets (%d bytes), want %d to %d", w, p.Window(), tc.min, tc.max)
			}
		})
	}
}

// lossyRounds loses a part of every flight, and marks a part of the rest.
func lossyRounds(p *Plane, now int64, n int, lostPerMille, cePerMille int64, rng *rand.Rand) int64 {
	const rtt = 100 * us
	for range n {
		packets := int64(fill(p, now, 1<<20))
		var lost, marked int64
		for range packets {
			if rng.Int64N(1000) < lostPerMille {
				lost++
			} else if rng.Int64N(1000) < cePerMille {
				marked++
			}
		}
		now += rtt
		p.OnAck(now, Ack{Bytes: (packets - lost) * packet, Packets: packets - lost, CEPackets: marked, RTT: rtt, SRTT: rtt, MinRTT: rtt})
		p.OnLoss(now, lost*packet, lost)
	}
	return now
}

func TestLoss(t *testing.T) {
	for _, tc := range []struct {
		name         string
		lost, ce     int64 // per mille
		rounds       int
		shrinkBeyond bool // beyond what the marks do
	}{
		{"none", 0, 0, 50, false},
		{"1 %", 10, 0, 50, false},
		{"10 %", 100, 0, 50, false},
		{"10 % with marks", 100, 5, 8, false},
		{"30 % alone", 300, 0, 50, false},
		{"30 % with marks", 300, 20, 8, true},
		{"70 % alone", 700, 0, 8, true},
		{"70 %, one round", 700, 0, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, uint64(tc.lost)))
			p := newPlane(Config{LinkBitsPerSec: 10 * gbps, MaxWindowBytes: 256 * packet})
			now := rounds(p, 0, 100*us, 7, 0)
			before := p.Window()
			lossyRounds(p, now, tc.rounds, tc.lost, tc.ce, rng)
			after := p.Window()
			if tc.shrinkBeyond && after > before*6/10 {
				t.Errorf("window %d after %d, want it to shrink", after, before)
			}
			if !tc.shrinkBeyond && after < before*9/10 {
				t.Errorf("window %d after %d, want it to stay", after, before)
			}
		})
	}
}

// The plane against a model that adds up: flight, window bounds, and never a
// deadlock: with nothing in flight a time comes at which a packet may go.
func TestPlaneProperties(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		cfg := Config{
			LinkBitsPerSec: 1 << (28 + rng.IntN(10)), MaxWindowBytes: packet << rng.IntN(12),
			InitialPackets: int64(rng.IntN(8)), DelayTargetNanos: int64(rng.IntN(2)) * 100 * us,
		}
		p := newPlane(cfg)
		now, flight := int64(0), int64(0)
		for step := range 20_000 {
			now += rng.Int64N(1 << rng.IntN(24))
			n := int64(0)
			if flight > 0 {
				n = 1 + rng.Int64N(flight)
			}
			switch rng.IntN(8) {
			case 0, 1, 2:
				flight += int64(fill(p, now, 1+rng.IntN(32)))
			case 3, 4:
				rtt := 1 + rng.Int64N(5*ms)
				flight -= n
				p.OnAck(now, Ack{Bytes: n * packet, Packets: n, CEPackets: rng.Int64N(n + 1), RTT: rtt * rng.Int64N(2), SRTT: rtt, MinRTT: rtt / 2})
			case 5:
				flight -= n
				p.OnLoss(now, n*packet, n)
			case 6:
				flight -= n
				p.OnRemoved(n * packet)
			case 7:
				p.OnShare(now, rng.Int64N(1<<rng.IntN(40)), rng.Int64N(20))
			}
			if p.InFlight() != flight*packet {
				t.Fatalf("seed %d step %d: in flight %d, want %d", seed, step, p.InFlight(), flight*packet)
			}
			if w := p.Window(); w < packet/minWindowFraction || w > p.cfg.MaxWindowBytes {
				t.Fatalf("seed %d step %d: window %d out of bounds", seed, step, w)
			}
			if flight == 0 {
				at := now
				for tries := 0; !p.Allowed(at, packet); tries++ {
					next := p.NextAllowed(at)
					if next == never || next <= at || tries > 64 {
						t.Fatalf("seed %d step %d: nothing in flight, refused at %d, next %d, try %d", seed, step, at, next, tries)
					}
					at = next
				}
			}
		}
	}
}

func TestWindowUnderOnePacketPaces(t *testing.T) {
	const rtt = 100 * us
	p := newPlane(Config{LinkBitsPerSec: 1_000_000})
	now := rounds(p, 0, rtt, 64, 1000)
	now = max(now, p.NextAllowed(now))
	if fill(p, now, 10) != 1 {
		t.Fatal("want exactly one packet in flight")
	}
	if got := p.NextAllowed(now); got != never {
		t.Errorf("with a packet in flight NextAllowed = %d, want never", got)
	}
	w := p.Window()
	p.OnRemoved(packet)
	want := now + rtt*packet/w
	if got := p.NextAllowed(now + 1); got < want-rtt || got > want+rtt {
		t.Errorf("next packet at %d us, want %d us: window %d bytes", got/us, want/us, w)
	}
	if p.Allowed(want-rtt, packet) || !p.Allowed(want+rtt, packet) {
		t.Error("Allowed disagrees with NextAllowed")
	}
}
