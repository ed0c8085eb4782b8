/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Of the kernel's structures, what is read; the loader finds where it lies in the kernel that runs. And the helpers
 * that xdp/bpf.h lacks.
 */
#ifndef WATCH_KERNEL_H
#define WATCH_KERNEL_H

#include "../../../xdp/netns.h"
#include "watch.h"

#define EXISTS(field) __builtin_preserve_field_info(field, 2)

struct task_struct;

/* Programs at a device's way in that are looked at. */
enum { GUARDS = 4 };

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

struct pid_namespace {
	struct ns_common ns;
} RELOCATED;

struct upid {
	s32 nr;
	struct pid_namespace *ns;
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

struct bpf_prog_aux {
	u32 id;
	char name[NAME];
} RELOCATED;

struct bpf_prog {
	struct bpf_prog_aux *aux;
} RELOCATED;

struct bpf_mprog_fp {
	struct bpf_prog *prog;
} RELOCATED;

struct bpf_mprog_entry {
	struct bpf_mprog_fp fp_items[GUARDS];
} RELOCATED;

struct list_head {
	struct list_head *next;
} RELOCATED;

struct net_device {
	char name[NAME];
	s32 ifindex;
	possible_net_t nd_net;
	/* Packet sockets that take all packets of the device. */
	struct list_head ptype_all;
	/* Since 6.6: programs at the device's way in. */
	struct bpf_mprog_entry *tcx_ingress;
} RELOCATED;

struct sock_common {
	possible_net_t skc_net;
} RELOCATED;

struct sock {
	struct sock_common __sk_common;
} RELOCATED;

struct packet_type {
	void *af_packet_priv;
	struct list_head list;
} RELOCATED;

struct packet_sock {
	struct {
		s32 counter;
	} tp_drops;
	struct packet_type prot_hook;
} RELOCATED;

struct packet_fanout {
	struct packet_type prot_hook;
	void *arr[1];
} RELOCATED;

struct skb_shared_info {
	u16 gso_segs;
} RELOCATED;

struct napi_struct {
	struct net_device *dev;
} RELOCATED;

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	u32 len;
	u32 data_len;
	s32 skb_iif;
	u16 network_header;
	/* From `head` on. */
	u32 end;
	unsigned char *head;
	unsigned char *data;
} RELOCATED;

#endif
