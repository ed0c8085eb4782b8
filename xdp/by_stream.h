/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Streams that are counted each by itself: which flows are whose, and by which lanes they leave.
 */
#ifndef XDP_BY_STREAM_H
#define XDP_BY_STREAM_H

#include "run.h"

struct stream {
	/* Its flows among those of all streams: the first, and the one behind the last. */
	u32 first;
	u32 end;
	/* Lanes that send it, and the CPU of each, below. */
	u32 seats;
	/* Sizes of its frames. In turn: length of the cycle, and where in TURNS it begins; 0: at random, from the seed. */
	u32 sizes;
	u32 cycle;
	u32 turns;
	u64 seed;
	u32 cpu[LANES];
};
_Static_assert(sizeof(struct stream) == 288, "crates/xdp/src/abi.rs");

const volatile struct stream STREAMS[MOST_STREAMS] = {};

/* The stream of a flow; PLAN.streams: none has it. */
INLINE u32 stream_of(u32 flow)
{
	u32 stream = 0;

#pragma unroll
	for (u32 i = 0; i < MOST_STREAMS; i++)
		if (i < PLAN.streams && flow >= STREAMS[i].end)
			stream++;
	return stream;
}

#endif
