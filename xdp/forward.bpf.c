/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Takes frames from one port to another, or sends them back out of the one they came in by. What is wrong with a packet
 * stays wrong, so that the far end sees what the near end sent: crates/wire/src/forward.rs says what is taken, and how
 * it is rewritten.
 */
#include "run.h"
#include "udp.h"
#include "checksum.h"
#include "swap.h"
#include "take.h"
#include "taps.h"

/* forward_port.rewrite: what is done to what leaves by the port. */
enum { REWRITE_NOTHING, REWRITE_MACS, REWRITE_FIVE_TUPLE, REWRITE_L2 };

struct forward_port {
	/* The place of this port's first source, and its sources. */
	u32 base;
	u32 sources;
	u32 rewrite;
	/* For REWRITE_L2: whom from, and whom to. */
	u8 source[6];
	u8 destination[6];
};

const volatile struct forward {
	/* 1 or 2. */
	u32 ports;
	struct forward_port port[2];
} FORWARD = {};

/* What is taken of what comes in by a port; the bits of ports are PORTS and PORTS_B. */
const volatile struct take_filter TAKE_A = {};
const volatile struct take_filter TAKE_B = {};
const volatile u64 PORTS_B[1024] = {};

/* By port: its device. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u32);
} DEVICES SEC(".maps");

enum { TCP_CHECKSUM = 16 };

/* Where the headers of an IP packet lie, without judging it: crates/wire/src/headers.rs. */
struct headers {
	u32 l3;
	/* 0: none, in a later fragment and where the headers are cut. */
	u32 l4;
	/* As the IP header has it; may lie beyond the frame's. */
	u32 end;
	u16 protocol;
	u8 v6;
	u8 fragment;
};

/* RFC 8200 section 4. */
INLINE void walk(void *data, void *end, struct headers *found, u32 unknown)
{
	u64 at = found->l3 + sizeof(struct ipv6), protocol = found->protocol;

	found->l4 = 0;
	for (u32 i = 0; i <= MAX_EXTENSION_HEADERS; i++) {
		u8 *head;

		FORGET(at, unknown);
		FORGET(protocol, unknown);
		if (!is_extension(protocol)) {
			found->l4 = at;
			break;
		}
		head = data + (at & OFFSET);
		OPAQUE(head);
		if ((void *)(head + 8) > end)
			break;
		if (protocol == PROTOCOL_FRAGMENT) {
			found->fragment = 1;
			at += 8;
			protocol = head[0];
			if (U16(head + 2) & BE16(0xfff8))
				break;
		} else {
			at += extension_length(protocol, head);
			protocol = head[0];
		}
	}
	found->protocol = protocol;
}

/* Returns 0 where there is no whole IP header. */
NOINLINE int find_headers(struct xdp_md *ctx, struct headers *found)
{
	void *data = frame_data(ctx), *end = frame_end(ctx);
	struct view view;
	struct ipv4 *ip4;
	struct ipv6 *ip6;

	parse_ethernet(&view, data, end);
	ip4 = parse_ipv4(&view);
	if (ip4) {
		found->v6 = 0;
		found->l3 = span(data, ip4);
		found->protocol = ip4->protocol;
		found->fragment = (ip4->fragment & BE16(0x3fff)) != 0;
		found->l4 = ip4->fragment & BE16(0x1fff) ? 0 : found->l3 + (ip4->version_length & 0xf) * 4;
		found->end = found->l3 + swap16(ip4->total_length);
		return 1;
	}
	ip6 = parse_ipv6(&view);
	if (!ip6)
		return 0;
	found->v6 = 1;
	found->l3 = span(data, ip6);
	found->protocol = ip6->next_header;
	found->fragment = 0;
	found->l4 = found->l3 + sizeof(*ip6);
	found->end = found->l4 + swap16(ip6->payload_length);
	if (is_extension(found->protocol))
		walk(data, end, found, ctx->rx_queue_index);
	return 1;
}

/* Completes a UDP or TCP checksum that its sender left open. */
NOINLINE int complete(struct xdp_md *ctx, const struct headers *found)
{
	void *data = frame_data(ctx), *end = frame_end(ctx);
	struct udp *udp = data + (found->l4 & OFFSET);
	u32 length = found->end - found->l4, field = __builtin_offsetof(struct udp, checksum);
	int is_udp = found->protocol == PROTOCOL_UDP;

	if (!found->l4 || found->fragment || (!is_udp && found->protocol != PROTOCOL_TCP))
		return 0;
	if (found->end < found->l4 || found->end > bpf_xdp_get_buff_len(ctx) || (void *)(udp + 1) > end)
		return 0;
	if (is_udp) {
		/* RFC 768: the datagram ends by its own length, whatever the IP packet holds behind it. */
		u32 own = swap16(udp->length);

		if (own > length)
			return 0;
		length = own;
	} else {
		field = TCP_CHECKSUM;
	}
	if (length < field + 2)
		return 0;
	complete_checksum(ctx, sum_pseudo(ctx, found->l3, found->v6, found->protocol, length), found->l4, length, field,
			  is_udp);
	return 0;
}

/* Swaps what lies behind the MAC addresses. */
NOINLINE int swap_upper(struct xdp_md *ctx, const struct headers *found)
{
	void *data = frame_data(ctx), *end = frame_end(ctx), *ip = data + (found->l3 & 31), *ports;

	if (found->v6) {
		if (ip + sizeof(struct ipv6) > end)
			return 0;
		swap_addresses6(ip + 8);
	} else {
		if (ip + sizeof(struct ipv4) > end)
			return 0;
		swap_addresses4(ip + 12);
	}
	if (!found->l4 || (found->protocol != PROTOCOL_UDP && found->protocol != PROTOCOL_TCP))
		return 0;
	ports = data + (found->l4 & OFFSET);
	if (ports + sizeof(struct ports) <= end)
		swap_ports(ports);
	return 0;
}

/* What is done to a frame that leaves by `port`. */
INLINE void rewrite(struct xdp_md *ctx, u32 port)
{
	void *data = frame_data(ctx);
	struct headers found = {};
	u32 kind = FORWARD.port[port].rewrite;

	if ((PLAN.flags & OPEN_CHECKSUMS) || kind == REWRITE_FIVE_TUPLE) {
		if (find_headers(ctx, &found)) {
			if (PLAN.flags & OPEN_CHECKSUMS)
				complete(ctx, &found);
			if (kind == REWRITE_FIVE_TUPLE)
				swap_upper(ctx, &found);
		}
	}
	if (kind == REWRITE_NOTHING || data + 14 > frame_end(ctx))
		return;
	if (kind == REWRITE_L2) {
		const volatile struct forward_port *out = &FORWARD.port[port];

		U32(data) = *(const volatile u32 *)out->destination;
		U16(data + 4) = *(const volatile u16 *)(out->destination + 4);
		U32(data + 6) = *(const volatile u32 *)out->source;
		U16(data + 10) = *(const volatile u16 *)(out->source + 4);
	} else {
		swap_macs(data);
	}
}

/* `in`: the port that it came in by. `frags`: it may be in several buffers. */
INLINE int forward(struct xdp_md *ctx, u32 in, int frags)
{
	u32 key = source_key(ctx), out = FORWARD.ports == 2 ? !in : in;
	struct source *source;
	struct row *row;

	if (key >= FORWARD.port[in].sources)
		return XDP_PASS;
	key += FORWARD.port[in].base;
	source = bpf_map_lookup_elem(&SOURCES, &key);
	if (!source)
		return XDP_PASS;
	if (!(in ? wanted(&TAKE_B, PORTS_B, ctx) : wanted(&TAKE_A, PORTS, ctx))) {
		source->passed++;
		source->reasons[NOT_TAKEN]++;
		return XDP_PASS;
	}
	if (!arrival(source, key))
		return XDP_DROP;
	rewrite(ctx, out);
	source->test++;
	source->bytes += frags ? bpf_xdp_get_buff_len(ctx) : span(frame_data(ctx), frame_end(ctx));
	row = current_row(source);
	if (row)
		row->rx++;
	if (FORWARD.ports == 2 && bpf_redirect_map(&DEVICES, out, XDP_DROP) != XDP_REDIRECT) {
		source->reasons[NO_PORT]++;
		return XDP_DROP;
	}
	source->tx++;
	if (row)
		row->tx++;
	return FORWARD.ports == 2 ? XDP_REDIRECT : send_back(ctx, source);
}

SEC("xdp") int forward_a(struct xdp_md *ctx)
{
	return forward(ctx, 0, 0);
}

SEC("xdp") int forward_b(struct xdp_md *ctx)
{
	return forward(ctx, 1, 0);
}

/* The same for frames of several buffers, which the kernel gives to programs of this section only. */
SEC("xdp.frags") int forward_a_frags(struct xdp_md *ctx)
{
	return forward(ctx, 0, 1);
}

SEC("xdp.frags") int forward_b_frags(struct xdp_md *ctx)
{
	return forward(ctx, 1, 1);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
