/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Maps, and how a record is written. */
#ifndef WATCH_SHARED_H
#define WATCH_SHARED_H

#include "kernel.h"

const volatile struct plan PLAN = {};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} RECORDS SEC(".maps");

#define SHARED_ARRAY(NAME, TYPE, ENTRIES)          \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);  \
		__uint(max_entries, ENTRIES);      \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__type(key, u32);                  \
		__type(value, TYPE);               \
	} NAME SEC(".maps")

typedef struct settings settings_t;
typedef struct core core_t;
typedef struct row row_t;
typedef struct drops drops_t;
typedef struct lane lane_t;

SHARED_ARRAY(SETTINGS, settings_t, 1);
SHARED_ARRAY(CORES, core_t, CPUS);
SHARED_ARRAY(TABLE, row_t, ROWS);
SHARED_ARRAY(DROPS, drops_t, REASONS);
SHARED_ARRAY(LANES_BY_TID, lane_t, SLOTS);
/* Of each lane STAMPS_AT + STAMPS words. The loader makes room for as many lanes as there are. */
SHARED_ARRAY(STAMPED, u64, 1);

#define ADD(word, by) __sync_fetch_and_add(&(word), by)

INLINE struct settings *settings(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&SETTINGS, &key);
}

INLINE struct record *begin(struct settings *settings, struct record *record, u64 now, u32 cpu, u32 what, u32 id)
{
	if (!record) {
		ADD(settings->lost, 1);
		return 0;
	}
	record->at = now;
	record->cpu = cpu;
	record->what = what;
	record->flags = 0;
	record->id = id;
	record->took = 0;
	record->a = 0;
	record->b = 0;
	return record;
}

#define RESERVE(type) (type *)bpf_ringbuf_reserve(&RECORDS, sizeof(type), 0)
#define SUBMIT(record) bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP)
#define READ_NAME(to, from) bpf_probe_read_kernel(to, NAME, from)

#endif
