/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Packets of any headers: crates/wire's `Image`, as plain numbers. They are read-only data, so that the verifier knows
 * each offset and removes what an image does not have.
 */
#ifndef XDP_IMAGE_H
#define XDP_IMAGE_H

#include "lane.h"
#include "tagged_data.h"

enum { MOST_WORDS = 32, MOST_WRITERS = 8, MOST_SUMS = 4 };

/* writer.kind */
enum {
	/* `start + step * flow` */
	WRITE_COUNTER,
	/* By flow: TABLES. */
	WRITE_TABLE,
	/* Random numbers by packet: `start`, and one of `count` (0: 2^64) that `step` is the seed of. */
	WRITE_RANDOM,
};

/* A field that varies, and the bytes behind it. */
struct writer {
	u64 start;
	u64 step;
	u64 count;
	u64 mask;
	u64 constant;
	u32 at;
	u32 kind;
	/* Of random numbers, places to the left. */
	u32 shift;
	/* Where its table begins. */
	u32 table;
	/* By checksum: of the field in its sum, 0, 1 or 256. */
	u16 factor[MOST_SUMS];
};

/* A checksum: where it lies, its constant part, what stands for 0. */
struct sum_of {
	u32 at;
	u32 constant;
	u32 zero;
	/* Factor of the sum of data and tag, 0, 1 or 256. */
	u32 rest;
	/* The same of the checksums before it. */
	u16 inner[MOST_SUMS];
};

struct image {
	/* Headers. The MAC addresses are the lane's: the next hop is known later. */
	u64 word[MOST_WORDS];
	/* Bytes of headers, and of data. */
	u32 headers;
	u32 data;
	u32 writers;
	u32 sums;
	struct writer writer[MOST_WRITERS];
	struct sum_of sum[MOST_SUMS];
};
/* Of the one stream. */
const volatile struct image IMAGE = {};

_Static_assert(sizeof(struct writer) == 64, "crates/xdp/src/abi.rs");
_Static_assert(sizeof(struct sum_of) == 24, "crates/xdp/src/abi.rs");
_Static_assert(sizeof(struct image) == 880, "crates/xdp/src/abi.rs");

/* Words of writers, by flow. */
SHARED_ARRAY(TABLES, u64);

/* The upper half of a product. */
INLINE u64 high_product(u64 a, u64 b)
{
	u64 a1 = a >> 32, a0 = (u32)a, b1 = b >> 32, b0 = (u32)b, low = a0 * b0, one = a1 * b0 + (low >> 32),
	    other = a0 * b1 + (u32)one;

	return a1 * b1 + (one >> 32) + (other >> 32);
}

/* Of a packet of one of `flows` flows. */
INLINE u64 word_of_writer(const volatile struct writer *w, u32 flow, u32 flows, u64 seq)
{
	u64 random, *word;
	u32 key;

	if (w->kind == WRITE_COUNTER)
		return w->start + w->step * flow;
	if (w->kind == WRITE_TABLE) {
		key = w->table + flow;
		word = bpf_map_lookup_elem(&TABLES, &key);
		return word ? *word : 0;
	}
	random = data_base(w->step, seq * flows + flow);
	return (w->start + (w->count ? high_product(random, w->count) : random)) << w->shift;
}

/* Writes the data in front of the tag; returns the sum of its words. */
INLINE u64 write_data_back(void *at, u32 len, u32 flow, u32 number)
{
	u32 words = len / 8, head = len & 7;
	u64 base = data_back(PLAN.seed, flow, number, words), word, sum = 0;

	if (head) {
		sum = halves(base & ~(~0ULL >> 8 * head));
		word = base >> (64 - 8 * head);
		if (head & 4) {
			*(u32 *)at = word;
			at += 4;
			word >>= 32;
		}
		if (head & 2) {
			*(u16 *)at = word;
			at += 2;
			word >>= 16;
		}
		if (head & 1)
			*(u8 *)at++ = word;
	}
	for (u32 i = 0; i < 512; i++) {
		if (i >= words)
			break;
		base -= DATA_STEP;
		*(u64 *)at = base;
		sum += halves(base);
		at += 8;
	}
	return sum;
}

/* Writes a tag as it is sent; returns the sum of its words. */
INLINE u64 write_tag(void *at, u32 run, u32 flow, u32 number, u64 time)
{
	u32 both = run << 22 | flow;
	u64 first, last;

	time &= (1ULL << 36) - 1;
	first = (u64)number << 32 | (both >> 15) << 16 | (both & 0x7fff) | 0x8000;
	last = time << TAG_CHECK_BITS | tag_check(PLAN.seed, run, flow, number, time);
	first = swap64(first);
	last = swap64(last);
	*(u64 *)at = first;
	*(u64 *)(at + 8) = last;
	return halves(first) + halves(last);
}

/* What differs in the images of a stream's sizes. */
struct sized {
	u64 word[MOST_WORDS];
	/* Of writers. */
	u64 constant[MOST_WRITERS];
	/* `constant` and `rest` of checksums. */
	u32 sum[MOST_SUMS];
	u32 rest[MOST_SUMS];
	/* Bytes of data. */
	u32 data;
	/* Place that its packets are counted at, beside their stream's; 0: none. */
	u32 place;
};
_Static_assert(sizeof(struct sized) == 360, "crates/xdp/src/abi.rs");

/* A packet that is to be written. */
struct packet {
	/* Flow and number; the flow is one among those of all streams, of which its own has `flows` from `first` on. */
	u32 flow;
	u32 first;
	u32 flows;
	u64 seq;
	u64 time;
	/* Its checksums so far. */
	u64 sums[MOST_SUMS];
};

/*
 * Writes the headers of a packet, and bytes behind them where the data are to be. `of`: what its size has in place of
 * the image's; 0: nothing.
 */
INLINE void write_headers(const volatile struct image *image, const volatile struct sized *of, void *frame,
			  struct lane *lane, struct packet *packet)
{
	u64 *sums = packet->sums;

	/* Behind the MAC addresses a header may hold the length. */
#pragma unroll
	for (u32 i = 0; i < MOST_WORDS; i++) {
		u64 word;

		if (8 * i >= image->headers)
			continue;
		word = i < 2 ? lane->headers[i] : of ? of->word[i] : image->word[i];
		if (of && i == 1)
			word = (u32)word | (of->word[1] & ~0xffffffffULL);
		((u64 *)frame)[i] = word;
	}
#pragma unroll
	for (u32 k = 0; k < MOST_SUMS; k++)
		sums[k] = of ? of->sum[k] : image->sum[k].constant;
#pragma unroll
	for (u32 i = 0; i < MOST_WRITERS; i++) {
		if (i < image->writers) {
			const volatile struct writer *w = &image->writer[i];
			u64 bits = swap64(word_of_writer(w, packet->flow - packet->first, packet->flows, packet->seq) & w->mask);

			*(u64 *)(frame + w->at) = (of ? of->constant[i] : w->constant) | bits;
#pragma unroll
			for (u32 k = 0; k < MOST_SUMS; k++)
				if (w->factor[k])
					sums[k] += halves(bits * w->factor[k]);
		}
	}
}

/* Writes tag and checksums of a packet whose headers and data are there. */
INLINE void write_end(const volatile struct image *image, const volatile struct sized *of, void *frame, void *tag,
		      struct lane *lane, const struct packet *packet, u64 sum_of_data)
{
	u32 fields[MOST_SUMS], end;

	end = fold(sum_of_data + write_tag(tag, lane->run, packet->flow, packet->seq, packet->time));
#pragma unroll
	for (u32 k = 0; k < MOST_SUMS; k++) {
		if (k < image->sums) {
			const volatile struct sum_of *s = &image->sum[k];
			u64 sum = packet->sums[k] + (u64)end * (of ? of->rest[k] : s->rest);

#pragma unroll
			for (u32 j = 0; j < k; j++)
				if (s->inner[j])
					sum += fields[j] * s->inner[j];
			fields[k] = (u16)~fold(sum);
			if (!fields[k])
				fields[k] = s->zero;
			*(u16 *)(frame + s->at) = fields[k];
		}
	}
}

/* Writes a packet of IMAGE, as `write_packet` does. */
INLINE void write_one(void *frame, struct lane *lane, u32 flow, u64 seq, u64 time)
{
	struct packet packet = { .flow = flow, .flows = PLAN.flows, .seq = seq, .time = time };
	u64 sum;

	write_headers(&IMAGE, 0, frame, lane, &packet);
	sum = write_data_back(frame + IMAGE.headers, IMAGE.data, flow, seq);
	write_end(&IMAGE, 0, frame, frame + IMAGE.headers + IMAGE.data, lane, &packet, sum);
}

#endif
