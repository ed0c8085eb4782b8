/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Addresses from one to another, and where in them one lies.
 */
#ifndef XDP_WITHIN_H
#define XDP_WITHIN_H

#include "bpf.h"

/* So many addresses from this one on, as a number: the low 32 bits for IPv4. */
struct within {
	u64 high;
	u64 low;
	/* 0: there are none. */
	u32 count;
	u32 v6;
};

#define WITHIN const volatile struct within *range

/* The place of the address at `at`, which is of the range's family; `count` and more: it lies elsewhere. */
INLINE u32 place_in(WITHIN, const void *at)
{
	u64 low, place;

	if (!range->v6)
		return swap32(*(const u32 *)at) - (u32)range->low;
	low = swap64(*(const u64 *)(at + 8));
	place = low - range->low;
	if (swap64(*(const u64 *)at) - (low < range->low) != range->high || place >= range->count)
		return ~0U;
	return place;
}

INLINE int is_within(WITHIN, const void *at, u32 v6)
{
	return range->count && range->v6 == v6 && place_in(range, at) < range->count;
}

#endif
