/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Walks over the headers of a packet to its innermost payload, as crates/wire/src/tagged/payload.rs does, step by step.
 * Each step is a function that the verifier follows once, so that a long walk costs it little.
 */
#ifndef XDP_WALK_H
#define XDP_WALK_H

#include "run.h"
#include "tagged.h"
#include "udp.h"

/* Most headers that are walked over, each VLAN tag and MPLS label being one. */
enum { MOST_HEADERS = 64, MOST_GTPU_HEADERS = 8 };

enum { ETHERTYPE_BRIDGED = 0x6558, PPP_MPLS = 0x0281 };

enum {
	PROTOCOL_IGMP = 2,
	PROTOCOL_IPV4 = 4,
	PROTOCOL_IPV6 = 41,
	PROTOCOL_GRE = 47,
	PROTOCOL_MPLS = 137,
	PROTOCOL_ETHERNET = 143,
};

enum { PORT_VXLAN = 4789, PORT_GENEVE = 6081, PORT_GTPU = 2152, PORT_MPLS = 6635 };

/* Kind of header that comes next. */
enum next {
	NEXT_ETHERNET,
	/* Of this EtherType. */
	NEXT_TYPE,
	/* IP of the version that its first bits name. */
	NEXT_IP,
	/* Of this protocol of IP. */
	NEXT_PROTOCOL,
	NEXT_PAYLOAD,
};

struct walk {
	u64 at;
	u32 next;
	/* EtherType, in host byte order, or protocol. */
	u32 value;
};

/* One byte or two at an offset, as a number; negative if they are not there. */
GLOBAL int number_at(struct xdp_md *ctx, u64 at, u32 two)
{
	u8 bytes[2] = {};

	if (at > 0xffff || (two ? bpf_xdp_load_bytes(ctx, at, bytes, 2) : bpf_xdp_load_bytes(ctx, at, bytes, 1)))
		return -1;
	return two ? bytes[0] << 8 | bytes[1] : bytes[0];
}

/* Puts a number of the frame into `to`, or ends the function: the frame is too short. */
#define BYTE(to, offset)                                                                                               \
	do {                                                                                                           \
		to = number_at(ctx, offset, 0);                                                                        \
		if (to < 0)                                                                                            \
			return 0;                                                                                      \
	} while (0)
#define WORD(to, offset)                                                                                               \
	do {                                                                                                           \
		to = number_at(ctx, offset, 1);                                                                        \
		if (to < 0)                                                                                            \
			return 0;                                                                                      \
	} while (0)

INLINE int goes_on(struct walk *w, u64 at, u32 next, u32 value)
{
	w->at = at;
	w->next = next;
	w->value = value;
	return 1;
}

/* Whether packets of tunnels have this UDP port, in host byte order. */
INLINE int is_tunnel(u32 port)
{
	return port == PORT_VXLAN || port == PORT_GENEVE || port == PORT_GTPU || port == PORT_MPLS;
}

GLOBAL int behind_type(struct xdp_md *ctx, struct walk *w)
{
	int one, two;

	if (!w)
		return 0;
	switch (w->value) {
	case ETHERTYPE_IPV4:
	case ETHERTYPE_IPV6:
		return goes_on(w, w->at, NEXT_IP, 0);
	case ETHERTYPE_VLAN:
	case ETHERTYPE_SERVICE_VLAN:
		WORD(one, w->at + 2);
		return goes_on(w, w->at + 4, NEXT_TYPE, one);
	case ETHERTYPE_MPLS:
	case ETHERTYPE_MPLS_UPSTREAM:
		BYTE(one, w->at + 2);
		return goes_on(w, w->at + 4, one & 1 ? NEXT_IP : NEXT_TYPE, ETHERTYPE_MPLS);
	case ETHERTYPE_PPPOE:
		WORD(one, w->at + 6);
		if (one == PPP_IPV4 || one == PPP_IPV6)
			return goes_on(w, w->at + 8, NEXT_IP, 0);
		return one == PPP_MPLS && goes_on(w, w->at + 8, NEXT_TYPE, ETHERTYPE_MPLS);
	case ETHERTYPE_BRIDGED:
		return goes_on(w, w->at, NEXT_ETHERNET, 0);
	case ETHERTYPE_ARP:
		BYTE(one, w->at + 4);
		BYTE(two, w->at + 5);
		return goes_on(w, w->at + 8 + 2 * (one + two), NEXT_PAYLOAD, 0);
	}
	return 0;
}

/* One extension header of IPv6: 0 if there is none behind it that can be read, 2 if no other is to follow. */
GLOBAL int behind_extension(struct xdp_md *ctx, struct walk *w)
{
	int next, length, word;

	if (!w)
		return 0;
	if (!is_extension(w->value))
		return 2;
	/* The whole of its first eight bytes is there. */
	BYTE(word, w->at + 7);
	BYTE(next, w->at);
	BYTE(length, w->at + 1);
	WORD(word, w->at + 2);
	if (w->value == PROTOCOL_FRAGMENT) {
		/* RFC 8200 section 4.5: the offset is in the upper 13 bits. */
		if (word & 0xfff8)
			return 0;
		length = 8;
	} else {
		length = w->value == PROTOCOL_AUTHENTICATION ? (length + 2) * 4 : (length + 1) * 8;
	}
	return goes_on(w, w->at + length, NEXT_PROTOCOL, next);
}

GLOBAL int behind_ip(struct xdp_md *ctx, struct walk *w)
{
	int first, word, protocol;

	if (!w)
		return 0;
	BYTE(first, w->at);
	if (first >> 4 == 4) {
		WORD(word, w->at + 6);
		BYTE(protocol, w->at + 9);
		return (first & 0xf) >= 5 && !(word & 0x1fff) &&
		       goes_on(w, w->at + (first & 0xf) * 4, NEXT_PROTOCOL, protocol);
	}
	if (first >> 4 != 6)
		return 0;
	BYTE(protocol, w->at + 6);
	goes_on(w, w->at + sizeof(struct ipv6), NEXT_PROTOCOL, protocol);
	for (u32 walked = 0; walked <= MAX_EXTENSION_HEADERS; walked++) {
		int more = behind_extension(ctx, w);

		if (more != 1)
			return more == 2;
	}
	return 0;
}

/* 3GPP TS 29.281 section 5. */
GLOBAL int behind_gtpu(struct xdp_md *ctx, struct walk *w, u64 at)
{
	enum { G_PDU = 255 };
	int flags, word;

	if (!w)
		return 0;
	BYTE(word, at + 1);
	if (word != G_PDU)
		return 0;
	BYTE(flags, at);
	if (!(flags & 7))
		return goes_on(w, at + 8, NEXT_IP, 0);
	at += 12;
	if (!(flags & 4))
		return goes_on(w, at, NEXT_IP, 0);
	for (u32 i = 0; i < MOST_GTPU_HEADERS; i++) {
		/* The byte before is the type of this header: 0 if there is none. */
		BYTE(word, at - 1);
		if (!word)
			return goes_on(w, at, NEXT_IP, 0);
		BYTE(word, at);
		if (!word)
			return 0;
		at += word * 4;
	}
	return 0;
}

GLOBAL int behind_udp(struct xdp_md *ctx, struct walk *w)
{
	int port, other, word;
	u64 at;

	if (!w)
		return 0;
	at = w->at + sizeof(struct udp);
	WORD(port, w->at + 2);
	WORD(other, w->at);
	/* The ports of a packet that was returned are exchanged. */
	if (!is_tunnel(port))
		port = other;
	switch (port) {
	case PORT_VXLAN:
		return goes_on(w, at + 8, NEXT_ETHERNET, 0);
	case PORT_GENEVE:
		/* RFC 8926 section 3.4. */
		BYTE(other, at);
		WORD(word, at + 2);
		return goes_on(w, at + 8 + (other & 0x3f) * 4, NEXT_TYPE, word);
	case PORT_GTPU:
		return behind_gtpu(ctx, w, at);
	case PORT_MPLS:
		return goes_on(w, at, NEXT_TYPE, ETHERTYPE_MPLS);
	}
	return goes_on(w, at, NEXT_PAYLOAD, 0);
}

GLOBAL int behind_protocol(struct xdp_md *ctx, struct walk *w)
{
	int one, two;

	if (!w)
		return 0;
	switch (w->value) {
	case PROTOCOL_UDP:
		return behind_udp(ctx, w);
	case PROTOCOL_TCP:
		BYTE(one, w->at + 12);
		return one >> 4 >= 5 && goes_on(w, w->at + (one >> 4) * 4, NEXT_PAYLOAD, 0);
	case PROTOCOL_SCTP:
		/* Common header, and the header of a DATA chunk (RFC 9260 section 3.3.1). */
		BYTE(one, w->at + 12);
		return !one && goes_on(w, w->at + 12 + 16, NEXT_PAYLOAD, 0);
	case PROTOCOL_ICMP:
	case PROTOCOL_ICMPV6:
	case PROTOCOL_IGMP:
		return goes_on(w, w->at + 8, NEXT_PAYLOAD, 0);
	case PROTOCOL_IPV4:
	case PROTOCOL_IPV6:
		return goes_on(w, w->at, NEXT_IP, 0);
	case PROTOCOL_GRE:
		/* RFC 2784 section 2, and RFC 2890: checksum, key and sequence number. */
		WORD(one, w->at);
		WORD(two, w->at + 2);
		if (one & 7)
			return 0;
		return goes_on(w, w->at + 4 + 4 * (!!(one & 0x8000) + !!(one & 0x2000) + !!(one & 0x1000)), NEXT_TYPE,
			       two);
	case PROTOCOL_MPLS:
		return goes_on(w, w->at, NEXT_TYPE, ETHERTYPE_MPLS);
	case PROTOCOL_ETHERNET:
		return goes_on(w, w->at, NEXT_ETHERNET, 0);
	}
	return 0;
}

/* Walks over one header; 0: what it is, or what follows, is not known. */
GLOBAL int walk_step(struct xdp_md *ctx, struct walk *w)
{
	int type;

	if (!w)
		return 0;
	switch (w->next) {
	case NEXT_ETHERNET:
		WORD(type, w->at + 12);
		return goes_on(w, w->at + 14, NEXT_TYPE, type);
	case NEXT_TYPE:
		return behind_type(ctx, w);
	case NEXT_IP:
		return behind_ip(ctx, w);
	case NEXT_PROTOCOL:
		return behind_protocol(ctx, w);
	}
	return 0;
}

/* Whether a packet whose IP header is at `at` carries SCTP, itself or in a tunnel. */
GLOBAL int carries_sctp(struct xdp_md *ctx, u64 at)
{
	struct walk w = { .at = at, .next = NEXT_IP };

	for (u32 i = 0; i < MOST_HEADERS; i++) {
		if (w.next == NEXT_PROTOCOL && w.value == PROTOCOL_SCTP)
			return 1;
		if (!walk_step(ctx, &w))
			return 0;
	}
	return 0;
}

/* Where the innermost payload of a frame begins; negative if a header is not known, or ends beyond the frame. */
GLOBAL int payload_start(struct xdp_md *ctx)
{
	struct walk w = { .next = NEXT_ETHERNET };

	for (u32 i = 0; i < MOST_HEADERS; i++) {
		if (w.next == NEXT_PAYLOAD)
			return w.at <= bpf_xdp_get_buff_len(ctx) ? (int)w.at : -1;
		if (!walk_step(ctx, &w))
			return -1;
	}
	return -1;
}

/* Reads the tag of a frame; 0 if it has none of this run's seed. */
GLOBAL int find_tag(struct xdp_md *ctx, struct tag *tag)
{
	struct bytes frame = { .xdp = ctx, .in = SEVERAL_BUFFERS };

	return tag && read_tag(frame, PLAN.seed, tag);
}

/* Whether a frame reports an error (ICMP). `l3`: its outermost IP header; 0: it has none. */
GLOBAL int is_icmp_error(struct xdp_md *ctx, u64 l3)
{
	int first, protocol, type;

	if (!l3)
		return 0;
	BYTE(first, l3);
	if (first >> 4 == 4) {
		BYTE(protocol, l3 + 9);
		WORD(type, l3 + (first & 0xf) * 4);
	} else {
		BYTE(protocol, l3 + 6);
		WORD(type, l3 + sizeof(struct ipv6));
	}
	type >>= 8;
	if (protocol == PROTOCOL_ICMP)
		return type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
	return protocol == PROTOCOL_ICMPV6 && type >= 1 && type <= 4;
}

#endif
