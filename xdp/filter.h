/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which UDP packets a listener takes, as crates/wire's `ReflectFilter` has it: those to one station, from somebody
 * who can be answered, to the addresses and ports of PLAN.
 *
 * As in udp.h there is a short way for what nearly every packet is, which only ever says yes, and a long one that
 * says why not.
 */
#ifndef XDP_FILTER_H
#define XDP_FILTER_H

#include "run.h"
#include "udp.h"

/* Ports that are the host's own; PORTS has none of them. */
const volatile u64 HOST_PORTS[1024] = {};

INLINE int in_ports(const volatile u64 *ports, be16 port)
{
	u32 number = swap16(port);

	return ports[(number >> 6) & 1023] >> (number & 63) & 1;
}

INLINE int is_address4(const volatile be32 *list, u32 count, be32 address)
{
#pragma unroll
	for (u32 i = 0; i < ADDRESSES; i++)
		if (i < count && list[i] == address)
			return 1;
	return 0;
}

INLINE int is_address6(const volatile struct words6 *list, u32 count, void *at)
{
#pragma unroll
	for (u32 i = 0; i < ADDRESSES; i++)
		if (i < count && *(const volatile u64 *)list[i].word == U64(at) &&
		    *(const volatile u64 *)(list[i].word + 2) == U64(at + 8))
			return 1;
	return 0;
}

INLINE int any_address(void)
{
	return !PLAN.addresses4_count && !PLAN.addresses6_count && !PLAN.own.count;
}

/* Whether an address is one of those that a listener takes packets to. */
INLINE int is_taken4(void *at)
{
	return is_address4(PLAN.addresses4, PLAN.addresses4_count, U32(at)) || is_within(&PLAN.own, at, 0);
}

INLINE int is_taken6(void *at)
{
	return is_address6(PLAN.addresses6, PLAN.addresses6_count, at) || is_within(&PLAN.own, at, 1);
}

/* Whether it is one that is answered for. */
INLINE int is_answered4(void *at)
{
	return is_address4(PLAN.answer4, PLAN.answer4_count, U32(at)) ||
	       (PLAN.flags & ANSWER_OWN && is_within(&PLAN.own, at, 0));
}

INLINE int is_answered6(void *at)
{
	return is_address6(PLAN.answer6, PLAN.answer6_count, at) ||
	       (PLAN.flags & ANSWER_OWN && is_within(&PLAN.own, at, 1));
}

INLINE int own_mac(void *data)
{
	return !((U64(data) ^ PLAN.mac) << 16);
}

/* Both MAC addresses are of stations. `macs`: the first 8 bytes of the frame. */
INLINE int between_stations(u64 macs)
{
	return !(macs & 0x0001000000000001);
}

/* Both MAC addresses are of stations, and the destination is our own where that is asked for. */
INLINE int plain_macs(void *data)
{
	u64 first = U64(data);

	if (PLAN.flags & OWN_MAC)
		return !((first ^ PLAN.mac) & 0x0001ffffffffffff);
	return between_stations(first);
}

/* Class D, and above it the broadcast address. The highest byte of an address is the lowest of its word. */
INLINE int group4(be32 address)
{
	return (address & 0xf0) == 0xe0 || address == 0xffffffff;
}

/* `ipv4::is_one_host` of crates/wire. */
INLINE int is_one_host4(be32 address)
{
	return (address & 0xff) && (address & 0xe0) != 0xe0;
}

/* Whether packets between these two are taken. Class E is left to the long way. */
INLINE int plain_addresses4(be32 source, be32 destination)
{
	return is_one_host4(source) && (destination & 0xe0) != 0xe0 &&
	       (any_address() || is_taken4(&destination));
}

/* Whether a packet that `plain_udp4` knows is taken, if its addresses are (`plain_addresses4`). */
INLINE int plain_taken4(void *data)
{
	return plain_macs(data) && U16(data + PLAIN4_L4) && in_ports(PORTS, U16(data + PLAIN4_L4 + 2));
}

/* For `plain_udp6`, with the addresses. */
INLINE int plain_taken6(void *data)
{
	u64 source = U64(data + 22);

	return plain_macs(data) && (source & 0xff) != 0xff && (source || U64(data + 30)) && *(u8 *)(data + 38) != 0xff &&
	       (any_address() || is_taken6(data + 38)) &&
	       U16(data + PLAIN6_L4) && in_ports(PORTS, U16(data + PLAIN6_L4 + 2));
}

/* Whether a packet is taken: 0, or the reason + 1. */
GLOBAL int filter(struct xdp_md *ctx, const struct udp_packet *p)
{
	void *data = frame_data(ctx), *end = frame_end(ctx), *ip, *source, *destination;
	int group, answerable, listed;
	struct ports *ports;

	if (!p)
		LEAVE(LEFT_TOO_SHORT);
	ip = data + (p->l3 & 31);
	ports = data + (p->l4 & OFFSET);
	if (data + 14 > end || ip + sizeof(struct ipv4) > end || (void *)(ports + 1) > end)
		LEAVE(LEFT_TOO_SHORT);
	if (p->v6) {
		source = ip + 8;
		destination = ip + 24;
		if (ip + sizeof(struct ipv6) > end)
			LEAVE(LEFT_TOO_SHORT);
		group = *(u8 *)destination == 0xff;
		answerable = *(u8 *)source != 0xff && (U64(source) | U64(source + 8));
		listed = is_taken6(destination);
	} else {
		source = ip + 12;
		destination = ip + 16;
		group = group4(U32(destination));
		answerable = is_one_host4(U32(source));
		listed = is_taken4(destination);
	}
	if ((*(u8 *)data & 1) || group)
		LEAVE(LEFT_MULTICAST);
	if ((*(u8 *)(data + 6) & 1) || !answerable || !ports->source)
		LEAVE(LEFT_BAD_SOURCE);
	if ((PLAN.flags & OWN_MAC) && !own_mac(data))
		LEAVE(LEFT_WRONG_MAC);
	if (!any_address() && !listed)
		LEAVE(LEFT_WRONG_ADDRESS);
	if (in_ports(PORTS, ports->destination))
		return 0;
	if (in_ports(HOST_PORTS, ports->destination))
		LEAVE(LEFT_HOST_PORT);
	LEAVE(LEFT_WRONG_PORT);
}

#endif
