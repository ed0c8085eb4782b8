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
#include "drops.h"

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

/* A thread's number as this process counts threads, in the host's pid namespace or in another. */
INLINE s32 number_of(struct task_struct *task, const struct settings *settings)
{
	struct pid_namespace *space = 0;
	s32 number = task->pid;
	struct pid *pid;
	void *numbers;
	u32 inum = 0;

	/* The idle task has no number anywhere. */
	if (!settings->level || !number)
		return number;
	pid = task->thread_pid;
	numbers = (void *)&pid->numbers + settings->level * sizeof(struct upid);
	if (pid->level >= settings->level) {
		bpf_probe_read_kernel(&space, sizeof(space), numbers + __builtin_offsetof(struct upid, ns));
		bpf_probe_read_kernel(&inum, sizeof(inum), &space->ns.inum);
	}
	if (!inum || inum != settings->space)
		return number + OF_HOST;
	bpf_probe_read_kernel(&number, sizeof(number), numbers);
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
	left = number_of(prev, settings_);
	came = number_of(next, settings_);
	state = ctx[0] & 1 ? 0 : state_of(ctx, prev);
	own = prev->tgid == settings_->process && left;
	if (own)
		lane = lane_of(left);
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
		lane->resumed = 0;
	}

	own = next->tgid == settings_->process && came;
	lane = own ? lane_of(came) : 0;
	if (lane) {
		waits_no_more(lane);
		core->busy = (lane->number & (LANES - 1)) + 1;
		if (lane->stopped) {
			struct row *row = row_for(core, cpu, STOPPED, came);

			/* From then on it has waited for its core like any other. */
			if (row)
				add(row, lane->stopped, less(lane->resumed ? lane->resumed : now, lane->stopped));
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
	number = number_of(task, settings_);
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
	u64 now;
	u32 cpu;

	if (!settings_ || !settings_->process || task->tgid != settings_->process)
		return 0;
	cpu = target_of(task);
	core = core_of(cpu);
	if (!core)
		return 0;
	lane = lane_of(number_of(task, settings_));
	if (!lane || core->busy == lane->number + 1)
		return 0;
	now = bpf_ktime_get_ns();
	if (lane->stopped)
		lane->resumed = now;
	waits(core, cpu, lane, now);
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
	lane = lane_of(number_of(task, settings_));
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
 * an interrupt, at whose end the others run. There is one for each burst: where they are many, looking at each costs
 * the lane more than is learnt, and the process takes these two programs away (`Watch::poll`).
 */
SEC("tp_btf/softirq_entry") int soft_begins(u64 *ctx)
{
	struct core *core = core_of(bpf_get_smp_processor_id());
	u32 vector = ctx[0];

	if (core && core->busy && (vector == NET_TX || vector == NET_RX)) {
		if (!core->over_at || bpf_ktime_get_ns() - core->over_at > SOON_NS) {
			core->over_at = 0;
			core->soft_called++;
			return 0;
		}
	}
	if (core) {
		/* Of a lane that waits for its core they take nothing: they are within another's visit. */
		if (core->busy)
			core->soft_others++;
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
	number = number_of(bpf_get_current_task_btf(), settings_);
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

/* Run once by the process itself: who it is to the host. */
SEC("raw_tp/self") int self(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct settings *settings_ = settings();
	struct pid_namespace *space = 0;
	struct pid *pid = 0;
	void *numbers;

	(void)ctx;
	if (!settings_)
		return 0;
	bpf_probe_read_kernel(&pid, sizeof(pid), &task->thread_pid);
	bpf_probe_read_kernel(&settings_->level, sizeof(settings_->level), &pid->level);
	numbers = (void *)&pid->numbers + settings_->level * sizeof(struct upid);
	bpf_probe_read_kernel(&space, sizeof(space), numbers + __builtin_offsetof(struct upid, ns));
	bpf_probe_read_kernel(&settings_->space, sizeof(settings_->space), &space->ns.inum);
	settings_->process = bpf_get_current_pid_tgid() >> 32;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
