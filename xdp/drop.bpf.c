/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Counts the test's packets where they come in, and throws them away. Nobody tells this end what was sent: the sequence
 * numbers do, flow by flow, by the rules of crates/stats/src/streams.rs.
 */
#include "by_stream.h"
#include "streams.h"
#include "checksum.h"
#include "filter.h"
#include "swap.h"
#include "answer.h"
#include "tagged_data.h"
#include "taps.h"

enum {
	/* Places of the table that are looked at: it is half empty, so nobody is ever so far from where he should be. */
	PROBES = 128,
};

enum { FREE, CLAIMED, TAKEN };

/* A place in the table of flows. */
struct place {
	/* A word of a flow's key is zero only where its addresses are. */
	u64 key[2];
	/* FREE, CLAIMED by the CPU that is writing the key, or, for ever, TAKEN + the flow's number. */
	u32 state;
	u32 unused;
};
typedef struct place place_t;

_Static_assert(sizeof(struct place) == 24, "crates/xdp/src/encode.rs");

/* The table is everybody's. A place in it, and with it a flow, is claimed once, by compare-and-swap. */
SHARED_ARRAY(TABLE, place_t);
/* Flows in the table. */
SHARED_ARRAY(FLOW_COUNT, u64);

/* One step of a keyed hash. */
INLINE u64 mix(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9fb21c651e98df25ULL;
	return hash ^ hash >> 35;
}

INLINE u32 state_of(struct place *place)
{
	return *(volatile u32 *)&place->state;
}

INLINE u64 word_of(struct place *place, int which)
{
	return *(volatile u64 *)&place->key[which];
}

struct claim {
	u32 at;
	u32 state;
};

static long look_at_claim(u32 i, struct claim *claim)
{
	struct place *place = bpf_map_lookup_elem(&TABLE, &claim->at);

	(void)i;
	if (!place)
		return 1;
	claim->state = state_of(place);
	return claim->state >= TAKEN;
}

/* Waits for another CPU that is writing a place; it may be writing this very flow. */
GLOBAL int wait_for_claim(u32 at)
{
	struct claim claim = { .at = at };

	bpf_loop(LOOKS, look_at_claim, &claim, 0);
	return claim.state >= TAKEN;
}

/* The flow of a key, which is looked for from place `hash` on; `max_flows`: the table is full. */
GLOBAL u32 search_flow(u64 first, u64 second, u32 hash)
{
	u32 zero = 0;
	u64 *count;

	for (u32 i = 0; i < PROBES; i++) {
		u32 at = (hash + i) & (PLAN.table - 1), state;
		struct place *place = bpf_map_lookup_elem(&TABLE, &at);

		if (!place)
			break;
		state = state_of(place);
		if (state == FREE) {
			u32 full;

			count = bpf_map_lookup_elem(&FLOW_COUNT, &zero);
			if (!count)
				break;
			/* A place is claimed before it is counted: if this is the one that filled the table, it is free no more. */
			full = *(volatile u64 *)count >= PLAN.max_flows;
			state = __sync_val_compare_and_swap(&place->state, FREE, full ? FREE : CLAIMED);
			if (state == FREE && full)
				break;
			if (state == FREE) {
				u64 flow = __sync_fetch_and_add(count, 1);

				if (flow > PLAN.max_flows)
					flow = PLAN.max_flows;
				place->key[0] = first;
				place->key[1] = second;
				/* After all of it. */
				__sync_lock_test_and_set(&place->state, TAKEN + flow);
				return flow;
			}
		}
		if (state == CLAIMED && !wait_for_claim(at))
			break;
		state = state_of(place);
		/* Loads may overtake each other (arm64), so the key may be missing yet; none overtakes an atomic operation. */
		if (!word_of(place, 0) || !word_of(place, 1))
			state = __sync_fetch_and_add(&place->state, 0);
		if (word_of(place, 1) == second && word_of(place, 0) == first)
			return state - TAKEN;
	}
	return PLAN.max_flows;
}

/* The flow of a key. Most lie where the search begins, so that place is looked at without a call. */
INLINE u32 flow_of_key(u64 first, u64 second)
{
	/* The last word is in the upper half of the last product: the step after it brings all of it to where places are. */
	u32 hash = mix(mix(mix(PLAN.key, first), second), 0) >> 32, at = hash & (PLAN.table - 1);
	struct place *place = bpf_map_lookup_elem(&TABLE, &at);

	if (place) {
		u32 state = state_of(place);

		/* A key that is half written is no flow's: search_flow() waits for the rest. */
		if (state >= TAKEN && place->key[1] == second && place->key[0] == first)
			return state - TAKEN;
	}
	return search_flow(first, second, hash);
}

/* The number of a packet's flow; `max_flows`: the table is full. */
INLINE u32 find_flow(void *addresses, u32 ports, int v6)
{
	u64 first, second;

	if (v6) {
		u64 hash = PLAN.key, other = ~PLAN.key;

#pragma unroll
		for (int i = 0; i < 4; i++) {
			hash = mix(hash, U64(addresses + 8 * i));
			other = mix(other, U64(addresses + 8 * i) ^ hash >> 7);
		}
		first = mix(hash, ports);
		second = mix(other, ports) | 1;
	} else {
		first = U64(addresses);
		second = (u64)ports << 32 | 2;
	}
	return flow_of_key(first, second);
}

enum verdict { WRONG, UNSTAMPED, WHOLE };

/* The UDP checksum, and the data behind the stamp, in one pass. */
INLINE enum verdict scan(struct xdp_md *ctx, struct udp_packet *p)
{
	void *data = frame_data(ctx), *end = frame_end(ctx), *udp = data + (p->l4 & OFFSET), *at = udp + UDP_HEADER;
	u32 length = p->payload_len, words, tail;
	u64 seq = 0, base = 0, sum, pseudo, differs = 0, word, here;
	u16 check;

	if (at + STAMP > end)
		return udp_checksum_right(ctx, p) ? UNSTAMPED : WRONG;
	check = U16(udp + 6);
	if (length < STAMP || !(PLAN.flags & CHECK_DATA))
		return !(PLAN.flags & CHECK_DATA) && length >= STAMP ? WHOLE
		       : udp_checksum_right(ctx, p)                  ? UNSTAMPED
								     : WRONG;
	seq = U64(at);
	base = data_base(PLAN.seed, seq);
	pseudo = sum_pseudo_udp(ctx, p);
	sum = pseudo + halves(U64(udp)) + halves(seq) + halves(U64(at + 8));
	at += STAMP;
	words = (length - STAMP) / 8;
	/* The barriers keep the compiler from sparing what the verifier has to see. */
	for (u32 i = 0; i < BATCHES; i++) {
		if ((i + 1) * BATCH > words)
			break;
		OPAQUE(at);
		if (at + BATCH * 8 > end)
			return WRONG;
#pragma unroll
		for (u32 k = 0; k < BATCH; k++) {
			base += DATA_STEP;
			word = U64(at + k * 8);
			differs |= word ^ base;
			sum += halves(word);
		}
		at += BATCH * 8;
	}
	/*
	 * The verifier follows the rest once, and not after each number of batches: for that it must know no more of `at`
	 * than that it is in the frame, and the frame's pointers must be read again.
	 */
	here = span(data, at);
	FORGET(sum, here);
	OPAQUE(ctx);
	at = frame_data(ctx) + (here & OFFSET);
	end = frame_end(ctx);
	for (u32 i = 0; i < BATCH - 1; i++) {
		if (i >= words % BATCH)
			break;
		OPAQUE(at);
		if (at + 8 > end)
			return WRONG;
		base += DATA_STEP;
		word = U64(at);
		differs |= word ^ base;
		sum += halves(word);
		at += 8;
	}
	tail = length & 7;
	word = 0;
	if (tail & 4) {
		OPAQUE(at);
		if (at + 4 > end)
			return WRONG;
		word = U32(at);
		at += 4;
	}
	if (tail & 2) {
		OPAQUE(at);
		if (at + 2 > end)
			return WRONG;
		word |= (u64)U16(at) << (tail & 4) * 8;
		at += 2;
	}
	if (tail & 1) {
		OPAQUE(at);
		if (at + 1 > end)
			return WRONG;
		word |= (u64) * (u8 *)at << (tail & 6) * 8;
	}
	if (tail)
		differs |= word ^ ((base + DATA_STEP) & ~(~0ULL << 8 * tail));
	sum += halves(word);
	/* Good; or none, which IPv4 allows; or left to a device that the packet never saw. */
	if (fold(sum) != 0xffff && !(!check && !p->v6) && !(PLAN.flags & OPEN_CHECKSUMS && check == fold(pseudo)))
		return WRONG;
	return differs ? UNSTAMPED : WHOLE;
}

INLINE int count(struct source *source, struct row *row, u64 expected)
{
	source->test++;
	row->rx++;
	row->expected += expected;
	return XDP_DROP;
}

INLINE int foreign(struct source *source, struct row *row)
{
	source->others++;
	source->reasons[FOREIGN_NOT_STAMPED]++;
	row->foreign++;
	return XDP_DROP;
}

INLINE int corrupt(struct source *source, struct row *row)
{
	source->others++;
	row->corrupt++;
	return XDP_DROP;
}

INLINE int examine(struct xdp_md *ctx, struct source *source, u32 key, struct udp_packet *p)
{
	enum verdict verdict = scan(ctx, p);
	void *data = frame_data(ctx), *end = frame_end(ctx);
	void *udp = data + (p->l4 & OFFSET), *addresses = data + (p->l3 & 31) + (p->v6 ? 8 : 12);
	struct row *row = current_row(source);
	struct drop_flow *flow;
	u32 number;

	if (!row)
		return XDP_DROP;
	if (verdict == WRONG)
		return corrupt(source, row);
	if (!(PLAN.flags & STAMPED))
		return count(source, row, 1);
	/* Never: the parser has read them. */
	if (udp + UDP_HEADER > end || addresses + (p->v6 ? 32 : 8) > end)
		return XDP_DROP;
	if (p->v6) {
		if (addresses + 32 > end)
			return XDP_DROP;
		number = find_flow(addresses, U32(udp), 1);
	} else {
		if (addresses + 8 > end)
			return XDP_DROP;
		number = find_flow(addresses, U32(udp), 0);
	}
	flow = number < PLAN.max_flows ? bpf_map_lookup_elem(&FLOWS, &number) : 0;
	if (verdict == WHOLE && udp + UDP_HEADER + STAMP <= end && U64(udp + UDP_HEADER) + 1) {
		if (flow)
			return stamped(source, key, flow, number, U64(udp + UDP_HEADER), U64(udp + UDP_HEADER + 8));
		source->reasons[UNTRACKED_FLOW_PACKETS]++;
		return count(source, row, 1);
	}
	return flow && flow->known ? corrupt(source, row) : foreign(source, row);
}

INLINE int take(struct xdp_md *ctx, struct source *source, u32 key)
{
	struct udp_packet p = {};
	int left = find_udp(ctx, &p);

	if (!left)
		left = filter(ctx, &p);
	if (left)
		return left_over(ctx, source, left - 1);
	if (!arrival(source, key))
		return XDP_DROP;
	return examine(ctx, source, key, &p);
}

/* Send times of tags begin again after so many ns, and numbers after so many. The first number of a flow is counted
 * from there, so that there are numbers below it for packets that it has overtaken. */
#define TIMES (1ULL << 36)
#define NUMBERS (1ULL << 32)

/* The send time that a tag names: at most MAX_ONE_WAY before `now`, or else after it, by a clock that is ahead. */
INLINE u64 sent_at(u64 time, u64 now)
{
	u64 ago = (now - time) & (TIMES - 1);

	return ago < MAX_ONE_WAY && ago <= now ? now - ago : now + (TIMES - ago);
}

/* The number of a tagged packet's flow, by source, run and flow number; `max_flows`: the table is full. The source is
 * that of the outermost IP header, or the MAC address if there is none. */
INLINE u32 flow_of_tag(struct xdp_md *ctx, const struct tag *tag)
{
	void *data = frame_data(ctx), *end = frame_end(ctx), *ip = data + (tag->l3 & 127);
	u64 number = (u64)tag->run << 22 | tag->flow, mac;

	OPAQUE(ip);
	if (tag->l3 && ip + 20 <= end && *(u8 *)ip >> 4 == 4)
		return flow_of_key((u64)U32(ip + 12) | number << 32, 4);
	if (tag->l3 && ip + 24 <= end && *(u8 *)ip >> 4 == 6)
		return flow_of_key(mix(mix(PLAN.key, U64(ip + 8)), U64(ip + 16) ^ number),
				   mix(mix(~PLAN.key, U64(ip + 16)), U64(ip + 8) ^ number << 32) | 1);
	if (data + 14 > end)
		return PLAN.max_flows;
	mac = U64(data + 6) & 0xffffffffffff;
	return flow_of_key(mac | number << 48, number >> 16 << 32 | 6);
}

/* Whether the data in front of a tag are those that were sent. Data whose beginning is not known pass. */
INLINE int data_right(struct xdp_md *ctx, const struct tag *tag)
{
	void *data = frame_data(ctx), *end = frame_end(ctx);
	int start;

	/* UDP over IPv4, and nothing out of the ordinary: what most packets are. */
	if (data + PLAIN4_PAYLOAD <= end && looks_plain4(data) && (U32(data + 20) & 0xff00ff3f) == PROTOCOL_UDP << 24 &&
	    !is_tunnel(swap16(U16(data + PLAIN4_L4))) && !is_tunnel(swap16(U16(data + PLAIN4_L4 + 2))))
		start = PLAIN4_PAYLOAD;
	else
		start = payload_start(ctx);
	if (start < 0)
		return 1;
	/* Behind what nobody knows the data begin later than the headers seem to end. */
	if ((u32)start < PLAN.l4)
		start = PLAN.l4;
	if ((u32)start > tag->at)
		return 1;
	return data_before_tag_right(ctx, tag, start);
}

/* Counts a packet that is known by its tag: crates/engine/src/workload/drop/verifier/tagged.rs. */
INLINE int take_tagged(struct xdp_md *ctx, struct source *source, u32 key)
{
	struct drop_flow *flow;
	struct tag tag = {};
	struct row *row;
	u32 number;
	u64 seq;

	if (!find_tag(ctx, &tag) || is_icmp_error(ctx, tag.l3))
		return left_over(ctx, source, LEFT_NOT_TAGGED);
	if (!arrival(source, key))
		return XDP_DROP;
	if (PLAN.streams)
		turn_to(source, tag.flow < STREAMS[PLAN.streams - 1].end ? stream_of(tag.flow) + 1 : 0);
	row = current_row(source);
	if (!row)
		return XDP_DROP;
	if (PLAN.flags & CHECK_DATA && !data_right(ctx, &tag))
		return corrupt(source, row);
	number = flow_of_tag(ctx, &tag);
	flow = number < PLAN.max_flows ? bpf_map_lookup_elem(&FLOWS, &number) : 0;
	if (!flow) {
		source->reasons[UNTRACKED_FLOW_PACKETS]++;
		return count(source, row, 1);
	}
	seq = NUMBERS + tag.number;
	if (flow->known) {
		u64 next = flow->window.next;

		/* The nearest to the one that is expected next. */
		seq = next + (long)(int)(tag.number - (u32)next);
	}
	return stamped(source, key, flow, number, seq, sent_at(tag.time, source->now_ns));
}

SEC("xdp") int drop(struct xdp_md *ctx)
{
	u32 key = source_key(ctx);
	struct source *source = bpf_map_lookup_elem(&SOURCES, &key);
	int verdict;

	if (!source)
		return XDP_PASS;
	verdict = take(ctx, source, key);
	if (PLAN.flags & SEVERAL && !PLAN.clock_every)
		end_burst(source);
	return verdict;
}

/* The same for packets that are known by their tags. */
SEC("xdp") int drop_tagged(struct xdp_md *ctx)
{
	u32 key = source_key(ctx);
	struct source *source = bpf_map_lookup_elem(&SOURCES, &key);
	int verdict;

	if (!source)
		return XDP_PASS;
	verdict = take_tagged(ctx, source, key);
	if (PLAN.flags & SEVERAL && !PLAN.clock_every)
		end_burst(source);
	return verdict;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
