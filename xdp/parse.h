/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Headers of a frame, each checked against the end of the data before it is read.
 *
 * Ethernet II with up to two VLAN tags in the frame (IEEE 802.1Q, 802.1ad), IPv4 with options (RFC 791), IPv6 without
 * extension headers (RFC 8200), UDP (RFC 768), ARP for IPv4 over Ethernet (RFC 826), neighbour solicitation and
 * advertisement (RFC 4861). A frame that is none of these, or that ends too early, has `l3` or `l4` 0 and is passed to
 * the host by whoever asks for more than its Ethernet header.
 */
#ifndef XDP_PARSE_H
#define XDP_PARSE_H

#include "bpf.h"

enum {
	ETHERTYPE_IPV4 = 0x0800,
	ETHERTYPE_ARP = 0x0806,
	ETHERTYPE_VLAN = 0x8100,
	ETHERTYPE_SERVICE_VLAN = 0x88a8,
	ETHERTYPE_IPV6 = 0x86dd,
};

enum {
	PROTOCOL_ICMP = 1,
	PROTOCOL_TCP = 6,
	PROTOCOL_UDP = 17,
	PROTOCOL_ICMPV6 = 58,
	PROTOCOL_SCTP = 132,
};

enum {
	ICMP_ECHO_REPLY = 0,
	ICMP_ECHO = 8,
	ICMPV6_ECHO = 128,
	ICMPV6_ECHO_REPLY = 129,
	ICMPV6_NEIGHBOUR_SOLICITATION = 135,
	ICMPV6_NEIGHBOUR_ADVERTISEMENT = 136,
};

struct ethernet {
	u8 destination[6];
	u8 source[6];
	be16 type;
};

struct vlan {
	be16 control;
	be16 type;
};

struct ipv4 {
	u8 version_length;
	u8 tos;
	be16 total_length;
	be16 id;
	be16 fragment;
	u8 ttl;
	u8 protocol;
	u16 checksum;
	be32 source;
	be32 destination;
};

struct address6 {
	be32 word[4];
};

struct ipv6 {
	be32 version_class_label;
	be16 payload_length;
	u8 next_header;
	u8 hop_limit;
	struct address6 source;
	struct address6 destination;
};

struct ports {
	be16 source;
	be16 destination;
};

struct arp {
	be16 hardware;
	be16 protocol;
	u8 hardware_length;
	u8 protocol_length;
	be16 operation;
	u8 sender_mac[6];
	u8 sender_ip[4];
	u8 target_mac[6];
	u8 target_ip[4];
};

struct icmp {
	u8 type;
	u8 code;
	u16 checksum;
};

/* RFC 4861 sections 4.3 and 4.4: the target lies at the same place in both. */
struct neighbour {
	struct icmp icmp;
	be32 flags;
	struct address6 target;
};

/* Where in a frame what lies. */
struct view {
	void *end;
	/* The network header, or 0. */
	void *l3;
	/* What comes after it in the first or only fragment, or 0. */
	void *l4;
	/* Of the network header. */
	be16 type;
	/* The group bit of the destination's MAC address: multicast or broadcast. */
	u8 group;
	/* Of `l4`. */
	u8 protocol;
};

/*
 * Whether a header of this type lies at `at`. Kernels before 5.16, unless they have it backported, forget a number that
 * goes to the stack in 4 bytes: for them, with FOR_OLD_VERIFIERS, the compiler compares the pointer at each use, and
 * keeps no flag of an earlier comparison.
 */
#ifdef FOR_OLD_VERIFIERS
#define FITS(view, at, type)                                                                                           \
	({                                                                                                             \
		void *from = (at);                                                                                     \
		OPAQUE(from);                                                                                          \
		from && from + sizeof(type) <= (view)->end;                                                            \
	})
#else
#define FITS(view, at, type) ((at) && (at) + sizeof(type) <= (view)->end)
#endif

INLINE void parse_ethernet(struct view *view, void *data, void *end)
{
	struct ethernet *ethernet = data;
	void *next = data + sizeof(*ethernet);
	be16 type;

	view->end = end;
	view->l3 = 0;
	view->l4 = 0;
	view->type = 0;
	view->group = 0;
	view->protocol = 0;
	if (next > end)
		return;
	view->group = ethernet->destination[0] & 1;
	type = ethernet->type;
#pragma unroll
	for (int tags = 0; tags < 2; tags++) {
		struct vlan *vlan = next;

		if (type != BE16(ETHERTYPE_VLAN) && type != BE16(ETHERTYPE_SERVICE_VLAN))
			break;
		if (next + sizeof(*vlan) > end)
			return;
		type = vlan->type;
		next += sizeof(*vlan);
	}
	view->type = type;
	view->l3 = next;
}

/* The IPv4 header, or 0. Fragments have no `l4`: only the first would carry ports, and the others would go
 * elsewhere. */
INLINE struct ipv4 *parse_ipv4(struct view *view)
{
	struct ipv4 *ip = view->l3;
	u32 length;

	if (view->type != BE16(ETHERTYPE_IPV4) || !FITS(view, view->l3, struct ipv4))
		return 0;
	length = (ip->version_length & 0xf) * 4;
	if (ip->version_length >> 4 != 4 || length < sizeof(*ip))
		return 0;
	view->protocol = ip->protocol;
	/* More fragments, or an offset: RFC 791 section 3.1. */
	if (!(ip->fragment & BE16(0x3fff)))
		view->l4 = view->l3 + length;
	return ip;
}

/* The IPv6 header, or 0. An extension header is a protocol that nobody asks for, so that such frames pass. */
INLINE struct ipv6 *parse_ipv6(struct view *view)
{
	struct ipv6 *ip = view->l3;

	if (view->type != BE16(ETHERTYPE_IPV6) || !FITS(view, view->l3, struct ipv6))
		return 0;
	if ((ip->version_class_label & 0xf0) != 0x60)
		return 0;
	view->protocol = ip->next_header;
	view->l4 = view->l3 + sizeof(*ip);
	return ip;
}

/* The ARP body, or 0. */
INLINE struct arp *parse_arp(struct view *view)
{
	struct arp *arp = view->l3;

	if (view->type != BE16(ETHERTYPE_ARP) || !FITS(view, view->l3, struct arp))
		return 0;
	if (arp->hardware != BE16(1) || arp->protocol != BE16(ETHERTYPE_IPV4) || arp->hardware_length != 6 ||
	    arp->protocol_length != 4)
		return 0;
	return arp;
}

INLINE be32 arp_target(const struct arp *arp)
{
	return arp->target_ip[0] | arp->target_ip[1] << 8 | arp->target_ip[2] << 16 | (be32)arp->target_ip[3] << 24;
}

/* The ICMP or ICMPv6 header, or 0. */
INLINE struct icmp *parse_icmp(struct view *view, u8 protocol)
{
	if (view->protocol != protocol || !FITS(view, view->l4, struct icmp))
		return 0;
	return view->l4;
}

/* The body of a neighbour solicitation or advertisement, or 0. */
INLINE struct neighbour *parse_neighbour(struct view *view)
{
	struct neighbour *neighbour = view->l4;

	if (view->protocol != PROTOCOL_ICMPV6 || !FITS(view, view->l4, struct neighbour))
		return 0;
	if (neighbour->icmp.type != ICMPV6_NEIGHBOUR_SOLICITATION &&
	    neighbour->icmp.type != ICMPV6_NEIGHBOUR_ADVERTISEMENT)
		return 0;
	return neighbour;
}

/* The ports of UDP, TCP and SCTP, or 0. */
INLINE struct ports *parse_ports(struct view *view)
{
	if (view->protocol != PROTOCOL_UDP && view->protocol != PROTOCOL_TCP && view->protocol != PROTOCOL_SCTP)
		return 0;
	if (!FITS(view, view->l4, struct ports))
		return 0;
	return view->l4;
}

#endif
