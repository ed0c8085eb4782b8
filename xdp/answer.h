/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Answers for the test's addresses, which need not be the host's, so that nobody else would answer: ARP (RFC 826),
 * neighbour solicitation (RFC 4861), echo (RFC 792, RFC 4443); and the next hop's answers to our own questions. A frame
 * becomes its answer in place; VLAN tags are kept. The rules by which something is no question are those of
 * crates/wire's `parse_slow_path`.
 */
#ifndef XDP_ANSWER_H
#define XDP_ANSWER_H

#include "run.h"
#include "checksum.h"
#include "filter.h"
#include "own.h"
#include "swap.h"

enum { ARP_REQUEST = 1, ARP_REPLY = 2 };
enum { SOURCE_LINK_LAYER = 1, TARGET_LINK_LAYER = 2, LINK_OPTION = 8, LINK_OPTIONS = 8 };
/* A neighbour's packet has crossed no router: RFC 4861 section 3.1. */
enum { NEIGHBOUR_HOP_LIMIT = 255 };
/* In network byte order. */
enum { SOLICITED = 0x40, OVERRIDE = 0x20 };

struct link_option {
	u8 type;
	u8 length;
	u8 mac[6];
};

struct solicitation {
	struct ipv6 ip;
	struct neighbour message;
	struct link_option option;
};

/* What becomes of a frame that is answered, or not. */
enum answer { NO_ANSWER, ANSWERED, UNDERSTOOD };

INLINE u64 mac_at(void *at)
{
	return U32(at) | (u64)U16(at + 4) << 32;
}

INLINE void put_mac(void *at, u64 mac)
{
	U32(at) = mac;
	U16(at + 4) = mac >> 32;
}

INLINE u64 plan_mac(void)
{
	return PLAN.mac;
}

/* An address that one station can have. */
INLINE int is_station(u64 mac)
{
	return mac && !(mac & 1);
}

/* Whether anything is answered, or has been asked. The first word of a valid IPv6 next hop is never 0, so it says
 * whether there is one. */
INLINE int answers(void)
{
	return PLAN.answer4_count || PLAN.answer6_count || PLAN.flags & ANSWER_OWN || PLAN.hop4 || PLAN.hop6.word[0];
}

/* A second answer changes nothing: a run keeps the address that it began with. */
INLINE void hear(u64 mac)
{
	u32 key = 0;
	struct heard *heard = bpf_map_lookup_elem(&HEARD, &key);

	if (!heard || heard->known)
		return;
	put_mac(heard->mac, mac);
	asm volatile("" ::: "memory");
	heard->known = 1;
}

INLINE int answer_arp(void *data, struct arp *arp)
{
	u64 sender = mac_at(arp->sender_mac);
	be32 sender_ip = U32(arp->sender_ip), target_ip = U32(arp->target_ip);

	if (!is_station(sender) || group4(sender_ip))
		return NO_ANSWER;
	if (arp->operation == BE16(ARP_REPLY)) {
		if (!PLAN.hop4 || sender_ip != PLAN.hop4)
			return NO_ANSWER;
		hear(sender);
		return UNDERSTOOD;
	}
	if (arp->operation != BE16(ARP_REQUEST) || !is_answered4(arp->target_ip))
		return NO_ANSWER;
	/* In a range others may have addresses: who looks for duplicates, or tells of its own, is not contradicted. */
	if (PLAN.flags & ANSWER_OWN && (!sender_ip || sender_ip == target_ip))
		return NO_ANSWER;
	put_mac(data, sender);
	put_mac(data + 6, plan_mac());
	arp->operation = BE16(ARP_REPLY);
	put_mac(arp->sender_mac, plan_mac());
	U32(arp->sender_ip) = target_ip;
	put_mac(arp->target_mac, sender);
	U32(arp->target_ip) = sender_ip;
	return ANSWERED;
}

/* The group that hosts with an address listen to: RFC 4291 section 2.7.1. */
INLINE int is_group_of(struct address6 *group, struct address6 *target)
{
	return group->word[0] == 0x000002ff && !group->word[1] && group->word[2] == 0x01000000 &&
	       group->word[3] == (target->word[3] | 0xff);
}

INLINE int is_zero6(struct address6 *address)
{
	return !(address->word[0] | address->word[1] | address->word[2] | address->word[3]);
}

/* The first link-layer address of a kind among the options; 0: none. -1: malformed. */
INLINE u64 link_address(void *options, void *end, u64 length, u8 wanted, u32 unknown)
{
	u64 found = 0;
	u64 at = 0, seen = 0;

	for (u32 i = 0; i < LINK_OPTIONS; i++) {
		struct link_option *option;
		u32 size;

		FORGET(at, unknown);
		FORGET(length, unknown);
		FORGET(found, unknown);
		FORGET(seen, unknown);
		at &= 0xfff;
		if (at >= length)
			break;
		option = options + at;
		OPAQUE(option);
		if ((void *)(option + 1) > end || !option->length)
			return -1;
		size = option->length * 8;
		if (option->type == wanted && size == LINK_OPTION && !seen) {
			found = mac_at(option->mac);
			seen = 1;
			/* An address of zeros is one, too, and nobody's. */
			if (!found)
				found = 1;
		}
		at += size;
	}
	/* Too many, or beyond the end. */
	return at == length ? found : (u64)-1;
}

/* Solicitations and advertisements, validated by RFC 4861 sections 7.1.1 and 7.1.2. */
NOINLINE int answer_neighbour(struct xdp_md *ctx, u32 l3)
{
	void *data = frame_data(ctx), *end = frame_end(ctx);
	struct solicitation *packet;
	u32 length;
	u64 sum, mac, link;
	int unspecified, solicits, named;

	l3 &= 31;
	packet = data + l3;
	if (data + 14 > end || (void *)&packet->option > end)
		return NO_ANSWER;
	length = swap16(packet->ip.payload_length);
	if (packet->ip.hop_limit != NEIGHBOUR_HOP_LIMIT || packet->message.icmp.code ||
	    length < sizeof(packet->message) || l3 + sizeof(packet->ip) + length > span(data, end))
		return NO_ANSWER;
	sum = sum_pseudo(ctx, l3, 1, PROTOCOL_ICMPV6, length);
	if (fold(sum + sum_bytes(ctx, l3 + sizeof(packet->ip), length)) != 0xffff)
		return NO_ANSWER;
	solicits = packet->message.icmp.type == ICMPV6_NEIGHBOUR_SOLICITATION;
	unspecified = is_zero6(&packet->ip.source);
	if ((packet->ip.source.word[0] & 0xff) == 0xff || (packet->message.target.word[0] & 0xff) == 0xff)
		return NO_ANSWER;
	link = link_address(&packet->option, end, length - sizeof(packet->message),
			    solicits ? SOURCE_LINK_LAYER : TARGET_LINK_LAYER, ctx->rx_queue_index);
	if (link == (u64)-1)
		return NO_ANSWER;
	if (!solicits) {
		const volatile u32 *hop = PLAN.hop6.word;
		struct address6 *target = &packet->message.target;

		if (unspecified || ((packet->ip.destination.word[0] & 0xff) == 0xff && (packet->message.flags & SOLICITED)))
			return NO_ANSWER;
		if (is_zero6(target) || target->word[0] != hop[0] || target->word[1] != hop[1] ||
		    target->word[2] != hop[2] || target->word[3] != hop[3] || !is_station(link))
			return NO_ANSWER;
		hear(link);
		return UNDERSTOOD;
	}
	if (!is_answered6(&packet->message.target) || (unspecified && PLAN.flags & ANSWER_OWN))
		return NO_ANSWER;
	/* Who looks for duplicates of the address it wants has none yet: RFC 4862. All nodes are told. */
	if (unspecified && (link || !is_group_of(&packet->ip.destination, &packet->message.target)))
		return NO_ANSWER;
	mac = link ? link : mac_at(data + 6);
	if (!is_station(mac))
		return NO_ANSWER;
	/* Who asks us alone, and names no address, knows ours: the answer is no longer than the question (section 7.2.4). */
	named = link || (packet->ip.destination.word[0] & 0xff) == 0xff;
	length = l3 + (named ? sizeof(*packet) : sizeof(*packet) - sizeof(packet->option)) - span(data, end);
	if (length && bpf_xdp_adjust_tail(ctx, length))
		return NO_ANSWER;
	data = frame_data(ctx);
	end = frame_end(ctx);
	packet = data + l3;
	if (data + 14 > end || (void *)&packet->option > end)
		return NO_ANSWER;
	packet->ip.destination = packet->ip.source;
	if (unspecified) {
		packet->ip.destination.word[0] = 0x000002ff;
		packet->ip.destination.word[3] = 0x01000000;
		mac = 0x010000003333;
	}
	put_mac(data, mac);
	put_mac(data + 6, plan_mac());
	packet->ip.version_class_label = 0x60;
	packet->ip.payload_length = BE16(sizeof(packet->message));
	packet->ip.source = packet->message.target;
	packet->message.icmp.type = ICMPV6_NEIGHBOUR_ADVERTISEMENT;
	packet->message.icmp.checksum = 0;
	packet->message.flags = unspecified ? OVERRIDE : SOLICITED | OVERRIDE;
	sum = swap16(sizeof(packet->message)) + (PROTOCOL_ICMPV6 << 8);
	if (named) {
		if ((void *)(packet + 1) > end)
			return NO_ANSWER;
		packet->ip.payload_length = BE16(sizeof(packet->message) + sizeof(packet->option));
		packet->option.type = TARGET_LINK_LAYER;
		packet->option.length = 1;
		put_mac(packet->option.mac, plan_mac());
		/* The option, and the length again, which is more by so much. */
		sum += halves(U64(&packet->option)) + swap16(sizeof(packet->option));
	}
#pragma unroll
	for (u32 i = 8; i < __builtin_offsetof(struct solicitation, option); i += 8)
		sum += halves(U64((void *)packet + i));
	packet->message.icmp.checksum = ~fold(sum);
	return ANSWERED;
}

/* An echo request to one host, with right checksums. */
NOINLINE int answer_echo(struct xdp_md *ctx, const struct ip_packet *p)
{
	void *data = frame_data(ctx), *end = frame_end(ctx), *ip = data + (p->l3 & 31);
	struct icmp *icmp = data + (p->l4 & OFFSET);
	u64 pseudo = 0, sum;

	if (data + 14 > end || ip + sizeof(struct ipv4) > end || (void *)icmp + 8 > end || p->room < 8 || icmp->code)
		return NO_ANSWER;
	if (!between_stations(U64(data)))
		return NO_ANSWER;
	if (p->v6) {
		if (ip + sizeof(struct ipv6) > end || icmp->type != ICMPV6_ECHO || *(u8 *)(ip + 8) == 0xff ||
		    !(U64(ip + 8) | U64(ip + 16)) || !is_answered6(ip + 24))
			return NO_ANSWER;
		if (is_loopback6(ip + 8) || listed6(ip + 8) || is_answered6(ip + 8))
			return NO_ANSWER;
		pseudo = sum_pseudo(ctx, p->l3, 1, PROTOCOL_ICMPV6, p->room);
	} else {
		be32 source = U32(ip + 12);

		if (icmp->type != ICMP_ECHO || !is_one_host4(source) || (source & 0xff) == 127 ||
		    !is_answered4(ip + 16))
			return NO_ANSWER;
		/* The answer would come back, or go to many. */
		if (is_answered4(ip + 12) ||
		    listed4(LOOPS.own4, LOOPS.own4_count, source) ||
		    listed4(LOOPS.broadcasts, LOOPS.broadcasts_count, source))
			return NO_ANSWER;
	}
	if (p->room > SUM_MAX)
		return NO_ANSWER;
	/* What stays: all but type, code and checksum. */
	sum = pseudo + sum_bytes(ctx, p->l4 + sizeof(*icmp), p->room - sizeof(*icmp));
	if (fold(sum + U32(icmp)) != 0xffff)
		return NO_ANSWER;
	if (p->v6) {
		/* Known, but not to the verifier. */
		if (ip + sizeof(struct ipv6) > end)
			return NO_ANSWER;
		swap_addresses6(ip + 8);
	} else {
		swap_addresses4(ip + 12);
	}
	swap_macs(data);
	icmp->type = p->v6 ? ICMPV6_ECHO_REPLY : ICMP_ECHO_REPLY;
	icmp->checksum = ~fold(sum + icmp->type);
	return ANSWERED;
}

/* Answers a frame, if it is a question for one of the test's addresses. */
GLOBAL int answer(struct xdp_md *ctx)
{
	struct ip_packet p = {};
	struct view view;
	struct arp *arp;

	parse_ethernet(&view, frame_data(ctx), frame_end(ctx));
	arp = parse_arp(&view);
	if (arp)
		return answer_arp(frame_data(ctx), arp);
	if (find_ip(ctx, &p))
		return NO_ANSWER;
	if (p.v6 ? p.protocol != PROTOCOL_ICMPV6 : p.protocol != PROTOCOL_ICMP)
		return NO_ANSWER;
	if (p.v6 && p.l4 == p.l3 + sizeof(struct ipv6)) {
		struct icmp *icmp = frame_data(ctx) + (p.l4 & OFFSET);

		if ((void *)(icmp + 1) > frame_end(ctx))
			return NO_ANSWER;
		if (icmp->type == ICMPV6_NEIGHBOUR_SOLICITATION || icmp->type == ICMPV6_NEIGHBOUR_ADVERTISEMENT)
			return answer_neighbour(ctx, p.l3);
	}
	return answer_echo(ctx, &p);
}

/* What becomes of a frame that is no test packet: it is answered, or goes to the host, and is counted. */
INLINE int left_over(struct xdp_md *ctx, struct source *source, u32 left)
{
	if (answers() && (left == LEFT_NOT_IP || left == LEFT_NOT_UDP || left == LEFT_NOT_TAGGED)) {
		int done = answer(ctx);

		if (done)
			left = NEIGHBOR_SERVICE;
		if (done == ANSWERED) {
			source->others++;
			source->reasons[NEIGHBOR_SERVICE]++;
			/* What is answered may be the first frame that there is: no clock was read for it yet. */
			arrival(source, source_key(ctx));
			return send_back(ctx, source);
		}
	}
	source->passed++;
	source->reasons[left & (REASONS - 1)]++;
	return XDP_PASS;
}

#endif
