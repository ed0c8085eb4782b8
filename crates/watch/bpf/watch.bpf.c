/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Watches the lanes' cores: who has them instead of a lane that wants them, and what the kernel drops of the test's
 * packets. Sums by culprit are exact; records of single events may find the ring full, and are counted then.
 *
 * Time is *taken* while a lane has the core (by interrupts), or waits for it. While all lanes of a core sleep nothing
 * is taken from them, whoever runs. Time is counted once: that of an interrupt within a soft interrupt, or of either
 * within a thread's visit, is not counted for the outer one as well. Where several lanes wait for a core, it is taken
 * from the first.
 */
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

INLINE struct core *core_of(u32 cpu)
{
	struct core *core = bpf_map_lookup_elem(&CORES, &cpu);

	return core && core->watched ? core : 0;
}

INLINE u64 less(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/* How much of the time from `began` to `now` was taken from lanes. */
INLINE u64 taken(const struct core *core, u64 began, u64 now)
{
	u64 from = began;

	if (!core->busy) {
		if (!core->waiting)
			return 0;
		if (core->wanted > from)
			from = core->wanted;
	}
	return less(now, from);
}

/* The lane from which a core is taken, from 0. */
INLINE u64 victim(const struct core *core)
{
	u64 waiting = core->waiting;
	u32 number = 0;

	if (core->busy)
		return core->busy - 1;
#pragma unroll
	for (u32 step = 32; step; step /= 2)
		if (!(waiting & ((1ULL << step) - 1))) {
			waiting >>= step;
			number += step;
		}
	return number & (LANES - 1);
}

static __attribute__((noinline)) struct row *row_at(u64 place, u32 kind, u32 id)
{
	u64 key = 1ULL << 63 | place << 40 | (u64)kind << 32 | id;
	u32 at = (key * 0x9fb21c651e98df25ULL) >> 40;

#pragma unroll
	for (u32 i = 0; i < PROBES; i++) {
		u32 place = (at + i) & (ROWS - 1);
		struct row *row = bpf_map_lookup_elem(&TABLE, &place);
		u64 found;

		if (!row)
			return 0;
		found = row->key;
		if (found == key)
			return row;
		if (!found) {
			found = __sync_val_compare_and_swap(&row->key, 0, key);
			if (!found || found == key)
				return row;
		}
	}
	return 0;
}

/* Those for whom the table has no room share a row. */
INLINE struct row *row_for(struct core *core, u32 cpu, u32 kind, u32 id)
{
	u64 place = victim(core) << 16 | cpu;
	struct row *row = row_at(place, kind, id);

	if (row)
		return row;
	core->nameless++;
	return row_at(place, kind, ~0U);
}

INLINE void add(struct row *row, u64 began, u64 took)
{
	row->count++;
	row->total += took;
	if (took > row->longest) {
		row->longest = took;
		row->longest_at = began;
	}
}

/* A thread's number in this process' namespace. */
INLINE s32 own_number(struct task_struct *task, const struct settings *settings)
{
	s32 number = task->pid;

	if (settings->level) {
		struct pid *pid = task->thread_pid;
		void *numbers = (void *)&pid->numbers;

		bpf_probe_read_kernel(&number, sizeof(number), numbers + settings->level * sizeof(struct upid));
	}
	return number;
}

/* The lane whose thread it is. */
static __attribute__((noinline)) struct lane *lane_of(s32 number)
{
#pragma unroll
	for (u32 i = 0; i < PROBES; i++) {
		u32 place = (number + i) & (SLOTS - 1);
		struct lane *lane = bpf_map_lookup_elem(&LANES_BY_TID, &place);

		if (!lane || !lane->tid)
			return 0;
		if (lane->tid == number)
			return lane;
	}
	return 0;
}

INLINE void waits(struct core *core, u32 cpu, struct lane *lane, u64 now)
{
	if (!core->waiting)
		core->wanted = now;
	lane->waits = cpu + 1;
	__sync_fetch_and_or(&core->waiting, 1ULL << (lane->number & (LANES - 1)));
}

/* It has a core, which may be another than the one that it waited for. */
INLINE void waits_no_more(struct lane *lane)
{
	u32 cpu = lane->waits - 1;
	struct core *core;

	if (!lane->waits)
		return;
	lane->waits = 0;
	core = bpf_map_lookup_elem(&CORES, &cpu);
	if (core)
		__sync_fetch_and_and(&core->waiting, ~(1ULL << (lane->number & (LANES - 1))));
}

INLINE u32 target_of(struct task_struct *task)
{
	struct task_struct___old *old = (void *)task;

	return EXISTS(old->cpu) ? old->cpu : task->thread_info.cpu;
}

INLINE u32 state_of(u64 *ctx, struct task_struct *task)
{
	struct task_struct___old *old = (void *)task;

	if (PLAN.tells_state)
		return ctx[3];
	return EXISTS(old->state) ? (u32)old->state : task->__state;
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

/* A soft interrupt ends, or the thread that handles it leaves (on a kernel where it may). */
INLINE void soft_ends(struct core *core, u32 cpu, u64 now)
{
	u64 took = taken(core, core->soft_at, now);
	struct row *row;

	if (!core->soft)
		return;
	if (took) {
		row = row_for(core, cpu, SOFTIRQ, core->soft - 1);
		if (row)
			add(row, core->soft_at, less(took, core->soft_nested));
	}
	core->nested += took;
	core->soft = 0;
}

INLINE void record_took(u32 cpu, u32 what, u32 id, u64 began, u64 now)
{
	struct settings *settings_ = settings();
	struct record *record;

	if (!PLAN.records || !settings_)
		return;
	record = begin(settings_, RESERVE(struct record), now, cpu, what, id);
	if (!record)
		return;
	record->took = less(now, began);
	SUBMIT(record);
}

/* sched_switch(preempt, prev, next, prev_state) */
SEC("tp_btf/sched_switch") int exchange(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct settings *settings_ = settings();
	u32 cpu = bpf_get_smp_processor_id(), state, own;
	struct core *core = core_of(cpu);
	struct lane *lane = 0;
	s32 left, came;
	u64 now;

	if (!core || !settings_ || !settings_->process)
		return 0;
	now = bpf_ktime_get_ns();
	left = prev->pid;
	came = next->pid;
	state = ctx[0] & 1 ? 0 : state_of(ctx, prev);
	own = prev->tgid == settings_->process && left;
	if (own) {
		left = own_number(prev, settings_);
		lane = lane_of(left);
	}
	soft_ends(core, cpu, now);
	core->busy = 0;
	/* A lane that leaves had the core, even where its coming was not seen. */
	if (lane)
		waits_no_more(lane);
	if (core->since && core->waiting) {
		u64 from = core->wanted > core->since ? core->wanted : core->since;
		u64 took = less(less(now, from), core->nested);
		/* There are kernels that hide switches of some threads: then nobody knows who had the core. */
		int seen = core->holder == prev->pid;

		if (took && (left || !seen)) {
			struct row *row = row_for(core, cpu, !seen ? UNSEEN : own ? OWN : THREAD, seen ? left : 0);

			/* A thread may change its name: it has the one of its longest visit. */
			if (row && seen && took > row->longest)
				READ_NAME(row->name, prev->comm);
			if (row)
				add(row, from, took);
		}
	}
	if (lane) {
		if (!state)
			waits(core, cpu, lane, now);
		else if (state & 12)
			/* Stopped (4) or traced (8). */
			lane->stopped = now;
	}

	own = next->tgid == settings_->process && came;
	lane = 0;
	if (own) {
		came = own_number(next, settings_);
		lane = lane_of(came);
	}
	if (lane) {
		waits_no_more(lane);
		core->busy = (lane->number & (LANES - 1)) + 1;
		if (lane->stopped) {
			struct row *row = row_for(core, cpu, STOPPED, came);

			if (row)
				add(row, lane->stopped, less(now, lane->stopped));
			lane->stopped = 0;
		}
	}
	core->holder = next->pid;
	core->since = now;
	core->nested = 0;

	if (PLAN.records) {
		struct exchange *record = RESERVE(struct exchange);

		if (!record) {
			ADD(settings_->lost, 1);
			return 0;
		}
		record->at = now;
		record->cpu = cpu;
		record->what = SWITCH;
		record->flags = 0;
		record->prev = left;
		record->next = came;
		record->prev_prio = prev->prio;
		record->next_prio = next->prio;
		record->prev_state = state;
		record->unused = 0;
		READ_NAME(record->prev_name, prev->comm);
		READ_NAME(record->next_name, next->comm);
		SUBMIT(record);
	}
	return 0;
}

/* sched_waking(task), on the core that wakes it. */
SEC("tp_btf/sched_waking") int waking(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct settings *settings_ = settings();
	struct core *core;
	struct named *record;
	u32 cpu;
	s32 number;

	if (!settings_ || !settings_->process || task->tgid != settings_->process || !PLAN.records)
		return 0;
	cpu = target_of(task);
	core = core_of(cpu);
	if (!core)
		return 0;
	number = own_number(task, settings_);
	if (!lane_of(number))
		return 0;
	record = RESERVE(struct named);
	if (!begin(settings_, (void *)record, bpf_ktime_get_ns(), bpf_get_smp_processor_id(), WAKING, number))
		return 0;
	record->record.a = cpu;
	READ_NAME(record->name, task->comm);
	SUBMIT(record);
	return 0;
}

/*
 * sched_wakeup(task): it is on the queue of its core, whose lock is held, so that this comes before or after a switch
 * of that core but never between its halves. A thread that was woken before it had left its core is no one who waits.
 */
SEC("tp_btf/sched_wakeup") int awake(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct settings *settings_ = settings();
	struct core *core;
	struct lane *lane;
	u32 cpu;

	if (!settings_ || !settings_->process || task->tgid != settings_->process)
		return 0;
	cpu = target_of(task);
	core = core_of(cpu);
	if (!core)
		return 0;
	lane = lane_of(own_number(task, settings_));
	if (!lane || core->busy == lane->number + 1)
		return 0;
	waits(core, cpu, lane, bpf_ktime_get_ns());
	return 0;
}

/* Who has a core that was not watched before: a lane that is alone there may not leave it for long. */
INLINE void learn(struct core *core, u64 now)
{
	struct settings *settings_ = settings();
	struct task_struct *task;
	struct lane *lane;

	if (core->since || !settings_ || !settings_->process)
		return;
	task = bpf_get_current_task_btf();
	core->since = now;
	core->nested = 0;
	core->holder = task->pid;
	if (task->tgid != settings_->process || !task->pid)
		return;
	lane = lane_of(own_number(task, settings_));
	if (lane)
		core->busy = (lane->number & (LANES - 1)) + 1;
}

/* irq_handler_entry(irq, action) */
SEC("tp_btf/irq_handler_entry") int irq_begins(void *ctx)
{
	struct core *core = core_of(bpf_get_smp_processor_id());

	(void)ctx;
	if (core) {
		core->irq_at = bpf_ktime_get_ns();
		learn(core, core->irq_at);
	}
	return 0;
}

INLINE void within(struct core *core, u64 took)
{
	if (core->soft)
		core->soft_nested += took;
	else
		core->nested += took;
}

/* irq_handler_exit(irq, action, ret) */
SEC("tp_btf/irq_handler_exit") int irq_ends(u64 *ctx)
{
	u32 cpu = bpf_get_smp_processor_id(), irq = ctx[0];
	struct irqaction *action = (void *)ctx[1];
	struct core *core = core_of(cpu);
	u64 now, took;

	if (!core || !core->irq_at)
		return 0;
	now = bpf_ktime_get_ns();
	took = taken(core, core->irq_at, now);
	if (took) {
		struct row *row = row_for(core, cpu, IRQ, irq);

		if (row) {
			add(row, core->irq_at, took);
			if (!row->name[0])
				READ_NAME(row->name, action->name);
		}
		within(core, took);
	}
	record_took(cpu, INTERRUPT, irq, core->irq_at, now);
	core->irq_at = 0;
	core->over_at = now;
	return 0;
}

enum { NET_TX = 2, NET_RX = 3, SOON_NS = 3000 };

/*
 * softirq_entry(vector). A lane that sends to this very host, or by a virtual device, handles its packets in soft
 * interrupts within its own calls: these take nothing from it. They are told from others by what comes before:
 * an interrupt, at whose end the others run. There is one for each burst, so that looking at them must cost little.
 */
SEC("tp_btf/softirq_entry") int soft_begins(u64 *ctx)
{
	struct core *core = core_of(bpf_get_smp_processor_id());
	u32 vector = ctx[0];

	if (core && core->busy && (vector == NET_TX || vector == NET_RX)) {
		if (!core->over_at)
			return 0;
		if (bpf_ktime_get_ns() - core->over_at > SOON_NS) {
			core->over_at = 0;
			return 0;
		}
	}
	if (core) {
		core->soft_at = bpf_ktime_get_ns();
		learn(core, core->soft_at);
		core->soft_nested = 0;
		core->soft = vector + 1;
	}
	return 0;
}

/* softirq_exit(vector) */
SEC("tp_btf/softirq_exit") int soft_over(u64 *ctx)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct core *core = core_of(cpu);
	u64 now;

	if (!core || core->soft != (u32)ctx[0] + 1)
		return 0;
	now = bpf_ktime_get_ns();
	soft_ends(core, cpu, now);
	record_took(cpu, SOFT, ctx[0], core->soft_at, now);
	return 0;
}

INLINE int vector_begins(void)
{
	struct core *core = core_of(bpf_get_smp_processor_id());

	if (core) {
		core->vector_at = bpf_ktime_get_ns();
		learn(core, core->vector_at);
	}
	return 0;
}

INLINE int vector_ends(u32 vector)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct core *core = core_of(cpu);
	u64 now, took;

	if (!core || !core->vector_at)
		return 0;
	now = bpf_ktime_get_ns();
	took = taken(core, core->vector_at, now);
	if (took) {
		struct row *row = row_for(core, cpu, VECTOR, vector);

		if (row)
			add(row, core->vector_at, took);
		within(core, took);
	}
	record_took(cpu, PROCESSOR, vector, core->vector_at, now);
	core->vector_at = 0;
	core->over_at = now;
	return 0;
}

#define VECTOR_OF(name, number)                        \
	SEC("tp_btf/" #name "_entry") int name##_begins(void *ctx) \
	{                                              \
		(void)ctx;                             \
		return vector_begins();                \
	}                                              \
	SEC("tp_btf/" #name "_exit") int name##_ends(void *ctx) \
	{                                              \
		(void)ctx;                             \
		return vector_ends(number);            \
	}

VECTOR_OF(local_timer, LOCAL_TIMER)
VECTOR_OF(reschedule, RESCHEDULE)
VECTOR_OF(call_function, CALL_FUNCTION)
VECTOR_OF(call_function_single, CALL_FUNCTION_SINGLE)
VECTOR_OF(irq_work, IRQ_WORK)

/* signal_deliver(signal, info, action), on the thread that it is delivered to. */
SEC("tp_btf/signal_deliver") int signal(u64 *ctx)
{
	struct settings *settings_ = settings();
	struct record *record;
	u32 number;

	if (!settings_ || !settings_->process || !PLAN.records ||
	    (s32)(bpf_get_current_pid_tgid() >> 32) != settings_->process)
		return 0;
	number = own_number(bpf_get_current_task_btf(), settings_);
	record = begin(settings_, RESERVE(struct record), bpf_ktime_get_ns(), bpf_get_smp_processor_id(), SIGNAL, ctx[0]);
	if (!record)
		return 0;
	record->a = number;
	SUBMIT(record);
	return 0;
}

/* napi_poll(napi, work, budget) */
SEC("tp_btf/napi_poll") int polled(u64 *ctx)
{
	struct napi_struct *napi = (void *)ctx[0];
	u32 cpu = bpf_get_smp_processor_id(), work = ctx[1], budget = ctx[2];
	struct settings *settings_ = settings();
	struct core *core = core_of(cpu);
	struct net_device *device;
	struct named *record;
	struct row *row;

	if (!core || !settings_)
		return 0;
	device = napi->dev;
	row = row_at(cpu, POLL, device ? device->ifindex : 0);
	if (row) {
		row->count++;
		row->total += work;
		row->longest += !work;
		row->longest_at += work >= budget;
		if (!row->name[0])
			READ_NAME(row->name, device->name);
	}
	if (!PLAN.records)
		return 0;
	record = RESERVE(struct named);
	if (!begin(settings_, (void *)record, bpf_ktime_get_ns(), cpu, POLLED, 0))
		return 0;
	record->record.a = work;
	record->record.b = budget;
	/* Reads as nothing where there is none. */
	READ_NAME(record->name, device->name);
	SUBMIT(record);
	return 0;
}

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
static __attribute__((noinline)) u32 udp_behind(u64 at)
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
static __attribute__((noinline)) u32 stamped_by(u32 lane, u64 time)
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

		if (!prog)
			return 0;
		bpf_probe_read_kernel(&name, sizeof(name), prog->aux->name);
		/* "mpps_gua" */
		if (name == 0x6175675f7370706dULL)
			return 1;
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

/* kfree_skb(skb, location, reason) */
SEC("tp_btf/kfree_skb") int dropped(u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	struct settings *settings_ = settings();
	struct net_device *device;
	struct drops *drops;
	struct named *record;
	u32 reason = PLAN.tells_reason ? (u32)ctx[2] : 0, key = reason < REASONS ? reason : REASONS - 1, cpu, packets;
	int our;

	if (!settings_ || !settings_->process)
		return 0;
	device = skb->dev;
	our = ours(skb, device);
	if (!our && !on_device(device))
		return 0;
	if (reason && reason == PLAN.filtered && guarded(device))
		return 0;
	packets = packets_of(skb);
	drops = bpf_map_lookup_elem(&DROPS, &key);
	if (!drops)
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
	record->record.took = ctx[1];
	record->record.a = skb->skb_iif;
	record->record.b = packets;
	READ_NAME(record->name, device->name);
	SUBMIT(record);
	return 0;
}

/* Run once by the process itself: who it is to the host. */
SEC("raw_tp/self") int self(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct settings *settings_ = settings();
	struct pid *pid = 0;

	(void)ctx;
	if (!settings_)
		return 0;
	bpf_probe_read_kernel(&pid, sizeof(pid), &task->thread_pid);
	bpf_probe_read_kernel(&settings_->level, sizeof(settings_->level), &pid->level);
	settings_->process = bpf_get_current_pid_tgid() >> 32;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
