/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Turns test packets round by their tag, whatever headers they have: crates/wire/src/reflect/tagged.rs says how.
 */
#ifndef XDP_TURN_TAGGED_H
#define XDP_TURN_TAGGED_H

#include "loops.h"
#include "walk.h"

/* Offset of the CRC32c in an SCTP header, and the bits of it that the mark changes. */
enum { CRC_OFFSET = 8 };
#define CRC_OF_MARK 0xb351abbc
/* The two mark bits, in the second four bytes of a tag. */
#define MARKS 0x00800080

/* Largest offset of an outermost IP header, behind all that may precede it, rounded up. */
enum { L3 = 127 };

/* Reads the outermost IP header, which must be right and end before the tag: 0, or the reason + 1. */
GLOBAL int read_outer(struct xdp_md *ctx, u64 l3, struct ip_packet *p)
{
	void *data = frame_data(ctx), *end = frame_end(ctx);
	u64 there = bpf_xdp_get_buff_len(ctx);
	u8 *first;
	int left;

	l3 &= L3;
	first = data + l3;
	if (!p || there < l3)
		LEAVE(LEFT_TOO_SHORT);
	there -= l3;
	p->l3 = l3;
	if ((void *)(first + 1) > end)
		LEAVE(LEFT_TOO_SHORT);
	p->v6 = *first >> 4 == 6;
	left = p->v6 ? find_ipv6(data, end, there, l3, p, ctx->rx_queue_index, 1) :
		       find_ipv4(ctx, data, end, there, l3, p, 1);
	if (left)
		return left;
	if (p->room < TAG)
		LEAVE(LEFT_TOO_SHORT);
	return 0;
}

/* Changes bits of four bytes at an offset, wherever they lie. */
GLOBAL int change_bits(struct xdp_md *ctx, u64 at, u32 bits)
{
	void *word = frame_data(ctx) + (at & OFFSET);
	u32 copy;

	OPAQUE(word);
	if (at <= OFFSET && word + sizeof(copy) <= frame_end(ctx)) {
		U32(word) ^= bits;
		return 0;
	}
	if (bpf_xdp_load_bytes(ctx, at, &copy, sizeof(copy)))
		return 0;
	copy ^= bits;
	return bpf_xdp_store_bytes(ctx, at, &copy, sizeof(copy));
}

/* Checks the addresses of the outermost IP header, and its ports, if `ports` has any, and turns all of it, and lowers
 * its time to live: 0, or the reason + 1, and the frame is as it was. */
GLOBAL int turn_outer(struct xdp_md *ctx, const struct ip_packet *p, u32 has_ports)
{
	void *data = frame_data(ctx), *end = frame_end(ctx), *addresses, *ports;
	int group, host, ours, left;
	/* Without ports none equals another. */
	u32 both = 1;

	if (!p)
		LEAVE(LEFT_TOO_SHORT);
	addresses = data + (p->l3 & L3) + (p->v6 ? 8 : 12);
	ports = data + (p->l4 & OFFSET);
	if (addresses + 8 > end || (p->v6 && addresses + 32 > end) || (has_ports && ports + 4 > end))
		LEAVE(LEFT_TOO_SHORT);
	if (has_ports)
		both = U32(ports);
	if (p->v6) {
		if (addresses + 32 > end)
			LEAVE(LEFT_TOO_SHORT);
		group = *(u8 *)(addresses + 16) == 0xff;
		host = *(u8 *)addresses != 0xff && (U64(addresses) | U64(addresses + 8));
	} else {
		group = group4(U32(addresses + 4));
		host = is_one_host4(U32(addresses));
	}
	if (group)
		LEAVE(LEFT_MULTICAST);
	if (!host || !(both & 0xffff))
		LEAVE(LEFT_BAD_SOURCE);
	/* Whatever the destination is: the reflector's own are a range, or none is known but this one. */
	ours = PLAN.own.count ? is_within(&PLAN.own, addresses, !!p->v6) :
	       p->v6	      ? is_ours6(addresses) :
				U32(addresses) == U32(addresses + 4);
	left = p->v6 ? answerable6_from(ours, addresses, both) :
		       answerable4_from(ours, U32(addresses), U32(addresses + 4), both);
	if (left)
		return left;
	/* Hop limit and time to live lie as far before the addresses: 1 and 4. */
	if (p->v6) {
		if (*(u8 *)(addresses - 1) <= 1)
			LEAVE(LEFT_TTL_EXPIRED);
		*(u8 *)(addresses - 1) -= 1;
		swap_addresses6(addresses);
	} else {
		if (*(u8 *)(addresses - 4) <= 1)
			LEAVE(LEFT_TTL_EXPIRED);
		lower_ttl4(addresses - 4);
		swap_addresses4(addresses);
	}
	if (has_ports && ports + 4 <= end)
		swap_ports(ports);
	return 0;
}

/* Turns a frame with a tag: 0, or the reason + 1, and the frame is as it was. */
INLINE int turn_tagged(struct xdp_md *ctx)
{
	void *data = frame_data(ctx), *end = frame_end(ctx);
	struct ip_packet ip = {};
	struct tag tag = {};
	u64 macs, crc = 0;
	int left, marks = 1;

	if (!find_tag(ctx, &tag))
		LEAVE(LEFT_NOT_TAGGED);
	if (tag.returned)
		LEAVE(LEFT_RETURNED);
	if (tag.at < 14 || data + 14 > end)
		LEAVE(LEFT_TOO_SHORT);
	macs = U64(data);
	if (macs & 1)
		LEAVE(LEFT_MULTICAST);
	if (macs >> 48 & 1)
		LEAVE(LEFT_BAD_SOURCE);
	if (!LOOPS.loopback && !((U64(data + 6) ^ PLAN.mac) << 16))
		LEAVE(LEFT_OWN_SOURCE);
	if (is_icmp_error(ctx, tag.l3))
		LEAVE(LEFT_NOT_TAGGED);
	if (tag.l3) {
		int ports, source = 0, destination = 0;

		left = read_outer(ctx, tag.l3, &ip);
		if (left)
			return left;
		ports = (ip.protocol == PROTOCOL_UDP || ip.protocol == PROTOCOL_TCP) && !ip.fragment &&
			ip.l4 + 4 <= tag.at;
		if (ports) {
			source = number_at(ctx, ip.l4, 1);
			destination = number_at(ctx, ip.l4 + 2, 1);
		}
		if (ip.protocol == PROTOCOL_SCTP && !ip.fragment && ip.l4 + CRC_OFFSET + 4 <= tag.at)
			crc = ip.l4 + CRC_OFFSET;
		else if (ip.protocol != PROTOCOL_TCP &&
			 !(ip.protocol == PROTOCOL_UDP && ports && !is_tunnel(source) && !is_tunnel(destination)))
			/* Sums around a CRC32c deeper inside would be wrong. */
			marks = !carries_sctp(ctx, tag.l3);
		left = turn_outer(ctx, &ip, ports);
		if (left)
			return left;
	}
	data = frame_data(ctx);
	if (data + 14 > frame_end(ctx))
		LEAVE(LEFT_TOO_SHORT);
	swap_macs(data);
	if (marks)
		change_bits(ctx, tag.at + 4, MARKS);
	if (crc)
		change_bits(ctx, crc, CRC_OF_MARK);
	if (PLAN.flags & OPEN_CHECKSUMS) {
		struct udp_packet p = {};

		if (!find_udp_anywhere(ctx, &p))
			complete_udp(ctx, &p);
	}
	return 0;
}

#endif
