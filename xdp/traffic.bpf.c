/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `sendrecv` and `send`: one program makes packets, another counts those that come back, or that arrive at another
 * device.
 *
 * The sender runs on frames that the kernel makes (BPF_PROG_TEST_RUN with live frames), one call per lane for a whole
 * run, for a call costs tens of milliseconds. So pacing is done here: while nothing is due a frame is given back. The
 * clock is read once for the 16 packets that the kernel hands to the device at a time.
 */
#include "pacing.h"
#include "receive.h"
#include "checksum.h"
#include "filter.h"
#include "swap.h"
#include "answer.h"

/*
 * Whether what this CPU handed over last is an answer. Packets of the test are handed over at the end of their batch,
 * and answers in the poll loop that gives them: neither waits for the other.
 */
INLINE struct lane *lane_here(void)
{
	return lane_on(bpf_get_smp_processor_id(), 0);
}

INLINE int is_answering(void)
{
	struct lane *lane = lane_here();

	return lane && lane->answering;
}
#define ANSWERING() is_answering()
#include "taps.h"

/* Ports of a flow as they lie in the UDP header. */
INLINE u32 ports_of(u32 flow)
{
	struct flow_ports *ports;

	if (PLAN.flows == PLAN.src_count && PLAN.flags & TURNED)
		return (u32)swap16(PLAN.dst_first) | (u32)swap16(PLAN.src_first + flow) << 16;
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

/* Writes the addresses of a flow, and the checksum that they give the IPv4 header, into the headers of a frame. */
INLINE void write_addresses(void *ip, const struct flow_ports *ends, const struct flow_addresses *addresses)
{
	if (PLAN.flags & IPV6) {
#pragma unroll
		for (u32 i = 0; i < 4; i++) {
			((u32 *)(ip + 8))[i] = addresses->source.word[i];
			((u32 *)(ip + 24))[i] = addresses->destination.word[i];
		}
		return;
	}
	*(u16 *)(ip + 10) = ends->check;
	*(u32 *)(ip + 12) = addresses->source.word[0];
	*(u32 *)(ip + 16) = addresses->destination.word[0];
}

/* Writes the whole packet: a frame that comes again holds what the reflector made of it. */
INLINE void write_packet(void *frame, struct lane *lane, u32 flow, u64 seq, u64 time)
{
	u32 header = PLAN.l4 + UDP_HEADER, ports = PLAN.flags & ADDRESSES_VARY ? 0 : ports_of(flow);
	void *payload = frame + header;
	u64 sum = PLAN.sum;
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
	if (PLAN.flags & ADDRESSES_VARY) {
		struct flow_ports *ends = bpf_map_lookup_elem(&FLOW_PORTS, &flow);
		struct flow_addresses *addresses = bpf_map_lookup_elem(&FLOW_ADDRESSES, &flow);

		if (!ends || !addresses)
			return;
		ports = ends->source | (u32)ends->destination << 16;
		sum = ends->sum;
		write_addresses(frame + PLAN.l3, ends, addresses);
	}
	*(u64 *)payload = seq;
	*(u64 *)(payload + 8) = time;
	sum += (u64)ports + halves(seq) + halves(time);
	sum += write_data(payload + STAMP, data_base(PLAN.seed, seq));
	check = ~fold(sum);
	*(u32 *)(frame + PLAN.l4) = ports;
	*(u16 *)(frame + PLAN.l4 + 6) = check ? check : 0xffff;
}

/* `tagged`: a packet of IMAGE. */
INLINE int send_one(struct xdp_md *ctx, int tagged)
{
	void *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	u32 cpu = bpf_get_smp_processor_id(), flow, place, cursor;
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
		if ((!lane->left || lane->due_ns > lane->now_ns) && !tick(lane, 0))
			return XDP_DROP;
		if (lane->due_ns > lane->now_ns) {
			lane->waits++;
			return XDP_DROP;
		}
		if (lane->now_ns - lane->due_ns > PLAN.catch_up_ns) {
			give_up(lane);
			return XDP_DROP;
		}
	} else if (!lane->left && !tick(lane, 0)) {
		return XDP_DROP;
	}

	now = lane->now_ns;
	lane->left--;
	seq = lane->seq;
	cursor = place = lane->cursor;
	flow = lane->first_flow + cursor * lane->flow_step;
	if (++cursor == lane->flows) {
		cursor = 0;
		/* Receivers look at the number again after the place: see `sent_after_all`. */
		*(volatile u64 *)&lane->seq = seq + 1;
	}
	*(volatile u32 *)&lane->cursor = cursor;
	if (tagged)
		write_one(frame, lane, flow, seq, now);
	else
		write_packet(frame, lane, flow, seq, now);

	if (!lane->pending++) {
		if (PLAN.flags & RECEIVE)
			publish(lane, seq * lane->flows + place, now);
		note_burst(lane, now);
	}
	if (PLAN.flags & PACED) {
		if (PLAN.flags & RECEIVE)
			note_slip(flow, seq, now, now - lane->due_ns);
		depart(lane);
	} else if (PLAN.flags & LIMITED && !--lane->remaining) {
		lane->done = 1;
	}
	/*
	 * The frame is sent again and again. Before Linux 6.4 the kernel leaves a start that the driver moved as it is,
	 * unless the program has changed the bounds of the packet: with metadata it has.
	 */
	if (PLAN.flags & MOVED)
		bpf_xdp_adjust_meta(ctx, -4);
	return XDP_TX;
}

SEC("xdp") int send(struct xdp_md *ctx)
{
	return send_one(ctx, 0);
}

/* The same of packets of any headers, with a tag. */
SEC("xdp") int send_tagged(struct xdp_md *ctx)
{
	return send_one(ctx, 1);
}

/* The same of several streams. */
SEC("xdp") int send_mixed(struct xdp_md *ctx)
{
	return send_next(ctx);
}

/* Sends a frame as it is. */
SEC("xdp") int inject(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_TX;
}

/*
 * Each reflector and router takes one from the time to live, and the header checksum follows it: in the words of the IP
 * header with them, these bits may differ. Their sum does not, for a header that is right.
 */
#define HOP_LIMIT 0xff00000000000000ULL
#define TTL_AND_CHECKSUM 0x00000000ffff00ffULL

INLINE u32 ttl_and_checksum(u64 word)
{
	u32 sum = (u16)word + (u16)(word >> 16);

	return (sum & 0xffff) + (sum >> 16);
}

/*
 * Whether a frame is just what was sent, with the two ends exchanged where packets come back: then its IP header is
 * right if what was sent was.
 * Compared are whole words; whatever else has been changed on the way is for `sort` to look at.
 */
INLINE int looks_like_ours(void *frame)
{
	void *ip = frame + PLAN.l3;

	if (PLAN.l3 == 18 && U16(frame + 12) != BE16(ETHERTYPE_VLAN))
		return 0;
	if (U16(ip - 2) != (PLAN.flags & IPV6 ? BE16(ETHERTYPE_IPV6) : BE16(ETHERTYPE_IPV4)))
		return 0;
	if (PLAN.flags & IPV6)
		return !((U64(ip) ^ PLAN.back[0]) & ~HOP_LIMIT) && U64(ip + 8) == PLAN.back[1] &&
		       U64(ip + 16) == PLAN.back[2] && U64(ip + 24) == PLAN.back[3] && U64(ip + 32) == PLAN.back[4];
	return U64(ip) == PLAN.back[0] && !((U64(ip + 8) ^ PLAN.back[1]) & ~TTL_AND_CHECKSUM) &&
	       ttl_and_checksum(U64(ip + 8)) == ttl_and_checksum(PLAN.back[1]) && U32(ip + 16) == (u32)PLAN.back[2];
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
	u32 size = v6 ? 16 : 4;

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
	if (!is_for_us(U32(ports))) {
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

/* The same of flows that are told by their addresses, too; and the sum of the packet's addresses. */
NOINLINE int sort_addresses(struct xdp_md *ctx, u32 *flow, u32 *reason, u64 *sum)
{
	struct udp_packet p = {};
	int left = find_udp(ctx, &p), v6 = !!(PLAN.flags & IPV6);
	void *data = frame_data(ctx), *end = frame_end(ctx), *source, *ports;
	u32 size = v6 ? 16 : 4, own, peer;

	*reason = left - 1;
	if (left)
		return HOSTS;
	source = data + (p.l3 & 31) + (v6 ? 8 : 12);
	ports = data + (p.l4 & OFFSET);
	*reason = LEFT_WRONG_ADDRESS;
	if (!!p.v6 != v6 || source + 32 > end || ports + sizeof(struct udp) > end)
		return HOSTS;
	own = place_in(&PLAN.own, source + size);
	if (own >= PLAN.own.count)
		return HOSTS;
	*reason = LEFT_WRONG_PORT;
	if (!is_for_us(U32(ports)))
		return HOSTS;
	peer = place_in(&PLAN.peer, source);
	*reason = FOREIGN_WRONG_ADDRESS;
	if (peer >= PLAN.peer.count)
		return FOREIGN;
	*flow = flow_at(U32(ports), own, peer);
	*reason = FOREIGN_WRONG_PORT;
	if (*flow >= PLAN.flows)
		return FOREIGN;
	*sum = halves(U64(source));
	if (v6)
		*sum += halves(U64(source + 8)) + halves(U64(source + 16)) + halves(U64(source + 24));
	return p.payload_len == PLAN.payload_len ? (int)p.l4 : CORRUPT;
}

/* A frame that is not of the test: it is answered, or the host's. */
INLINE int leave(struct xdp_md *ctx, struct source *source, u32 key, u32 reason)
{
	struct lane *lane;

	if (answers() && (reason == LEFT_NOT_IP || reason == LEFT_NOT_UDP || reason == LEFT_NOT_TAGGED)) {
		switch (answer(ctx)) {
		case ANSWERED:
			source->reasons[NEIGHBOR_SERVICE]++;
			arrival(source, key);
			lane = lane_here();
			if (lane) {
				/* The next packet of the test reads the clock, and takes this back. */
				lane->answering = 1;
				lane->left = 0;
			}
			return send_back(ctx, source);
		case UNDERSTOOD:
			source->reasons[NEIGHBOR_SERVICE]++;
		}
	}
	source->passed++;
	return XDP_PASS;
}

INLINE int take(struct xdp_md *ctx, struct source *source, u32 key)
{
	void *frame = frame_data(ctx), *end = frame_end(ctx);
	u32 flow, reason = LEFT_NOT_IP;
	u64 addresses = 0;
	int at;

	if (PLAN.flags & RECEIVE) {
		if (!(PLAN.flags & ADDRESSES_VARY) && frame + PLAN.l4 + UDP_HEADER + STAMP <= end &&
		    looks_like_ours(frame)) {
			flow = flow_of(U32(frame + PLAN.l4));
			if (flow < PLAN.flows) {
				if (!arrival(source, key))
					return XDP_DROP;
				return examine(source, key, frame + PLAN.l4, end, flow, 0);
			}
		}
		at = PLAN.flags & ADDRESSES_VARY ? sort_addresses(ctx, &flow, &reason, &addresses) :
						     sort(ctx, &flow, &reason);
		if (at != HOSTS) {
			if (!arrival(source, key))
				return XDP_DROP;
			if (at == CORRUPT)
				return corrupt(source);
			if (at == FOREIGN)
				return foreign(source, reason);
			/* The verifier has to see that this stays in the frame. */
			return examine(source, key, frame_data(ctx) + (at & OFFSET), frame_end(ctx), flow, addresses);
		}
	}
	return leave(ctx, source, key, reason);
}

/* Takes a packet by its tag: crates/engine/src/codec/tagged.rs. */
INLINE int take_tagged(struct xdp_md *ctx, struct source *source, u32 key)
{
	void *data = frame_data(ctx);
	struct tag tag = {};
	const volatile struct sized *size = &SIZED[0];
	u32 stream = 0, len;
	struct lane *lane;
	u64 now, next;

	if (!(PLAN.flags & RECEIVE) || !find_tag(ctx, &tag) || is_icmp_error(ctx, tag.l3))
		return leave(ctx, source, key, LEFT_NOT_TAGGED);
	now = arrival(source, key);
	if (!now)
		return XDP_DROP;
	if (PLAN.streams)
		turn_to(source, 0);
	if (tag.flow >= PLAN.flows)
		return foreign(source, FOREIGN_OTHER_RUN);
	if (PLAN.streams) {
		stream = stream_of(tag.flow);
		lane = lane_of_stream(stream, tag.flow);
		size = &SIZED[place_of_size(stream, tag.flow, tag.number)];
		len = size->data;
	} else {
		lane = lane_of(tag.flow);
		len = IMAGE.data;
	}
	if (!lane || tag.run != lane->run)
		return foreign(source, FOREIGN_OTHER_RUN);
	if (!(PLAN.flags & ACROSS) && data + 14 <= frame_end(ctx) && !((U64(data + 6) ^ PLAN.mac) << 16))
		return foreign(source, FOREIGN_LOOPED);
	if (PLAN.streams) {
		turn_to(source, stream + 1);
		source->size = size->place;
	}
	if (PLAN.flags & CHECK_DATA && (tag.at < len || !data_before_tag_right(ctx, &tag, tag.at - len))) {
		if (PLAN.flags & SIZES && source->size)
			corrupt_size(source);
		return corrupt(source);
	}
	/* A tag has the lowest bits: the number is the nearest to that which is due, the time the latest. */
	next = *(volatile u64 *)&lane->seq;
	now += CLOCKS_DIFFER_NS;
	return book(source, key, lane, tag.flow, next + (long)(int)(tag.number - (u32)next),
		    now - ((now - tag.time) & ((1ULL << 36) - 1)));
}

INLINE int receive_one(struct xdp_md *ctx, int tagged)
{
	u32 key = source_key(ctx);
	struct source *source = bpf_map_lookup_elem(&SOURCES, &key);
	int verdict;

	if (!source)
		return XDP_PASS;
	verdict = tagged ? take_tagged(ctx, source, key) : take(ctx, source, key);
	if (PLAN.flags & SEVERAL && !PLAN.clock_every)
		end_burst(source);
	return verdict;
}

SEC("xdp") int receive(struct xdp_md *ctx)
{
	return receive_one(ctx, 0);
}

/* The same of packets that are known by their tags. */
SEC("xdp") int receive_tagged(struct xdp_md *ctx)
{
	return receive_one(ctx, 1);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
