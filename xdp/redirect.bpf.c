/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Takes the frames that a filter names to the AF_XDP socket of the queue they came in on, and leaves all others to
 * the host, whose own connections over the same device go on.
 *
 * The filter is constant data, set before the program is loaded: the verifier then knows every count and flag, and
 * removes what can't happen. A filter of one UDP port range costs what a program written for it would cost.
 */
#include "bpf.h"
#include "parse.h"

enum { OWN4 = 8, OWN6 = 16, MATCH4 = 8, MATCH6 = 8, ANSWER4 = 8, ANSWER6 = 8 };

/* config.take */
enum {
	/* Nothing but what `answer` names. */
	TAKE_NOTHING = 0,
	/* Every frame. */
	TAKE_ALL,
	/* Every frame but those for the host itself: its addresses are `own`. */
	TAKE_FOREIGN,
	/* By protocol, port and address. */
	TAKE_MATCH,
};

/* config.flags */
enum {
	/* Any port, and frames without one. */
	PORTS_ANY = 1 << 0,
	/* Any address. */
	ADDRESSES_ANY = 1 << 1,
	/* Any address, but destinations that are one host's only. */
	ADDRESSES_UNICAST = 1 << 2,
	/* Address and port may be the source's as well as the destination's. */
	EITHER = 1 << 3,
	/* Time of arrival in front of the frame, for the socket to read: u64 ns, CLOCK_MONOTONIC. */
	RX_TIMESTAMP = 1 << 4,
};

enum { PROTOCOL_ANY = 256 };

/* The loader's `Config` in crates/xsk/src/program/config.rs. */
struct config {
	u32 take;
	u32 flags;
	/* For TAKE_MATCH: the IP protocol, or PROTOCOL_ANY. */
	u32 protocol;
	u32 own4_count;
	u32 own6_count;
	u32 match4_count;
	u32 match6_count;
	u32 answer4_count;
	u32 answer6_count;
	be32 own4[OWN4];
	be32 match4[MATCH4];
	be32 answer4[ANSWER4];
	struct address6 own6[OWN6];
	struct address6 match6[MATCH6];
	struct address6 answer6[ANSWER6];
};

const volatile struct config CONFIG = {};
/* One bit a port, least significant first. */
const volatile u64 PORTS[1024] = {};

/* The reader's `Counters` in crates/xsk/src/program/counters.rs. */
struct counters {
	/* Given to a socket. The socket counts for itself what it had no room for. */
	u64 taken;
	/* Left to the host, because the filter says so. */
	u64 passed;
	/* The filter's, but left to the host: no socket at this queue. */
	u64 no_socket;
	/* The filter's, but left to the host: the driver has no room for the timestamp. */
	u64 no_metadata;
};

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u32);
} XSKMAP SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counters);
} COUNTERS SEC(".maps");

INLINE int same6(const volatile struct address6 *a, const struct address6 *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1] && a->word[2] == b->word[2] &&
	       a->word[3] == b->word[3];
}

#define LISTED4(list, room, address)                                                                                   \
	({                                                                                                             \
		int found = 0;                                                                                         \
		_Pragma("unroll") for (u32 i = 0; i < (room); i++) if (i < CONFIG.list##_count && CONFIG.list[i] == (address))                \
			found = 1;                                                                                     \
		found;                                                                                                 \
	})

#define LISTED6(list, room, address)                                                                                   \
	({                                                                                                             \
		int found = 0;                                                                                         \
		_Pragma("unroll") for (u32 i = 0; i < (room); i++) if (i < CONFIG.list##_count && same6(&CONFIG.list[i], (address)))          \
			found = 1;                                                                                     \
		found;                                                                                                 \
	})

INLINE int port_listed(be16 port)
{
	u32 number = swap16(port);

	return PORTS[(number >> 6) & 1023] >> (number & 63) & 1;
}

/* Whether a frame is for the host itself. */
INLINE int for_host(struct view *view, struct ipv4 *ip4, struct ipv6 *ip6)
{
	if (ip4)
		return LISTED4(own4, OWN4, ip4->destination);
	if (ip6) {
		struct neighbour *neighbour;

		if (LISTED6(own6, OWN6, &ip6->destination))
			return 1;
		/* Solicitations go to a group address (RFC 4291 section 2.7.1), and mean one host. */
		neighbour = parse_neighbour(view);
		return neighbour && neighbour->icmp.type == ICMPV6_NEIGHBOUR_SOLICITATION &&
		       LISTED6(own6, OWN6, &neighbour->target);
	}
	struct arp *arp = parse_arp(view);
	return arp && LISTED4(own4, OWN4, arp_target(arp));
}

/* Whether a frame resolves, or is an echo for, an address that the socket's owner answers for. */
INLINE int for_answer(struct view *view, struct ipv4 *ip4, struct ipv6 *ip6)
{
	if (ip4) {
		struct icmp *icmp = parse_icmp(view, PROTOCOL_ICMP);

		return icmp && (icmp->type == ICMP_ECHO || icmp->type == ICMP_ECHO_REPLY) &&
		       LISTED4(answer4, ANSWER4, ip4->destination);
	}
	if (ip6) {
		struct icmp *icmp = parse_icmp(view, PROTOCOL_ICMPV6);
		struct neighbour *neighbour;

		if (!icmp)
			return 0;
		if (icmp->type == ICMPV6_ECHO || icmp->type == ICMPV6_ECHO_REPLY)
			return LISTED6(answer6, ANSWER6, &ip6->destination);
		neighbour = parse_neighbour(view);
		/* An advertisement's target is who speaks: one that answers our own question is told by its destination. */
		return neighbour && (LISTED6(answer6, ANSWER6, &neighbour->target) ||
				     LISTED6(answer6, ANSWER6, &ip6->destination));
	}
	struct arp *arp = parse_arp(view);
	return arp && LISTED4(answer4, ANSWER4, arp_target(arp));
}

INLINE int address_matches(struct view *view, struct ipv4 *ip4, struct ipv6 *ip6)
{
	if (CONFIG.flags & ADDRESSES_ANY)
		return 1;
	if (CONFIG.flags & ADDRESSES_UNICAST) {
		if (view->group)
			return 0;
		/* Class D and above, with the broadcast address among them; RFC 4291 section 2.7. */
		return ip4 ? (ip4->destination & 0xff) < 224 : (ip6->destination.word[0] & 0xff) != 0xff;
	}
	if (ip4)
		return LISTED4(match4, MATCH4, ip4->destination) ||
		       ((CONFIG.flags & EITHER) && LISTED4(match4, MATCH4, ip4->source));
	return LISTED6(match6, MATCH6, &ip6->destination) ||
	       ((CONFIG.flags & EITHER) && LISTED6(match6, MATCH6, &ip6->source));
}

INLINE int matches(struct view *view, struct ipv4 *ip4, struct ipv6 *ip6)
{
	if (!ip4 && !ip6)
		return 0;
	if (CONFIG.protocol != PROTOCOL_ANY && CONFIG.protocol != view->protocol)
		return 0;
	if (!(CONFIG.flags & PORTS_ANY)) {
		struct ports *ports = parse_ports(view);

		if (!ports)
			return 0;
		if (!port_listed(ports->destination) && !((CONFIG.flags & EITHER) && port_listed(ports->source)))
			return 0;
	} else if (!view->l4) {
		/* A fragment: only the first would be told apart by what it carries, so none is taken. */
		return 0;
	}
	return address_matches(view, ip4, ip6);
}

INLINE int wanted(struct xdp_md *ctx)
{
	struct view view;
	struct ipv4 *ip4;
	struct ipv6 *ip6;

	if (CONFIG.take == TAKE_ALL)
		return 1;
	parse_ethernet(&view, (void *)(long)ctx->data, (void *)(long)ctx->data_end);
	ip4 = parse_ipv4(&view);
	ip6 = ip4 ? 0 : parse_ipv6(&view);
	if (CONFIG.take == TAKE_FOREIGN && !for_host(&view, ip4, ip6))
		return 1;
	if (CONFIG.take == TAKE_MATCH && matches(&view, ip4, ip6))
		return 1;
	return (CONFIG.answer4_count || CONFIG.answer6_count) && for_answer(&view, ip4, ip6);
}

/* Whether the time of arrival could be written. */
INLINE int stamp(struct xdp_md *ctx)
{
	u64 *time;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*time)))
		return 0;
	time = (void *)(long)ctx->data_meta;
	if ((void *)(time + 1) > (void *)(long)ctx->data)
		return 0;
	*time = bpf_ktime_get_ns();
	return 1;
}

INLINE int run(struct xdp_md *ctx)
{
	u32 key = 0;
	struct counters *counters = bpf_map_lookup_elem(&COUNTERS, &key);
	long action;

	/* Never: the array has an entry 0. */
	if (!counters)
		return XDP_PASS;
	if (!wanted(ctx)) {
		counters->passed++;
		return XDP_PASS;
	}
	if ((CONFIG.flags & RX_TIMESTAMP) && !stamp(ctx)) {
		counters->no_metadata++;
		return XDP_PASS;
	}
	action = bpf_redirect_map(&XSKMAP, ctx->rx_queue_index, XDP_PASS);
	if (action == XDP_REDIRECT)
		counters->taken++;
	else
		counters->no_socket++;
	return action;
}

SEC("xdp") int redirect(struct xdp_md *ctx)
{
	return run(ctx);
}

/* The same for frames of several buffers, which the kernel gives to programs of this section only. */
SEC("xdp.frags") int redirect_frags(struct xdp_md *ctx)
{
	return run(ctx);
}

/* bpf_ktime_get_ns is for programs under a licence that the GPL is compatible with. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
