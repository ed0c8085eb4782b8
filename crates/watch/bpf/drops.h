/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the kernel drops of the test's packets, and of others at its devices. */
#ifndef WATCH_DROPS_H
#define WATCH_DROPS_H

#include "shared.h"

/* A function that the verifier looks at once, and not again at each call; its arguments are numbers. */
#define GLOBAL __attribute__((noinline))

/* IPv6 extension headers (IANA's numbers), and how many of them are gone through. */
enum { HOP_BY_HOP = 0, ROUTING = 43, FRAGMENT = 44, DESTINATION = 60, EXTENSIONS = 4 };

/*
 * What is known of a stamp: nothing, as the lane has noted none; it is not the lane's; it is older than all that the
 * lane has there; it is the lane's. The highest of all lanes holds.
 */
enum { NONE, OTHERS, FORGOTTEN, STAMPED_IT };

/*
 * How far behind an IP header that begins at `at` the UDP header lies; 0: it is none, or not of a datagram's first
 * fragment, which stands for all of them.
 */
GLOBAL u32 udp_behind(u64 at)
{
	u8 ip[20], more[4], next;
	u32 length = 40;

	if (bpf_probe_read_kernel(ip, sizeof(ip), (void *)at))
		return 0;
	if (ip[0] >> 4 == 4) {
		if ((ip[0] & 15) < 5 || ip[9] != 17 || ip[6] & 0x1f || ip[7])
			return 0;
		return (ip[0] & 15) * 4;
	}
	if (ip[0] >> 4 != 6)
		return 0;
	next = ip[6];
#pragma unroll
	for (u32 i = 0; i < EXTENSIONS; i++) {
		if (next == 17)
			return length;
		if (next != HOP_BY_HOP && next != ROUTING && next != FRAGMENT && next != DESTINATION)
			return 0;
		if (bpf_probe_read_kernel(more, sizeof(more), (void *)(at + length)))
			return 0;
		if (next == FRAGMENT) {
			if (more[2] || more[3] & 0xf8)
				return 0;
			length += 8;
		} else {
			length += (more[1] + 1) * 8;
		}
		next = more[0];
	}
	return next == 17 ? length : 0;
}

/* As `udp_behind`, from where tags may lie before the IP header; with them. */
static __attribute__((noinline)) u32 udp_behind_tags(u64 at)
{
	u32 behind;

#pragma unroll
	for (u32 tags = 0; tags <= 8; tags += 4) {
		behind = udp_behind(at + tags);
		if (behind)
			return tags + behind;
	}
	return 0;
}

/*
 * Whether a lane has stamped packets with this time: a nanosecond of the host's clock, which no other run's packets
 * will have. Its stamps grow, so that they are searched by halves.
 */
GLOBAL u32 stamped_by(u32 lane, u64 time)
{
	u32 base = lane * (STAMPS_AT + STAMPS), key = base;
	u64 *word = bpf_map_lookup_elem(&STAMPED, &key);
	u64 count, at = 0;

	if (!word)
		return NONE;
	count = *(volatile u64 *)word;
	if (!count)
		return NONE;
	/* Places that were never used are nought, and lie before the others. */
#pragma unroll
	for (u32 step = STAMPS / 2; step; step /= 2) {
		key = base + STAMPS_AT + ((count + at + step) & (STAMPS - 1));
		word = bpf_map_lookup_elem(&STAMPED, &key);
		if (!word)
			return NONE;
		/* Without a branch: the verifier would go both ways at each step. */
		at += step & ~((s64)(time - *word) >> 63);
	}
	key = base + STAMPS_AT + ((count + at) & (STAMPS - 1));
	word = bpf_map_lookup_elem(&STAMPED, &key);
	if (!word)
		return NONE;
	if (*word == time)
		return STAMPED_IT;
	return *word > time ? FORGOTTEN : OTHERS;
}

/* Whether a packet is in the network namespace of the run. */
INLINE int at_home(struct sk_buff *skb, struct net_device *device)
{
	u32 space = device->nd_net.net->ns.inum;
	struct sock *sk = skb->sk;

	if (!space && sk)
		space = sk->__sk_common.skc_net.net->ns.inum;
	return space && space == PLAN.namespace;
}

/* Of a pointer, its number: what the verifier takes for a pointer, it does not follow through sums (Linux 6.17). */
INLINE u64 number_at(const void *place)
{
	u64 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), place);
	return number;
}

/*
 * Whether it is a packet of this run: a UDP packet of its ports, with a stamp of one of its lanes, wherever on this
 * host it is dropped. Where the run stamps none, or it can't be read, or is too old to be known: a packet of its ports
 * in its network namespace.
 */
INLINE int ours(struct sk_buff *skb, struct net_device *device)
{
	u64 head = number_at(&skb->head), data = number_at(&skb->data), at = head + skb->network_header, time = 0;
	/* What lies behind is in other memory. */
	u64 end = data + skb->len - skb->data_len;
	u32 udp = udp_behind_tags(at), known = NONE;
	u16 port[2];
	int found = 0;

	if (!udp) {
		/* It is on its way out, and nobody has noted where which header lies. */
		at = data + 14;
		udp = udp_behind_tags(at);
	}
	if (!udp)
		return 0;
	at += udp;
	if (bpf_probe_read_kernel(port, sizeof(port), (void *)at))
		return 0;
	port[0] = swap16(port[0]);
	port[1] = swap16(port[1]);
#pragma unroll
	for (u32 i = 0; i < RANGES; i++) {
		u16 from = PLAN.from[i], to = PLAN.to[i];

		if (i < PLAN.ranges && ((port[0] >= from && port[0] <= to) || (port[1] >= from && port[1] <= to)))
			found = 1;
	}
	if (!found)
		return 0;
	/* docs/wire-format.md: the number, 8 bytes, and the time. */
	at += 8 + 8;
	if (at + 8 > end || bpf_probe_read_kernel(&time, sizeof(time), (void *)at))
		return at_home(skb, device);
	for (u32 lane = 0; lane < LANES; lane++) {
		u32 by;

		if (lane >= PLAN.lanes)
			break;
		by = stamped_by(lane, time);
		known = by > known ? by : known;
	}
	if (known == OTHERS)
		return 0;
	return known == STAMPED_IT || at_home(skb, device);
}

/* Guards by their numbers, which are given once: the name of each is read once, and not for every packet that it
 * drops. */
static volatile u32 GUARD_IDS[4];

/*
 * Whether mpps keeps the host's stack away from packets that come to this device (crates/af-packet/src/guard.rs): what
 * is dropped there has been received.
 */
INLINE int guarded(struct net_device *device)
{
	struct bpf_mprog_entry *entry;

	if (!EXISTS(device->tcx_ingress))
		return 0;
	entry = device->tcx_ingress;
	if (!entry)
		return 0;
#pragma unroll
	for (u32 i = 0; i < GUARDS; i++) {
		struct bpf_prog *prog = entry->fp_items[i].prog;
		u64 name = 0;
		u32 id;

		if (!prog)
			return 0;
		id = prog->aux->id;
		if (id && GUARD_IDS[id & 3] == id)
			return 1;
		bpf_probe_read_kernel(&name, sizeof(name), prog->aux->name);
		/* "mpps_gua" */
		if (name == 0x6175675f7370706dULL) {
			GUARD_IDS[id & 3] = id;
			return 1;
		}
	}
	return 0;
}

/* How many packets it is: a super-packet has one header for many. */
INLINE u32 packets_of(struct sk_buff *skb)
{
	struct skb_shared_info *info = (void *)(number_at(&skb->head) + skb->end);
	u16 segments = 0;

	bpf_probe_read_kernel(&segments, sizeof(segments), &info->gso_segs);
	return segments ? segments : 1;
}

/* Whether a packet is at one of the run's devices. It may be a word of another meaning in place of the device, which
 * reads as nought. */
INLINE int on_device(struct net_device *device)
{
	s32 index = device->ifindex;

	if (!index || device->nd_net.net->ns.inum != PLAN.namespace)
		return 0;
#pragma unroll
	for (u32 i = 0; i < DEVICES; i++)
		if (i < PLAN.devices && (s32)PLAN.device[i] == index)
			return 1;
	return 0;
}

/* Counts a packet that was dropped, and writes a record while there is room; `place`: where in the kernel. */
INLINE int count_drop(struct sk_buff *skb, struct net_device *device, u32 reason, u64 place, int our)
{
	struct settings *settings_ = settings();
	u32 key = reason, cpu, packets;
	struct drops *drops;
	struct named *record;

	packets = packets_of(skb);
	drops = bpf_map_lookup_elem(&DROPS, &key);
	if (!drops || !settings_)
		return 0;
	if (our)
		ADD(drops->ours, packets);
	else
		ADD(drops->others, packets);
	if (!PLAN.records || settings_->drops <= 0)
		return 0;
	ADD(settings_->drops, -1);
	cpu = bpf_get_smp_processor_id();
	record = RESERVE(struct named);
	if (!begin(settings_, (void *)record, bpf_ktime_get_ns(), cpu, DROP, reason))
		return 0;
	record->record.flags = our;
	record->record.took = place;
	record->record.a = skb->skb_iif;
	record->record.b = packets;
	READ_NAME(record->name, device->name);
	SUBMIT(record);
	return 0;
}

INLINE int begun(void)
{
	struct settings *settings_ = settings();

	return settings_ && settings_->process;
}

/*
 * Packet sockets. The kernel gives no reason for a packet that a socket has no room for, since others may take it: it
 * adds to the socket's count. Sockets look at a packet first, and what drops it then has these counts compared with
 * those after the packet before. Of two cores that hand packets to one device at the same time, each may see the
 * other's drop.
 */
enum { SOCKETS = 4, MEMBERS = 16 };
#define SOCKET (1ULL << 48)

/* Packets that a socket had no room for, since somebody read its count; since Linux 5.4. */
INLINE u32 no_room(u64 socket)
{
	u32 count = 0;

	bpf_probe_read_kernel(&count, sizeof(count), &((struct packet_sock *)socket)->tp_drops);
	return count;
}

/* Of a socket, or of all that share packets with it; 0: `owner` is neither. Each counts 1 << 48 beside its packets. */
GLOBAL u64 no_room_of(u64 type, u64 owner)
{
	u64 sum = 0;

	if (type == (u64)&((struct packet_sock *)owner)->prot_hook)
		return SOCKET + no_room(owner);
	if (type != (u64)&((struct packet_fanout *)owner)->prot_hook)
		return 0;
	for (u32 member = 0; member < MEMBERS; member++) {
		u64 socket = number_at((void *)((u64)&((struct packet_fanout *)owner)->arr + 8 * member));

		if (!socket)
			break;
		sum += SOCKET + no_room(socket);
	}
	return sum;
}

/* A device, and how many packets its sockets had no room for. */
struct counted {
	u64 device;
	u64 full;
};

enum { COUNTED_DEVICES = 16 };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COUNTED_DEVICES);
	__type(key, u32);
	__type(value, struct counted);
} COUNTED SEC(".maps");

/* Whether a packet socket of a device has had no room for a packet since the last time. */
GLOBAL u32 no_room_now(u64 address)
{
	struct net_device *device = (void *)address;
	u64 head = (u64)&device->ptype_all, next = number_at(&device->ptype_all.next), sum = 0, now, before;
	u32 key = (address >> 8 ^ address >> 16) % COUNTED_DEVICES;
	struct counted *place = bpf_map_lookup_elem(&COUNTED, &key);

	if (!place || !EXISTS(device->ptype_all) || !EXISTS(((struct packet_sock *)0)->tp_drops))
		return 0;
	for (u32 i = 0; i < SOCKETS && next && next != head; i++) {
		struct packet_type *type = (void *)(next - __builtin_preserve_field_info(((struct packet_type *)0)->list, 0));

		sum += no_room_of((u64)type, number_at(&type->af_packet_priv));
		next = number_at(&type->list.next);
	}
	now = sum & (SOCKET - 1);
	before = place->full;
	if (place->device != address) {
		place->device = address;
		place->full = now;
		return 0;
	}
	if (now == before)
		return 0;
	place->full = now;
	/* Less: somebody has read a count, which begins again. */
	return now > before || (now && sum / SOCKET == 1);
}

/* kfree_skb(skb, location, reason) */
SEC("tp_btf/kfree_skb") int dropped(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	struct net_device *device;
	struct drops *drops;
	u32 reason = PLAN.tells_reason ? (u32)ctx[2] : 0, copy = SOCKET_COPY;
	int our;

	device = skb->dev;
	if (!begun())
		return 0;
	/* First of all: a guard drops every packet that its lane receives. */
	if (reason && reason == PLAN.filtered && guarded(device)) {
		if (!no_room_now(number_at(&skb->dev)))
			return 0;
		reason = SOCKET_FULL;
	} else if (reason >= REDIRECT) {
		/* The last places are for drops that the kernel gives no reason for. */
		reason = REASONS - 1;
	}
	our = ours(skb, device);
	if (!our && (reason == SOCKET_FULL || !on_device(device)))
		return 0;
	/* The socket's was a copy, unless all packets are dropped here. */
	if (our && reason != SOCKET_FULL && no_room_now(number_at(&skb->dev))) {
		drops = bpf_map_lookup_elem(&DROPS, &copy);
		if (drops)
			ADD(drops->ours, packets_of(skb));
	}
	return count_drop(skb, device, reason, ctx[1], our);
}

/*
 * xdp_redirect_err(device, ...): an XDP program had no room for a packet where it was to go: an AF_XDP socket's ring,
 * or another device. Whose packet it was can't be read. The run's own devices have counters of their own.
 */
SEC("tp_btf/xdp_redirect_err") int not_redirected(u64 *ctx)
{
	struct net_device *device = (void *)ctx[0];
	u32 key = REDIRECT;
	struct drops *drops;

	if (!begun() || on_device(device))
		return 0;
	drops = bpf_map_lookup_elem(&DROPS, &key);
	if (drops)
		ADD(drops->others, 1);
	return 0;
}

#endif
