/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the programs that watch the lanes' cores share with the process that loads them. The other half is
 * crates/watch/src/abi.rs, with the same names; a test compares every field.
 *
 * Each core's sums are written by programs on that core alone, so plain stores do. The words that other cores write are
 * changed by atomic instructions.
 */
#ifndef WATCH_H
#define WATCH_H

#include "../../../xdp/bpf.h"

typedef int s32;
typedef short s16;
typedef long long s64;

enum {
	/* Processors that may be watched, by number. */
	CPUS = 1024,
	/* Lanes that are told apart, and places for them in the table. */
	LANES = 64,
	SLOTS = 256,
	/* Culprits that have a row of their own, a power of two. */
	ROWS = 16384,
	/* Places of a row that are looked at. */
	PROBES = 16,
	DEVICES = 8,
	RANGES = 8,
	/* Reasons of drops that are counted one by one; the last place is for all others. */
	REASONS = 512,
	/* Before it, drops that the kernel gives no reason for: by a packet socket that was the only one to take the
	 * packet, by one that may have had a copy, and by XDP programs that could not hand a packet on, of any run. */
	SOCKET_FULL = 510,
	SOCKET_COPY = 509,
	REDIRECT = 508,
	NAME = 16,
	/* Stamps of a lane that are kept, a power of two: of the last third of a second at 200,000 bursts a second. */
	STAMPS = 65536,
	/* Words in front of them; the first says how many there were. */
	STAMPS_AT = 8,
	/* Added to the host's number of a thread that has none in this process' pid namespace: above all numbers that
	 * there are (PID_MAX_LIMIT), so that it is never taken for a thread of this namespace. */
	OF_HOST = 4194304,
};

/* row.kind */
enum { THREAD = 1, OWN, IRQ, SOFTIRQ, VECTOR, STOPPED, POLL, UNSEEN };

/* record.what */
enum { SWITCH = 1, WAKING, INTERRUPT, SOFT, PROCESSOR, SIGNAL, DROP, POLLED };

/* Interrupts of the processor's own. */
enum { LOCAL_TIMER, RESCHEDULE, CALL_FUNCTION, CALL_FUNCTION_SINGLE, IRQ_WORK };

/* Fixed when the programs are loaded. */
struct plan {
	/* The network namespace of the process, whose devices are listed; 0: not known. */
	u32 namespace;
	u32 devices;
	u32 device[DEVICES];
	/* UDP ports of the test, from and to. */
	u32 ranges;
	u16 from[RANGES];
	u16 to[RANGES];
	/* Events are recorded, beside the sums. */
	u32 records;
	/* The kernel tells the state of a thread that leaves (since 5.18). */
	u32 tells_state;
	/* And why it drops a packet (since 5.17). */
	u32 tells_reason;
	/* Lanes that may note their stamps. */
	u32 lanes;
	/* The reason of a packet that a filter at a device's way in has dropped; 0: it has none. */
	u32 filtered;
};

/* Known after the programs are loaded. */
struct settings {
	/* This process as the host numbers it; 0: not known yet, nothing is done. */
	s32 process;
	/* How deep its pid namespace lies under the host's; 0: it is the host's. */
	u32 level;
	/* The number of that namespace. */
	u32 space;
	u32 unused;
	/* Drops that may be recorded until the process comes by next. */
	s64 drops;
	/* Records for which there was no room. */
	u64 lost;
};

/* A core. */
struct core {
	/* It is a lane's. */
	u32 watched;
	/* The lane that has it, from 1; 0: none has. */
	u32 busy;
	/* The lanes that wait for it, a bit each. Other cores write it, too. */
	u64 waiting;
	/* When a lane began to wait. */
	u64 wanted;
	/* When the thread that has it came. 0: not known. */
	u64 since;
	/* Of its time, what is counted for others: interrupts. */
	u64 nested;
	/* The thread that came last, as the host numbers it. */
	s32 holder;
	/* The soft interrupt that is handled, from 1; 0: none. */
	u32 soft;
	u64 soft_at;
	u64 soft_nested;
	u64 irq_at;
	u64 vector_at;
	/* When the last interrupt ended. */
	u64 over_at;
	/* Soft interrupts while a lane had the core: within its own calls, and others. */
	u64 soft_called;
	u64 soft_others;
	/* Visits of those who found no row of their own. */
	u64 nameless;
};

/* A lane, wherever it runs. The place in the table begins at the thread's number modulo SLOTS. */
struct lane {
	/* Its thread, as its own namespace numbers it; 0: free. */
	s32 tid;
	/* From 0. */
	u32 number;
	/* The core that it waits for, from 1; 0: it does not. */
	u32 waits;
	u32 unused;
	/* When it was stopped by a signal; 0: it was not since it came last. */
	u64 stopped;
	/* When it was told to go on. */
	u64 resumed;
};

/* What somebody took of a lane's time on one core; of POLL: polls, packets, empty polls, full polls. */
struct row {
	/* 1 << 63 | lane << 56 | core << 40 | kind << 32 | id; 0: free. */
	u64 key;
	u64 count;
	u64 total;
	u64 longest;
	/* When the longest began. */
	u64 longest_at;
	u64 name[NAME / 8];
};

struct drops {
	u64 ours;
	u64 others;
};

/* A record is 32 bytes, 48 with a name, 64 of a switch. */
struct record {
	u64 at;
	u16 cpu;
	u8 what;
	u8 flags;
	/* Interrupt, vector, signal, thread, reason. */
	s32 id;
	/* For how long, ns; of DROP: where in the kernel. */
	u64 took;
	/* POLLED: packets and budget. WAKING: the core. DROP: device, and packets in one. */
	u32 a;
	u32 b;
};

struct named {
	struct record record;
	u8 name[NAME];
};

struct exchange {
	u64 at;
	u16 cpu;
	u8 what;
	u8 flags;
	s32 prev;
	s32 next;
	s16 prev_prio;
	s16 next_prio;
	u32 prev_state;
	u32 unused;
	u8 prev_name[NAME];
	u8 next_name[NAME];
};

/* crates/watch/src/record.rs */
#define PLACE(of, field, at) _Static_assert(__builtin_offsetof(struct of, field) == at, #of "." #field)
PLACE(record, at, 0);
PLACE(record, cpu, 8);
PLACE(record, what, 10);
PLACE(record, flags, 11);
PLACE(record, id, 12);
PLACE(record, took, 16);
PLACE(record, a, 24);
PLACE(record, b, 28);
PLACE(named, record, 0);
PLACE(named, name, 32);
PLACE(exchange, at, 0);
PLACE(exchange, cpu, 8);
PLACE(exchange, what, 10);
PLACE(exchange, prev, 12);
PLACE(exchange, next, 16);
PLACE(exchange, prev_prio, 20);
PLACE(exchange, next_prio, 22);
PLACE(exchange, prev_state, 24);
PLACE(exchange, prev_name, 32);
PLACE(exchange, next_name, 48);
_Static_assert(sizeof(struct record) == 32 && sizeof(struct named) == 48 && sizeof(struct exchange) == 64, "sizes");

#endif
