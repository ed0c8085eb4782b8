/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Headers of a packet that was checked and turned. Of the next packets most have the same ones, but for source port and
 * UDP checksum: comparing them costs less than checking each field again, and the new headers are known as well.
 */
#ifndef XDP_KNOWN_H
#define XDP_KNOWN_H

#include "udp.h"
#include "checksum.h"
#include "swap.h"

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

struct known {
	/* The frame from its first byte to the UDP length, without the source port. */
	u64 word[8];
	/* The same of its answer, with 0 for the port that was the source's. */
	u64 answer[7];
	/* Bytes that the frame has at least; NONE_KNOWN: no headers are known. */
	u32 length;
	/* Checksum field of a datagram whose checksum was left open; NEVER_OPEN: no frame comes with one. */
	u32 open;
};

enum { NONE_KNOWN = -1, NEVER_OPEN = 1 << 16 };

/* Bytes 32 to 39 of an IPv4 packet, and 48 to 55 of an IPv6 packet, without the source port. */
#define LAST4 0xffffffff0000ffffULL
#define LAST6 0x0000ffffffffffffULL

/* Notes the first 16 bytes, of which the last four stay. */
INLINE void note_macs(struct known *known, void *data)
{
	u64 first = U64(data), second = U64(data + 8);

	known->answer[0] = swapped_macs(first, second);
	known->answer[1] = (u32)(first >> 16) | second >> 32 << 32;
}

/* Notes the headers of a plain packet before it is turned. The caller has checked all that there is to check. */
INLINE void note4(struct known *known, void *data)
{
	u64 addresses = U64(data + 26) >> 32 | U64(data + 26) << 32, ttl = lowered_ttl4(U32(data + 22));

#pragma unroll
	for (u32 i = 0; i < 4; i++)
		known->word[i] = U64(data + 8 * i);
	known->word[4] = U64(data + 32) & LAST4;
	note_macs(known, data);
	/* Bytes 22 to 25, and 26 to 33. */
	known->answer[2] = U64(data + 16) << 16 >> 16 | ttl << 48;
	known->answer[3] = ttl >> 16 | addresses << 16;
	known->answer[4] = addresses >> 48 | (u64)U16(data + 36) << 16 | (u64)U16(data + 38) << 48;
	known->open = PLAN.flags & OPEN_CHECKSUMS ? fold(sum_pseudo_plain4(data)) : NEVER_OPEN;
	known->length = 14 + swap16(U16(data + 16));
}

INLINE void note6(struct known *known, void *data)
{
	/* Source and destination. */
	u64 from = U64(data + 22), from_more = U64(data + 30), to = U64(data + 38), to_more = U64(data + 46);

#pragma unroll
	for (u32 i = 0; i < 6; i++)
		known->word[i] = U64(data + 8 * i);
	known->word[6] = U64(data + 48) & LAST6;
	known->word[7] = U32(data + 56);
	note_macs(known, data);
	/* The hop limit is byte 21, and more than 0. */
	known->answer[2] = ((U64(data + 16) << 16 >> 16) - (1ULL << 40)) | to << 48;
	known->answer[3] = to >> 16 | to_more << 48;
	known->answer[4] = to_more >> 16 | from << 48;
	known->answer[5] = from >> 16 | from_more << 48;
	known->answer[6] = from_more >> 16 | (u64)U16(data + 56) << 48;
	known->open = PLAN.flags & OPEN_CHECKSUMS ? fold(sum_pseudo_plain6(data)) : NEVER_OPEN;
	known->length = 54 + swap16(U16(data + 18));
}

/* Whether a frame of at least PLAIN4_PAYLOAD bytes begins with the known 32 bytes, and is long enough. */
INLINE int begins_known(const struct known *known, void *data, void *end)
{
	return span(data, end) >= known->length && U64(data + 8) == known->word[1] && U64(data) == known->word[0] &&
	       U64(data + 16) == known->word[2] && U64(data + 24) == known->word[3];
}

/* Whether the rest is known, too: IPv4. */
INLINE int ends_known4(const struct known *known, void *data)
{
	return (U64(data + 32) & LAST4) == known->word[4] && U16(data + PLAIN4_L4) &&
	       U16(data + PLAIN4_L4 + 6) != known->open;
}

/* IPv6, of at least PLAIN6_PAYLOAD bytes. */
INLINE int ends_known6(const struct known *known, void *data)
{
	return U64(data + 32) == known->word[4] && U64(data + 40) == known->word[5] &&
	       (U64(data + 48) & LAST6) == known->word[6] && U32(data + 56) == (u32)known->word[7] &&
	       U16(data + PLAIN6_L4) && U16(data + PLAIN6_L4 + 6) != known->open;
}

/* Turns a packet with known headers: its source port becomes the destination's. */
INLINE void turn_known4(const struct known *known, void *data)
{
	u64 port = U16(data + PLAIN4_L4);

#pragma unroll
	for (u32 i = 0; i < 4; i++)
		U64(data + 8 * i) = known->answer[i];
	U64(data + 32) = known->answer[4] | port << 32;
}

INLINE void turn_known6(const struct known *known, void *data)
{
	u16 port = U16(data + PLAIN6_L4);

#pragma unroll
	for (u32 i = 0; i < 7; i++)
		U64(data + 8 * i) = known->answer[i];
	U16(data + 56) = port;
}

#endif
