//go:build ignore

// metaroced_xdp steers MetaRoCE packets into AF_XDP sockets and leaves all
// other traffic to the kernel, untouched.
//
// A packet is ours when it is UDP to udp_port, over IPv4 without options or
// fragmentation or over IPv6 without extension headers, behind at most two VLAN
// tags. Only headers are looked at, never written; everything behind the UDP
// header is checked in user space.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_VLAN_TAGS 2
#define MAX_QUEUES 1024

// The kernel's include/net/ip.h, which user space cannot include.
#define IP_MORE_FRAGMENTS 0x2000
#define IP_FRAGMENT_OFFSET 0x1fff

struct vlan_tag {
	__be16 control;
	__be16 inner_type;
};

// What became of a packet. The index into `counters`; bpf2go gives it to Go.
enum verdict {
	VERDICT_STEERED,
	VERDICT_PASSED_TRUNCATED,
	VERDICT_PASSED_MALFORMED,
	VERDICT_PASSED_NOT_IP,
	VERDICT_PASSED_NOT_UDP,
	VERDICT_PASSED_OPTIONS,
	VERDICT_PASSED_FRAGMENT,
	VERDICT_PASSED_EXTENSION,
	VERDICT_PASSED_OTHER_PORT,
	VERDICT_PASSED_NO_SOCKET,
	VERDICT_COUNT,
};

// Host byte order; set before loading.
volatile const __u16 udp_port = 4797;

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} xsks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, VERDICT_COUNT);
	__type(key, enum verdict);
	__type(value, __u64);
} counters SEC(".maps");

// cursor walks the first buffer of a packet. All headers lie there, also when the
// packet has several buffers: drivers fill one before they take the next.
struct cursor {
	void *at;
	void *end;
};

// TAKE points header at the cursor and moves the cursor behind it; it is false when
// the packet ends first. A macro because the verifier wants a constant size; no NULL
// because comparing pointers with it would need CAP_PERFMON.
#define TAKE(cursor, header)                                            \
	((header) = (cursor)->at, (cursor)->at = (header) + 1,          \
	 (cursor)->at <= (cursor)->end)

static __always_inline enum verdict parse_udp(struct cursor *c)
{
	struct udphdr *udp;

	if (!TAKE(c, udp))
		return VERDICT_PASSED_TRUNCATED;
	if (udp->dest != bpf_htons(udp_port))
		return VERDICT_PASSED_OTHER_PORT;
	return VERDICT_STEERED;
}

static __always_inline enum verdict parse_ipv4(struct cursor *c)
{
	struct iphdr *ip;

	if (!TAKE(c, ip))
		return VERDICT_PASSED_TRUNCATED;
	if (ip->version != 4 || ip->ihl < 5)
		return VERDICT_PASSED_MALFORMED;
	if (ip->protocol != IPPROTO_UDP)
		return VERDICT_PASSED_NOT_UDP;
	if (ip->frag_off & bpf_htons(IP_MORE_FRAGMENTS | IP_FRAGMENT_OFFSET))
		return VERDICT_PASSED_FRAGMENT;
	if (ip->ihl > 5)
		return VERDICT_PASSED_OPTIONS;
	return parse_udp(c);
}

// is_extension tells IPv6 extension headers from upper-layer protocols
// (IANA, "IPv6 Extension Header Types").
static __always_inline int is_extension(__u8 next_header)
{
	switch (next_header) {
	case 0:   // hop-by-hop options
	case 43:  // routing
	case 44:  // fragment
	case 50:  // encapsulating security payload
	case 51:  // authentication
	case 60:  // destination options
	case 135: // mobility
	case 139: // host identity
	case 140: // shim6
		return 1;
	}
	return 0;
}

static __always_inline enum verdict parse_ipv6(struct cursor *c)
{
	struct ipv6hdr *ip;

	if (!TAKE(c, ip))
		return VERDICT_PASSED_TRUNCATED;
	if (ip->version != 6)
		return VERDICT_PASSED_MALFORMED;
	if (ip->nexthdr == IPPROTO_UDP)
		return parse_udp(c);
	if (is_extension(ip->nexthdr))
		return VERDICT_PASSED_EXTENSION;
	return VERDICT_PASSED_NOT_UDP;
}

static __always_inline enum verdict parse_frame(struct cursor *c)
{
	struct ethhdr *ethernet;
	__be16 type;

	if (!TAKE(c, ethernet))
		return VERDICT_PASSED_TRUNCATED;
	type = ethernet->h_proto;
#pragma unroll
	for (int i = 0; i < MAX_VLAN_TAGS; i++) {
		struct vlan_tag *tag;

		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		if (!TAKE(c, tag))
			return VERDICT_PASSED_TRUNCATED;
		type = tag->inner_type;
	}
	if (type == bpf_htons(ETH_P_IP))
		return parse_ipv4(c);
	if (type == bpf_htons(ETH_P_IPV6))
		return parse_ipv6(c);
	return VERDICT_PASSED_NOT_IP;
}

// count needs no atomic: a CPU runs one XDP program at a time.
static __always_inline void count(enum verdict verdict)
{
	__u64 *counter = bpf_map_lookup_elem(&counters, &verdict);

	if (counter)
		*counter += 1;
}

// "xdp.frags" lets packets of several buffers through, which veth with a large
// MTU and drivers with multi-buffer support hand over.
SEC("xdp.frags")
int metaroced_xdp(struct xdp_md *ctx)
{
	struct cursor c = {
		.at = (void *)(long)ctx->data,
		.end = (void *)(long)ctx->data_end,
	};
	enum verdict verdict = parse_frame(&c);
	long action = XDP_PASS;

	if (verdict == VERDICT_STEERED) {
		// The flags are the action for an empty slot; without them
		// such packets would be dropped.
		action = bpf_redirect_map(&xsks, ctx->rx_queue_index, XDP_PASS);
		if (action != XDP_REDIRECT)
			verdict = VERDICT_PASSED_NO_SOCKET;
	}
	count(verdict);
	return action;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
