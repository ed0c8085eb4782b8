/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which sequence numbers of a flow have been seen: crates/stats/src/window.rs. And who may write that down, and all
 * else that is kept of a flow, since it may come by several sources, in turn or at the same time.
 *
 * A window belongs to the source that the flow's first packet came by, which writes it with plain stores. When a packet
 * comes by another one, the window becomes everybody's, for the rest of the run: from then on it is written under a
 * lock. In between the owner must be out of any burst that began before it could see that it is to share
 * (`open_shared`).
 *
 * The lock is our own: under the kernel's (bpf_spin_lock) no function may be called, and no map be looked into.
 * Programs at interfaces run with soft interrupts off: nothing on the same CPU comes in between that would want the
 * lock, too.
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
/* The same for the lock; bpf_loop has no more. */
enum { LOCK_LOOKS = 1 << 23 };

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
	u32 owner;
	/* Counts how often the flow began again: words of before mean nothing. */
	u32 generation;
	/* 1: somebody writes a window that is everybody's. */
	u32 lock;
	/* Source that counted the newest packet of a window that is everybody's, + 1. */
	u32 last;
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
 * Notes that number `seq` of flow `flow` of `flows` has arrived; by who may write. `distance`: how far behind the
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

struct wait {
	struct flow_window *window;
	u64 locked;
};

static long look_at_lock(u32 i, struct wait *wait)
{
	u32 *lock = &wait->window->lock;

	(void)i;
	if (*(volatile u32 *)lock || __sync_val_compare_and_swap(lock, 0, 1))
		return 0;
	wait->locked = 1;
	return 1;
}

enum access {
	/* It is our own. */
	OURS,
	/* It is everybody's, and locked by us. */
	LOCKED,
	/* Somebody else may be writing it. Who that is has been away for too long: counts may be wrong, which is told. */
	CONTENDED,
};

/*
 * For a window that is not the source's own, or wanted by others.
 *
 * Whoever waits here for the owner is out of its own burst: two who want each other's windows don't wait for each
 * other.
 */
NOINLINE enum access open_shared(struct flow_window *window, struct source *source, u32 key)
{
	u32 owner = __sync_val_compare_and_swap(&window->owner, 0, key + 1), last;
	struct wait wait = { .window = window };
	u64 contended = 0;

	if (!owner)
		return OURS;
	if (!(owner & EVERYBODY) && (owner & ~WANTED) != key + 1) {
		end_burst(source);
		/*
		 * The owner sees this at its next burst at the latest. What was there before is of use, so that the
		 * instruction is one that fetches it: one that doesn't is no barrier on some machines (arm64).
		 */
		owner = __sync_fetch_and_or(&window->owner, WANTED);
		if (owner & ~(WANTED | EVERYBODY) && !wait_for_burst((owner & ~(WANTED | EVERYBODY)) - 1))
			contended = 1;
		begin_burst(source);
	}
	if (!__sync_val_compare_and_swap(&window->lock, 0, 1))
		wait.locked = 1;
	else
		bpf_loop(LOCK_LOOKS, look_at_lock, &wait, 0);
	if (contended || !wait.locked)
		source->reasons[FLOW_CONTENDED]++;
	/* Until it is everybody's nobody writes it any more. */
	owner = *(volatile u32 *)&window->owner;
	last = window->last;
	if (!(owner & EVERYBODY)) {
		last = owner & ~WANTED;
		*(volatile u32 *)&window->owner = EVERYBODY;
	}
	if (last != key + 1)
		source->reasons[FLOW_MOVED]++;
	window->last = key + 1;
	return wait.locked ? LOCKED : CONTENDED;
}

/* Makes sure that nobody else writes the window until `close_window`. */
INLINE enum access open_window(struct flow_window *window, struct source *source, u32 key)
{
	if (!(PLAN.flags & SEVERAL) || window->owner == key + 1)
		return OURS;
	return open_shared(window, source, key);
}

INLINE void close_window(struct flow_window *window, enum access access)
{
	if (access == LOCKED)
		__sync_lock_test_and_set(&window->lock, 0);
}

#endif
