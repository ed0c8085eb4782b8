/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Finding the UDP datagram in a frame, exactly as crates/wire does (`parse_udp`), and its checksum.
 *
 * Nearly every test packet is untagged, has no options and no extension headers. `plain_udp4` and `plain_udp6` know
 * those with a few loads at constant offsets; they say yes or nothing. For all else `find_udp` walks the headers in
 * a function of its own, and says why a frame can't be used.
 */
#ifndef XDP_UDP_H
#define XDP_UDP_H

#include "bpf.h"
#include "frame.h"
#include "parse.h"

#define NOINLINE static __attribute__((noinline, unused))
/*
 * The verifier follows a function that is visible outside of its file once, and not from each place that calls it; it
 * then knows nothing of what the arguments are, so these are numbers, or memory of the caller's that is looked at for
 * NULL.
 */
#define GLOBAL __attribute__((noinline))

/* Why a frame is left: `Left` of crates/wire/src/reflect.rs, in its order (crates/xdp/src/reasons.rs). Functions return
 * one more, and 0 for none. */
enum left {
	LEFT_TOO_SHORT,
	LEFT_NOT_IP,
	LEFT_BAD_IP_HEADER,
	LEFT_FRAGMENT,
	LEFT_SOURCE_ROUTED,
	LEFT_NOT_UDP,
	LEFT_BAD_UDP_LENGTH,
	LEFT_MULTICAST,
	LEFT_BAD_SOURCE,
	LEFT_WRONG_MAC,
	LEFT_WRONG_ADDRESS,
	LEFT_WRONG_PORT,
	LEFT_HOST_PORT,
	/* Where packets are known by their tags. Behind NEIGHBOR_SERVICE of run.h. */
	LEFT_NOT_TAGGED = 14,
	/* Behind those of the programs: what would go round. */
	LEFT_OWN_SOURCE = 28,
	LEFT_TTL_EXPIRED,
	LEFT_RETURNED,
	LEFT_PROBED,
};
#define LEAVE(reason) return (reason) + 1

enum {
	PROTOCOL_HOP_BY_HOP = 0,
	PROTOCOL_ROUTING = 43,
	PROTOCOL_FRAGMENT = 44,
	PROTOCOL_AUTHENTICATION = 51,
	PROTOCOL_DESTINATION_OPTIONS = 60,
	/* More is hostile: RFC 8200 section 4.1 names fewer. */
	MAX_EXTENSION_HEADERS = 8,
};

enum { IPV4_OPTION_END = 0, IPV4_OPTION_NONE = 1, IPV4_LOOSE_ROUTE = 131, IPV4_STRICT_ROUTE = 137 };

struct udp {
	struct ports ports;
	be16 length;
	u16 checksum;
};

/* Offsets and lengths in bytes. */
struct ip_packet {
	u32 l3;
	u32 l4;
	/* Of what comes after the IP headers, as they have it. */
	u32 room;
	u16 protocol;
	u8 v6;
	u8 fragment;
};

struct udp_packet {
	u32 l3;
	u32 l4;
	/* Without the UDP header. */
	u32 payload_len;
	u16 v6;
};

/* Words at any offset: the machines that load these programs read them where they lie. */
#define U16(at) (*(u16 *)(at))
#define U32(at) (*(u32 *)(at))
#define U64(at) (*(u64 *)(at))

/*
 * Makes the verifier forget what it knows of a number, given another that it knows nothing of. What loops carry from
 * one turn to the next then looks the same on all ways through them, and it follows one way only.
 */
#define FORGET(number, unknown)                                                                                        \
	asm volatile("%0 ^= %1\n\t%0 ^= %1" : "+r"(number) : "r"((u64)(unknown)))

/* One's complement sum of 32-bit words (fewer than 2^31) in 16 bits; RFC 1071. Words lie as they do in memory. */
INLINE u16 fold(u64 sum)
{
	sum = (u32)sum + (sum >> 32);
	sum = (u32)sum + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

INLINE u64 halves(u64 word)
{
	return (u32)word + (word >> 32);
}

/* Ethernet, IPv4 and UDP header, and no more. */
enum { PLAIN4_L4 = 34, PLAIN4_PAYLOAD = 42, PLAIN6_L4 = 54, PLAIN6_PAYLOAD = 62 };

/* The first bytes after the MAC addresses: type, version and header length, or version and 4 bits of class. */
INLINE int looks_plain4(void *data)
{
	return (U32(data + 12) & 0xffffff) == 0x450008;
}

INLINE int looks_plain6(void *data)
{
	return (U32(data + 12) & 0xf0ffff) == 0x60dd86;
}

/*
 * Whether a frame is untagged IPv4 without options with a whole UDP datagram, and all that `find_udp` verifies is
 * right. The caller has checked that PLAIN4_PAYLOAD bytes are there, and `looks_plain4`.
 */
INLINE int plain_udp4(void *data, void *end)
{
	u32 total = swap16(U16(data + 16)), length = swap16(U16(data + 38)), frame = span(data, end);
	u64 sum = (u64)U32(data + 14) + U32(data + 18) + U32(data + 22) + U32(data + 26) + U32(data + 30);

	/* Five words fold to 0xffff + 8 at the most this way, so that only one value means a sum of 0. */
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	/* Fragment bits, and the protocol. */
	return (U32(data + 20) & 0xff00ff3f) == (u32)PROTOCOL_UDP << 24 &&
	       sum == 0xffff && total + 14 <= frame && length >= sizeof(struct udp) &&
	       length + 20 <= total;
}

/* The same for IPv6 without extension headers: PLAIN6_PAYLOAD bytes, `looks_plain6`. */
INLINE int plain_udp6(void *data, void *end)
{
	u32 total = swap16(U16(data + 18)), length = swap16(U16(data + 58)), frame = span(data, end);

	return *(u8 *)(data + 20) == PROTOCOL_UDP && total + 54 <= frame && length >= sizeof(struct udp) &&
	       length <= total;
}

/* The options of an IPv4 header, at an offset: RFC 791 section 3.1. Returns 0, or the reason + 1. */
GLOBAL int check_options(struct xdp_md *ctx, u64 from, u64 length)
{
	void *options = frame_data(ctx) + (from & OFFSET), *end = frame_end(ctx);
	u32 unknown = ctx->rx_queue_index;
	u64 at = 0;

	for (u32 i = 0; i < 40; i++) {
		u8 *option;
		u32 size;

		FORGET(at, unknown);
		FORGET(length, unknown);
		at &= 63;
		if (at >= length)
			return 0;
		option = options + at;
		OPAQUE(option);
		if ((void *)(option + 1) > end)
			LEAVE(LEFT_TOO_SHORT);
		if (option[0] == IPV4_OPTION_END)
			return 0;
		if (option[0] == IPV4_OPTION_NONE) {
			at++;
			continue;
		}
		if (at + 1 >= length)
			LEAVE(LEFT_BAD_IP_HEADER);
		if ((void *)(option + 2) > end)
			LEAVE(LEFT_TOO_SHORT);
		size = option[1];
		if (size < 2 || at + size > length)
			LEAVE(LEFT_BAD_IP_HEADER);
		if (option[0] == IPV4_LOOSE_ROUTE || option[0] == IPV4_STRICT_ROUTE) {
			if (size < 3)
				LEAVE(LEFT_BAD_IP_HEADER);
			if ((void *)(option + 3) > end)
				LEAVE(LEFT_TOO_SHORT);
			/* The route is used up once its pointer is beyond its length. */
			if (option[2] <= size)
				LEAVE(LEFT_SOURCE_ROUTED);
		}
		at += size;
	}
	return 0;
}

/* `fragments`: whether fragments are wanted, too. */
INLINE int find_ipv4(struct xdp_md *ctx, void *data, void *end, u32 there, u32 l3, struct ip_packet *p, int fragments)
{
	struct ipv4 *ip = data + l3;
	u32 header, total, *word = (u32 *)ip;
	u64 sum;

	if ((void *)(ip + 1) > end)
		LEAVE(LEFT_TOO_SHORT);
	header = (ip->version_length & 0xf) * 4;
	if (ip->version_length >> 4 != 4 || header < sizeof(*ip))
		LEAVE(LEFT_BAD_IP_HEADER);
	sum = (u64)word[0] + word[1] + word[2] + word[3] + word[4];
	if (header > sizeof(*ip)) {
		for (u32 i = 5; i < 15; i++) {
			u32 *at = word + i;

			if (i * 4 >= header)
				break;
			OPAQUE(at);
			if ((void *)(at + 1) > end)
				LEAVE(LEFT_TOO_SHORT);
			sum += *at;
		}
	}
	total = swap16(ip->total_length);
	if (fold(sum) != 0xffff || total < header)
		LEAVE(LEFT_BAD_IP_HEADER);
	if (total > there)
		LEAVE(LEFT_TOO_SHORT);
	/* More fragments, or an offset: RFC 791 section 3.1. */
	if (fragments)
		p->fragment = !!(ip->fragment & BE16(0x3fff));
	else if (ip->fragment & BE16(0x3fff))
		LEAVE(LEFT_FRAGMENT);
	p->protocol = ip->protocol;
	p->l4 = l3 + header;
	p->room = total - header;
	return header > sizeof(*ip) ? check_options(ctx, l3 + sizeof(*ip), header - sizeof(*ip)) : 0;
}

/* Extension headers of IPv6, as in crates/wire/src/extensions.rs. */
INLINE int is_extension(u32 protocol)
{
	return protocol == PROTOCOL_HOP_BY_HOP || protocol == PROTOCOL_ROUTING || protocol == PROTOCOL_FRAGMENT ||
	       protocol == PROTOCOL_AUTHENTICATION || protocol == PROTOCOL_DESTINATION_OPTIONS;
}

/* Bytes of one that is no fragment header, as it says itself: RFC 8200 section 4, RFC 4302 section 2.2. */
INLINE u32 extension_length(u32 protocol, const u8 *head)
{
	return protocol == PROTOCOL_AUTHENTICATION ? (head[1] + 2) * 4 : (head[1] + 1) * 8;
}

/* RFC 8200 section 4. With `fragments` the header of a fragment is the upper layer. */
INLINE int find_ipv6(void *data, void *end, u32 there, u32 l3, struct ip_packet *p, u32 unknown, int fragments)
{
	struct ipv6 *ip = data + l3;
	u64 at = sizeof(*ip), total, next;

	if ((void *)(ip + 1) > end)
		LEAVE(LEFT_TOO_SHORT);
	if ((ip->version_class_label & 0xf0) != 0x60)
		LEAVE(LEFT_BAD_IP_HEADER);
	total = sizeof(*ip) + swap16(ip->payload_length);
	if (total > there)
		LEAVE(LEFT_TOO_SHORT);
	next = ip->next_header;
	for (u32 place = 0; place <= MAX_EXTENSION_HEADERS; place++) {
		u8 *head;

		FORGET(at, unknown);
		FORGET(total, unknown);
		FORGET(next, unknown);
		at &= OFFSET;
		if (!fragments && next == PROTOCOL_FRAGMENT)
			LEAVE(LEFT_FRAGMENT);
		if (next == PROTOCOL_HOP_BY_HOP && place)
			LEAVE(LEFT_BAD_IP_HEADER);
		if (!is_extension(next) || next == PROTOCOL_FRAGMENT) {
			p->protocol = next;
			if (fragments)
				p->fragment = next == PROTOCOL_FRAGMENT;
			p->l4 = l3 + at;
			p->room = total - at;
			return 0;
		}
		if (at + 8 > total)
			LEAVE(LEFT_BAD_IP_HEADER);
		head = (void *)ip + at;
		OPAQUE(head);
		if ((void *)(head + 8) > end)
			LEAVE(LEFT_TOO_SHORT);
		if (next == PROTOCOL_ROUTING && head[3])
			LEAVE(LEFT_SOURCE_ROUTED);
		at += extension_length(next, head);
		next = head[0];
		if (at > total)
			LEAVE(LEFT_BAD_IP_HEADER);
	}
	LEAVE(LEFT_BAD_IP_HEADER);
}

INLINE int is_tag(be16 type)
{
	return type == BE16(ETHERTYPE_VLAN) || type == BE16(ETHERTYPE_SERVICE_VLAN);
}

/* The IP packet in a frame with up to two VLAN tags. Returns 0, or the reason + 1. */
GLOBAL int find_ip(struct xdp_md *ctx, struct ip_packet *p)
{
	void *data = frame_data(ctx), *end = frame_end(ctx);
	u64 l3 = 14;
	be16 type;

	if (!p || data + 14 > end)
		LEAVE(LEFT_TOO_SHORT);
	type = U16(data + 12);
	if (is_tag(type)) {
		if (data + 18 > end)
			LEAVE(LEFT_TOO_SHORT);
		type = U16(data + 16);
		l3 = 18;
		if (is_tag(type)) {
			if (data + 22 > end)
				LEAVE(LEFT_TOO_SHORT);
			type = U16(data + 20);
			l3 = 22;
		}
	}
	/* The verifier follows the rest once, and not after each number of tags. */
	FORGET(l3, ctx->rx_queue_index);
	l3 &= 31;
	p->l3 = l3;
	if (type == BE16(ETHERTYPE_IPV4)) {
		p->v6 = 0;
		return find_ipv4(ctx, data, end, bpf_xdp_get_buff_len(ctx) - l3, l3, p, 0);
	}
	if (type == BE16(ETHERTYPE_IPV6)) {
		p->v6 = 1;
		return find_ipv6(data, end, bpf_xdp_get_buff_len(ctx) - l3, l3, p, ctx->rx_queue_index, 0);
	}
	LEAVE(LEFT_NOT_IP);
}

/* The UDP datagram in a frame. Returns 0, or the reason + 1. */
INLINE int find_udp_anywhere(struct xdp_md *ctx, struct udp_packet *p)
{
	struct ip_packet ip = {};
	void *data, *end;
	struct udp *udp;
	u32 length;
	int left = find_ip(ctx, &ip);

	if (left)
		return left;
	if (ip.protocol != PROTOCOL_UDP)
		LEAVE(LEFT_NOT_UDP);
	data = frame_data(ctx);
	end = frame_end(ctx);
	udp = data + (ip.l4 & OFFSET);
	if ((void *)(udp + 1) > end)
		LEAVE(LEFT_BAD_UDP_LENGTH);
	length = swap16(udp->length);
	if (length > ip.room || length < sizeof(*udp))
		LEAVE(LEFT_BAD_UDP_LENGTH);
	p->l3 = ip.l3;
	p->l4 = ip.l4;
	p->payload_len = length - sizeof(*udp);
	p->v6 = ip.v6;
	return 0;
}

/* The same, in a few loads where nothing is out of the ordinary. */
INLINE int find_udp(struct xdp_md *ctx, struct udp_packet *p)
{
	void *data = frame_data(ctx), *end = frame_end(ctx);

	if (data + PLAIN4_PAYLOAD <= end && looks_plain4(data) && plain_udp4(data, end)) {
		p->l3 = 14;
		p->l4 = PLAIN4_L4;
		p->payload_len = swap16(U16(data + PLAIN4_L4 + 4)) - sizeof(struct udp);
		p->v6 = 0;
		return 0;
	}
	if (data + PLAIN6_PAYLOAD <= end && looks_plain6(data) && plain_udp6(data, end)) {
		p->l3 = 14;
		p->l4 = PLAIN6_L4;
		p->payload_len = swap16(U16(data + PLAIN6_L4 + 4)) - sizeof(struct udp);
		p->v6 = 1;
		return 0;
	}
	return find_udp_anywhere(ctx, p);
}

#endif
