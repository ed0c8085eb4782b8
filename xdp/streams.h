/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What sequence numbers tell a receiver that knows nothing of the sender, and how it is booked. A jump counts once
 * PROOF packets bear it out: crates/stats/src/streams.rs.
 */
#ifndef XDP_STREAMS_H
#define XDP_STREAMS_H

#include "gap.h"

/* Latencies above this are taken for the clocks of two hosts, ns. */
static const u64 MAX_ONE_WAY = 60000000000ULL;
static const u64 NO_LATENCY = ~0ULL;
/* By so much the clocks of two CPUs may differ, ns. */
static const u64 CLOCK_SPREAD = 1000000;
/* Packets of another stream are within so many numbers of each other. A sender sends one packet a ns at the most. */
static const u64 MAX_STEP = 1 << 20;

/* What is counted of one packet. */
struct counted {
	u64 latency;
	/* How far behind the highest; 0: in order. */
	u64 distance;
	/* By how many the packets grew that the numbers say were sent; may be negative. */
	u64 expected;
};

enum outcome {
	COUNTED,
	REPEATED,
	/* In no count but those of doubts, until others bear it out. */
	ASIDE,
	/* It and those that were held with it are received, in the order of their arrival. */
	BELIEVED,
	/* From before the window. */
	ANCIENT,
};

INLINE void book_one(struct source *source, struct row *row, const struct counted *one)
{
	source->test++;
	row->rx++;
	row->expected += one->expected;
	if (PLAN.streams && !source->place)
		source->reasons[UNNAMED_FLOW_PACKETS]++;
	if (one->distance) {
		row->reordered++;
		row->distance_sum += one->distance;
		if (one->distance > source->distance_max)
			source->distance_max = one->distance;
		if (PLAN.streams)
			note_distance(source, source->place, one->distance);
	}
	if (one->latency != NO_LATENCY) {
		measure(&row->latency, one->latency);
		add_to_histogram(&HISTOGRAMS, source->period_key, one->latency, 1);
	} else {
		source->reasons[LATENCY_NOT_MEASURABLE]++;
	}
}

/* What a packet's flow is, and whose counts. 0: never. */
INLINE int take_hand(struct hand *h, u32 key, u32 number)
{
	h->source = bpf_map_lookup_elem(&SOURCES, &key);
	h->flow = bpf_map_lookup_elem(&FLOWS, &number);
	h->doubt = bpf_map_lookup_elem(&DOUBTS, &number);
	h->number = number;
	return h->source && h->flow && h->doubt;
}

/* Notes a packet of the stream at hand. `sure`: what it skips is believed. */
GLOBAL int received(u32 key, u32 number, const struct held *packet, u32 sure, struct counted *one)
{
	struct hand h;
	u64 next, seq;

	if (!packet || !one || !take_hand(&h, key, number))
		return ASIDE;
	seq = packet->seq;
	next = h.flow->window.next;
	one->latency = packet->latency;
	one->distance = 0;
	switch (window_record(&h.flow->window, PLAN.max_flows, number, seq, &one->distance)) {
	case IN_ORDER:
		one->expected = risen(&h, seq, next, packet->time_ns, sure);
		break;
	case REORDERED:
		one->expected = behind(&h, seq);
		break;
	case DUPLICATE:
		if (seq + 1 == next && packet->time_ns != h.flow->newest_ns) {
			/* No copy, so the one at the top was forged: this is the packet of that number. */
			if (h.flow->doubt & GAP && !h.doubt->below && seq == h.doubt->high) {
				h.source->reasons[IMPLAUSIBLE_SEQUENCE] -= h.doubt->jumps;
				h.doubt->jumps = 0;
			}
			h.source->reasons[IMPLAUSIBLE_SEQUENCE]++;
			return ASIDE;
		}
		return REPEATED;
	default:
		return ANCIENT;
	}
	h.flow->heard_ns = h.source->now_ns;
	return COUNTED;
}

/* Whether two packets may be of one stream: both have a place in its window. */
INLINE int beside(const struct held *a, const struct held *b)
{
	u64 apart = a->seq > b->seq ? a->seq - b->seq : b->seq - a->seq, most = (u64)(PLAN.window_words - 1) * 32;

	return apart && apart <= (most < MAX_STEP ? most : MAX_STEP);
}

INLINE int same_packet(const struct held *a, const struct held *b)
{
	return a->seq == b->seq && a->time_ns == b->time_ns;
}

INLINE u32 reason_of(const struct held *held)
{
	return held->too_old ? BEYOND_WINDOW : IMPLAUSIBLE_SEQUENCE;
}

/* What was seen of the flow means nothing now. */
INLINE void forget(struct drop_flow *flow)
{
	flow->window.next = 0;
	flow->window.bits = 0;
	flow->window.generation = (flow->window.generation + 1) & 0xffff;
	flow->base = 0;
	flow->newest_ns = 0;
	flow->heard_ns = 0;
	flow->doubt = 0;
	flow->known = 0;
}

/* Whether a packet lies beyond what the stream at hand has come to. */
INLINE int goes_beyond(struct drop_flow *flow, const struct held *packet)
{
	return packet->seq >= flow->window.next && packet->time_ns >= flow->newest_ns;
}

/*
 * A packet bears out those that are held: they are of the stream, beyond a long gap, or of another one. Returns the
 * numbers that are lost no longer.
 */
INLINE u64 believe(struct hand *h, const struct held *last)
{
	struct drop_flow *flow = h->flow;
	struct doubt *doubt = h->doubt;
	const struct held *first = &doubt->held[0];
	u64 next = flow->window.next, contested = 0;

	doubt->count = 0;
	h->source->reasons[reason_of(first)]--;
	h->source->reasons[reason_of(&doubt->held[1])]--;
	if (goes_beyond(flow, first) && goes_beyond(flow, &doubt->held[1]) && goes_beyond(flow, last) &&
	    first->seq - next <= MAX_STEP + less(h->source->now_ns, flow->heard_ns) && !goes_back(doubt, first->seq)) {
		flow->doubt = 0;
		return 0;
	}
	if (undoes_leap(h, first)) {
		contested = doubt->leap_lost;
		h->source->reasons[CONTESTED_GAP] += contested;
	}
	doubt->former = next;
	forget(flow);
	h->source->reasons[SENDER_RESTARTS]++;
	return contested;
}

/* Holds a packet aside, or believes it with those that were held. */
INLINE enum outcome hold(struct hand *h, const struct held *packet)
{
	struct doubt *doubt = h->doubt;
	struct held *place = &doubt->held[0];

	if (doubt->count > 0 && same_packet(&doubt->held[0], packet))
		return REPEATED;
	if (doubt->count > 1 && same_packet(&doubt->held[1], packet))
		return REPEATED;
	if ((doubt->count > 0 && !beside(&doubt->held[0], packet)) ||
	    (doubt->count > 1 && !beside(&doubt->held[1], packet)))
		doubt->count = 0;
	if (doubt->count > 1)
		return BELIEVED;
	if (doubt->count)
		place = &doubt->held[1];
	*place = *packet;
	doubt->count++;
	h->flow->doubt |= HELD;
	h->source->reasons[reason_of(packet)]++;
	return ASIDE;
}

/* The stream goes on, so what is held belongs to none. */
INLINE void let_go(struct hand *h)
{
	struct doubt *doubt = h->doubt;

	if (doubt->count > 0 && near(doubt->held[0].seq, doubt->leap_low))
		doubt->leap_low = doubt->held[0].seq + 1;
	if (doubt->count > 1 && near(doubt->held[1].seq, doubt->leap_low))
		doubt->leap_low = doubt->held[1].seq + 1;
	doubt->count = 0;
	h->flow->doubt &= ~HELD;
}

/* Whether a packet is of another stream than the one at hand, or of none: numbers and times rise together. */
INLINE int of_another(struct drop_flow *flow, const struct held *packet)
{
	u64 next = flow->window.next, seq = packet->seq;

	if (seq < next)
		return packet->time_ns > flow->newest_ns;
	return seq - next > (u64)(PLAN.window_words - 1) * 32 || (seq > next && packet->time_ns < flow->newest_ns);
}

/* Finds out what a packet is to its flow, by whoever may write it. `all`: what is counted, of PROOF packets at the
 * most. */
INLINE enum outcome judge(struct hand *h, u32 key, struct held *packet, struct counted *all)
{
	struct held held[PROOF - 1];
	u64 contested;
	int outcome;

	if (!h->flow->known || !of_another(h->flow, packet)) {
		if (h->flow->known && packet->seq >= h->flow->window.next && h->flow->doubt & HELD)
			let_go(h);
		outcome = received(key, h->number, packet, !h->flow->known, &all[0]);
		if (outcome != ANCIENT)
			return outcome;
		packet->too_old = 1;
	}
	outcome = hold(h, packet);
	if (outcome != BELIEVED)
		return outcome;
	held[0] = h->doubt->held[0];
	held[1] = h->doubt->held[1];
	contested = believe(h, packet);
	/* They are numbers of their own, and the window has room for them: each is received. */
	received(key, h->number, &held[0], 1, &all[0]);
	received(key, h->number, &held[1], 0, &all[1]);
	received(key, h->number, packet, 0, &all[2]);
	all[0].expected -= contested;
	return BELIEVED;
}

/* A packet that is not the next of a flow without doubts, or whose window is not the source's own. */
GLOBAL int note_and_book(u32 key, u32 number, u64 seq, u64 sent, u64 latency)
{
	struct held packet = { .seq = seq, .time_ns = sent, .latency = latency };
	struct counted all[PROOF] = {};
	enum outcome outcome;
	enum access access;
	struct row *row;
	struct hand h;

	if (!take_hand(&h, key, number))
		return 0;
	row = current_row(h.source);
	if (!row)
		return 0;
	access = open_window(&h.flow->window, h.source, key);
	outcome = judge(&h, key, &packet, all);
	close_window(&h.flow->window, access);
	switch (outcome) {
	case BELIEVED:
		book_one(h.source, row, &all[0]);
		book_one(h.source, row, &all[1]);
		book_one(h.source, row, &all[2]);
		/* Taken before. Where another source held them, `others` may fall below 0; with `test` it never does. */
		h.source->others -= PROOF - 1;
		break;
	case COUNTED:
		book_one(h.source, row, &all[0]);
		break;
	case REPEATED:
		row->duplicates++;
		h.source->others++;
		break;
	default:
		h.source->others++;
	}
	return 0;
}

/* Books a packet whose stamp was verified. */
INLINE int stamped(struct source *source, u32 key, struct drop_flow *flow, u32 number, u64 seq, u64 sent)
{
	u64 now = source->now_ns, distance;
	struct counted one = { .expected = 1 };
	struct row *row = current_row(source);

	if (!row)
		return XDP_DROP;
	/* The reading of the clock may be older than the packet: then a new one is needed. */
	if (sent > now && sent - now < CLOCK_SPREAD) {
		now = read_clock(source, key);
		if (sent > now)
			now = sent;
	}
	one.latency = now - sent;
	if (one.latency >= MAX_ONE_WAY)
		one.latency = NO_LATENCY;
	if ((!(PLAN.flags & SEVERAL) || flow->window.owner == key + 1) && flow->known && !flow->doubt &&
	    seq == flow->window.next) {
		window_record(&flow->window, PLAN.max_flows, number, seq, &distance);
		flow->newest_ns = sent;
		flow->heard_ns = source->now_ns;
		book_one(source, row, &one);
		return XDP_DROP;
	}
	note_and_book(key, number, seq, sent, one.latency);
	return XDP_DROP;
}

#endif
