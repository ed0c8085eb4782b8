/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which sequence numbers of a flow have been seen: crates/stats/src/window.rs. And who may write that down, since a flow
 * may come by several sources, in turn or at the same time.
 *
 * A window belongs to the source that the flow's first packet came by, which writes it with plain stores. When a packet
 * comes by another one, the window becomes everybody's, for the rest of the run: from then on it is written under a lock.
 * In between the owner must be out of any burst that began before it could see that it is to share (`join`).
 */
#ifndef XDP_WINDOW_H
#define XDP_WINDOW_H

#include "test.h"

/* flow_window.owner: a source, + 1, or 0, and these. */
enum {
	/* Somebody wants it for everybody. */
	WANTED = 1 << 30,
	/* It is everybody's, under the lock. */
	EVERYBODY = 1 << 29,
};

/* How often is looked whether the owner's burst has ended: it takes microseconds, unless its CPU was taken away. */
enum { LOOKS = 1 << 20 };

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
	/* An owner's word of the highest number. It moves to WINDOWS when a later one begins. */
	u64 bits;
	u32 owner;
	/* Counts how often the flow began anew: words of before mean nothing. */
	u32 generation;
};
typedef struct flow_window flow_window_t;

/*
 * By word, then by flow. Flows are sent in turn, so their newest words lie side by side: by flow first, they would be
 * far apart at the same place of a page, and keep each other out of the cache.
 */
SHARED_ARRAY(WINDOWS, window_word_t);

enum arrival_kind { IN_ORDER, REORDERED, DUPLICATE, TOO_OLD, STRANGE };

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

/* The word is of these 64 numbers from here on. */
INLINE void window_turn(struct flow_window *window, struct window_word *word, u64 epoch)
{
	if (word->tag != window_tag(window, epoch)) {
		word->tag = window_tag(window, epoch);
		word->bits = 0;
	}
}

/* A number below the highest. */
INLINE enum arrival_kind window_look_back(struct flow_window *window, u32 flows, u32 flow, u64 seq, u64 *distance)
{
	u64 next = window->next, epoch = seq >> 6, bit = 1ULL << (seq & 63), *bits = &window->bits;

	if (epoch != (next - 1) >> 6) {
		struct window_word *word = window_word(flows, flow, epoch);

		if (!word || (next >> 6) - epoch >= PLAN.window_words)
			return TOO_OLD;
		window_turn(window, word, epoch);
		bits = &word->bits;
	}
	if (*bits & bit)
		return DUPLICATE;
	*bits |= bit;
	*distance = next - 1 - seq;
	return REORDERED;
}

/*
 * Notes that number `seq` of flow `flow` of `flows` has arrived; by the window's owner. `distance`: how far behind the
 * highest it is.
 */
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

/* The same for a window that is everybody's, under its lock. `word`: the one of these numbers. */
INLINE enum arrival_kind window_mark(struct flow_window *window, struct window_word *word, u64 seq, u64 *distance)
{
	u64 next = window->next, epoch = seq >> 6, bit = 1ULL << (seq & 63);

	if (seq < next && (next - 1) >> 6 != epoch && (next >> 6) - epoch >= PLAN.window_words)
		return TOO_OLD;
	window_turn(window, word, epoch);
	if (seq >= next) {
		word->bits |= bit;
		window->next = seq + 1;
		return IN_ORDER;
	}
	if (word->bits & bit)
		return DUPLICATE;
	word->bits |= bit;
	*distance = next - 1 - seq;
	return REORDERED;
}

struct look {
	u32 source;
	u32 over;
	u64 burst;
};

static long look(u32 i, struct look *look)
{
	struct source *source = bpf_map_lookup_elem(&SOURCES, &look->source);

	(void)i;
	if (source && *(volatile u64 *)&source->burst == look->burst)
		return 0;
	look->over = 1;
	return 1;
}

/* Waits until a source has not the burst any more that it may be in; 0: it did not end. */
INLINE int wait_for_burst(u32 key)
{
	struct source *source = bpf_map_lookup_elem(&SOURCES, &key);
	struct look of = { .source = key };

	if (!source)
		return 1;
	of.burst = *(volatile u64 *)&source->burst;
	if (!(of.burst & 1))
		return 1;
	bpf_loop(LOOKS, look, &of, 0);
	return of.over;
}

/*
 * Source `key` is about to write a window that is not its own. 1: now it is, for it was nobody's. 0: now it is everybody's.
 *
 * Whoever waits here is out of its own burst: two who want each other's windows don't wait for each other.
 */
INLINE int join(struct flow_window *window, struct bpf_spin_lock *lock, u32 *last, struct source *source, u32 key,
		u32 flows, u32 flow)
{
	u32 owner = __sync_val_compare_and_swap(&window->owner, 0, key + 1);
	struct window_word *word;
	u64 next;

	if (!owner)
		return 1;
	if (owner & EVERYBODY)
		return 0;
	owner &= ~WANTED;
	if (owner != key + 1) {
		end_burst(source);
		/* The owner sees this at its next burst at the latest. */
		__sync_fetch_and_or(&window->owner, WANTED);
		if (!wait_for_burst(owner - 1))
			source->reasons[FLOW_CONTENDED]++;
		begin_burst(source);
	}
	/* Until the window is everybody's nobody writes it any more. */
	next = *(volatile u64 *)&window->next;
	word = window_word(flows, flow, (next - 1) >> 6);
	bpf_spin_lock(lock);
	if (!(window->owner & EVERYBODY)) {
		if (word && next) {
			word->bits = window->bits;
			word->tag = window_tag(window, (next - 1) >> 6);
		}
		*last = owner;
		window->owner = EVERYBODY;
	}
	bpf_spin_unlock(lock);
	return 0;
}

#endif
