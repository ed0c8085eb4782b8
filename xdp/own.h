/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Addresses that are not answered: the reflector's own, and those of its subnets that no host has. Other programs leave
 * them empty.
 */
#ifndef XDP_OWN_H
#define XDP_OWN_H

#include "run.h"
#include "udp.h"

enum { OWN = 16 };

/* Sources that are not answered, and the secret; 0: nothing is looked at. */
const volatile struct loops {
	u64 secret[2];
	u32 own4_count;
	u32 own6_count;
	u32 broadcasts_count;
	/* The device is a host's way to itself. */
	u32 loopback;
	be32 own4[OWN];
	be32 broadcasts[OWN];
	struct words6 own6[OWN];
} LOOPS = {};

INLINE int listed4(const volatile be32 *list, u32 count, be32 address)
{
#pragma unroll
	for (u32 i = 0; i < OWN; i++)
		if (i < count && list[i] == address)
			return 1;
	return 0;
}

INLINE int listed6(void *at)
{
#pragma unroll
	for (u32 i = 0; i < OWN; i++)
		if (i < LOOPS.own6_count && *(const volatile u64 *)LOOPS.own6[i].word == U64(at) &&
		    *(const volatile u64 *)(LOOPS.own6[i].word + 2) == U64(at + 8))
			return 1;
	return 0;
}

/* ::1 */
INLINE int is_loopback6(void *at)
{
	return !U64(at) && U64(at + 8) == 1ULL << 56;
}

#endif
