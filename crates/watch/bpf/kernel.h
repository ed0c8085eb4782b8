/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Of the kernel's structures, what is read; the loader finds where it lies in the kernel that runs. And the helpers
 * that xdp/bpf.h lacks.
 */
#ifndef WATCH_KERNEL_H
#define WATCH_KERNEL_H

#include "watch.h"

#define RELOCATED __attribute__((preserve_access_index))
#define EXISTS(field) __builtin_preserve_field_info(field, 2)

struct task_struct;

enum { BPF_MAP_TYPE_RINGBUF = 27 };
/* Nobody sleeps at the ring: the process comes by. */
enum { BPF_RB_NO_WAKEUP = 1 };

static u64 (*const bpf_get_current_pid_tgid)(void) = (void *)14;
/* Since Linux 5.11. */
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static u64 (*const bpf_get_current_task)(void) = (void *)35;
static void *(*const bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *record, u64 flags) = (void *)132;

struct thread_info {
	u32 cpu;
} RELOCATED;

struct upid {
	s32 nr;
	void *ns;
} RELOCATED;

struct pid {
	u32 level;
	struct upid numbers[1];
} RELOCATED;

struct task_struct {
	struct thread_info thread_info;
	u32 __state;
	s32 prio;
	s32 pid;
	s32 tgid;
	struct pid *thread_pid;
	char comm[NAME];
} RELOCATED;

/* Before 5.16 on some machines, and before 5.14. */
struct task_struct___old {
	u32 cpu;
	s64 state;
} RELOCATED;

struct irqaction {
	const char *name;
} RELOCATED;

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
	char name[NAME];
	s32 ifindex;
	possible_net_t nd_net;
} RELOCATED;

struct napi_struct {
	struct net_device *dev;
} RELOCATED;

struct sk_buff {
	struct net_device *dev;
	s32 skb_iif;
	be16 protocol;
	u16 network_header;
	unsigned char *head;
} RELOCATED;

#endif
