/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* In which network namespace a device is: of the kernel's structures (include/net/net_namespace.h) what is read for
 * it; the loader finds where it lies in the kernel that runs. */
#ifndef XDP_NETNS_H
#define XDP_NETNS_H

#include "bpf.h"

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

#endif
