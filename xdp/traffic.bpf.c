/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `sendrecv` and `send`: one program makes packets, another counts those that come back.
 *
 * The sender runs on frames that the kernel makes (BPF_PROG_TEST_RUN with live frames), one call a lane for a whole
 * run, for a call costs tens of milliseconds. So pacing is done here: while nothing is due a frame is given back. The
 * clock is read once for the 16 packets that the kernel hands to the device at a time.
 */
#include "test.h"
#include "checksum.h"
#include "filter.h"
#include "swap.h"
#include "answer.h"
#include "taps.h"

enum { BULK = 16 };

struct lane {
	/* By the process, before the run. Time of the next departure, and between units: ns and 2^-64 ns. */
	u64 due_ns;
	u64 due_fraction;
	u64 step_ns;
	u64 step_fraction;
	/* Packets still to come. */
	u64 remaining;
	u32 unit;
	u32 in_unit;
	/* State of the generator of gaps, and the end of the schedule; 0: it has none. */
	u64 random;
	u64 schedule_end_ns;
	u32 first_flow;
	u32 flow_step;
	u32 flows;
	/* Number of the lane, and of it as a writer of rows. */
	u32 number;
	u32 writer;
	u32 unused[11];

	/* Ethernet, IP and UDP header. */
	u64 headers[9];
	u64 room[7];

	/* By the program. */
	u64 now_ns;
	u32 left;
	u32 cursor;
	u64 seq;
	u64 row_end;
	u32 row_key;
	u32 done;
	/* Packets sent since the clock was read, which are in no other count yet. */
	u64 pending;
	u64 packets;
	u64 bursts;
	u64 waits;
	u64 last_ns;
	/* Departures with a gap before them; all others left with the one before. */
	struct moments gaps;
	u64 more_room[2];

	/* Receivers read this: no sequence number from here on was sent. */
	u64 limit;
	u64 apart[7];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct lane) == 448, "crates/xdp/src/abi.rs");
typedef struct lane lane_t;

/* By CPU. */
SHARED_ARRAY(LANES_BY_CPU, lane_t);
/* Source port, and destination port, of each flow. */
struct flow_ports {
	be16 source;
	be16 destination;
	u32 unused;
};
typedef struct flow_ports flow_ports_t;
SHARED_ARRAY(FLOW_PORTS, flow_ports_t);
/* By sequence number, then by flow, for the same reason as WINDOWS: the number's low 32 bits, and how much later than scheduled the packet left, ns. */
SHARED_ARRAY(SLIPS, u64);
SHARED_ARRAY(FLOW_WINDOWS, flow_window_t);
/* By lane, then by octave. Over the whole run, which 32 bits have no room for. */
struct wide_octave {
	u64 bucket[OCTAVE];
};
typedef struct wide_octave wide_octave_t;
SHARED_ARRAY(GAPS, wide_octave_t);

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

	if (PLAN.flags & RANDOM) {
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

/* Reads the clock. 0: nothing may be sent now. */
INLINE int tick(struct lane *lane)
{
	u64 now = bpf_ktime_get_ns(), end, start;
	struct run *run = run_of();

	if (!run)
		return 0;
	end = run->end_ns;
	start = run->start_ns;
	if (lane->pending)
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
	lane->left = BULK;
	/* Before the packets leave: whoever receives one finds its number below this. */
	lane->limit = lane->seq + BULK + 1;
	return 1;
}

/* Gives up departures that are overdue by too much, some at a time. */
INLINE void give_up(struct lane *lane)
{
	u32 key = lane->row_key;
	struct row *row = bpf_map_lookup_elem(&ROWS, &key);

	if (!row)
		return;
	/* What is sent next is stamped with a new reading of the clock. */
	lane->left = 0;
	for (int i = 0; i < 32; i++) {
		if (lane->done || lane->now_ns <= lane->due_ns || lane->now_ns - lane->due_ns <= PLAN.catch_up_ns)
			return;
		row->missed++;
		depart(lane);
	}
}

/* Notes how much later than scheduled a packet leaves, for when it comes back. */
INLINE void note_slip(u32 flow, u64 seq, u64 slip)
{
	u32 key = ((u32)seq & (PLAN.slips - 1)) * PLAN.flows + flow;
	u64 *entry = bpf_map_lookup_elem(&SLIPS, &key);

	if (slip > 0xfffffffe)
		slip = 0xfffffffe;
	if (entry)
		*entry = seq << 32 | slip;
}

/* Ports of a flow as they lie in the UDP header. */
INLINE u32 ports_of(u32 flow)
{
	struct flow_ports *ports;

	if (PLAN.flows == PLAN.src_count)
		return (u32)swap16(PLAN.src_first + flow) | (u32)swap16(PLAN.dst_first) << 16;
	ports = bpf_map_lookup_elem(&FLOW_PORTS, &flow);
	return ports ? ports->source | (u32)ports->destination << 16 : 0;
}

/* Writes the data behind the stamp; returns the sum of its words. */
INLINE u64 write_data(void *at, u64 base)
{
	u32 len = PLAN.payload_len - STAMP, words = len / 8;
	u64 sum = 0;

	for (u32 i = 0; i < 512; i++) {
		if (i >= words)
			break;
		base += DATA_STEP;
		*(u64 *)at = base;
		sum += halves(base);
		at += 8;
	}
	if (len & 7) {
		base = (base + DATA_STEP) & ~(~0ULL << (len & 7) * 8);
		sum += halves(base);
		if (len & 4) {
			*(u32 *)at = base;
			at += 4;
			base >>= 32;
		}
		if (len & 2) {
			*(u16 *)at = base;
			at += 2;
			base >>= 16;
		}
		if (len & 1)
			*(u8 *)at = base;
	}
	return sum;
}

/* Writes the whole packet: a frame that comes again holds what the reflector made of it. */
INLINE void write_packet(void *frame, struct lane *lane, u32 flow, u64 seq, u64 time)
{
	u32 header = PLAN.l4 + UDP_HEADER, ports = ports_of(flow);
	void *payload = frame + header;
	u64 sum;
	u16 check;

#pragma unroll
	for (u32 i = 0; i < 8; i++)
		if (8 * i + 8 <= header)
			((u64 *)frame)[i] = lane->headers[i];
	if (header == 42)
		*(u16 *)(frame + 40) = lane->headers[5];
	if (header == 66)
		*(u16 *)(frame + 64) = lane->headers[8];
	if (header == 46) {
		*(u32 *)(frame + 40) = lane->headers[5];
		*(u16 *)(frame + 44) = lane->headers[5] >> 32;
	}
	if (header == 62) {
		*(u32 *)(frame + 56) = lane->headers[7];
		*(u16 *)(frame + 60) = lane->headers[7] >> 32;
	}
	*(u64 *)payload = seq;
	*(u64 *)(payload + 8) = time;
	sum = PLAN.sum + (u64)ports + halves(seq) + halves(time);
	sum += write_data(payload + STAMP, data_base(PLAN.seed, seq));
	check = ~fold(sum);
	*(u32 *)(frame + PLAN.l4) = ports;
	*(u16 *)(frame + PLAN.l4 + 6) = check ? check : 0xffff;
}

SEC("xdp") int send(struct xdp_md *ctx)
{
	void *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	u32 cpu = bpf_get_smp_processor_id(), flow, cursor;
	struct lane *lane = bpf_map_lookup_elem(&LANES_BY_CPU, &cpu);
	u64 now, seq;

	if (!lane || frame + PLAN.frame_len > end)
		return XDP_ABORTED;
	if (lane->done) {
		if (lane->pending)
			book_sent(lane);
		return XDP_DROP;
	}
	if (PLAN.flags & PACED) {
		if ((!lane->left || lane->due_ns > lane->now_ns) && !tick(lane))
			return XDP_DROP;
		if (lane->due_ns > lane->now_ns) {
			lane->waits++;
			return XDP_DROP;
		}
		if (lane->now_ns - lane->due_ns > PLAN.catch_up_ns) {
			give_up(lane);
			return XDP_DROP;
		}
	} else if (!lane->left && !tick(lane)) {
		return XDP_DROP;
	}

	now = lane->now_ns;
	lane->left--;
	seq = lane->seq;
	cursor = lane->cursor;
	flow = lane->first_flow + cursor * lane->flow_step;
	if (++cursor == lane->flows) {
		cursor = 0;
		lane->seq = seq + 1;
	}
	lane->cursor = cursor;
	write_packet(frame, lane, flow, seq, now);

	if (!lane->pending++) {
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
	if (PLAN.flags & PACED) {
		if (PLAN.flags & RECEIVE)
			note_slip(flow, seq, now - lane->due_ns);
		depart(lane);
	}
	return XDP_TX;
}

/* Sends a frame as it is. */
SEC("xdp") int inject(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_TX;
}

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
	/* First the lane of this CPU: what it sends mostly comes back here, and the others' lines are far away. */
	learn_limit(source, cpu);
	for (u32 i = 0; i < LANES; i++) {
		if (i >= PLAN.lanes || seq < source->limit)
			break;
		learn_limit(source, PLAN.lane_cpu[i]);
	}
	return seq < source->limit;
}

/* The flow of a packet that comes back, its ports as they lie in its UDP header; PLAN.flows: none. */
INLINE u32 flow_of(u32 ports)
{
	u32 src = swap16(ports >> 16) - PLAN.src_first, dst = swap16(ports & 0xffff) - PLAN.dst_first, flow;

	if (src >= PLAN.src_count)
		return PLAN.flows;
	if (PLAN.flows == PLAN.src_count)
		return dst ? PLAN.flows : src;
	if (dst > 0xffff)
		return PLAN.flows;
	flow = dst * PLAN.src_count + src;
	return flow < PLAN.flows ? flow : PLAN.flows;
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
	/* Two CPUs' clocks may differ by a little, so a packet may seem to come from the near future. */
	if (!was_sent(source, seq) || sent - source->start_ns > now - source->start_ns + 1000000)
		return foreign(source, FOREIGN_OTHER_RUN);
	if (window->owner != key + 1) {
		if (window->owner)
			source->reasons[FLOW_MOVED]++;
		window->owner = key + 1;
	}
	kind = window_record(window, PLAN.flows, flow, seq, &distance);
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

/* Checks length, checksum, stamp and data of a packet with our addresses, whose UDP header is at `udp`. */
INLINE int examine(struct source *source, u32 key, void *udp, void *end, u32 flow)
{
	u64 seq, sent, sum;
	void *payload = udp + UDP_HEADER;
	u16 check;

	if (payload + PLAN.payload_len > end || *(be16 *)(udp + 4) != BE16(UDP_HEADER + PLAN.payload_len))
		return corrupt(source);
	seq = *(u64 *)payload;
	sent = *(u64 *)(payload + 8);
	if (PLAN.flags & CHECK_DATA) {
		check = *(u16 *)(udp + 6);
		sum = PLAN.sum + (u64)check + *(u32 *)udp + halves(seq) + halves(sent);
		if (!read_data(payload + STAMP, data_base(PLAN.seed, seq), &sum))
			return corrupt(source);
		/* Good; or none, which IPv4 allows; or left to a device that the packet never saw. */
		if (fold(sum) != 0xffff && !(!check && !(PLAN.flags & IPV6)) &&
		    !(PLAN.flags & OPEN_CHECKSUMS && check == PLAN.open_sum))
			return corrupt(source);
	}
	return book(source, key, flow, seq, sent);
}

/*
 * Whether a frame is just what was sent, with the two ends exchanged: then its IP header is right if what was sent was.
 * Compared are whole words; that a router has counted down the time to live, say, is for `sort` to look at.
 */
INLINE int looks_like_ours(void *frame)
{
	void *ip = frame + PLAN.l3;

	if (PLAN.l3 == 18 && U16(frame + 12) != BE16(ETHERTYPE_VLAN))
		return 0;
	if (U16(ip - 2) != (PLAN.flags & IPV6 ? BE16(ETHERTYPE_IPV6) : BE16(ETHERTYPE_IPV4)) || U64(ip) != PLAN.back[0] ||
	    U64(ip + 8) != PLAN.back[1])
		return 0;
	if (PLAN.flags & IPV6)
		return U64(ip + 16) == PLAN.back[2] && U64(ip + 24) == PLAN.back[3] && U64(ip + 32) == PLAN.back[4];
	return U32(ip + 16) == (u32)PLAN.back[2];
}

INLINE int same_address(void *at, const volatile struct words6 *address, int v6)
{
	if (U32(at) != address->word[0])
		return 0;
	return !v6 || (U32(at + 4) == address->word[1] && U32(at + 8) == address->word[2] &&
		       U32(at + 12) == address->word[3]);
}

enum { HOSTS = -1, CORRUPT = -2, FOREIGN = -3 };

/*
 * A frame that is not just like those that were sent: its headers may have been changed on the way, it may be somebody
 * else's, or a question. Returns the offset of the UDP header of a packet of the test, or what else it is.
 */
NOINLINE int sort(struct xdp_md *ctx, u32 *flow, u32 *reason)
{
	struct udp_packet p = {};
	int left = find_udp_anywhere(ctx, &p), v6 = !!(PLAN.flags & IPV6);
	void *data = frame_data(ctx), *end = frame_end(ctx), *source, *ports;
	u32 size = v6 ? 16 : 4, destination;

	*reason = left - 1;
	if (left)
		return HOSTS;
	source = data + (p.l3 & 31) + (v6 ? 8 : 12);
	ports = data + (p.l4 & OFFSET);
	if (!!p.v6 != v6 || source + 32 > end || ports + sizeof(struct udp) > end) {
		*reason = LEFT_WRONG_ADDRESS;
		return HOSTS;
	}
	if (!same_address(source + size, &PLAN.src, v6)) {
		*reason = LEFT_WRONG_ADDRESS;
		return HOSTS;
	}
	destination = swap16(U16(ports + 2)) - PLAN.src_first;
	if (destination >= PLAN.src_count) {
		*reason = LEFT_WRONG_PORT;
		return HOSTS;
	}
	if (!same_address(source, &PLAN.dst, v6)) {
		*reason = FOREIGN_WRONG_ADDRESS;
		return FOREIGN;
	}
	*flow = flow_of(U32(ports));
	if (*flow >= PLAN.flows) {
		*reason = FOREIGN_WRONG_PORT;
		return FOREIGN;
	}
	return p.payload_len == PLAN.payload_len ? (int)p.l4 : CORRUPT;
}

SEC("xdp") int receive(struct xdp_md *ctx)
{
	void *frame = frame_data(ctx), *end = frame_end(ctx);
	u32 key = source_key(ctx), flow, reason = LEFT_NOT_IP;
	struct source *source = bpf_map_lookup_elem(&SOURCES, &key);
	int at;

	if (!source)
		return XDP_PASS;
	if (PLAN.flags & RECEIVE) {
		if (frame + PLAN.l4 + UDP_HEADER + STAMP <= end && looks_like_ours(frame)) {
			flow = flow_of(U32(frame + PLAN.l4));
			if (flow < PLAN.flows) {
				if (!arrival(source, key))
					return XDP_DROP;
				return examine(source, key, frame + PLAN.l4, end, flow);
			}
		}
		at = sort(ctx, &flow, &reason);
		if (at != HOSTS) {
			if (!arrival(source, key))
				return XDP_DROP;
			if (at == CORRUPT)
				return corrupt(source);
			if (at == FOREIGN)
				return foreign(source, reason);
			/* The verifier has to see that this stays in the frame. */
			return examine(source, key, frame_data(ctx) + (at & OFFSET), frame_end(ctx), flow);
		}
	}
	if (answers() && (reason == LEFT_NOT_IP || reason == LEFT_NOT_UDP)) {
		switch (answer(ctx)) {
		case ANSWERED:
			source->reasons[NEIGHBOR_SERVICE]++;
			arrival(source, key);
			return send_back(ctx, source);
		case UNDERSTOOD:
			source->reasons[NEIGHBOR_SERVICE]++;
		}
	}
	source->passed++;
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
