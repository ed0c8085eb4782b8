/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Bytes of a frame that a program was given.
 */
#ifndef XDP_FRAME_H
#define XDP_FRAME_H

#include "bpf.h"

/* Offsets that are computed stay below this, so that the verifier can tell: 22 + 40 + 9 * 2048 at most. */
enum { OFFSET = 0x7fff };

INLINE void *frame_data(struct xdp_md *ctx)
{
	return (void *)(long)ctx->data;
}

INLINE void *frame_end(struct xdp_md *ctx)
{
	return (void *)(long)ctx->data_end;
}

/* Bytes between. In assembly, because the compiler would rather add to `end`, which the verifier forbids. */
INLINE u32 span(void *data, void *end)
{
	u64 length = (u64)end;

	asm("%0 -= %1" : "+r"(length) : "r"(data));
	return length;
}

#endif
