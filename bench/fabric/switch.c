//go:build ignore

// fabric_switch is the lab's switch: one instance on every port, that is on the
// switch's end of every veth pair. Port 2p leads to host a and port 2p+1 to host b
// on plane p, and what comes in on one leaves on the other.
//
// UDP packets to transport_port are counted and, where the port's configuration
// says so, damaged. Everything else (ARP, neighbour discovery, ping, other UDP) is
// forwarded as it is. The lab has no VLANs, IPv4 options or extension headers, so
// such packets are other traffic.
//
// # Order
//
// A packet meets, at most once each and in this order: black hole, drop, rate
// limit, CE mark, corruption, hold-back, duplication. What an earlier step removed
// does not meet the later ones; counters.go computes observed shares accordingly.
//
// # Rate limit
//
// A virtual queue measured in time, as in a Generic Cell Rate Algorithm (ITU-T
// I.371): busy_until is when the plane would have sent all it has accepted. The
// backlog is busy_until - now, or nothing when that is past. A packet that finds
// more than drop_backlog_ns is dropped; one that finds more than mark_backlog_ns is
// CE-marked if it is ECT; accepted ones add their time on the wire, which includes
// preamble, frame check sequence and inter-frame gap. Packets are never delayed:
// what is accepted arrives at once, so a sender sees loss and marks of a slow plane
// but not its queueing delay.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_PORTS 16

// Preamble and start of frame 8, frame check sequence 4, inter-frame gap 12.
#define WIRE_OVERHEAD 24

#define MAX_HELD_FRAME 4088
#define HOLD_RING_BYTES (8 << 20)

#define ECN_MASK 3
#define ECN_CE 3

#define IP_MORE_FRAGMENTS 0x2000
#define IP_FRAGMENT_OFFSET 0x1fff

#define ALWAYS_INLINE static __always_inline

// When an impairment hits: by schedule when period is not 0, else by probability.
struct chance {
	__u64 probability; // in 1/2^32: 0 never, 2^32 always
	__u64 pattern;     // bit i: hit the packet at position i of each period
	__u32 period;      // packets; positions from 64 on are never hit
	__u32 unused;
};

struct port_config {
	__u32 impaired;   // 0: forward without looking at anything below
	__u32 black_hole; // drop everything, ARP too
	__u64 wire_ns_per_byte; // in 1/2^16; 0: no rate limit
	__u64 mark_backlog_ns;
	__u64 drop_backlog_ns;
	struct chance drop;
	struct chance mark;
	struct chance corrupt;
	struct chance hold;
	struct chance duplicate;
};

// What packets of one port share across CPUs. Only touched by a rate limit and by
// schedules.
struct port_state {
	struct bpf_spin_lock lock; // of busy_until
	__u32 unused;
	__u64 busy_until;
	// Packets that met each schedule; atomic.
	__u64 drop_sequence;
	__u64 mark_sequence;
	__u64 corrupt_sequence;
	__u64 hold_sequence;
	__u64 duplicate_sequence;
};

// Packets to transport_port that came in on the port, but for other_frames.
struct port_counters {
	__u64 packets;
	__u64 bytes;
	__u64 forwarded; // handed to the other port or to hold-back
	__u64 black_holed;
	__u64 dropped;
	__u64 rate_dropped;
	__u64 rate_marked;
	__u64 not_ect; // met the mark but may not be marked
	__u64 marked;
	__u64 corrupted;
	__u64 held;
	__u64 hold_missed; // forwarded because no room was left to hold it
	__u64 duplicated;
	__u64 other_frames;
};

// A frame on its way to the process that re-injects it on the other port.
struct held_frame {
	__u32 port; // it came in on
	__u16 length;
	__u16 copies;
	__u8 frame[MAX_HELD_FRAME];
};

// Host byte order; set before loading.
volatile const __u16 transport_port = 4797;

// Port n has interface index first_ifindex + n, so that finding the port costs a
// subtraction. Set before loading.
volatile const __u32 first_ifindex = 2;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, struct port_config);
} configs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, struct port_state);
} states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, struct port_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");

// For each port a map that lists it twice: XDP cannot clone a packet but by
// broadcasting it.
struct twice {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__array(values, struct twice);
} doubled SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, HOLD_RING_BYTES);
} held SEC(".maps");

// What parse found. No pointers: clang would merge those of the two IP versions,
// which the verifier does not follow.
struct packet {
	__u32 is_ipv6;
	__u32 payload_offset;
	__u32 payload_bytes; // as the UDP header announces
};

ALWAYS_INLINE int parse_udp(struct packet *p, void *at, void *end, __u32 offset)
{
	struct udphdr *udp = at;
	__u16 bytes;

	if ((void *)(udp + 1) > end || udp->dest != bpf_htons(transport_port))
		return 0;
	bytes = bpf_ntohs(udp->len);
	p->payload_offset = offset + sizeof(*udp);
	p->payload_bytes = bytes > sizeof(*udp) ? bytes - sizeof(*udp) : 0;
	return 1;
}

// parse tells packets of the transport from other traffic.
ALWAYS_INLINE int parse(struct packet *p, struct xdp_md *ctx)
{
	void *at = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = at;

	if ((void *)(ethernet + 1) > end)
		return 0;
	at = ethernet + 1;
	if (ethernet->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = at;

		if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl != 5 || ip->protocol != IPPROTO_UDP ||
		    ip->frag_off & bpf_htons(IP_MORE_FRAGMENTS | IP_FRAGMENT_OFFSET))
			return 0;
		return parse_udp(p, ip + 1, end, sizeof(*ethernet) + sizeof(*ip));
	}
	if (ethernet->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = at;

		if ((void *)(ip + 1) > end || ip->version != 6 || ip->nexthdr != IPPROTO_UDP)
			return 0;
		p->is_ipv6 = 1;
		return parse_udp(p, ip + 1, end, sizeof(*ethernet) + sizeof(*ip));
	}
	return 0;
}

// hits draws whether a packet meets an impairment.
ALWAYS_INLINE int hits(struct chance *chance, __u64 *sequence)
{
	if (chance->period) {
		__u64 position = __sync_fetch_and_add(sequence, 1) % chance->period;

		return position < 64 && (chance->pattern >> position & 1);
	}
	return chance->probability && bpf_get_prandom_u32() < chance->probability;
}

ALWAYS_INLINE int is_ect(struct xdp_md *ctx, struct packet *p)
{
	struct ethhdr *ethernet = (void *)(long)ctx->data;
	struct iphdr *ipv4 = (void *)(ethernet + 1);
	struct ipv6hdr *ipv6 = (void *)(ethernet + 1);

	if ((void *)(ipv4 + 1) > (void *)(long)ctx->data_end)
		return 0; // not so: parse has looked
	if (p->is_ipv6)
		return ipv6->flow_lbl[0] >> 4 & ECN_MASK;
	return ipv4->tos & ECN_MASK;
}

// mark_ce sets the ECN field to CE. An IPv4 checksum follows by RFC 1624 equation 3;
// the UDP checksum does not cover the field in either version.
ALWAYS_INLINE void mark_ce(struct xdp_md *ctx, struct packet *p)
{
	struct ethhdr *ethernet = (void *)(long)ctx->data;
	struct iphdr *ipv4 = (void *)(ethernet + 1);
	struct ipv6hdr *ipv6 = (void *)(ethernet + 1);
	__u32 sum;

	if ((void *)(ipv4 + 1) > (void *)(long)ctx->data_end)
		return; // not so: parse has looked
	if (p->is_ipv6) {
		ipv6->flow_lbl[0] |= ECN_CE << 4;
		return;
	}
	// The ToS is the low byte of a 16-bit word and CE only sets bits in it, so
	// the word grows by the difference.
	sum = (__u16)~bpf_ntohs(ipv4->check);
	sum += ECN_CE - (ipv4->tos & ECN_MASK);
	sum = (sum & 0xffff) + (sum >> 16);
	ipv4->check = bpf_htons((__u16)~sum);
	ipv4->tos |= ECN_CE;
}

enum rate_verdict { RATE_PASS, RATE_MARK, RATE_DROP };

ALWAYS_INLINE enum rate_verdict meet_rate(struct port_config *config, struct port_state *state, __u64 frame_bytes)
{
	__u64 wire_ns = (frame_bytes + WIRE_OVERHEAD) * config->wire_ns_per_byte >> 16;
	__u64 now = bpf_ktime_get_ns();
	__u64 backlog = 0;

	bpf_spin_lock(&state->lock);
	if (state->busy_until > now)
		backlog = state->busy_until - now;
	if (backlog <= config->drop_backlog_ns)
		state->busy_until = now + backlog + wire_ns;
	bpf_spin_unlock(&state->lock);
	if (backlog > config->drop_backlog_ns)
		return RATE_DROP;
	return backlog > config->mark_backlog_ns ? RATE_MARK : RATE_PASS;
}

// corrupt flips one bit of the UDP payload and says whether there was one to flip.
ALWAYS_INLINE int corrupt(struct xdp_md *ctx, struct packet *p)
{
	__u32 bit, offset;
	__u8 byte;

	if (p->payload_bytes == 0)
		return 0;
	bit = bpf_get_prandom_u32() % (p->payload_bytes * 8);
	offset = p->payload_offset + bit / 8;
	if (bpf_xdp_load_bytes(ctx, offset, &byte, 1))
		return 0;
	byte ^= 1 << (bit & 7);
	return bpf_xdp_store_bytes(ctx, offset, &byte, 1) == 0;
}

// hold gives a copy of the frame to user space and says whether there was room.
ALWAYS_INLINE int hold(struct xdp_md *ctx, __u32 port, __u64 frame_bytes, __u16 copies)
{
	struct held_frame *record;

	if (frame_bytes == 0 || frame_bytes > MAX_HELD_FRAME)
		return 0;
	record = bpf_ringbuf_reserve(&held, sizeof(*record), 0);
	if (!record)
		return 0;
	record->port = port;
	record->length = frame_bytes;
	record->copies = copies;
	if (bpf_xdp_load_bytes(ctx, 0, record->frame, frame_bytes)) {
		bpf_ringbuf_discard(record, 0);
		return 0;
	}
	bpf_ringbuf_submit(record, 0);
	return 1;
}

ALWAYS_INLINE long forward_twice(__u32 to)
{
	void *both = bpf_map_lookup_elem(&doubled, &to);

	if (!both)
		return XDP_ABORTED;
	return bpf_redirect_map(both, 0, BPF_F_BROADCAST);
}

ALWAYS_INLINE long impair(struct xdp_md *ctx, struct packet *p, struct port_config *config,
			  struct port_counters *count, __u32 port)
{
	__u64 frame_bytes = bpf_xdp_get_buff_len(ctx);
	struct port_state *state = bpf_map_lookup_elem(&states, &port);
	int ect, held_back, twice;

	if (!state)
		return XDP_ABORTED;
	if (hits(&config->drop, &state->drop_sequence)) {
		count->dropped++;
		return XDP_DROP;
	}
	ect = is_ect(ctx, p);
	if (config->wire_ns_per_byte) {
		switch (meet_rate(config, state, frame_bytes)) {
		case RATE_DROP:
			count->rate_dropped++;
			return XDP_DROP;
		case RATE_MARK:
			if (ect) {
				mark_ce(ctx, p);
				count->rate_marked++;
			}
			break;
		case RATE_PASS:
			break;
		}
	}
	if (!ect)
		count->not_ect++;
	else if (hits(&config->mark, &state->mark_sequence)) {
		mark_ce(ctx, p);
		count->marked++;
	}
	if (hits(&config->corrupt, &state->corrupt_sequence))
		count->corrupted += corrupt(ctx, p);
	count->forwarded++;
	held_back = hits(&config->hold, &state->hold_sequence);
	twice = hits(&config->duplicate, &state->duplicate_sequence);
	count->duplicated += twice;
	if (held_back) {
		if (hold(ctx, port, frame_bytes, 1 + twice)) {
			count->held++;
			return XDP_DROP;
		}
		count->hold_missed++;
	}
	if (twice)
		return forward_twice(port ^ 1);
	return bpf_redirect_map(&ports, port ^ 1, XDP_ABORTED);
}

SEC("xdp.frags")
int fabric_switch(struct xdp_md *ctx)
{
	__u32 port = ctx->ingress_ifindex - first_ifindex;
	struct port_config *config = bpf_map_lookup_elem(&configs, &port);
	struct port_counters *count = bpf_map_lookup_elem(&counters, &port);
	struct packet packet = {};

	if (!config || !count)
		return XDP_ABORTED;
	if (!parse(&packet, ctx)) {
		count->other_frames++;
		if (config->black_hole)
			return XDP_DROP;
		return bpf_redirect_map(&ports, port ^ 1, XDP_ABORTED);
	}
	count->packets++;
	count->bytes += ctx->data_end - ctx->data;
	if (!config->impaired) {
		count->forwarded++;
		return bpf_redirect_map(&ports, port ^ 1, XDP_ABORTED);
	}
	if (config->black_hole) {
		count->black_holed++;
		return XDP_DROP;
	}
	return impair(ctx, &packet, config, count, port);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
