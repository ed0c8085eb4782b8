/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Takes the frames that a filter names to the AF_XDP socket of the queue they came in on, and leaves all others to
 * the host, whose own connections over the same device go on.
 *
 * The filter is constant data, set before the program is loaded: the verifier then knows every count and flag, and
 * removes what can't happen. A filter of one UDP port range costs what a program written for it would cost.
 */
#define FOR_OLD_VERIFIERS
#include "bpf.h"
#include "tagged.h"
#include "take.h"

/* The loader's `Config` in crates/xsk/src/program/config.rs. */
const volatile struct take_filter CONFIG = {};
/* One bit a port, least significant first. */
const volatile u64 PORTS[1024] = {};
/* Of the tags, for the programs that take frames by them. */
const volatile u64 SEED = 0;

/* The reader's `Counters` in crates/xsk/src/program/counters.rs. */
struct counters {
	/* Given to a socket. The socket counts for itself what it had no room for. */
	u64 taken;
	/* Left to the host, because the filter says so. */
	u64 passed;
	/* The filter's, but left to the host: no socket at this queue. */
	u64 no_socket;
	/* The filter's, but left to the host: the driver has no room for the timestamp. */
	u64 no_metadata;
};

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u32);
} XSKMAP SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counters);
} COUNTERS SEC(".maps");

/* Whether the time of arrival could be written. */
INLINE int stamp(struct xdp_md *ctx)
{
	u64 *time;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*time)))
		return 0;
	time = (void *)(long)ctx->data_meta;
	if ((void *)(time + 1) > (void *)(long)ctx->data)
		return 0;
	*time = bpf_ktime_get_ns();
	return 1;
}

/* What a program knows frames by. Each has a program of its own, so that the filters' code is compiled as if there were
 * no tags. */
enum by { BY_FILTER, BY_TAG };

/* Whether a frame has a tag of the seed, or is one that `answer` names. */
INLINE int tagged_or_answered(struct xdp_md *ctx, enum bytes_in in)
{
	struct bytes from = { .xdp = ctx, .in = in };

	if (is_tagged(from, SEED))
		return 1;
	/* The compiler would keep lengths that were checked above, and the verifier does not. */
	OPAQUE(ctx);
	return answered(&CONFIG, ctx);
}

INLINE int run(struct xdp_md *ctx, enum by by, enum bytes_in in)
{
	u32 key = 0;
	struct counters *counters = bpf_map_lookup_elem(&COUNTERS, &key);
	long action;

	/* Never: the array has an entry 0. */
	if (!counters)
		return XDP_PASS;
	if (!(by == BY_TAG ? tagged_or_answered(ctx, in) : wanted(&CONFIG, PORTS, ctx))) {
		counters->passed++;
		return XDP_PASS;
	}
	if ((CONFIG.flags & RX_TIMESTAMP) && !stamp(ctx)) {
		counters->no_metadata++;
		return XDP_PASS;
	}
	action = bpf_redirect_map(&XSKMAP, ctx->rx_queue_index, XDP_PASS);
	if (action == XDP_REDIRECT)
		counters->taken++;
	else
		counters->no_socket++;
	return action;
}

SEC("xdp") int redirect(struct xdp_md *ctx)
{
	return run(ctx, BY_FILTER, ONE_BUFFER);
}

SEC("xdp") int redirect_tagged(struct xdp_md *ctx)
{
	return run(ctx, BY_TAG, ONE_BUFFER);
}

/* The same for frames of several buffers, which the kernel gives to programs of this section only. */
SEC("xdp.frags") int redirect_frags(struct xdp_md *ctx)
{
	return run(ctx, BY_FILTER, SEVERAL_BUFFERS);
}

SEC("xdp.frags") int redirect_tagged_frags(struct xdp_md *ctx)
{
	return run(ctx, BY_TAG, SEVERAL_BUFFERS);
}

/* bpf_ktime_get_ns is for programs under a licence that the GPL is compatible with. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
