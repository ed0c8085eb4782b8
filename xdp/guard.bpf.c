/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Drops frames with a tag of the run behind the packet sockets (tcx ingress, Linux 6.6), so that the host's stack does
 * not answer them, whatever their protocol. crates/af-packet/src/guard.rs attaches it, and assembles the guard for
 * packets that are known by address and port.
 *
 * A VLAN tag was taken out of the frame before. Bytes are read by the kernel's function: a frame may lie in pages, and
 * a program that adds offsets to pointers itself would need CAP_PERFMON.
 */
#include "bpf.h"
#include "tagged.h"

const volatile u64 SEED = 0;

enum { TCX_NEXT = -1, TCX_DROP = 2 };

SEC("classifier") int mpps_guard(struct __sk_buff *skb)
{
	struct bytes from = { .skb = skb, .in = SOCKET_BUFFER };

	return is_tagged(from, SEED) ? TCX_DROP : TCX_NEXT;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
