/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What comes back: verified, held against the numbers that were sent, and booked.
 */
#ifndef XDP_RECEIVE_H
#define XDP_RECEIVE_H

#include "mix.h"

/* Two CPUs' clocks may differ by this. */
enum { CLOCKS_DIFFER_NS = 1000000 };

/*
 * The lane that sends a flow. Each sends flows that lie side by side, as many as any other. A division in 32 bits takes
 * a fraction of the time: crates/xdp/src/encode.rs has no plan whose flows times lanes need more.
 */
INLINE struct lane *lane_of(u32 flow)
{
	u32 number = PLAN.lanes > 1 ? ((flow + 1) * PLAN.lanes - 1) / PLAN.flows : 0;
	u32 cpu = PLAN.lane_cpu[number & (LANES - 1)];

	return bpf_map_lookup_elem(&LANES_BY_CPU, &cpu);
}

/* The same with several streams: that of the flow's stream. */
INLINE struct lane *lane_of_stream(u32 stream, u32 flow)
{
	const volatile struct stream *of = &STREAMS[stream & (MOST_STREAMS - 1)];
	u32 flows = of->end - of->first, number;

	number = flows ? ((flow - of->first + 1) * of->seats - 1) / flows : 0;
	return lane_on(of->cpu[number & (LANES - 1)], stream + 1);
}

/* Which of a lane's packets number `seq` of a flow is. Numbers have 40 bits: others were not sent. */
INLINE u64 position_of(struct lane *lane, u32 flow, u64 seq)
{
	if (PLAN.senders > 1)
		return seq * lane->flows + flow - lane->first_flow;
	return seq * PLAN.flows + flow;
}

/* What a lane has noted of a departure by schedule; none where it is not kept. */
INLINE struct slip *slip_of(u32 flow, u64 seq)
{
	u32 key = ((u32)seq & (PLAN.slips - 1)) * PLAN.flows + flow;
	struct slip *noted = bpf_map_lookup_elem(&SLIPS, &key);

	/* The low half of the number tells whether it is still this packet's. */
	return noted && noted->entry >> 32 == (seq & 0xffffffff) && noted->entry + 1 ? noted : 0;
}

/*
 * Whether the lane may have written over the time of a block, seen from a limit that was read after the time: the lane
 * writes the time of packets up to 16 above its limit and 15 more, then the limit.
 */
INLINE int written_over(u64 limit, u64 block)
{
	return block + TIMES_KEPT <= limit / BULK + 2;
}

/*
 * Whether a packet that was sent may have left at `sent`: by schedule exactly then, where that is kept, else not before
 * the first of the 16 that it is of. `limit`: as the lane has published it. The upper bound is the caller's.
 */
INLINE int left_then(struct lane *lane, u64 limit, u64 position, u64 sent, struct slip *slip)
{
	u64 block = position / BULK, *time;
	u32 key;

	if (PLAN.flags & PACED)
		return !slip || slip->sent_ns == sent;
	if (written_over(limit, block))
		return 1;
	key = time_key(lane->number, block);
	time = bpf_map_lookup_elem(&TIMES, &key);
	return time && sent >= *time;
}

/*
 * The long way to know whether a packet was sent: number `seq` of a flow, at `sent`. For packets that are newer than
 * what this source knows of the lane, and for those that nobody has sent.
 */
NOINLINE int sent_after_all(struct source *source, struct lane *lane, u32 flow, u64 seq, u64 sent)
{
	u32 place = PLAN.senders > 1 ? flow - lane->first_flow : flow;
	u64 position, limit, next;

	/*
	 * Nothing was sent before the start, whatever the lanes have published by now: the clock may have been read, and
	 * the start, before this trial began, and then a packet of the one before would look like one of this. CPUs' clocks
	 * may differ by a little.
	 */
	if (seq >> 40 || !source->start_ns || source->now_ns + CLOCKS_DIFFER_NS < source->start_ns)
		return 0;
	position = position_of(lane, flow, seq);
	/* What was there is of use, so that this is a barrier: the lane wrote its times before. */
	limit = __sync_fetch_and_or(&lane->limit, 0);
	source->limit = limit;
	if (position >= limit) {
		/* Of those that left since: the lane is in the middle of them. */
		next = *(volatile u64 *)&lane->seq;
		if (seq > next)
			return 0;
		/* At the first place the lane may have gone on to the next number. */
		if (seq == next && place >= *(volatile u32 *)&lane->cursor && *(volatile u64 *)&lane->seq == next)
			return 0;
	}
	if (left_then(lane, limit, position, sent, PLAN.flags & PACED ? slip_of(flow, seq) : 0))
		return 1;
	/* While that was read the lane may have gone on and used the entry again. */
	if (PLAN.flags & PACED)
		return !slip_of(flow, seq);
	return written_over(__sync_fetch_and_or(&lane->limit, 0), position / BULK);
}

/* The places of a flow's two ports, from those of a packet that arrives, as they lie in its UDP header. */
INLINE u32 source_port(u32 ports)
{
	return swap16(PLAN.flags & ACROSS ? ports & 0xffff : ports >> 16) - PLAN.src_first;
}

INLINE u32 destination_port(u32 ports)
{
	return swap16(PLAN.flags & ACROSS ? ports >> 16 : ports & 0xffff) - PLAN.dst_first;
}

/* Whether a packet is for a port of the test. */
INLINE int is_for_us(u32 ports)
{
	return PLAN.flags & ACROSS ? destination_port(ports) < PLAN.axis[1].count : source_port(ports) < PLAN.src_count;
}

/* The flow of a packet that arrives, its ports as they lie in its UDP header; PLAN.flows: none. */
INLINE u32 flow_of(u32 ports)
{
	u32 src = source_port(ports), dst = destination_port(ports), flow;

	if (src >= PLAN.src_count)
		return PLAN.flows;
	if (PLAN.flows == PLAN.src_count)
		return dst ? PLAN.flows : src;
	if (dst > 0xffff)
		return PLAN.flows;
	flow = dst * PLAN.src_count + src;
	return flow < PLAN.flows ? flow : PLAN.flows;
}

/* The flow of a packet that arrives, whose addresses are at these places of their ranges. */
INLINE u32 flow_at(u32 ports, u32 own, u32 peer)
{
	u32 place[4] = { source_port(ports), destination_port(ports), PLAN.flags & ACROSS ? peer : own,
			 PLAN.flags & ACROSS ? own : peer };
	u64 flow = 0;

#pragma unroll
	for (u32 i = 0; i < 4; i++) {
		if (place[i] >= PLAN.axis[i].count)
			return PLAN.flows;
		if (!(PLAN.flags & TOGETHER))
			flow += (u64)place[i] * PLAN.axis[i].every;
		else if (i == PLAN.longest)
			flow = place[i];
	}
	if (flow >= PLAN.flows)
		return PLAN.flows;
	if (!(PLAN.flags & TOGETHER))
		return flow;
#pragma unroll
	for (u32 i = 0; i < 4; i++)
		if ((u32)flow % PLAN.axis[i].count != place[i])
			return PLAN.flows;
	return flow;
}

/* Whether the data behind the stamp is what was sent; adds its words to `sum`. */
INLINE int read_data(void *at, u64 base, u64 *sum)
{
	u32 len = PLAN.payload_len - STAMP, words = len / 8;
	u64 differs = 0, total = 0;

	for (u32 i = 0; i < 512; i++) {
		u64 word;

		if (i >= words)
			break;
		base += DATA_STEP;
		word = *(u64 *)at;
		differs |= word ^ base;
		total += halves(word);
		at += 8;
	}
	if (len & 7) {
		u64 word = 0;
		u32 shift = 0;

		base = (base + DATA_STEP) & ~(~0ULL << (len & 7) * 8);
		if (len & 4) {
			word = *(u32 *)at;
			at += 4;
			shift = 32;
		}
		if (len & 2) {
			word |= (u64) * (u16 *)at << shift;
			at += 2;
			shift += 16;
		}
		if (len & 1)
			word |= (u64) * (u8 *)at << shift;
		differs |= word ^ base;
		total += halves(word);
	}
	*sum += total;
	return !differs;
}

INLINE int corrupt(struct source *source)
{
	struct row *row = current_row(source);

	source->others++;
	if (row)
		row->corrupt++;
	return XDP_DROP;
}

/* The same for the packet's size. */
INLINE void corrupt_size(struct source *source)
{
	u32 key = source->row_first + source->size * PLAN.rows;
	struct row *row = bpf_map_lookup_elem(&ROWS, &key);

	if (row)
		row->corrupt++;
}

INLINE int foreign(struct source *source, u32 reason)
{
	struct row *row = current_row(source);

	source->others++;
	if (row)
		row->foreign++;
	source->reasons[reason & (REASONS - 1)]++;
	return XDP_DROP;
}

/* Books a packet for its size; `place` and `period`: where its stream's row and histograms lie. */
INLINE void book_size(struct source *source, u32 place, u32 period, enum arrival_kind kind, u64 distance, u64 latency,
		      struct slip *slip)
{
	u32 apart = source->size - source->place, key = place + apart * PLAN.rows;
	struct row *row = bpf_map_lookup_elem(&ROWS, &key);

	if (!row)
		return;
	if (kind == DUPLICATE) {
		row->duplicates++;
		return;
	}
	if (latency > PLAN.settle_ns) {
		if (source->size - 1 < MOST_PLACES)
			source->late_of[source->size - 1]++;
		return;
	}
	if (kind == REORDERED) {
		row->reordered++;
		row->distance_sum += distance;
		note_distance(source, source->size, distance);
	}
	period += apart * PLAN.periods * OCTAVES;
	measure(&row->latency, latency);
	add_to_histogram(&HISTOGRAMS, period, latency, 1);
	if (slip) {
		latency += slip->entry & 0xffffffff;
		measure(&row->scheduled, latency);
		add_to_histogram(&HISTOGRAMS, period + PLAN.scheduled, latency, 1);
	}
}

/* Books a packet that came back whole. */
INLINE int book(struct source *source, u32 key, struct lane *lane, u32 flow, u64 seq, u64 sent)
{
	struct flow_window *window = bpf_map_lookup_elem(&FLOW_WINDOWS, &flow);
	struct slip *slip = PLAN.flags & PACED ? slip_of(flow, seq) : 0;
	u64 now = source->now_ns, limit, position, latency, distance = 0;
	enum arrival_kind kind;
	enum access access;
	u32 place, period;
	struct row *row;

	if (!window || !lane)
		return XDP_DROP;
	/* The reading of the clock may be older than the packet: then a new one is needed. */
	if (sent > now) {
		now = read_clock(source, key);
		if (!now)
			return XDP_DROP;
	}
	/* A packet may seem to come from the near future. One from before the start is beyond all that is to come. */
	if (sent - source->start_ns > now - source->start_ns + CLOCKS_DIFFER_NS)
		return foreign(source, FOREIGN_OTHER_RUN);
	/* One lane's limit is remembered: its own lies on a line that the lane writes. */
	limit = PLAN.senders > 1 ? lane->limit : source->limit;
	position = position_of(lane, flow, seq);
	if ((seq >> 40 || position >= limit || !left_then(lane, limit, position, sent, slip)) &&
	    !sent_after_all(source, lane, flow, seq, sent))
		return foreign(source, FOREIGN_OTHER_RUN);
	access = open_window(window, source, key);
	kind = window_record(window, PLAN.flows, flow, seq, &distance);
	close_window(window, access);
	if (kind == TOO_OLD) {
		source->reasons[BEYOND_WINDOW]++;
		source->others++;
		return XDP_DROP;
	}
	latency = now > sent ? now - sent : 0;
	place = source->row_key;
	period = source->period_key;
	/* Rows are those of sending. One that may have been taken already is written no more. */
	if (sent - source->row_begin >= PLAN.interval_ns && latency <= PLAN.settle_ns) {
		u32 number = (sent - source->start_ns) / PLAN.interval_ns;

		place = row_key(writer_of(source, key), number);
		period = period_key(writer_of(source, key), number);
	}
	if (PLAN.flags & SIZES && source->size)
		book_size(source, place, period, kind, distance, latency, slip);
	row = bpf_map_lookup_elem(&ROWS, &place);
	if (!row)
		return XDP_DROP;
	if (kind == DUPLICATE) {
		row->duplicates++;
		source->others++;
		return XDP_DROP;
	}
	if (latency > PLAN.settle_ns) {
		source->late++;
		if (PLAN.streams && source->place - 1 < MOST_PLACES)
			source->late_of[source->place - 1]++;
		source->others++;
		return XDP_DROP;
	}
	if (kind == REORDERED) {
		row->reordered++;
		row->distance_sum += distance;
		if (distance > source->distance_max)
			source->distance_max = distance;
		if (PLAN.streams)
			note_distance(source, source->place, distance);
	}
	source->test++;
	measure(&row->latency, latency);
	add_to_histogram(&HISTOGRAMS, period, latency, 1);
	if (slip) {
		latency += slip->entry & 0xffffffff;
		measure(&row->scheduled, latency);
		add_to_histogram(&HISTOGRAMS, period + PLAN.scheduled, latency, 1);
	}
	return XDP_DROP;
}

/*
 * Checks length, checksum, stamp and data of a packet with our addresses, whose UDP header is at `udp`. `addresses`:
 * their sum, where they vary.
 */
INLINE int examine(struct source *source, u32 key, void *udp, void *end, u32 flow, u64 addresses)
{
	u32 open = PLAN.flags & ADDRESSES_VARY ? fold(PLAN.open_sum + addresses) : PLAN.open_sum;
	u64 seq, sent, sum;
	void *payload = udp + UDP_HEADER;
	u16 check;

	if (payload + PLAN.payload_len > end || *(be16 *)(udp + 4) != BE16(UDP_HEADER + PLAN.payload_len))
		return corrupt(source);
	seq = *(u64 *)payload;
	sent = *(u64 *)(payload + 8);
	if (PLAN.flags & CHECK_DATA) {
		check = *(u16 *)(udp + 6);
		sum = PLAN.sum + addresses + (u64)check + *(u32 *)udp + halves(seq) + halves(sent);
		if (!read_data(payload + STAMP, data_base(PLAN.seed, seq), &sum))
			return corrupt(source);
		/* Good; or none, which IPv4 allows; or left to a device that the packet never saw. */
		if (fold(sum) != 0xffff && !(!check && !(PLAN.flags & IPV6)) &&
		    !(PLAN.flags & OPEN_CHECKSUMS && check == open))
			return corrupt(source);
	}
	return book(source, key, lane_of(flow), flow, seq, sent);
}

#endif
