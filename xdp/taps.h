/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the kernel does around a program at an interface, seen at its tracepoints: when a poll loop ends, and packets
 * that a device refused after the program had sent them. No counter of the device has those for certain.
 */
#ifndef XDP_TAPS_H
#define XDP_TAPS_H

#include "netns.h"
#include "run.h"

#ifndef ANSWERING
#define ANSWERING() 0
#endif

/* Of the kernel's structure (include/linux/netdevice.h), what is read. */
struct net_device {
	int ifindex;
	possible_net_t nd_net;
} RELOCATED;

#define READ(to, field) bpf_probe_read_kernel(&(to), sizeof(to), &(field))

struct tracepoint {
	u64 argument[7];
};

/* A poll loop has ended: the time that its source has read is good no longer, and it writes no windows. */
SEC("raw_tp/napi_poll") int poll(void *ctx)
{
	u32 cpu = bpf_get_smp_processor_id(), key;
	struct poll *poll = bpf_map_lookup_elem(&POLLS, &cpu);
	struct source *source;

	(void)ctx;
	if (!poll || !poll->source)
		return 0;
	key = poll->source - 1;
	poll->source = 0;
	source = bpf_map_lookup_elem(&SOURCES, &key);
	if (!source)
		return 0;
	/* Should the queue's next loop run on another CPU already, it reads the clock once more than it had to. */
	source->left = 0;
	/* And then its burst is not this one. */
	if (PLAN.flags & SEVERAL)
		__sync_val_compare_and_swap(&source->burst, poll->burst, poll->burst + 1);
	return 0;
}

/* Which of this run's devices it is, from 1; 0: none. */
INLINE u32 port_of(const struct net_device *device)
{
	struct net *net;
	u32 index, namespace;

	if (READ(index, device->ifindex) || (index != PLAN.device[0] && index != PLAN.device[1]))
		return 0;
	if (READ(net, device->nd_net.net) || READ(namespace, net->ns.inum) || namespace != PLAN.namespace)
		return 0;
	return index == PLAN.device[0] ? 1 : 2;
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

INLINE void count_refused(u32 port, u64 packets, int error)
{
	u32 key = bpf_get_smp_processor_id() * 2 + port - 1;
	struct refused *refused = bpf_map_lookup_elem(&REFUSED, &key);

	if (port && refused) {
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
	/* Others may send to the same device, and so does whoever answers for us. */
	if (PLAN.lanes && (ctx->argument[0] != ctx->argument[1] || !on_lane() || ANSWERING()))
		return 0;
	if (PLAN.lanes || port_of((void *)ctx->argument[0]))
		count_refused(port_of((void *)ctx->argument[1]), drops, ctx->argument[4]);
	return 0;
}

/* xdp_redirect_err(dev, xdp, tgt, err, map_type, map_id, index): one packet. */
SEC("raw_tp/xdp_redirect_err") int redirect_err(struct tracepoint *ctx)
{
	u32 port = port_of((void *)ctx->argument[0]);

	if (!port || (PLAN.lanes && (!on_lane() || ANSWERING())))
		return 0;
	/* Between two ports it is the other one that does not take it. */
	if (PLAN.device[1])
		port = 3 - port;
	count_refused(port, 1, ctx->argument[3]);
	return 0;
}

/* xdp_bulk_tx(dev, sent, drops, err): what a veth's driver made of XDP_TX. The program there is ours, and nobody
 * else's. */
SEC("raw_tp/xdp_bulk_tx") int bulk_tx(struct tracepoint *ctx)
{
	int drops = ctx->argument[2];

	if (drops > 0)
		count_refused(port_of((void *)ctx->argument[0]), drops, ctx->argument[3]);
	return 0;
}

/* xdp_exception(dev, xdp, act): one packet that XDP_TX, or redirection on socket buffers, could not hand over. */
SEC("raw_tp/xdp_exception") int exception(struct tracepoint *ctx)
{
	if ((u32)ctx->argument[2] == XDP_TX)
		count_refused(port_of((void *)ctx->argument[0]), 1, 0);
	return 0;
}

#endif
