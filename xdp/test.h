/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The payload of a test packet, and which sequence numbers of a flow have been seen: docs/wire-format.md, and
 * crates/stats/src/window.rs.
 */
#ifndef XDP_TEST_H
#define XDP_TEST_H

#include "run.h"
#include "udp.h"

/* Reasons beside those of the parser and the filter. */
enum {
	FOREIGN_NOT_STAMPED = 16,
	FOREIGN_OTHER_RUN,
	FOREIGN_WRONG_ADDRESS,
	FOREIGN_WRONG_PORT,
	FOREIGN_FRAGMENT,
	BEYOND_WINDOW,
	FLOW_MOVED,
	UNTRACKED_FLOW,
	SENDER_RESTARTS,
	LATENCY_NOT_MEASURABLE,
};

enum { STAMP = 16, UDP_HEADER = 8 };

static const u64 DATA_STEP = 0xd1342543de82ef95ULL;

/* Number `seq` of the SplitMix64 sequence that starts at `seed`. */
INLINE u64 data_base(u64 seed, u64 seq)
{
	u64 z = seed + (seq + 1) * 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* Which of 64 sequence numbers were seen. */
struct window_word {
	u64 bits;
	/* What the bits are of: a word of another tag is stale, and needs no clearing beforehand. */
	u64 tag;
};
typedef struct window_word window_word_t;

struct flow_window {
	/* Highest number seen + 1; 0: none was. */
	u64 next;
	/* The word of the highest number. It moves to WINDOWS when a later one begins. */
	u64 bits;
	/* Source that counted the flow's newest packet, + 1. */
	u32 owner;
	/* Counts how often the flow began anew: words of before mean nothing. */
	u32 generation;
	u64 unused;
};
typedef struct flow_window flow_window_t;

/*
 * By word, then by flow. Flows are sent in turn, so their newest words lie side by side: by flow first, they would be
 * far apart at the same place of a page, and keep each other out of the cache.
 */
SHARED_ARRAY(WINDOWS, window_word_t);

enum arrival_kind { IN_ORDER, REORDERED, DUPLICATE, TOO_OLD };

/* Of 64 sequence numbers, of which there are fewer than 2^54, in one life of the flow. */
INLINE u64 window_tag(struct flow_window *window, u64 epoch)
{
	return epoch ^ (u64)window->generation << 48;
}

INLINE struct window_word *window_word(u32 flows, u32 flow, u64 epoch)
{
	u32 key = ((u32)epoch & (PLAN.window_words - 1)) * flows + flow;

	return bpf_map_lookup_elem(&WINDOWS, &key);
}

/* A number below the highest. */
INLINE enum arrival_kind window_look_back(struct flow_window *window, u32 flows, u32 flow, u64 seq, u64 *distance)
{
	u64 next = window->next, epoch = seq >> 6, bit = 1ULL << (seq & 63), *bits = &window->bits;

	if (epoch != (next - 1) >> 6) {
		struct window_word *word = window_word(flows, flow, epoch);

		if (!word || (next >> 6) - epoch >= PLAN.window_words)
			return TOO_OLD;
		if (word->tag != window_tag(window, epoch)) {
			word->tag = window_tag(window, epoch);
			word->bits = 0;
		}
		bits = &word->bits;
	}
	if (*bits & bit)
		return DUPLICATE;
	*bits |= bit;
	*distance = next - 1 - seq;
	return REORDERED;
}

/* Notes that number `seq` of flow `flow` of `flows` has arrived. `distance`: how far behind the highest it is. */
INLINE enum arrival_kind window_record(struct flow_window *window, u32 flows, u32 flow, u64 seq, u64 *distance)
{
	u64 next = window->next, bits = window->bits;

	if (seq < next)
		return window_look_back(window, flows, flow, seq, distance);
	if ((next - 1) >> 6 != seq >> 6) {
		struct window_word *word = next ? window_word(flows, flow, (next - 1) >> 6) : 0;

		if (word) {
			word->bits = bits;
			word->tag = window_tag(window, (next - 1) >> 6);
		}
		bits = 0;
	}
	window->bits = bits | 1ULL << (seq & 63);
	window->next = seq + 1;
	return IN_ORDER;
}

#endif
