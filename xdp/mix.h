/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Several streams on a lane: the one that is due first sends its packet. Each has an image of its own, which is
 * read-only data, as IMAGE is; rates, starts and ends are its lane's. Frames are as long as the longest, and are made
 * shorter one by one: the kernel makes them as long again.
 */
#ifndef XDP_MIX_H
#define XDP_MIX_H

#include "by_stream.h"
#include "image.h"
#include "pacing.h"

#define NEVER (~0ULL)

const volatile struct image IMAGES[MOST_STREAMS] = {};
/* By stream, then by size; the image of a stream is that of its first size. */
const volatile struct sized SIZED[MOST_STREAMS * MOST_SIZES] = {};

/* Sizes of streams, cycle after cycle: see `struct stream`. */
SHARED_ARRAY(TURNS, u64);

/* Which of a stream's sizes a packet has, of a flow among the stream's own: crates/wire/src/image/sizes.rs. */
INLINE u32 size_of(const volatile struct stream *stream, u32 flow, u32 number)
{
	u64 *turn;
	u32 key;

	if (stream->sizes < 2)
		return 0;
	if (stream->cycle) {
		key = stream->turns + ((u64)flow + number) % stream->cycle;
		turn = bpf_map_lookup_elem(&TURNS, &key);
		return turn ? *turn & (MOST_SIZES - 1) : 0;
	}
	return high_product(data_base(stream->seed, (u64)number * (stream->end - stream->first) + flow), stream->sizes) &
	       (MOST_SIZES - 1);
}

/* Where SIZED has the size of a packet. */
INLINE u32 place_of_size(u32 stream, u32 flow, u32 number)
{
	const volatile struct stream *of = &STREAMS[stream & (MOST_STREAMS - 1)];

	return (stream & (MOST_STREAMS - 1)) * MOST_SIZES + size_of(of, flow - of->first, number);
}

/*
 * Writes `len` bytes of data in front of a tag at `at`, for which the verifier need not know the length; returns the
 * sum of their words.
 */
GLOBAL u64 write_data_sized(struct xdp_md *ctx, u32 at, u32 len, u64 base)
{
	u32 words = len / 8, head = len & 7;
	void *to = frame_data(ctx) + ((at - len) & OFFSET), *end = frame_end(ctx);
	u64 sum, word, here;

	base += DATA_STEP * (words + 1);
	sum = halves(head ? base & ~(~0ULL >> 8 * head) : 0);
	word = head ? base >> (64 - 8 * head) : 0;
	OPAQUE(to);
	if (to + 8 > end)
		return 0;
	if (head & 4) {
		*(u32 *)to = word;
		to += 4;
		word >>= 32;
	}
	if (head & 2) {
		*(u16 *)to = word;
		to += 2;
		word >>= 16;
	}
	if (head & 1)
		*(u8 *)to++ = word;
	here = span(frame_data(ctx), to);
	FORGET(here, ctx->rx_queue_index);
	OPAQUE(ctx);
	to = frame_data(ctx) + (here & OFFSET);
	end = frame_end(ctx);
	for (u32 i = 0; i < BATCHES; i++) {
		if ((i + 1) * BATCH > words)
			break;
		OPAQUE(to);
		if (to + BATCH * 8 > end)
			return 0;
#pragma unroll
		for (u32 k = 0; k < BATCH; k++) {
			base -= DATA_STEP;
			*(u64 *)(to + k * 8) = base;
			sum += halves(base);
		}
		to += BATCH * 8;
	}
	here = span(frame_data(ctx), to);
	FORGET(here, ctx->rx_queue_index);
	FORGET(sum, here);
	OPAQUE(ctx);
	to = frame_data(ctx) + (here & OFFSET);
	end = frame_end(ctx);
	for (u32 i = 0; i < BATCH - 1; i++) {
		if (i >= words % BATCH)
			break;
		OPAQUE(to);
		if (to + 8 > end)
			return 0;
		base -= DATA_STEP;
		*(u64 *)to = base;
		sum += halves(base);
		to += 8;
	}
	return sum;
}

/* Writes a packet of stream `n`, which the verifier knows; returns its length, 0: never. */
INLINE u32 write_mixed(struct xdp_md *ctx, u32 n, struct lane *lane, u32 flow, u64 seq, u64 time, u32 *place)
{
	const volatile struct stream *stream = &STREAMS[n];
	const volatile struct image *image = &IMAGES[n];
	const volatile struct sized *of = &SIZED[n * MOST_SIZES];
	struct packet packet = { .flow = flow, .first = stream->first, .seq = seq, .time = time };
	void *frame = frame_data(ctx), *tag, *end = frame_end(ctx);
	u32 len;
	u64 sum;

	if (frame + PLAN.frame_len > end)
		return 0;
	packet.flows = stream->end - stream->first;
	if (stream->sizes > 1) {
		of += size_of(stream, flow - stream->first, seq);
		*place = of->place;
	}
	len = of->data;
	write_headers(image, of, frame, lane, &packet);
	if (stream->sizes > 1) {
		sum = write_data_sized(ctx, image->headers + len, len, data_base(PLAN.seed, (u64)flow << 32 | (u32)seq));
		OPAQUE(ctx);
		frame = frame_data(ctx);
		end = frame_end(ctx);
		tag = frame + ((image->headers + len) & OFFSET);
		OPAQUE(tag);
		if (frame + PLAN.frame_len > end || tag + TAG > end)
			return 0;
	} else {
		sum = write_data_back(frame + image->headers, len, flow, seq);
		tag = frame + image->headers + len;
	}
	write_end(image, of, frame, tag, lane, &packet, sum);
	return image->headers + len + TAG;
}

/* The stream whose packet is due first, or, without schedules, whose turn it is. */
INLINE u32 next_stream(struct lane *clock, u64 *due, u32 unknown)
{
	u32 next = 0;

	*due = NEVER;
#pragma unroll
	for (u32 i = 0; i < MOST_STREAMS; i++) {
		if (i < PLAN.streams && clock->due[i] < *due) {
			*due = clock->due[i];
			next = i;
		}
	}
	/* The verifier follows the rest once, and not after each stream. */
	FORGET(next, unknown);
	return next;
}

/* Streams without a schedule whose time has come take turns with the others from here on. 0: all have ended. */
INLINE int join(struct lane *clock, u32 cpu)
{
	int more = 0;

#pragma unroll
	for (u32 i = 0; i < MOST_STREAMS; i++) {
		struct lane *lane = i < PLAN.streams ? lane_on(cpu, i + 1) : 0;

		if (!lane || lane->done)
			continue;
		more = 1;
		if (!lane->joins_ns || clock->now_ns < lane->joins_ns)
			continue;
		lane->joins_ns = 0;
		lane->due_ns = clock->due_ns;
		clock->due[i] = clock->due_ns;
	}
	return more;
}

/* Counts a packet that is sent for its size. */
INLINE void count_size(struct lane *clock, u32 place)
{
	u32 key = clock->row_key + (place - 1) * PLAN.rows;
	struct row *row = bpf_map_lookup_elem(&ROWS, &key);

	if (row)
		row->tx++;
}

INLINE int send_next(struct xdp_md *ctx)
{
	u32 cpu = bpf_get_smp_processor_id(), stream, flow, place, cursor, len = 0, size = 0, unknown;
	struct lane *clock = lane_on(cpu, 0), *lane;
	u64 now, seq, due;

	if (!clock)
		return XDP_ABORTED;
	if (clock->done) {
		if (clock->pending)
			book_mixed(clock, cpu);
		return XDP_DROP;
	}
	unknown = ctx->rx_queue_index;
	stream = next_stream(clock, &due, unknown);
	if (PLAN.flags & PACED) {
		if (due == NEVER) {
			clock->done = 1;
			return XDP_DROP;
		}
		clock->due_ns = due;
		if ((!clock->left || due > clock->now_ns) && !tick(clock, 1))
			return XDP_DROP;
		if (due > clock->now_ns) {
			clock->waits++;
			return XDP_DROP;
		}
	} else {
		if (!clock->left) {
			if (!tick(clock, 1))
				return XDP_DROP;
			if (PLAN.flags & JOINS && !join(clock, cpu)) {
				clock->done = 1;
				return XDP_DROP;
			}
			stream = next_stream(clock, &due, unknown);
		}
		if (due == NEVER) {
			if (!(PLAN.flags & JOINS))
				clock->done = 1;
			clock->left = 0;
			clock->waits++;
			return XDP_DROP;
		}
		clock->due_ns = due;
	}
	lane = lane_on(cpu, stream + 1);
	if (!lane)
		return XDP_ABORTED;
	now = clock->now_ns;
	if (PLAN.flags & PACED && now - due > PLAN.catch_up_ns) {
		lane->now_ns = now;
		give_up(lane);
		clock->left = 0;
		clock->due[stream & (MOST_STREAMS - 1)] = lane->done ? NEVER : lane->due_ns;
		return XDP_DROP;
	}

	clock->left--;
	seq = lane->seq;
	cursor = place = lane->cursor;
	flow = lane->first_flow + cursor;
	if (++cursor == lane->flows) {
		cursor = 0;
		/* Receivers look at the number again after the place: see `sent_after_all`. */
		*(volatile u64 *)&lane->seq = seq + 1;
	}
	*(volatile u32 *)&lane->cursor = cursor;
	/* Each with constants of its own. */
#define WRITE(n)                                                                                                       \
	case n:                                                                                                        \
		if (n < PLAN.streams)                                                                                  \
			len = write_mixed(ctx, n, lane, flow, seq, now, &size);                                        \
		break
	switch (stream) {
		WRITE(0);
		WRITE(1);
		WRITE(2);
		WRITE(3);
		WRITE(4);
		WRITE(5);
		WRITE(6);
		WRITE(7);
	}
	/* The same. */
	FORGET(len, unknown);
	FORGET(size, unknown);
	FORGET(stream, unknown);
	if (!len)
		return XDP_ABORTED;
	if (PLAN.flags & SIZES && size)
		count_size(clock, size);

	if (!lane->pending++ && PLAN.flags & RECEIVE)
		publish(lane, seq * lane->flows + place, now);
	if (!clock->pending++)
		note_burst(clock, now);
	if (PLAN.flags & PACED && PLAN.flags & RECEIVE)
		note_slip(flow, seq, now, now - due);
	depart(lane);
	clock->due[stream & (MOST_STREAMS - 1)] = lane->done ? NEVER : lane->due_ns;
	if (len != PLAN.frame_len)
		bpf_xdp_adjust_tail(ctx, (int)len - (int)PLAN.frame_len);
	/* See `send_one`. */
	else if (PLAN.flags & MOVED)
		bpf_xdp_adjust_meta(ctx, -4);
	return XDP_TX;
}

#endif
