/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Addresses and ports changing places, and the TTL. The order of words does not change a one's complement sum, so every
 * checksum stays as right as it was. The caller has checked that the bytes are there.
 */
#ifndef XDP_SWAP_H
#define XDP_SWAP_H

#include "udp.h"

/* The first 8 bytes of swapped MAC addresses, of which `first` and `last` are the 12 bytes. */
INLINE u64 swapped_macs(u64 first, u32 last)
{
	return first >> 48 | (u64)last << 16 | first << 48;
}

INLINE void swap_macs(void *data)
{
	u64 first = U64(data);

	U64(data) = swapped_macs(first, U32(data + 8));
	U32(data + 8) = first >> 16;
}

/* Takes one from the time to live: RFC 1624. `word`: the time to live, the protocol and the checksum. */
INLINE u32 lowered_ttl4(u32 word)
{
	u32 sum = (word >> 16) + BE16(0x0100);

	sum += sum >= 0xffff;
	return (sum & 0xffff) << 16 | ((word - 1) & 0xffff);
}

/* The same where it lies. */
INLINE void lower_ttl4(void *at)
{
	U32(at) = lowered_ttl4(U32(at));
}

/* `at`: the source address. */
INLINE void swap_addresses4(void *at)
{
	be32 source = U32(at);

	U32(at) = U32(at + 4);
	U32(at + 4) = source;
}

INLINE void swap_addresses6(void *at)
{
	u64 first = U64(at), second = U64(at + 8);

	U64(at) = U64(at + 16);
	U64(at + 8) = U64(at + 24);
	U64(at + 16) = first;
	U64(at + 24) = second;
}

INLINE void swap_ports(void *at)
{
	u32 both = U32(at);

	U32(at) = both >> 16 | both << 16;
}

#endif
