/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the programs of the `xdp` path share with the process that loads them: constants of a run, and maps that the
 * process has in its memory and reads while they are written. The other half is crates/xdp/src/abi.rs, with the same
 * names; both sides assert the layout.
 *
 * Every counter has one writer. Those who receive are *sources*: a receive queue of the device, whose poll loop runs
 * on one CPU at a time, or, on socket buffers, a CPU. Those who send are *lanes*, each on a CPU of its own. Windows of
 * flows are the exception: a flow may come by several sources, see window.h.
 */
#ifndef XDP_RUN_H
#define XDP_RUN_H

#include "bpf.h"
#include "within.h"

enum { ANSWERS = 8, ADDRESSES = 8, LANES = 64, REASONS = 32, OCTAVES = 28, OCTAVE = 1024 };
/* Streams, sizes of a stream, and what of these is counted each by itself. */
enum { MOST_STREAMS = 8, MOST_SIZES = 8, MOST_PLACES = 24 };

/* source.reasons: those of udp.h, then these; from 16 on each program's own. */
enum {
	/* Answered, or an answer to our own question. */
	NEIGHBOR_SERVICE = 13,
	/* `forward`: not what it is to take. Else, where packets are known by their tags: LEFT_NOT_TAGGED. */
	NOT_TAKEN,
	/* `forward`: there is no port to send it out of. */
	NO_PORT,
};

/* plan.flags */
enum {
	/* Sources are CPUs, not receive queues. */
	BY_CPU = 1 << 0,
	/* Verify UDP checksum and data of what is received. */
	CHECK_DATA = 1 << 1,
	/* Frames may come with a checksum that was left to a device (virtual devices, socket buffers). */
	OPEN_CHECKSUMS = 1 << 2,
	/* Only frames to `mac`. */
	OWN_MAC = 1 << 3,
	/* Packets come back and are received. */
	RECEIVE = 1 << 4,
	/* Lanes send by schedule. */
	PACED = 1 << 5,
	/* Gaps are drawn at random. */
	RANDOM = 1 << 6,
	/* The test's addresses are IPv6. */
	IPV6 = 1 << 7,
	/* `drop`: verify stamps. */
	STAMPED = 1 << 8,
	/* The device is a veth. */
	VETH = 1 << 9,
	/* Flows are told by their addresses, too: `own`, `peer`, `axis`. */
	ADDRESSES_VARY = 1 << 10,
	/* All coordinates of a flow step at once. */
	TOGETHER = 1 << 11,
	/* Flows have windows, and there are several sources that a flow may come by. */
	SEVERAL = 1 << 12,
	/* The addresses of `own` are answered for. */
	ANSWER_OWN = 1 << 13,
	/* Packets arrive as they were sent, at another device than they leave by. */
	ACROSS = 1 << 14,
	/* The way back of two: packets go from each flow's destination to its source. */
	TURNED = 1 << 15,
	/* Without a schedule lanes send a number of packets, and no more. */
	LIMITED = 1 << 16,
	/* The driver moves the start of frames that it is given: virtio_net, whose header goes in front of them. */
	MOVED = 1 << 17,
	/* Packets are known by their tags, whatever their headers. */
	TAGGED = 1 << 18,
	/* Streams without a schedule begin later than the run. */
	JOINS = 1 << 19,
	/* A stream has several sizes of frames. */
	SIZES = 1 << 20,
};

struct plan {
	/* Rows and periods. */
	u64 interval_ns;
	u64 settle_ns;
	/* Of the payload's data. */
	u64 seed;
	/* Departures overdue by more are given up. */
	u64 catch_up_ns;
	/* Of the flow table's hash. */
	u64 key;
	u32 flags;
	u32 sources;
	/* Rows and histogram periods a writer, powers of two. */
	u32 rows;
	u32 periods;
	u32 rows_per_period;
	/* The clock is read anew after this many packets; 0: for each. */
	u32 clock_every;
	/* Streams that are counted each by itself; 0: none are. */
	u32 streams;
	/* Of the network namespace, and of the devices in it: 0 and 1. Traffic has the one that packets leave by. */
	u32 namespace;
	u32 device[2];
	/* Listeners: destination addresses that are taken; none given: any that is one host's. */
	u32 addresses4_count;
	u32 addresses6_count;
	/* Addresses that are answered for. */
	u32 answer4_count;
	u32 answer6_count;
	be32 addresses4[ADDRESSES];
	be32 answer4[ANSWERS];
	struct words6 {
		be32 word[4];
	} addresses6[ADDRESSES], answer6[ANSWERS];
	/* The device's own MAC address, in the low 6 bytes. */
	u64 mac;
	/* Whose MAC address was asked for; 0: nobody's. */
	be32 hop4;
	struct words6 hop6;

	/* Traffic. Offsets of the IP and UDP header in what is sent. */
	u32 l3;
	u32 l4;
	u32 payload_len;
	u32 frame_len;
	/* Sum of all constant words that the UDP checksum covers. */
	u32 sum;
	/* What the field holds that a device was to fill in: the pseudo-header's sum. */
	u32 open_sum;
	u32 src_first;
	u32 src_count;
	u32 dst_first;
	u32 flows;
	u32 lanes;
	/* Words of 64 sequence numbers per flow, and slips per flow: powers of two. */
	u32 window_words;
	u32 slips;
	/* The addresses that packets arrive for and from: where they come back, those that they were sent from and to. */
	struct words6 src;
	struct words6 dst;
	/* The IP header of a packet that arrives as it came back, or as it was sent, as words. */
	u64 back[5];
	/* The CPU of each lane. */
	u32 lane_cpu[LANES];
	/* `drop`: flows at the most, and places in their table (a power of two). */
	u32 max_flows;
	u32 table;
	/*
	 * Addresses beside those above: of listeners more that are taken; of traffic, where they vary, those that
	 * packets arrive for, and those that they arrive from.
	 */
	struct within own;
	struct within peer;
	/*
	 * The coordinates of flows, where addresses vary: source port, destination port, source address, destination address.
	 * Flow `f` has the value `f / every % count`, and if all step at once `f % count`; which has the most is `longest`.
	 */
	struct axis {
		u32 count;
		u32 every;
	} axis[4];
	u32 longest;
	/* Where in HISTOGRAMS those from the scheduled time begin. */
	u32 scheduled;
	/* Lanes; with several streams, as many for each stream. */
	u32 senders;
	/* Writers that a source is: for what is of no stream, for each stream, for each size of frames. */
	u32 places;
};

/* Only known once the program is loaded. Written by the process. */
struct run {
	/* Rows are counted from here; 0: not yet. */
	u64 start_ns;
	/* Nothing that is due from here on is sent. */
	u64 end_ns;
	/* Nothing is counted any more. */
	u64 stopped;
	/* What is sent back goes by redirection, see send_back. The process may change it at any time. */
	u64 redirect;
};

/* Written by whoever hears it first. */
struct heard {
	u8 mac[6];
	u16 known;
};

struct moments {
	u64 count;
	u64 sum;
	/* The least, complemented: zeroed memory means none. */
	u64 min_complement;
	u64 max;
};

/* Written by a program, read and zeroed by the process once it can't be written any more. */
struct row {
	u64 tx;
	u64 missed;
	u64 rx;
	u64 duplicates;
	u64 reordered;
	u64 distance_sum;
	u64 corrupt;
	u64 foreign;
	u64 expected;
	u64 unused;
	struct moments latency;
	struct moments scheduled;
};

struct source {
	/* The clock's newest reading, and for how many packets more it is good; a poll loop's end sets it to none. */
	u64 now_ns;
	u32 left;
	/* As in `run`, when the clock was read. */
	u32 redirect;
	/* The row of that time, and where it lies in ROWS. */
	u64 row_begin;
	u64 row_end;
	u32 row_key;
	/* Where the histograms of that row's period begin in HISTOGRAMS. */
	u32 period_key;
	/* Sequence numbers below this have been sent. */
	u64 limit;
	/* Of the run. */
	u64 start_ns;
	/* That the poll loop runs on. */
	u32 cpu;
	/* Place that is counted for: 0, or a stream, + 1. */
	u32 place;

	/* Taken, but not counted in `test`. */
	u64 others;
	/* Left to the host. */
	u64 passed;
	u64 polls;
	/* Counted: received, or taken to be sent back or on. */
	u64 test;
	u64 tx;
	u64 bytes;
	u64 late;
	u64 distance_max;
	u64 first_ns;
	u64 last_ns;
	u64 reasons[REASONS];
	/* Odd: it may be writing windows of its own. Another number each time that it begins. */
	u64 burst;
	u64 room[29];
	/* `row_key` and `period_key` of what is of no stream: those of streams follow. */
	u32 row_first;
	u32 period_first;
	/* By place - 1, `late` and `distance_max`. */
	u64 late_of[MOST_PLACES];
	u64 distance_of[MOST_PLACES];
	/* The place of the packet's size; 0: it is counted for none. */
	u32 size;
	u32 unused;
	u64 more_room[6];
} __attribute__((aligned(64)));

/* One octave of a log-linear histogram, as in crates/stats/src/histogram.rs. */
struct octave {
	u32 bucket[OCTAVE];
};

_Static_assert(sizeof(struct plan) == 928, "crates/xdp/src/abi.rs");
_Static_assert(sizeof(struct run) == 32, "crates/xdp/src/abi.rs");
_Static_assert(sizeof(struct row) == 144, "crates/xdp/src/abi.rs");
_Static_assert(sizeof(struct source) == 1088, "crates/xdp/src/abi.rs");

const volatile struct plan PLAN = {};
/* One bit a port that a listener takes, least significant first. */
const volatile u64 PORTS[1024] = {};

/* The sizes of maps are set by the loader. */
#define SHARED_ARRAY(name, content) \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                                      \
		__uint(max_entries, 1);                                                                                \
		__uint(map_flags, BPF_F_MMAPABLE);                                                                     \
		__type(key, u32);                                                                                      \
		__type(value, content);                                                                                \
	} name SEC(".maps")

typedef struct run run_t;
typedef struct heard heard_t;
typedef struct row row_t;
typedef struct source source_t;
typedef struct octave octave_t;

SHARED_ARRAY(RUN, run_t);
SHARED_ARRAY(HEARD, heard_t);
/* By writer (sources, then lanes; of each those for its streams, and sizes, follow each other), then by row. */
SHARED_ARRAY(ROWS, row_t);
SHARED_ARRAY(SOURCES, source_t);
/* By kind (actual, scheduled), writer that is a source, period, octave. */
SHARED_ARRAY(HISTOGRAMS, octave_t);

/* The poll loop that a CPU is in. */
struct poll {
	/* Its source, + 1; 0: none that has read the clock. */
	u32 source;
	u32 unused;
	/* The burst of that source which this CPU began last. */
	u64 burst;
};
typedef struct poll poll_t;
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, poll_t);
} POLLS SEC(".maps");

/* Packets that a device refused after a program had sent them, by CPU, then by device. */
struct refused {
	u64 packets;
	/* The newest cause, a negative errno; 0: its queue was full. */
	u64 error;
	u64 unused[6];
};
typedef struct refused refused_t;
SHARED_ARRAY(REFUSED, refused_t);

INLINE struct run *run_of(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&RUN, &key);
}

/* The place of this frame's source; `sources` and more: none, the frame is the host's. */
INLINE u32 source_key(struct xdp_md *ctx)
{
	return PLAN.flags & BY_CPU ? bpf_get_smp_processor_id() : ctx->rx_queue_index;
}

/* The row of a time, from 0; 0 before the start, too. */
INLINE u32 row_number(struct run *run, u64 at_ns)
{
	u64 start = run->start_ns;

	return start && at_ns > start ? (at_ns - start) / PLAN.interval_ns : 0;
}

/* Where a writer's row lies in ROWS. */
INLINE u32 row_key(u32 writer, u32 row)
{
	return writer * PLAN.rows + (row & (PLAN.rows - 1));
}

/* Where the octaves of a row's histograms begin in HISTOGRAMS. */
INLINE u32 period_key(u32 writer, u32 row)
{
	u32 period = row / PLAN.rows_per_period;

	return (writer * PLAN.periods + (period & (PLAN.periods - 1))) * OCTAVES;
}

/* A source as a writer of rows and histograms, at the place that is counted for. */
INLINE u32 writer_of(struct source *source, u32 key)
{
	return PLAN.streams ? key * PLAN.places + source->place : key;
}

/* Counts for a stream, + 1, from here on; 0: for none. */
INLINE void turn_to(struct source *source, u32 place)
{
	source->place = place;
	source->row_key = source->row_first + place * PLAN.rows;
	source->period_key = source->period_first + place * PLAN.periods * OCTAVES;
}

/* Notes at a place that a packet is so far behind the highest. */
INLINE void note_distance(struct source *source, u32 place, u64 distance)
{
	u64 *most;

	if (place - 1 >= MOST_PLACES)
		return;
	most = &source->distance_of[place - 1];
	if (distance > *most)
		*most = distance;
}

/* Reads the clock for a source; 0: nothing is counted any more. */
INLINE u64 read_clock(struct source *source, u32 key)
{
	u64 now = bpf_ktime_get_ns();
	struct run *run = run_of();

	/* Those who listen end by themselves; senders wait for what is still to come back. */
	if (!run || run->stopped || (!PLAN.lanes && now >= run->end_ns)) {
		source->left = 0;
		return 0;
	}
	source->now_ns = now;
	source->start_ns = run->start_ns;
	source->redirect = run->redirect;
	if (!source->first_ns)
		source->first_ns = now;
	source->last_ns = now;
	if (now >= source->row_end) {
		u32 row = row_number(run, now);
		u64 begin = run->start_ns + (u64)row * PLAN.interval_ns;

		source->row_begin = begin;
		/* Until the start is known everything is row 0, and the next reading looks again. */
		source->row_end = run->start_ns ? begin + PLAN.interval_ns : 0;
		if (PLAN.streams) {
			source->row_first = row_key(key * PLAN.places, row);
			source->period_first = period_key(key * PLAN.places, row);
			turn_to(source, source->place);
		} else {
			source->row_key = row_key(key, row);
			source->period_key = period_key(key, row);
		}
	}
	return now;
}

/*
 * From here on the source may write the windows that are its own: up to 16 packets, or to the end of its poll loop. Who
 * wants such a window for everybody says so in it, and waits for the burst to end: so between this store and the first
 * look at a window nothing may be moved, for which the exchange is one.
 */
INLINE void begin_burst(struct source *source)
{
	u64 burst = (source->burst | 1) + 2;
	u32 cpu = bpf_get_smp_processor_id();
	struct poll *poll = bpf_map_lookup_elem(&POLLS, &cpu);

	if (poll)
		poll->burst = burst;
	source->cpu = cpu;
	__sync_lock_test_and_set(&source->burst, burst);
}

/* Where no end of a poll loop is seen, and before waiting for others. */
INLINE void end_burst(struct source *source)
{
	__sync_lock_test_and_set(&source->burst, (source->burst | 1) + 1);
}

/* A source's poll loop may begin on another CPU before the one that ran it last has told its end. */
INLINE int is_here(struct source *source)
{
	return !(PLAN.flags & SEVERAL) || PLAN.flags & BY_CPU || source->cpu == bpf_get_smp_processor_id();
}

/*
 * When a frame came: the clock's reading at the first frame of the poll loop, or 16 packets ago at the most. Reading
 * it for each frame would cost more than all the rest that is done to one. 0: nothing is counted any more.
 */
INLINE u64 arrival(struct source *source, u32 key)
{
	u32 cpu;
	struct poll *poll;

	if (source->left && is_here(source)) {
		source->left--;
		return source->now_ns;
	}
	if (PLAN.clock_every) {
		cpu = bpf_get_smp_processor_id();
		poll = bpf_map_lookup_elem(&POLLS, &cpu);
		if (poll && poll->source != key + 1) {
			poll->source = key + 1;
			source->polls++;
		}
		source->left = PLAN.clock_every - 1;
	} else {
		source->polls++;
	}
	if (PLAN.flags & SEVERAL)
		begin_burst(source);
	return read_clock(source, key);
}

/* The row of the source's newest reading; 0 never happens. */
INLINE struct row *current_row(struct source *source)
{
	u32 key = source->row_key;

	return bpf_map_lookup_elem(&ROWS, &key);
}

/*
 * Sends a frame back out of the device that it came in by. A veth whose other end has no XDP program, but a poll loop
 * (GRO), takes what XDP_TX gives it into its ring and does not wake that loop; what is redirected arrives.
 */
INLINE int send_back(struct xdp_md *ctx, struct source *source)
{
	if (PLAN.flags & VETH && source->redirect)
		return bpf_redirect(ctx->ingress_ifindex, 0);
	return XDP_TX;
}

INLINE void measure(struct moments *moments, u64 value)
{
	moments->count++;
	moments->sum += value;
	if (~value > moments->min_complement)
		moments->min_complement = ~value;
	if (value > moments->max)
		moments->max = value;
}

/*
 * The octave of a value in the histogram whose octaves begin at `base`, and, in `value`, its bucket there: exact below
 * 2048, 1024 buckets a power of two above.
 */
INLINE u32 octave_of(u32 base, u64 *of)
{
	u32 key = base, shift = 0;
	u64 value = *of, rest = value >> 11;

	if (!rest) {
		key += value >> 10;
	} else {
		/* The place of the highest bit, by halving: there is no instruction for it. */
		if (rest >> 4) {
			if (rest >> 26) {
				value = (1ULL << 37) - 1;
				rest = value >> 11;
			}
			if (rest >> 16) {
				shift += 16;
				rest >>= 16;
			}
			if (rest >> 8) {
				shift += 8;
				rest >>= 8;
			}
			if (rest >> 4) {
				shift += 4;
				rest >>= 4;
			}
		}
		if (rest >> 2) {
			shift += 2;
			rest >>= 2;
		}
		shift += 1 + (rest >> 1);
		key += shift + 1;
		value >>= shift;
	}
	*of = value & (OCTAVE - 1);
	return key;
}

INLINE void add_to_histogram(void *map, u32 base, u64 value, u32 count)
{
	u32 key = octave_of(base, &value);
	struct octave *octave = bpf_map_lookup_elem(map, &key);

	if (octave)
		octave->bucket[value] += count;
}

#endif
