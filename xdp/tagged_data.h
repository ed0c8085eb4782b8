/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The data in front of a tag: a function of seed, flow and number, counted backwards from the tag
 * (crates/wire/src/data.rs).
 */
#ifndef XDP_TAGGED_DATA_H
#define XDP_TAGGED_DATA_H

#include "test.h"
#include "walk.h"

/* Words of data that are compared at a time, and how often. */
enum { BATCH = 4, BATCHES = 112 };

/* The word in front of those that follow, for a packet and so many words. */
INLINE u64 data_back(u64 seed, u32 flow, u32 number, u32 words)
{
	return data_base(seed, (u64)flow << 32 | number) + DATA_STEP * (words + 1);
}

/* Whether the data from `start` to the tag are those that were sent. */
INLINE int data_before_tag_right(struct xdp_md *ctx, const struct tag *tag, u32 start)
{
	u32 words = (tag->at - start) / 8, head = (tag->at - start) & 7;
	u64 base = data_back(PLAN.seed, tag->flow, tag->number, words), differs = 0, here;
	void *end = frame_end(ctx), *at = frame_data(ctx) + (start & OFFSET);

	/* The first bytes are the high ones of a word. */
	for (u32 i = 0; i < 7; i++) {
		if (i >= head)
			break;
		OPAQUE(at);
		if (at + 1 > end)
			return 0;
		differs |= *(u8 *)at ^ (base >> (64 - 8 * head) >> 8 * i & 0xff);
		at++;
	}
	/* The verifier follows the rest once, and not after each number of bytes. */
	here = span(frame_data(ctx), at);
	FORGET(here, ctx->rx_queue_index);
	FORGET(differs, here);
	OPAQUE(ctx);
	at = frame_data(ctx) + (here & OFFSET);
	end = frame_end(ctx);
	for (u32 i = 0; i < BATCHES; i++) {
		if ((i + 1) * BATCH > words)
			break;
		OPAQUE(at);
		if (at + BATCH * 8 > end)
			return 0;
#pragma unroll
		for (u32 k = 0; k < BATCH; k++) {
			base -= DATA_STEP;
			differs |= U64(at + k * 8) ^ base;
		}
		at += BATCH * 8;
	}
	here = span(frame_data(ctx), at);
	FORGET(here, ctx->rx_queue_index);
	OPAQUE(ctx);
	at = frame_data(ctx) + (here & OFFSET);
	end = frame_end(ctx);
	for (u32 i = 0; i < BATCH - 1; i++) {
		if (i >= words % BATCH)
			break;
		OPAQUE(at);
		if (at + 8 > end)
			return 0;
		base -= DATA_STEP;
		differs |= U64(at) ^ base;
		at += 8;
	}
	return !differs;
}

#endif
