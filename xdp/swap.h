/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Source and destination changing places. A one's complement sum does not depend on the order of its words, so every
 * checksum stays as right as it was. The caller has checked that the bytes are there.
 */
#ifndef XDP_SWAP_H
#define XDP_SWAP_H

#include "udp.h"

INLINE void swap_macs(void *data)
{
	u64 first = U64(data);
	u32 last = U32(data + 8);

	U64(data) = first >> 48 | (u64)last << 16 | first << 48;
	U32(data + 8) = first >> 16;
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
