/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the kernel does around a program at an interface, seen at its tracepoints: when a poll loop ends, and packets
 * that a device refused after the program had sent them. No counter of the device has those for certain.
 */
#ifndef XDP_TAPS_H
#define XDP_TAPS_H

#include "run.h"

/* Of the kernel's structures (include/linux/netdevice.h, net_namespace.h), what is read; the loader finds where. */
#define RELOCATED __attribute__((preserve_access_index))

struct ns_common {
	u32 inum;
} RELOCATED;

struct net {
	struct ns_common ns;
} RELOCATED;

typedef struct {
	struct net *net;
} RELOCATED possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} RELOCATED;

#define READ(to, field) bpf_probe_read_kernel(&(to), sizeof(to), &(field))

struct tracepoint {
	u64 argument[7];
};

/* A poll loop has ended: the time that its source has read is good no longer. */
SEC("raw_tp/napi_poll") int poll(void *ctx)
{
	u32 cpu = bpf_get_smp_processor_id(), key;
	u64 *poll = bpf_map_lookup_elem(&POLLS, &cpu);
	struct source *source;

	(void)ctx;
	if (!poll || !*poll)
		return 0;
	key = *poll - 1;
	*poll = 0;
	source = bpf_map_lookup_elem(&SOURCES, &key);
	/* Should the queue's next loop run on another CPU already, it reads the clock once more than it had to. */
	if (source)
		source->left = 0;
	return 0;
}

INLINE int is_ours(const struct net_device *device)
{
	struct net *net;
	u32 index, namespace;

	if (READ(index, device->ifindex) || (index != PLAN.device[0] && index != PLAN.device[1]))
		return 0;
	return !READ(net, device->nd_net.net) && !READ(namespace, net->ns.inum) && namespace == PLAN.namespace;
}

/* Whether this CPU is a lane's. */
INLINE int on_lane(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	for (u32 i = 0; i < LANES; i++) {
		if (i >= PLAN.lanes)
			break;
		if (PLAN.lane_cpu[i] == cpu)
			return 1;
	}
	return 0;
}

INLINE void count_refused(u64 packets, int error)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct refused *refused = bpf_map_lookup_elem(&REFUSED, &cpu);

	if (refused) {
		refused->packets += packets;
		refused->error = (long long)error;
	}
}

/* xdp_devmap_xmit(from_dev, to_dev, sent, drops, err): what was redirected, and what a sender's XDP_TX gave. */
SEC("raw_tp/xdp_devmap_xmit") int devmap_xmit(struct tracepoint *ctx)
{
	int drops = ctx->argument[3];

	if (drops <= 0)
		return 0;
	/* Others may send to the same device. */
	if (PLAN.lanes && (ctx->argument[0] != ctx->argument[1] || !on_lane()))
		return 0;
	if (is_ours((void *)ctx->argument[1]) && (PLAN.lanes || is_ours((void *)ctx->argument[0])))
		count_refused(drops, ctx->argument[4]);
	return 0;
}

/* xdp_redirect_err(dev, xdp, tgt, err, map_type, map_id, index): one packet. */
SEC("raw_tp/xdp_redirect_err") int redirect_err(struct tracepoint *ctx)
{
	if (is_ours((void *)ctx->argument[0]))
		count_refused(1, ctx->argument[3]);
	return 0;
}

#endif
