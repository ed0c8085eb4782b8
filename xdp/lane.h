/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A lane that sends: its schedule, what it has sent, and what it shares with those who receive.
 */
#ifndef XDP_LANE_H
#define XDP_LANE_H

#include "window.h"

/* Packets that are sent with one reading of the clock; and of how many times so many a lane keeps when they left. */
enum { BULK = 16, TIMES_KEPT = 1 << 14 };

struct lane {
	/* By the process, before the run. Time of the next departure, and between units: ns and 2^-64 ns. */
	u64 due_ns;
	u64 due_fraction;
	u64 step_ns;
	u64 step_fraction;
	/* Packets still to come. */
	u64 remaining;
	u32 unit;
	u32 in_unit;
	/* State of the generator of gaps, and the end of the schedule; 0: it has none. */
	u64 random;
	u64 schedule_end_ns;
	u32 first_flow;
	u32 flow_step;
	u32 flows;
	/* Number of the lane, and of it as a writer of rows. */
	u32 number;
	u32 writer;
	/* Of the tags of this trial. */
	u32 run;
	/* Of a stream without a schedule: when it begins. */
	u64 joins_ns;
	u32 unused[8];

	/* Ethernet, IP and UDP header. */
	u64 headers[9];
	u64 room[7];

	/* By the program. */
	u64 now_ns;
	u32 left;
	u32 cursor;
	u64 seq;
	u64 row_end;
	u32 row_key;
	u32 done;
	/* Packets sent since the clock was read, which are in no other count yet. */
	u64 pending;
	u64 packets;
	u64 bursts;
	u64 waits;
	u64 last_ns;
	/* Departures with a gap before them; all others left with the one before. */
	struct moments gaps;
	/* What this CPU sends is an answer, and no packet of the test; until the lane sends again. */
	u64 answering;
	u64 more_room;

	/*
	 * Receivers read this: packets sent before the newest reading of the clock that was followed by one. The lane's
	 * flows are sent in turn: number `seq` of the flow at `place` is packet `seq * flows + place`.
	 */
	u64 limit;
	u64 apart[7];

	/* In front of the lanes of streams: when the next packet of each is due; NEVER: none is. */
	u64 due[MOST_STREAMS];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct lane) == 512, "crates/xdp/src/abi.rs");
typedef struct lane lane_t;

/*
 * By CPU. With several streams a CPU has one that keeps the time, then one for each stream, with the stream's schedule
 * and numbers.
 */
SHARED_ARRAY(LANES_BY_CPU, lane_t);

/* The lane of a CPU, and with several streams that of a stream, + 1; 0: the one that keeps the time. */
INLINE struct lane *lane_on(u32 cpu, u32 place)
{
	u32 key = PLAN.streams ? cpu * (PLAN.streams + 1) + place : cpu;

	return bpf_map_lookup_elem(&LANES_BY_CPU, &key);
}

/*
 * Source port, and destination port, of each flow. Where addresses vary also the sum of all that the UDP checksum
 * covers but ports and payload, and the checksum of the IPv4 header.
 */
struct flow_ports {
	be16 source;
	be16 destination;
	u16 sum;
	u16 check;
};
typedef struct flow_ports flow_ports_t;
SHARED_ARRAY(FLOW_PORTS, flow_ports_t);
/* The addresses of each flow, where they vary. */
struct flow_addresses {
	struct words6 source;
	struct words6 destination;
};
typedef struct flow_addresses flow_addresses_t;
SHARED_ARRAY(FLOW_ADDRESSES, flow_addresses_t);
/* A departure by schedule. */
struct slip {
	/* The number's low 32 bits, and how much later than scheduled the packet left, ns. */
	u64 entry;
	u64 sent_ns;
};
typedef struct slip slip_t;
/* Entry of a place whose departure is not kept. */
#define NO_SLIP (~0ULL)
/* By sequence number, then by flow, for the same reason as WINDOWS. */
SHARED_ARRAY(SLIPS, slip_t);
/* Without a schedule: when the first of each 16 packets of a lane left, at the earliest. By lane, then by packet. */
SHARED_ARRAY(TIMES, u64);
/* What has come back of a flow. */
SHARED_ARRAY(FLOW_WINDOWS, flow_window_t);
/* By lane, then by octave. Over the whole run, which 32 bits have no room for. */
struct wide_octave {
	u64 bucket[OCTAVE];
};
typedef struct wide_octave wide_octave_t;
SHARED_ARRAY(GAPS, wide_octave_t);

#endif
