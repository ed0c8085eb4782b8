/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Checksums over whole datagrams (RFC 1071), which only some runs need: where a frame's sender left the checksum to
 * a device that never saw it (virtual devices do), and in answers. As crates/wire's `udp_checksum_ok`,
 * `udp_checksum_open` and `complete_udp_checksum`.
 */
#ifndef XDP_CHECKSUM_H
#define XDP_CHECKSUM_H

#include "udp.h"

/* Blocks of a frame's first buffer: 3,584 bytes. Of frames in several buffers: 10,240 bytes. */
enum { BLOCK = 32, BLOCKS = 112, COPY = 64, COPIES = 160 };

/* The most that can be summed. */
enum { SUM_MAX = COPY * COPIES };

/* The sum of bytes wherever they lie in the frame, through a copy. */
GLOBAL u64 sum_copied(struct xdp_md *ctx, u64 from, u64 length)
{
	u64 words[COPY / 8], sum = 0;
	u32 unknown = ctx->rx_queue_index;

	for (u32 i = 0; i < COPIES; i++) {
		FORGET(from, unknown);
		FORGET(length, unknown);
		if (length < COPY)
			break;
		if (bpf_xdp_load_bytes(ctx, from, words, COPY))
			return 0;
		for (u32 k = 0; k < COPY / 8; k++)
			sum += halves(words[k]);
		from += COPY;
		length -= COPY;
	}
	/* The verifier follows the rest once, and not after each number of copies. */
	FORGET(sum, unknown);
	FORGET(from, unknown);
	FORGET(length, unknown);
	if (!length)
		return sum;
	for (u32 k = 0; k < COPY / 8; k++)
		words[k] = 0;
	/* 1 to 63: the verifier wants to see it. */
	if (bpf_xdp_load_bytes(ctx, from, words, ((length - 1) & (COPY - 1)) + 1))
		return 0;
	for (u32 k = 0; k < COPY / 8; k++)
		sum += halves(words[k]);
	return sum;
}

/*
 * The sum of `length` bytes at an even offset; an odd last byte counts as if a zero followed. 0, which is the sum of
 * zeros only, where there are not as many, or more than SUM_MAX.
 */
GLOBAL u64 sum_bytes(struct xdp_md *ctx, u64 from, u64 length)
{
	void *data = frame_data(ctx), *end = frame_end(ctx), *at;
	u32 linear = span(data, end), unknown = ctx->rx_queue_index;
	u64 sum = 0;

	if (length > SUM_MAX)
		return 0;
	if (from + length > linear || length > BLOCK * BLOCKS)
		return sum_copied(ctx, from, length);
	for (u32 i = 0; i < BLOCKS; i++) {
		FORGET(from, unknown);
		FORGET(length, unknown);
		if (length < BLOCK)
			break;
		at = data + (from & OFFSET);
		OPAQUE(at);
		if (at + BLOCK > end)
			return 0;
		sum += halves(U64(at)) + halves(U64(at + 8)) + halves(U64(at + 16)) + halves(U64(at + 24));
		from += BLOCK;
		length -= BLOCK;
	}
#define TAIL(size, value)                                                                                              \
	if (length & (size)) {                                                                                         \
		FORGET(from, unknown);                                                                \
		at = data + (from & OFFSET);                                                                           \
		if (at + (size) > end)                                                                                 \
			return 0;                                                                                      \
		sum += (value);                                                                                        \
		from += (size);                                                                                        \
	}
	TAIL(16, halves(U64(at)) + halves(U64(at + 8)))
	TAIL(8, halves(U64(at)))
	TAIL(4, U32(at))
	TAIL(2, U16(at))
	TAIL(1, *(u8 *)at)
#undef TAIL
	return sum;
}

/* Sum of the pseudo-header (RFC 768; RFC 8200 section 8.1), or 0 where the frame ends before it. */
INLINE u64 sum_pseudo(struct xdp_md *ctx, u32 l3, int v6, u32 protocol, u32 length)
{
	void *end = frame_end(ctx), *ip = frame_data(ctx) + (l3 & 31);
	u64 sum = swap16((u16)length) + (protocol << 8);

	if (v6) {
		if (ip + sizeof(struct ipv6) > end)
			return 0;
		return sum + halves(U64(ip + 8)) + halves(U64(ip + 16)) + halves(U64(ip + 24)) + halves(U64(ip + 32));
	}
	if (ip + sizeof(struct ipv4) > end)
		return 0;
	return sum + halves(U64(ip + 12));
}

/* The same of a datagram at constant offsets, for the checksum that a sender leaves open. */
INLINE u64 sum_pseudo_plain4(void *data)
{
	return (u64)U32(data + 26) + U32(data + 30) + U16(data + PLAIN4_L4 + 4) + (PROTOCOL_UDP << 8);
}

INLINE u64 sum_pseudo_plain6(void *data)
{
	return (u64)U32(data + 22) + U32(data + 26) + U32(data + 30) + U32(data + 34) + U32(data + 38) +
	       U32(data + 42) + U32(data + 46) + U32(data + 50) + U16(data + PLAIN6_L4 + 4) + (PROTOCOL_UDP << 8);
}

INLINE u64 sum_pseudo_udp(struct xdp_md *ctx, const struct udp_packet *p)
{
	return sum_pseudo(ctx, p->l3, p->v6, PROTOCOL_UDP, p->payload_len + sizeof(struct udp));
}

/* Whether the UDP checksum is right; none is right over IPv4 only. */
INLINE int udp_checksum_right(struct xdp_md *ctx, const struct udp_packet *p)
{
	struct udp *udp = frame_data(ctx) + (p->l4 & OFFSET);

	if ((void *)(udp + 1) > frame_end(ctx))
		return 0;
	if (!udp->checksum)
		return !p->v6;
	return fold(sum_pseudo_udp(ctx, p) + sum_bytes(ctx, p->l4, p->payload_len + sizeof(*udp))) == 0xffff;
}

/*
 * Computes a checksum that was left open: its field holds the pseudo-header's sum and nothing else. `field` is its
 * offset from `l4`, `length` what it covers. Any other stays.
 */
INLINE void complete_checksum(struct xdp_md *ctx, u64 pseudo, u32 l4, u32 length, u32 field, int udp)
{
	u16 old, *at = frame_data(ctx) + ((l4 + field) & OFFSET);
	u64 sum;
	u16 new;

	if ((void *)(at + 1) > frame_end(ctx) || fold(pseudo) != *at)
		return;
	old = *at;
	sum = sum_bytes(ctx, l4, length);
	if (!sum)
		return;
	/* Adding the complement takes the old field out of the sum: RFC 1624. */
	new = ~fold(pseudo + sum + (u16)~old);
	*at = new || !udp ? new : 0xffff;
}

INLINE void complete_udp(struct xdp_md *ctx, const struct udp_packet *p)
{
	complete_checksum(ctx, sum_pseudo_udp(ctx, p), p->l4, p->payload_len + sizeof(struct udp),
			  __builtin_offsetof(struct udp, checksum), 1);
}

#endif
