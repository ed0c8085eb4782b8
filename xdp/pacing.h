/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Departures: when the next packet is due, and what becomes of those that can't leave any more.
 */
#ifndef XDP_PACING_H
#define XDP_PACING_H

#include "lane.h"

/* -ln(1 - i / 1024) in units of 2^-24. */
const volatile u32 EXPONENTIAL[1024] = {};

/* A draw from the exponential distribution of mean 1, in units of 2^-24. */
INLINE u64 draw(struct lane *lane)
{
	u64 drawn = 0;

	/* The last of 1024 steps has no end: what lies in it is a step's begin and another draw, for the distribution
	 * has no memory. Eight in a row are one in 2^80. */
	for (int i = 0; i < 8; i++) {
		u64 z = lane->random += 0x9e3779b97f4a7c15ULL;
		u32 step, within;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
		z ^= z >> 31;
		step = z & 1023;
		within = (z >> 32) & 0xffff;
		if (step < 1023) {
			u64 low = EXPONENTIAL[step], high = EXPONENTIAL[(step + 1) & 1023];

			return drawn + low + ((high - low) * within >> 16);
		}
		drawn += EXPONENTIAL[1023];
	}
	return drawn;
}

/* Moves the schedule on by one unit. */
INLINE void next_unit(struct lane *lane)
{
	u64 fraction;

	if (PLAN.flags & RANDOM && lane->random) {
		/* What is left of the packets over what is left of the time: their number comes out exact. */
		u64 end = lane->schedule_end_ns, due = lane->due_ns, mean, drawn = draw(lane), gap;

		if (end && lane->remaining) {
			u64 left = end - due;

			/* Beyond 39 hours no fraction has room, nor is it missed. */
			mean = left >> 47 ? left / lane->remaining << 16 : (left << 16) / lane->remaining;
		} else {
			mean = lane->step_ns << 16 | lane->step_fraction >> 48;
		}
		gap = mean >> 32 ? (mean >> 14) * drawn >> 10 : mean * drawn >> 24;
		fraction = lane->due_fraction + (gap << 48);
		lane->due_ns = due + (gap >> 16) + (fraction < lane->due_fraction);
		lane->due_fraction = fraction;
		if (end && lane->due_ns >= end)
			lane->due_ns = end - 1;
		return;
	}
	fraction = lane->due_fraction + lane->step_fraction;
	lane->due_ns += lane->step_ns + (fraction < lane->due_fraction);
	lane->due_fraction = fraction;
}

/* Takes the next departure off the schedule. */
INLINE void depart(struct lane *lane)
{
	if (!--lane->remaining)
		lane->done = 1;
	if (!--lane->in_unit) {
		lane->in_unit = lane->unit;
		next_unit(lane);
	}
}

/* Books what left since the clock was read. */
INLINE void book_sent(struct lane *lane)
{
	u32 key = lane->row_key;
	struct row *row = bpf_map_lookup_elem(&ROWS, &key);

	if (row)
		row->tx += lane->pending;
	lane->packets += lane->pending;
	lane->pending = 0;
}

/* The same with several streams. `clock`: the lane that keeps the time. */
INLINE void book_mixed(struct lane *clock, u32 cpu)
{
#pragma unroll
	for (u32 i = 0; i < MOST_STREAMS; i++) {
		struct lane *lane = i < PLAN.streams ? lane_on(cpu, i + 1) : 0;
		u32 key = clock->row_key + i * PLAN.rows;
		struct row *row;

		if (!lane || !lane->pending)
			continue;
		row = bpf_map_lookup_elem(&ROWS, &key);
		if (row)
			row->tx += lane->pending;
		lane->packets += lane->pending;
		lane->pending = 0;
	}
	clock->packets += clock->pending;
	clock->pending = 0;
}

/* Reads the clock. 0: nothing may be sent now. `mixed`: there are several streams. */
INLINE int tick(struct lane *lane, int mixed)
{
	u64 now = bpf_ktime_get_ns(), end, start;
	struct run *run = run_of();

	if (!run)
		return 0;
	end = run->end_ns;
	start = run->start_ns;
	if (lane->pending && mixed)
		book_mixed(lane, bpf_get_smp_processor_id());
	else if (lane->pending)
		book_sent(lane);
	lane->now_ns = now;
	lane->left = 0;
	if (!start || now < start) {
		lane->waits++;
		return 0;
	}
	/* What was due before the end may still leave while it can be caught up. */
	if (now >= end && !(PLAN.flags & PACED && lane->due_ns < end && now - end < PLAN.catch_up_ns)) {
		lane->done = 1;
		return 0;
	}
	if (now >= lane->row_end) {
		u32 row = row_number(run, now);

		lane->row_end = start + (u64)(row + 1) * PLAN.interval_ns;
		lane->row_key = row_key(lane->writer, row);
	}
	lane->answering = 0;
	lane->left = BULK;
	return 1;
}

/* Gives up departures that are overdue by too much, some at a time. */
INLINE void give_up(struct lane *lane)
{
	struct run *run = run_of();
	struct row *row = 0;
	u64 end = 0;

	if (!run)
		return;
	/* What is sent next is stamped with a new reading of the clock. */
	lane->left = 0;
	for (int i = 0; i < 32; i++) {
		u64 due = lane->due_ns;

		if (lane->done || lane->now_ns <= due || lane->now_ns - due <= PLAN.catch_up_ns)
			return;
		/* Rows are those in which they were due. One that may have been taken already is written no more. */
		if (lane->now_ns - due > PLAN.settle_ns)
			due = lane->now_ns - PLAN.settle_ns;
		if (!row || due >= end) {
			u32 number = row_number(run, due), key = row_key(lane->writer, number);

			row = bpf_map_lookup_elem(&ROWS, &key);
			if (!row)
				return;
			end = run->start_ns + (u64)(number + 1) * PLAN.interval_ns;
		}
		row->missed++;
		depart(lane);
	}
}

/* Notes that packets leave at a new reading of the clock. */
INLINE void note_burst(struct lane *lane, u64 now)
{
	if (lane->last_ns) {
		u64 gap = now - lane->last_ns;
		struct wide_octave *octave;
		u32 key;

		measure(&lane->gaps, gap);
		key = octave_of(lane->number * OCTAVES, &gap);
		octave = bpf_map_lookup_elem(&GAPS, &key);
		if (octave)
			octave->bucket[gap]++;
	}
	lane->last_ns = now;
	lane->bursts++;
}

/* Notes when a packet leaves, and how much later than scheduled, for when it comes back. */
INLINE void note_slip(u32 flow, u64 seq, u64 now, u64 slip)
{
	u32 key = ((u32)seq & (PLAN.slips - 1)) * PLAN.flows + flow;
	struct slip *noted = bpf_map_lookup_elem(&SLIPS, &key);

	if (slip > 0xfffffffe)
		slip = 0xfffffffe;
	if (noted) {
		/* Receivers read the entry, the time, and once more the entry. */
		*(volatile u64 *)&noted->entry = NO_SLIP;
		*(volatile u64 *)&noted->sent_ns = now;
		*(volatile u64 *)&noted->entry = seq << 32 | slip;
	}
}

/* Where TIMES has the send time of a lane's packets around this one. */
INLINE u32 time_key(u32 lane, u64 block)
{
	return lane * TIMES_KEPT + ((u32)block & (TIMES_KEPT - 1));
}

/*
 * Packet `position` of the lane is the first that leaves at `now`: tells receivers, before any of them is on its way.
 * Of those that leave with it one at the most is the first of 16.
 */
INLINE void publish(struct lane *lane, u64 position, u64 now)
{
	if (!(PLAN.flags & PACED)) {
		u32 key = time_key(lane->number, (position + BULK - 1) / BULK);
		u64 *time = bpf_map_lookup_elem(&TIMES, &key);

		if (time)
			*time = now;
	}
	/* The time first, then the limit: an exchange, since a plain store may overtake another. */
	__sync_lock_test_and_set(&lane->limit, position);
}

#endif
