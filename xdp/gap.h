/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Numbers that a flow's packets skip: whether they are lost, or left open, until others bear it out. The same rule as
 * in crates/stats/src/streams.rs, function by function; crates/xdp/tests/programs_streams.rs compares the two.
 */
#ifndef XDP_GAP_H
#define XDP_GAP_H

#include "window.h"

enum {
	/* A gap of up to so many numbers is believed at once. */
	NEAR = 64,
	/* Packets that bear each other out. */
	PROOF = 3,
	/* A leap of more gaps is believed. */
	MAX_GAPS = 255,
};

/* drop_flow.doubt: what of struct doubt is in use. */
enum { HELD = 1, GAP = 2, LEAP = 4 };

struct drop_flow {
	struct flow_window window;
	/* Lowest sequence number of the stream. */
	u64 base;
	/* Send time of the highest number seen. */
	u64 newest_ns;
	/* When a packet was last received. */
	u64 heard_ns;
	u32 doubt;
	/* A packet was received. */
	u32 known;
};
typedef struct drop_flow drop_flow_t;

/* A packet that is held aside. */
struct held {
	u64 seq;
	u64 time_ns;
	/* NO_LATENCY: the sender's clock is not ours. */
	u64 latency;
	/* It is counted as BEYOND_WINDOW, not as IMPLAUSIBLE_SEQUENCE. */
	u64 too_old;
};

struct doubt {
	struct held held[PROOF - 1];
	/* The open gap's numbers, of which `open` have not come. */
	u64 low;
	u64 high;
	u64 open;
	/* Where the flow's stream was before the one at hand was believed; 0: it was the first. */
	u64 former;
	/* Gaps that were counted as lost, with no two packets in a row above them so far: see Leap. */
	u64 leap_first;
	u64 leap_time_ns;
	u64 leap_low;
	u64 leap_lost;
	/* Packets above the gap that are counted as IMPLAUSIBLE_SEQUENCE. */
	u32 jumps;
	u32 leap_gaps;
	/* Packets held. */
	u8 count;
	/* The gap lies below the stream's first packet. */
	u8 below;
	/* Packets that bear the gap out. */
	u8 support;
	u8 leap_run;
	u8 leap_fills;
	u8 unused[3];
};
typedef struct doubt doubt_t;
_Static_assert(sizeof(struct drop_flow) == 64 && sizeof(struct doubt) == 144, "crates/xdp/src/encode.rs");

SHARED_ARRAY(FLOWS, drop_flow_t);
/* By flow. */
SHARED_ARRAY(DOUBTS, doubt_t);

/* Of a flow, by whoever may write its window; and the source whose counts they go to. */
struct hand {
	struct source *source;
	struct drop_flow *flow;
	struct doubt *doubt;
	u32 number;
};

INLINE u64 less(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/* Whether `seq` is one of the NEAR numbers from `low` on, or `low` itself. */
INLINE int near(u64 seq, u64 low)
{
	return seq >= low && seq - low <= NEAR;
}

/* Whether a number continues the stream of before. */
INLINE int goes_back(struct doubt *doubt, u64 seq)
{
	return doubt->former && near(seq, doubt->former);
}

INLINE u64 ones(u64 word)
{
	word -= word >> 1 & 0x5555555555555555ULL;
	word = (word & 0x3333333333333333ULL) + (word >> 2 & 0x3333333333333333ULL);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return word * 0x0101010101010101ULL >> 56;
}

/* Of 64 numbers, those that were seen. */
INLINE u64 window_seen(struct flow_window *window, u32 number, u64 epoch)
{
	struct window_word *word;

	if (epoch == (window->next - 1) >> 6)
		return window->bits;
	word = window_word(PLAN.max_flows, number, epoch);
	return word && word->tag == window_tag(window, epoch) ? word->bits : 0;
}

/* How many numbers from `from` to below `to`, NEAR of them at the most, were not seen. */
INLINE u64 window_missing(struct flow_window *window, u32 number, u64 from, u64 to)
{
	u64 count = to - from, shift = from & 63, seen;

	seen = window_seen(window, number, from >> 6) >> shift;
	if (shift)
		seen |= window_seen(window, number, (from >> 6) + 1) << (64 - shift);
	if (count < 64)
		seen &= (1ULL << count) - 1;
	return count - ones(seen);
}

/* Whether a number below the highest is told new from seen. */
INLINE int window_reaches(struct flow_window *window, u64 seq)
{
	return (window->next >> 6) - (seq >> 6) < PLAN.window_words;
}

/* Leaves the numbers from `low` to below `high` open. */
INLINE void open_gap(struct hand *h, u64 low, u64 high, u64 open, u32 jumps, u32 below)
{
	struct doubt *doubt = h->doubt;

	doubt->low = low;
	doubt->high = high;
	doubt->open = open;
	doubt->below = below;
	doubt->support = 0;
	doubt->jumps = jumps;
	h->flow->doubt |= GAP;
	h->source->reasons[IMPLAUSIBLE_SEQUENCE] += jumps;
	h->source->reasons[UNCONFIRMED_GAP] += open;
}

/* The gap is believed: what has not come of it was sent. */
INLINE u64 close_gap(struct hand *h)
{
	struct doubt *doubt = h->doubt;

	h->flow->doubt &= ~GAP;
	if (!doubt->below && goes_back(doubt, doubt->high)) {
		/* The earlier stream goes on, so the one in between was none. Gaps that it left open stay open. */
		doubt->former = 0;
		return 0;
	}
	if (!doubt->below && doubt->low - h->flow->base < PROOF)
		h->source->reasons[GAP_AFTER_FIRST] += doubt->open;
	h->source->reasons[IMPLAUSIBLE_SEQUENCE] -= doubt->jumps;
	h->source->reasons[UNCONFIRMED_GAP] -= doubt->open;
	/* Of a leap that began within the gap, only some. */
	if (!doubt->below && h->flow->doubt & LEAP && doubt->low >= doubt->leap_first)
		doubt->leap_lost += doubt->open;
	return doubt->open;
}

/* One more packet bears the gap out. Returns how many packets it now says were sent. */
INLINE u64 support(struct hand *h)
{
	if (++h->doubt->support < PROOF - 1)
		return 0;
	return close_gap(h);
}

/* The numbers that a leap skips begin. */
INLINE void begin_leap(struct hand *h, u64 next, u64 before_ns)
{
	struct doubt *doubt = h->doubt;

	h->flow->doubt |= LEAP;
	doubt->leap_first = next;
	doubt->leap_time_ns = before_ns;
	doubt->leap_low = next;
	doubt->leap_lost = 0;
	doubt->leap_gaps = 0;
	doubt->leap_fills = 0;
}

/* A new highest number; `next` was expected. Returns how many more packets were sent. */
INLINE u64 risen(struct hand *h, u64 seq, u64 next, u64 time_ns, u32 sure)
{
	struct drop_flow *flow = h->flow;
	struct doubt *doubt = h->doubt;
	u64 before_ns = flow->newest_ns, gap = seq - next;

	flow->newest_ns = time_ns;
	if (!flow->known) {
		flow->known = 1;
		flow->base = seq;
		return 1;
	}
	if (!gap) {
		if (doubt->leap_run < PROOF)
			doubt->leap_run++;
		if (doubt->leap_run >= PROOF - 1)
			flow->doubt &= ~LEAP;
	} else if (!sure) {
		if (!(flow->doubt & LEAP))
			begin_leap(h, next, before_ns);
		doubt->leap_run = 0;
		if (++doubt->leap_gaps > MAX_GAPS)
			flow->doubt &= ~LEAP;
	}
	if (sure)
		return 1 + gap;
	if (flow->doubt & GAP && !doubt->below) {
		if (gap) {
			doubt->high = seq;
			doubt->open += gap;
			/* One that is beyond this count stays in the sum. */
			if (doubt->jumps != ~0U)
				doubt->jumps++;
			h->source->reasons[IMPLAUSIBLE_SEQUENCE]++;
			h->source->reasons[UNCONFIRMED_GAP] += gap;
		}
		return 1 + support(h);
	}
	if (gap <= NEAR && (!gap || !goes_back(doubt, seq))) {
		doubt->leap_lost += gap;
		return 1 + gap;
	}
	/* One gap at a time: one below the first packet stays open for ever. */
	open_gap(h, next, seq, gap, 1, 0);
	return 1;
}

/* The stream goes on below the gap: what it skipped there is lost. Returns how many more packets were sent. */
INLINE u64 fill_gap(struct hand *h, u64 seq)
{
	struct doubt *doubt = h->doubt;
	u64 lost = 0;

	if (seq - doubt->low <= NEAR && window_reaches(&h->flow->window, doubt->low)) {
		lost = window_missing(&h->flow->window, h->number, doubt->low, seq);
		if (lost > doubt->open)
			lost = doubt->open;
		doubt->low = seq + 1;
		doubt->open -= lost;
		h->source->reasons[UNCONFIRMED_GAP] -= lost;
	}
	if (!doubt->open) {
		/* All of it came or is lost: those above were only early. */
		h->source->reasons[IMPLAUSIBLE_SEQUENCE] -= doubt->jumps;
		h->flow->doubt &= ~GAP;
	}
	return lost;
}

/* The same below a leap. Once PROOF packets have done so, what was leapt over is open, and no longer lost. */
INLINE u64 fill_leap(struct hand *h, u64 seq)
{
	struct drop_flow *flow = h->flow;
	struct doubt *doubt = h->doubt;
	u64 lost;

	if (!near(seq, doubt->leap_low) || !window_reaches(&flow->window, doubt->leap_low))
		return 0;
	lost = less(doubt->leap_lost, window_missing(&flow->window, h->number, doubt->leap_low, seq));
	doubt->leap_lost = lost;
	doubt->leap_low = seq + 1;
	if (doubt->leap_fills < PROOF)
		doubt->leap_fills++;
	if (doubt->leap_fills < PROOF || (flow->doubt & GAP && doubt->below))
		return 0;
	flow->doubt &= ~LEAP;
	if (!lost)
		return 0;
	if (flow->doubt & GAP) {
		doubt->low = seq + 1;
		doubt->open += lost;
		h->source->reasons[UNCONFIRMED_GAP] += lost;
	} else {
		open_gap(h, seq + 1, flow->window.next - 1, lost, doubt->leap_gaps, 0);
	}
	return -lost;
}

/* A new number below the highest. Returns how many more packets were sent. */
INLINE u64 behind(struct hand *h, u64 seq)
{
	struct drop_flow *flow = h->flow;
	struct doubt *doubt = h->doubt;
	u64 base = flow->base, expected = 0;

	doubt->leap_run = 0;
	if (flow->doubt & GAP && seq >= doubt->low && seq < doubt->high) {
		/* None is open: this one was counted as lost. */
		if (doubt->open) {
			doubt->open--;
			h->source->reasons[UNCONFIRMED_GAP]--;
			expected = 1;
		}
		if (doubt->below)
			return expected + support(h);
		doubt->support = 0;
		return expected + fill_gap(h, seq);
	}
	if (flow->doubt & LEAP && seq >= doubt->leap_first) {
		if (seq >= doubt->leap_low && doubt->leap_lost)
			doubt->leap_lost--;
		return fill_leap(h, seq);
	}
	if (seq >= base)
		return 0;
	/* The first packets of the stream came out of order: it begins earlier than thought. */
	if (base - seq <= NEAR) {
		flow->base = seq;
		return base - seq;
	}
	if (!(flow->doubt & GAP)) {
		flow->base = seq;
		/* Nothing bore the first packets out so far: then it is they that jump. */
		open_gap(h, seq + 1, base, base - seq - 1, 1, flow->window.next - base >= PROOF);
	}
	return 1;
}

/* Whether a packet goes on from where the stream was before a leap. */
INLINE int undoes_leap(struct hand *h, const struct held *packet)
{
	struct doubt *doubt = h->doubt;
	u64 low = less(doubt->leap_low, PROOF - 1);

	if (low <= h->flow->base)
		low = h->flow->base + 1;
	return h->flow->doubt & LEAP && packet->time_ns >= doubt->leap_time_ns && packet->seq >= low &&
	       (packet->seq <= doubt->leap_low || packet->seq - doubt->leap_low <= NEAR);
}

#endif
