/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Turns the test's packets round where they come in, and leaves all others to the host.
 */
#include "run.h"
#include "udp.h"
#include "checksum.h"
#include "filter.h"
#include "swap.h"
#include "answer.h"
#include "loops.h"
#include "turn_tagged.h"
#include "taps.h"

/* Turns a packet that is taken. Returns 0, or the reason + 1. `plain`: see `admit`. */
NOINLINE int turn_anywhere(struct xdp_md *ctx, struct source *source, u32 plain)
{
	struct udp_packet p = {};
	struct sender sender = {};
	void *data, *end, *addresses, *ports;
	int left = find_udp_anywhere(ctx, &p), probe;

	if (left)
		return left;
	left = filter(ctx, &p);
	if (left)
		return left;
	data = frame_data(ctx);
	end = frame_end(ctx);
	addresses = data + (p.l3 & 31) + (p.v6 ? 8 : 12);
	ports = data + (p.l4 & OFFSET);
	if (addresses + 8 > end || ports + sizeof(struct ports) > end)
		LEAVE(LEFT_TOO_SHORT);
	if (p.v6) {
		if (addresses + 32 > end)
			LEAVE(LEFT_TOO_SHORT);
		left = answerable6(addresses, U32(ports));
	} else {
		left = answerable4(U32(addresses), U32(addresses + 4), U32(ports));
	}
	if (left)
		return left;
	probe = admit(ctx, source, &p, plain);
	if (probe > 0)
		return probe;
	if (probe && !read_sender(ctx, &p, &sender))
		probe = 0;
	data = frame_data(ctx);
	end = frame_end(ctx);
	addresses = data + (p.l3 & 31) + (p.v6 ? 8 : 12);
	ports = data + (p.l4 & OFFSET);
	/* Never: they have been read. */
	if (data + 14 > end || addresses + 8 > end || ports + sizeof(struct ports) > end)
		LEAVE(LEFT_TOO_SHORT);
	/* Hop limit and time to live lie as far before the addresses: 1 and 4. */
	if (p.v6) {
		if (addresses + 32 > end)
			LEAVE(LEFT_TOO_SHORT);
		if (*(u8 *)(addresses - 1) <= 1)
			LEAVE(LEFT_TTL_EXPIRED);
		*(u8 *)(addresses - 1) -= 1;
		swap_addresses6(addresses);
	} else {
		if (*(u8 *)(addresses - 4) <= 1)
			LEAVE(LEFT_TTL_EXPIRED);
		lower_ttl4(addresses - 4);
		swap_addresses4(addresses);
	}
	swap_macs(data);
	swap_ports(ports);
	if (probe) {
		if (make_probe(ctx, &p, &sender))
			source->reasons[LEFT_PROBED]++;
		return 0;
	}
	if (PLAN.flags & OPEN_CHECKSUMS)
		complete_udp(ctx, &p);
	return 0;
}

/*
 * Whether a plain packet between its two addresses can be answered; false says nothing. Packets mostly come between the
 * same two, which are looked at once then.
 */
INLINE int plain_pair4(struct watch *watch, void *data)
{
	be32 source = U32(data + 26), destination = U32(data + 30);
	u64 pair = U64(data + 26);

	if (pair && pair == watch->pair)
		return 1;
	if (!plain_addresses4(source, destination) || answerable4(source, destination, U32(data + PLAIN4_L4)))
		return 0;
	/* Between two of our own the ports decide. */
	if (!is_ours4(source, destination))
		watch->pair = pair;
	return 1;
}

/*
 * The shortest way, for a packet whose headers are those of one before it; false says nothing. `plain`: the result of a
 * look, if there was one and it ends this way.
 */
INLINE int turn_known(struct xdp_md *ctx, struct source *source, u32 *plain)
{
	const struct known *known = &watch_of(source)->known;
	void *data = frame_data(ctx), *end = frame_end(ctx);

	if (UNLIKELY(data + PLAIN4_PAYLOAD > end) || UNLIKELY(!begins_known(known, data, end)))
		return 0;
	if (LIKELY(U16(data + 12) == BE16(ETHERTYPE_IPV4))) {
		if (UNLIKELY(!ends_known4(known, data)) ||
		    (UNLIKELY(look_due(source)) && (*plain = look_plain(ctx, source, 0))))
			return 0;
		turn_known4(known, data);
		return 1;
	}
	/* Before the first packet the known headers are zeros, and of no type. */
	if (UNLIKELY(U16(data + 12) != BE16(ETHERTYPE_IPV6)) || UNLIKELY(data + PLAIN6_PAYLOAD > end) ||
	    UNLIKELY(!ends_known6(known, data)) ||
	    (UNLIKELY(look_due(source)) && (*plain = look_plain(ctx, source, 1))))
		return 0;
	turn_known6(known, data);
	return 1;
}

/*
 * As `turn_anywhere`, for what nearly every packet is; false says nothing. A packet that is to be looked at costs no
 * more than the look: only with a probe does it go the long way. Its headers are noted if it is the first of a poll
 * loop, and its answer does not depend on its source port: between two of our own it does.
 */
INLINE int turn_plain(struct xdp_md *ctx, struct source *source, u32 *plain)
{
	void *data = frame_data(ctx), *end = frame_end(ctx);

	if (data + PLAIN4_PAYLOAD > end)
		return 0;
	if (looks_plain4(data)) {
		if (!plain_udp4(data, end) || !plain_taken4(data) || *(u8 *)(data + 22) <= 1 ||
		    U16(data + PLAIN4_L4 + 4) == BE16(sizeof(struct udp) + PROBE_LEN) ||
		    !plain_pair4(watch_of(source), data))
			return 0;
		if ((PLAN.flags & OPEN_CHECKSUMS) && fold(sum_pseudo_plain4(data)) == U16(data + PLAIN4_L4 + 6))
			return 0;
		if (look_due(source) && (*plain = look_plain(ctx, source, 0)))
			return 0;
		if (!source->left && !is_ours4(U32(data + 26), U32(data + 30)))
			note4(&watch_of(source)->known, data);
		swap_macs(data);
		lower_ttl4(data + 22);
		swap_addresses4(data + 26);
		swap_ports(data + PLAIN4_L4);
		return 1;
	}
	if (data + PLAIN6_PAYLOAD > end || !looks_plain6(data) || !plain_udp6(data, end) || !plain_taken6(data) ||
	    *(u8 *)(data + 21) <= 1 || U16(data + PLAIN6_L4 + 4) == BE16(sizeof(struct udp) + PROBE_LEN) ||
	    answerable6(data + 22, U32(data + PLAIN6_L4)))
		return 0;
	if ((PLAN.flags & OPEN_CHECKSUMS) && fold(sum_pseudo_plain6(data)) == U16(data + PLAIN6_L4 + 6))
		return 0;
	if (look_due(source) && (*plain = look_plain(ctx, source, 1)))
		return 0;
	if (!source->left && !is_ours6(data + 22))
		note6(&watch_of(source)->known, data);
	swap_macs(data);
	*(u8 *)(data + 21) -= 1;
	swap_addresses6(data + 22);
	swap_ports(data + PLAIN6_L4);
	return 1;
}

/* Counts a packet that was turned. `looks`: others are looked at for loops. */
INLINE int count_and_send(struct xdp_md *ctx, struct source *source, u32 key, int looks)
{
	struct row *row;

	if (LIKELY(source->left)) {
		source->left--;
	} else {
		/* The run is over: what is not counted is not sent back. */
		if (!arrival(source, key))
			return XDP_DROP;
		if (looks)
			look_in_time(source);
	}
	source->test++;
	row = current_row(source);
	/* What came in and what went back are one number. */
	if (row)
		row->rx++;
	/* Only on a veth, which `send_back` knows. */
	return UNLIKELY(source->redirect) ? send_back(ctx, source) : XDP_TX;
}

/* What becomes of a packet of the test that is not turned: it would go round, or its sender is nobody's. */
INLINE int left_alone(struct source *source, u32 left)
{
	source->others++;
	source->reasons[left & (REASONS - 1)]++;
	return XDP_DROP;
}

INLINE int turn(struct xdp_md *ctx)
{
	u32 key = source_key(ctx), plain = LOOKED;
	struct source *source = bpf_map_lookup_elem(&SOURCES, &key);

	if (UNLIKELY(!source))
		return XDP_PASS;
	/* A packet that was looked at and is not turned yet goes the long way. */
	if (UNLIKELY(!turn_known(ctx, source, &plain)) &&
	    (plain != LOOKED || watch_of(source)->alert || !turn_plain(ctx, source, &plain))) {
		int left = turn_anywhere(ctx, source, plain);

		/* The test's, and what the host would answer it has not asked for. */
		if (left > LEFT_OWN_SOURCE)
			return left_alone(source, left - 1);
		if (left)
			return left_over(ctx, source, left - 1);
	}
	return count_and_send(ctx, source, key, 1);
}

/* The same for packets that are known by their tags. */
INLINE int turn_by_tag(struct xdp_md *ctx)
{
	u32 key = source_key(ctx);
	struct source *source = bpf_map_lookup_elem(&SOURCES, &key);
	int left;

	if (UNLIKELY(!source))
		return XDP_PASS;
	left = turn_tagged(ctx);
	if (left == LEFT_NOT_TAGGED + 1)
		return left_over(ctx, source, LEFT_NOT_TAGGED);
	if (left)
		return left_alone(source, left - 1);
	return count_and_send(ctx, source, key, 0);
}

SEC("xdp") int reflect(struct xdp_md *ctx)
{
	return turn(ctx);
}

/* The same for frames of several buffers, which the kernel gives to programs of this section only. */
SEC("xdp.frags") int reflect_frags(struct xdp_md *ctx)
{
	return turn(ctx);
}

SEC("xdp") int reflect_tagged(struct xdp_md *ctx)
{
	return turn_by_tag(ctx);
}

SEC("xdp.frags") int reflect_tagged_frags(struct xdp_md *ctx)
{
	return turn_by_tag(ctx);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
