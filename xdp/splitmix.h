/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The numbers that data and tags of test packets are made of: `base` of crates/wire/src/data.rs. */
#ifndef XDP_SPLITMIX_H
#define XDP_SPLITMIX_H

#include "bpf.h"

/* Difference between neighbouring words of the data. */
static const u64 DATA_STEP = 0xd1342543de82ef95ULL;

/* Number `seq` of the SplitMix64 sequence that starts at `seed`. */
INLINE u64 data_base(u64 seed, u64 seq)
{
	u64 z = seed + (seq + 1) * 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

#endif
