/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Finds the tag of a test packet, whatever headers are around it, as crates/wire does: tag.rs says what is in a tag,
 * tagged.rs where the packet ends.
 */
#ifndef XDP_TAGGED_H
#define XDP_TAGGED_H

#include "bpf.h"
#include "frame.h"
#include "parse.h"
#include "splitmix.h"

enum {
	ETHERTYPE_MPLS = 0x8847,
	ETHERTYPE_MPLS_UPSTREAM = 0x8848,
	ETHERTYPE_PPPOE = 0x8864,
	PPP_IPV4 = 0x0021,
	PPP_IPV6 = 0x0057,
};

/* Most VLAN tags and MPLS labels that are passed over. */
enum { MOST_SHIMS = 20 };

enum { TAG = 16, TAG_CHECK_BITS = 28, TAG_CHECK = (1 << TAG_CHECK_BITS) - 1 };

/* Where the bytes of a frame are. */
enum bytes_in {
	/* In one buffer, for an XDP program. */
	ONE_BUFFER,
	/* In one or more, for an XDP program (Linux 5.18). */
	SEVERAL_BUFFERS,
	/* In a socket buffer, and perhaps in pages behind it. */
	SOCKET_BUFFER,
};

/* What a frame is read from: a `struct xdp_md` or a `struct __sk_buff`, which the caller knows when it is compiled. */
struct bytes {
	union {
		struct xdp_md *xdp;
		struct __sk_buff *skb;
	};
	enum bytes_in in;
};

INLINE u64 bytes_length(struct bytes from)
{
	if (from.in == SOCKET_BUFFER)
		return from.skb->len;
	if (from.in == SEVERAL_BUFFERS)
		return bpf_xdp_get_buff_len(from.xdp);
	return span(frame_data(from.xdp), frame_end(from.xdp));
}

/* Copies `words` words from offset `at`; 0 if the frame does not have them. */
INLINE int copy_bytes(struct bytes from, u64 at, u64 *to, u32 words)
{
	if (from.in == SOCKET_BUFFER)
		return !bpf_skb_load_bytes(from.skb, at, to, words * sizeof(*to));
	if (at <= OFFSET) {
		u64 *data = frame_data(from.xdp) + at;

		OPAQUE(data);
		if ((void *)(data + words) <= frame_end(from.xdp)) {
#pragma unroll
			for (u32 i = 0; i < words; i++)
				to[i] = data[i];
			return 1;
		}
	}
	return from.in == SEVERAL_BUFFERS && !bpf_xdp_load_bytes(from.xdp, at, to, words * sizeof(*to));
}

/* The end of an IP packet by its length, or `length` if it has none, or one that says more than there is. `at`: two
 * bytes in front of the packet, from which `head` was read. */
INLINE u64 ip_end(u64 at, u64 head, u64 length)
{
	u64 version = head >> 20 & 0xf, end;

	if (version == 4)
		end = at + 2 + swap16(head >> 32);
	/* A length of 0 is that of a jumbogram (RFC 2675). */
	else if (version == 6 && head >> 48)
		end = at + 2 + sizeof(struct ipv6) + swap16(head >> 48);
	else
		return length;
	return end <= length ? end : length;
}

INLINE int is_mpls(be16 type)
{
	return type == BE16(ETHERTYPE_MPLS) || type == BE16(ETHERTYPE_MPLS_UPSTREAM);
}

/* The end of the packet in a frame: by the outermost IP header, or that of the frame if there is none. `l3`: where that
 * header lies; 0 if there is none. */
INLINE u64 packet_end(struct bytes from, u64 length, u32 *l3)
{
	/* Where a type lies, and the eight bytes from there: the type, and the first six of what it is the type of. */
	u64 at = 12, head;
	be16 type = 0;

	*l3 = 0;
	for (u32 i = 0; i < MOST_SHIMS; i++) {
		if (!copy_bytes(from, at, &head, 1))
			return length;
		/* Only the first of MPLS labels has a type. */
		if (!is_mpls(type))
			type = head;
		if (type == BE16(ETHERTYPE_IPV4) || type == BE16(ETHERTYPE_IPV6))
			goto found;
		if (type == BE16(ETHERTYPE_PPPOE)) {
			at += 8;
			if (!copy_bytes(from, at, &head, 1))
				return length;
			type = head;
			if (type == BE16(PPP_IPV4) || type == BE16(PPP_IPV6))
				goto found;
			return length;
		}
		if (is_mpls(type) && head >> 32 & 1) {
			/* The last label. What follows has no type, either: IP shows its version (RFC 4928). */
			at += 4;
			if (!copy_bytes(from, at, &head, 1))
				return length;
			if ((head >> 20 & 0xf) == 4 || (head >> 20 & 0xf) == 6)
				goto found;
			return length;
		}
		if (!is_mpls(type) && type != BE16(ETHERTYPE_VLAN) && type != BE16(ETHERTYPE_SERVICE_VLAN))
			return length;
		at += 4;
	}
	return length;
found:
	*l3 = at + 2;
	return ip_end(at, head, length);
}

/* What a tag says, and where the packet lies that it ends. */
struct tag {
	u64 time;
	u32 number;
	u32 run;
	u32 flow;
	/* Marked as returned. */
	u32 returned;
	/* Offset of the outermost IP header; 0: there is none. */
	u32 l3;
	/* Offset of the tag. */
	u32 at;
};

/* The check of a tag: `check` of crates/wire/src/tag.rs. */
INLINE u64 tag_check(u64 seed, u64 run, u64 flow, u32 number, u64 time)
{
	return (data_base(seed, flow << 32 | number) ^ (run << 36 | time)) * DATA_STEP >> 32 & TAG_CHECK;
}

/* Reads the tag of a frame; 0 if it has none of this seed. */
INLINE int read_tag(struct bytes from, u64 seed, struct tag *read)
{
	u64 end = packet_end(from, bytes_length(from), &read->l3), tag[TAG / sizeof(u64)], first, last;
	u32 marks;

	if (end < TAG || !copy_bytes(from, end - TAG, tag, TAG / sizeof(u64)))
		return 0;
	/* Number, and the words of run and flow; time and check. */
	first = swap64(tag[0]);
	last = swap64(tag[1]);
	marks = first & 0x80008000;
	if (marks != 0x8000 && marks != 0x80000000)
		return 0;
	first = first >> 32 << 32 | (first >> 16 & 0x7fff) << 15 | (first & 0x7fff);
	read->time = last >> TAG_CHECK_BITS;
	read->number = first >> 32;
	read->run = (u32)first >> 22;
	read->flow = first & 0x3fffff;
	read->returned = marks != 0x8000;
	read->at = end - TAG;
	return tag_check(seed, read->run, read->flow, read->number, read->time) == (last & TAG_CHECK);
}

/* Whether a frame has a tag of this seed. */
INLINE int is_tagged(struct bytes from, u64 seed)
{
	struct tag tag;

	return read_tag(from, seed, &tag);
}

#endif
