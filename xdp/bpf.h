/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the programs here use of the kernel's interface (include/uapi/linux/bpf.h), and nothing else: with no header
 * of the host's included, the object depends on the compiler alone, so that it can be rebuilt and compared.
 */
#ifndef XDP_BPF_H
#define XDP_BPF_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
/* In network byte order. */
typedef u16 be16;
typedef u32 be32;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

/* A map's definition: the loader reads key, value and size from the types' BTF. */
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "built for little-endian machines: the objects are loaded by those only"
#endif
#define swap16(x) __builtin_bswap16(x)
#define swap32(x) __builtin_bswap32(x)
#define swap64(x) __builtin_bswap64(x)
/* Constants in network byte order. */
#define BE16(x) ((be16)((((x)&0xff) << 8) | (((x) >> 8) & 0xff)))

/* A pointer of which the compiler knows nothing, so that it checks this one against the end, as the verifier has it. */
#define OPAQUE(pointer) asm volatile("" : "+r"(pointer))

enum xdp_action {
	XDP_ABORTED = 0,
	XDP_DROP,
	XDP_PASS,
	XDP_TX,
	XDP_REDIRECT,
};

enum bpf_map_type {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_DEVMAP = 14,
	BPF_MAP_TYPE_XSKMAP = 17,
};

/* The process may have the map in its memory. */
enum { BPF_F_MMAPABLE = 1 << 10 };

struct xdp_md {
	u32 data;
	u32 data_end;
	u32 data_meta;
	u32 ingress_ifindex;
	u32 rx_queue_index;
	u32 egress_ifindex;
};

/* Its first field. */
struct __sk_buff {
	u32 len;
};

/* enum bpf_func_id */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_redirect)(u32 ifindex, u64 flags) = (void *)23;
static long (*const bpf_skb_load_bytes)(const struct __sk_buff *skb, u32 offset, void *to, u32 length) = (void *)26;
static long (*const bpf_redirect_map)(void *map, u64 key, u64 flags) = (void *)51;
static long (*const bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const bpf_xdp_adjust_tail)(struct xdp_md *ctx, int delta) = (void *)65;
static long (*const bpf_xdp_adjust_meta)(struct xdp_md *ctx, int delta) = (void *)54;
/* Calls `body` with 0 and up, `times` times or until it returns 1. Since Linux 5.17. */
static long (*const bpf_loop)(u32 times, void *body, void *of_body, u64 flags) = (void *)181;
/* Since Linux 5.18. */
static u64 (*const bpf_xdp_get_buff_len)(struct xdp_md *ctx) = (void *)188;
static long (*const bpf_xdp_load_bytes)(struct xdp_md *ctx, u32 offset, void *to, u32 length) = (void *)189;
static long (*const bpf_xdp_store_bytes)(struct xdp_md *ctx, u32 offset, const void *from, u32 length) = (void *)190;

#endif
