/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What comes back: verified, held against the numbers that were sent, and booked.
 */
#ifndef XDP_RECEIVE_H
#define XDP_RECEIVE_H

#include "lane.h"

/* Two CPUs' clocks may differ by this. */
enum { CLOCKS_DIFFER_NS = 1000000 };

INLINE void learn_limit(struct source *source, u32 cpu)
{
	struct lane *lane = bpf_map_lookup_elem(&LANES_BY_CPU, &cpu);

	if (lane && lane->limit > source->limit)
		source->limit = lane->limit;
}

/* Whether a number was sent: looks at what all lanes have published when it is above what is known. */
INLINE int was_sent(struct source *source, u64 seq)
{
	u32 cpu = bpf_get_smp_processor_id();

	if (seq < source->limit)
		return 1;
	/*
	 * Nothing was sent before the start, whatever the lanes have published by now: the clock may have been read, and
	 * the start, before this trial began, and then a packet of the one before would look like one of this. CPUs' clocks
	 * may differ by a little.
	 */
	if (!source->start_ns || source->now_ns + CLOCKS_DIFFER_NS < source->start_ns)
		return 0;
	/* First the lane of this CPU: what it sends mostly comes back here, and the others' lines are far away. */
	learn_limit(source, cpu);
	for (u32 i = 0; i < LANES; i++) {
		if (i >= PLAN.lanes || seq < source->limit)
			break;
		learn_limit(source, PLAN.lane_cpu[i]);
	}
	return seq < source->limit;
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

INLINE int foreign(struct source *source, u32 reason)
{
	struct row *row = current_row(source);

	source->others++;
	if (row)
		row->foreign++;
	source->reasons[reason & (REASONS - 1)]++;
	return XDP_DROP;
}

/* Books a packet that came back whole. */
INLINE int book(struct source *source, u32 key, u32 flow, u64 seq, u64 sent)
{
	struct flow_window *window = bpf_map_lookup_elem(&FLOW_WINDOWS, &flow);
	u64 now = source->now_ns, latency, distance = 0;
	enum arrival_kind kind;
	enum access access;
	u32 place, period;
	struct row *row;

	if (!window)
		return XDP_DROP;
	/* The reading of the clock may be older than the packet: then a new one is needed. */
	if (sent > now) {
		now = read_clock(source, key);
		if (!now)
			return XDP_DROP;
	}
	/* A packet may seem to come from the near future. One from before the start is beyond all that is to come. */
	if (!was_sent(source, seq) || sent - source->start_ns > now - source->start_ns + CLOCKS_DIFFER_NS)
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

		place = row_key(key, number);
		period = period_key(key, number);
	}
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
		source->others++;
		return XDP_DROP;
	}
	if (kind == REORDERED) {
		row->reordered++;
		row->distance_sum += distance;
		if (distance > source->distance_max)
			source->distance_max = distance;
	}
	source->test++;
	measure(&row->latency, latency);
	add_to_histogram(&HISTOGRAMS, period, latency, 1);
	if (PLAN.flags & PACED) {
		u32 slot = ((u32)seq & (PLAN.slips - 1)) * PLAN.flows + flow;
		u64 *entry = bpf_map_lookup_elem(&SLIPS, &slot);

		/* The low half of the number tells whether it is still this packet's. */
		if (entry && *entry >> 32 == (seq & 0xffffffff) && *entry + 1) {
			latency += *entry & 0xffffffff;
			measure(&row->scheduled, latency);
			add_to_histogram(&HISTOGRAMS, period + PLAN.sources * PLAN.periods * OCTAVES, latency, 1);
		}
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
	return book(source, key, flow, seq, sent);
}

#endif
