/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which frames a program takes from the host, for AF_XDP sockets and for forwarders alike. crates/wire's `TakeFilter`
 * means the same.
 */
#ifndef XDP_TAKE_H
#define XDP_TAKE_H

#include "bpf.h"
#include "parse.h"
#include "within.h"

enum { OWN4 = 8, OWN6 = 16, MATCH4 = 8, MATCH6 = 8, ANSWER4 = 8, ANSWER6 = 8 };

/* filter.take */
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

/* filter.flags */
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

/* Counts and lists are constant data: the verifier removes what a run's don't use. */
struct take_filter {
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
	u32 reserved;
	/* More of `match` and `answer`, from one address to another. */
	struct within match_within;
	struct within answer_within;
};

INLINE int same6(const volatile struct address6 *a, const struct address6 *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1] && a->word[2] == b->word[2] &&
	       a->word[3] == b->word[3];
}

#define FILTER const volatile struct take_filter *filter

#define LISTED4(list, room, address) \
	({                                                                                                             \
		int found = 0;                                                                                         \
		_Pragma("unroll") for (u32 i = 0; i < (room); i++) if (i < filter->list##_count && filter->list[i] == (address)) \
			found = 1;                                                                                     \
		found;                                                                                                 \
	})

#define LISTED6(list, room, address) \
	({                                                                                                             \
		int found = 0;                                                                                         \
		_Pragma("unroll") for (u32 i = 0; i < (room); i++) \
		if (i < filter->list##_count && same6(&filter->list[i], (address))) \
			found = 1;                                                                                     \
		found;                                                                                                 \
	})

/* The same, or within the range beside a list. */
#define MATCHED4(address) (LISTED4(match4, MATCH4, *(address)) || is_within(&filter->match_within, (address), 0))
#define MATCHED6(address) (LISTED6(match6, MATCH6, (address)) || is_within(&filter->match_within, (address), 1))
#define ANSWERED4(address) (LISTED4(answer4, ANSWER4, *(address)) || is_within(&filter->answer_within, (address), 0))
#define ANSWERED6(address) (LISTED6(answer6, ANSWER6, (address)) || is_within(&filter->answer_within, (address), 1))

INLINE int port_listed(const volatile u64 *ports, be16 port)
{
	u32 number = swap16(port);

	return ports[(number >> 6) & 1023] >> (number & 63) & 1;
}

/* Whether a frame is for the host itself. */
INLINE int for_host(FILTER, struct view *view, struct ipv4 *ip4, struct ipv6 *ip6)
{
	OPAQUE(ip4);
	OPAQUE(ip6);
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
INLINE int for_answer(FILTER, struct view *view, struct ipv4 *ip4, struct ipv6 *ip6)
{
	OPAQUE(ip4);
	OPAQUE(ip6);
	if (ip4) {
		struct icmp *icmp = parse_icmp(view, PROTOCOL_ICMP);

		return icmp && (icmp->type == ICMP_ECHO || icmp->type == ICMP_ECHO_REPLY) &&
		       ANSWERED4(&ip4->destination);
	}
	if (ip6) {
		struct icmp *icmp = parse_icmp(view, PROTOCOL_ICMPV6);
		struct neighbour *neighbour;

		if (!icmp)
			return 0;
		if (icmp->type == ICMPV6_ECHO || icmp->type == ICMPV6_ECHO_REPLY)
			return ANSWERED6(&ip6->destination);
		neighbour = parse_neighbour(view);
		/* An advertisement's target is who speaks: one that answers our own question is told by its destination. */
		return neighbour && (ANSWERED6(&neighbour->target) || ANSWERED6(&ip6->destination));
	}
	struct arp *arp = parse_arp(view);
	be32 target;
	if (!arp)
		return 0;
	target = arp_target(arp);
	return ANSWERED4(&target);
}

INLINE int address_matches(FILTER, struct view *view, struct ipv4 *ip4, struct ipv6 *ip6)
{
	if (filter->flags & ADDRESSES_ANY)
		return 1;
	OPAQUE(ip4);
	OPAQUE(ip6);
	if (filter->flags & ADDRESSES_UNICAST) {
		if (view->group)
			return 0;
		/* Class D and above, with the broadcast address among them; RFC 4291 section 2.7. */
		return ip4 ? (ip4->destination & 0xff) < 224 : ip6 && (ip6->destination.word[0] & 0xff) != 0xff;
	}
	if (ip4)
		return MATCHED4(&ip4->destination) || ((filter->flags & EITHER) && MATCHED4(&ip4->source));
	return ip6 && (MATCHED6(&ip6->destination) || ((filter->flags & EITHER) && MATCHED6(&ip6->source)));
}

INLINE int matches(FILTER, const volatile u64 *bits, struct view *view, struct ipv4 *ip4, struct ipv6 *ip6)
{
	if (!ip4 && !ip6)
		return 0;
	if (filter->protocol != PROTOCOL_ANY && filter->protocol != view->protocol)
		return 0;
	if (!(filter->flags & PORTS_ANY)) {
		struct ports *ports = parse_ports(view);

		if (!ports)
			return 0;
		if (!port_listed(bits, ports->destination) && !((filter->flags & EITHER) && port_listed(bits, ports->source)))
			return 0;
	} else if (!view->l4) {
		/* A fragment: only the first would be told apart by what it carries, so none is taken. */
		return 0;
	}
	return address_matches(filter, view, ip4, ip6);
}

/* Whether a frame is taken. `bits`: one a port, least significant first. */
INLINE int wanted(FILTER, const volatile u64 *bits, struct xdp_md *ctx)
{
	struct view view;
	struct ipv4 *ip4;
	struct ipv6 *ip6;

	if (filter->take == TAKE_ALL)
		return 1;
	parse_ethernet(&view, (void *)(long)ctx->data, (void *)(long)ctx->data_end);
	ip4 = parse_ipv4(&view);
	ip6 = ip4 ? 0 : parse_ipv6(&view);
	if (filter->take == TAKE_FOREIGN && !for_host(filter, &view, ip4, ip6))
		return 1;
	if (filter->take == TAKE_MATCH && matches(filter, bits, &view, ip4, ip6))
		return 1;
	return (filter->answer4_count || filter->answer6_count || filter->answer_within.count) &&
	       for_answer(filter, &view, ip4, ip6);
}

/* Whether a frame is taken because of `answer` alone. */
INLINE int answered(FILTER, struct xdp_md *ctx)
{
	struct view view;
	struct ipv4 *ip4;

	if (!filter->answer4_count && !filter->answer6_count && !filter->answer_within.count)
		return 0;
	parse_ethernet(&view, (void *)(long)ctx->data, (void *)(long)ctx->data_end);
	ip4 = parse_ipv4(&view);
	return for_answer(filter, &view, ip4, ip4 ? 0 : parse_ipv6(&view));
}

#endif
