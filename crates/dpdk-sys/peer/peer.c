/*
 * A plug-in for the environment abstraction layer of any DPDK program (`-d mpps_peer.so`): it puts itself between the
 * program and the burst functions of each port that is started, and counts. `mpps trace peer` loads it and reads what
 * it has written.
 *
 * The program's own inlined rte_eth_rx_burst() and rte_eth_tx_burst() call what stands in rte_eth_fp_ops[port], which
 * is public (ABI of DPDK 21.11 on). A thread looks there every two milliseconds, and exchanges the two functions of a
 * started port for the ones below. Everything goes into one shared file that is mapped: plain stores, no locks, no
 * system call. Its layout is told again, and checked, in crates/trace/src/peer.rs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_version.h>

#define PORTS 32
#define BUCKETS 496
#define HEADER_BYTES 4096
#define CACHE 8

enum kind { RX = 1, EMPTY = 2, TX = 3 };

struct header {
	char magic[8];
	uint32_t version, slots, ring, slot_bytes;
	uint32_t claimed, refused;
	/* Two pairs of the counter and CLOCK_MONOTONIC, ns: at the start, and every two milliseconds since. */
	uint64_t tsc0, ns0, tsc1, ns1;
	uint32_t pid, ports;
	/* What two readings of the counter are apart with nothing between them. */
	uint32_t reading;
	char error[128];
	char dpdk[64];
};

struct record {
	uint64_t start, clocks;
	uint32_t polls;
	uint16_t packets, asked;
	uint32_t kind, pad;
};

/* Context switches of a thread, and its time, ns: on a core, and ready while another thread had it. */
struct scheduled {
	uint64_t voluntary, involuntary, ran, waited;
};

/* What one thread did on one queue of one port. */
struct slot {
	uint32_t used;
	int32_t tid;
	uint16_t port, queue;
	int32_t cpu;
	char thread[16];
	char device[64];
	uint64_t first, last;
	uint64_t rx_polls, rx_empty, rx_packets, rx_clocks, empty_clocks, rx_max, rx_max_at, empty_max, empty_max_at;
	uint64_t tx_calls, tx_asked, tx_packets, tx_clocks, tx_max, tx_max_at;
	uint64_t rest_clocks, rest_max, head;
	/* Polls that gave so many packets; the last: as many or more. */
	uint64_t bursts[64];
	/* Calls by clocks: eight buckets for each power of two. */
	uint64_t rx_hist[BUCKETS], empty_hist[BUCKETS], tx_hist[BUCKETS];
	/* Of the thread, as the kernel counts it: how often it was looked up, and what it was when the slot was made. */
	uint64_t looks;
	struct scheduled since, now;
	char pad[56];
	struct record ring[];
};

_Static_assert(offsetof(struct header, tsc0) == 32 && offsetof(struct header, error) == 76, "layout");
_Static_assert(sizeof(struct header) <= HEADER_BYTES && sizeof(struct record) == 32, "layout");
_Static_assert(offsetof(struct slot, first) == 96 && offsetof(struct slot, bursts) == 256, "layout");
_Static_assert(offsetof(struct slot, rx_hist) == 768 && offsetof(struct slot, ring) == 12800, "layout");
_Static_assert(offsetof(struct slot, looks) == 12672, "layout");

/* Queues of one port that a thread finds at once, and how many there have been: with more, the oldest makes room. */
struct found {
	void *queue[CACHE];
	struct slot *slot[CACHE];
	unsigned count;
};

/* A thread of the program. */
struct self {
	uint64_t before;
	struct slot *at;
	/* Empty polls in a row on `at`, not written yet. */
	uint64_t run_start, run_end;
	uint32_t run_polls;
	int32_t tid;
	struct found rx[PORTS], tx[PORTS];
};

static struct header *head;
static eth_rx_burst_t real_rx[PORTS];
static eth_tx_burst_t real_tx[PORTS];
/* A run of empty polls is written when it is as long as this, clocks. */
static uint64_t longest_run;
static __thread struct self *self __attribute__((tls_model("initial-exec")));

static inline unsigned bucket(uint64_t clocks)
{
	if (clocks < 8)
		return clocks;
	unsigned e = 63 - __builtin_clzll(clocks);
	return ((e - 2) << 3) | ((clocks >> (e - 3)) & 7);
}

static struct slot *slot_at(uint32_t i)
{
	return (struct slot *)((char *)head + HEADER_BYTES + (size_t)i * head->slot_bytes);
}

static int read_scheduled(int32_t tid, struct scheduled *told)
{
	char path[64], line[128];
	int found = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		found += sscanf(line, "voluntary_ctxt_switches: %lu", &told->voluntary) == 1 ||
			 sscanf(line, "nonvoluntary_ctxt_switches: %lu", &told->involuntary) == 1;
	fclose(file);
	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", tid);
	/* A kernel without it has the switches alone. */
	told->ran = told->waited = 0;
	file = fopen(path, "re");
	if (file) {
		if (fscanf(file, "%lu %lu", &told->ran, &told->waited) != 2)
			told->ran = told->waited = 0;
		fclose(file);
	}
	return found == 2;
}

/* Once in a tenth of a second, and at the end. A thread that has ended is what it was when it was seen last. */
static void look_at_threads(void)
{
	uint32_t claimed = __atomic_load_n(&head->claimed, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < RTE_MIN(claimed, head->slots); i++) {
		struct slot *s = slot_at(i);
		struct scheduled now;
		if (__atomic_load_n(&s->used, __ATOMIC_ACQUIRE) && read_scheduled(s->tid, &now)) {
			s->now = now;
			s->looks++;
		}
	}
}

static uint16_t queue_number(uint16_t port, void *queue, int tx)
{
	struct rte_eth_dev_info info;
	memset(&info, 0, sizeof(info));
	if (rte_eth_dev_info_get(port, &info) != 0)
		return UINT16_MAX;
	void **data = tx ? rte_eth_fp_ops[port].txq.data : rte_eth_fp_ops[port].rxq.data;
	uint16_t n = tx ? info.nb_tx_queues : info.nb_rx_queues;
	for (uint16_t i = 0; data && i < n; i++)
		if (data[i] == queue)
			return i;
	return UINT16_MAX;
}

static __attribute__((noinline)) struct slot *find_slot(uint16_t port, void *queue, int tx)
{
	if (!self) {
		self = calloc(1, sizeof(*self));
		if (!self)
			abort();
		self->tid = syscall(SYS_gettid);
	}
	uint16_t number = queue_number(port, queue, tx);
	struct slot *slot = NULL;
	uint32_t claimed = __atomic_load_n(&head->claimed, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < RTE_MIN(claimed, head->slots) && !slot; i++) {
		struct slot *s = slot_at(i);
		if (s->used && s->tid == self->tid && s->port == port && s->queue == number)
			slot = s;
	}
	if (!slot) {
		uint32_t i = __atomic_fetch_add(&head->claimed, 1, __ATOMIC_ACQ_REL);
		if (i < head->slots) {
			slot = slot_at(i);
		} else {
			/* Nobody reads it. */
			__atomic_fetch_add(&head->refused, 1, __ATOMIC_RELAXED);
			slot = calloc(1, head->slot_bytes);
			if (!slot)
				abort();
		}
		slot->tid = self->tid;
		slot->port = port;
		slot->queue = number;
		slot->cpu = sched_getcpu();
		(void)read_scheduled(slot->tid, &slot->since);
		prctl(PR_GET_NAME, slot->thread);
		char name[RTE_ETH_NAME_MAX_LEN] = "";
		if (rte_eth_dev_get_name_by_port(port, name) == 0)
			snprintf(slot->device, sizeof(slot->device), "%.63s", name);
		__atomic_store_n(&slot->used, 1, __ATOMIC_RELEASE);
	}
	struct found *found = tx ? &self->tx[port] : &self->rx[port];
	unsigned place = found->count++ % CACHE;
	found->queue[place] = queue;
	found->slot[place] = slot;
	return slot;
}

/* Finding it anew asks the driver, which takes longer than a poll. A thread has few queues of a port. */
static inline struct slot *slot_of(uint16_t port, void *queue, int tx)
{
	if (likely(self != NULL)) {
		const struct found *found = tx ? &self->tx[port] : &self->rx[port];
		for (unsigned i = 0; i < CACHE; i++)
			if (likely(found->queue[i] == queue))
				return found->slot[i];
	}
	return find_slot(port, queue, tx);
}

static void write_record(struct slot *s, uint64_t start, uint64_t clocks, enum kind kind, uint32_t polls,
			 uint16_t packets, uint16_t asked)
{
	struct record *r = &s->ring[s->head & (head->ring - 1)];
	r->start = start;
	r->clocks = clocks;
	r->polls = polls;
	r->packets = packets;
	r->asked = asked;
	r->kind = kind;
	__atomic_store_n(&s->head, s->head + 1, __ATOMIC_RELEASE);
}

static inline void end_run(struct self *me)
{
	if (me->run_polls) {
		write_record(me->at, me->run_start, me->run_end - me->run_start, EMPTY, me->run_polls, 0, 0);
		me->run_polls = 0;
	}
}

/* The time since the call before belongs to that one's queue. */
static inline void begin(struct self *me, struct slot *s, uint64_t t0)
{
	if (me->at) {
		uint64_t rest = t0 - me->before;
		me->at->rest_clocks += rest;
		if (rest > me->at->rest_max)
			me->at->rest_max = rest;
	}
	if (me->at != s) {
		end_run(me);
		me->at = s;
	}
	if (!s->first)
		s->first = t0;
}

static inline uint16_t rx(uint16_t port, void *queue, struct rte_mbuf **packets, uint16_t asked)
{
	struct slot *s = slot_of(port, queue, 0);
	struct self *me = self;
	uint64_t t0 = rte_rdtsc();
	begin(me, s, t0);
	uint16_t got = real_rx[port](queue, packets, asked);
	uint64_t t1 = rte_rdtsc(), clocks = t1 - t0;
	s->rx_polls++;
	if (got) {
		end_run(me);
		s->rx_packets += got;
		s->rx_clocks += clocks;
		s->bursts[RTE_MIN(got, 63)]++;
		s->rx_hist[bucket(clocks)]++;
		if (clocks > s->rx_max) {
			s->rx_max = clocks;
			s->rx_max_at = t0;
		}
		write_record(s, t0, clocks, RX, 1, got, asked);
	} else {
		s->rx_empty++;
		s->empty_clocks += clocks;
		s->empty_hist[bucket(clocks)]++;
		if (clocks > s->empty_max) {
			s->empty_max = clocks;
			s->empty_max_at = t0;
		}
		if (!me->run_polls)
			me->run_start = t0;
		me->run_end = t1;
		me->run_polls++;
		if (t1 - me->run_start > longest_run)
			end_run(me);
	}
	s->last = t1;
	me->before = t1;
	return got;
}

static inline uint16_t tx(uint16_t port, void *queue, struct rte_mbuf **packets, uint16_t asked)
{
	struct slot *s = slot_of(port, queue, 1);
	struct self *me = self;
	uint64_t t0 = rte_rdtsc();
	begin(me, s, t0);
	uint16_t sent = real_tx[port](queue, packets, asked);
	uint64_t t1 = rte_rdtsc(), clocks = t1 - t0;
	end_run(me);
	s->tx_calls++;
	s->tx_asked += asked;
	s->tx_packets += sent;
	s->tx_clocks += clocks;
	s->tx_hist[bucket(clocks)]++;
	if (clocks > s->tx_max) {
		s->tx_max = clocks;
		s->tx_max_at = t0;
	}
	write_record(s, t0, clocks, TX, 1, sent, asked);
	s->last = t1;
	me->before = t1;
	return sent;
}

/* A burst function knows its queue but not its port: each port has a pair of its own. */
#define PAIR(p) \
	static uint16_t rx_##p(void *q, struct rte_mbuf **m, uint16_t n) { return rx(p, q, m, n); } \
	static uint16_t tx_##p(void *q, struct rte_mbuf **m, uint16_t n) { return tx(p, q, m, n); }
#define EACH(X) \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) \
	X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
EACH(PAIR)
#define RX_OF(p) rx_##p,
#define TX_OF(p) tx_##p,
static const eth_rx_burst_t our_rx[PORTS] = { EACH(RX_OF) };
static const eth_tx_burst_t our_tx[PORTS] = { EACH(TX_OF) };

/* How far the clock of this time namespace is ahead of the host's, which the reader's times are of. */
static int64_t ahead_ns;

static void read_time_namespace(void)
{
	char own[64] = "", children[64] = "";
	/* The file is of the namespace that children start in. */
	if (readlink("/proc/self/ns/time", own, sizeof(own) - 1) <= 0 ||
	    readlink("/proc/self/ns/time_for_children", children, sizeof(children) - 1) <= 0 || strcmp(own, children) != 0)
		return;
	FILE *file = fopen("/proc/self/timens_offsets", "re");
	if (!file)
		return;
	long long s, ns;
	if (fscanf(file, "monotonic %lld %lld", &s, &ns) == 2)
		ahead_ns = s * 1000000000 + ns;
	fclose(file);
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec - ahead_ns;
}

static void pair_of_clocks(uint64_t *tsc, uint64_t *ns)
{
	uint64_t before = rte_rdtsc();
	*ns = now_ns();
	*tsc = before + (rte_rdtsc() - before) / 2;
}

static void exchange(uint16_t port, eth_rx_burst_t idle_rx, eth_tx_burst_t idle_tx)
{
	struct rte_eth_fp_ops *ops = &rte_eth_fp_ops[port];
	eth_rx_burst_t r = __atomic_load_n(&ops->rx_pkt_burst, __ATOMIC_ACQUIRE);
	eth_tx_burst_t t = __atomic_load_n(&ops->tx_pkt_burst, __ATOMIC_ACQUIRE);
	if (r && r != idle_rx && r != our_rx[port]) {
		__atomic_store_n(&real_rx[port], r, __ATOMIC_RELEASE);
		__atomic_store_n(&ops->rx_pkt_burst, our_rx[port], __ATOMIC_RELEASE);
		head->ports |= 1u << port;
	}
	if (t && t != idle_tx && t != our_tx[port]) {
		__atomic_store_n(&real_tx[port], t, __ATOMIC_RELEASE);
		__atomic_store_n(&ops->tx_pkt_burst, our_tx[port], __ATOMIC_RELEASE);
		head->ports |= 1u << port;
	}
}

static void *look(void *unused)
{
	/* The last place has no port: what stands there is what a port that is not started has. */
	eth_rx_burst_t idle_rx = rte_eth_fp_ops[RTE_MAX_ETHPORTS - 1].rx_pkt_burst;
	eth_tx_burst_t idle_tx = rte_eth_fp_ops[RTE_MAX_ETHPORTS - 1].tx_pkt_burst;
	const struct timespec nap = { .tv_nsec = 2000000 };
	(void)unused;
	/* It needs the core for a microsecond only, but then soon: what passes before is not counted. Where that is not
	 * allowed it waits for its turn. */
	(void)setpriority(PRIO_PROCESS, 0, -20);
	for (unsigned turn = 0;; turn++) {
		for (uint16_t port = 0; port < RTE_MIN(PORTS, RTE_MAX_ETHPORTS - 1); port++)
			exchange(port, idle_rx, idle_tx);
		uint64_t tsc, ns;
		pair_of_clocks(&tsc, &ns);
		head->tsc1 = tsc;
		head->ns1 = ns;
		longest_run = (tsc - head->tsc0) / ((ns - head->ns0) / 1000000 + 1);
		if (turn % 50 == 0)
			look_at_threads();
		nanosleep(&nap, NULL);
	}
	return NULL;
}

__attribute__((destructor)) static void unload(void)
{
	if (head && head->pid == (uint32_t)getpid())
		look_at_threads();
}

__attribute__((constructor)) static void load(void)
{
	const char *path = getenv("MPPS_PEER_FILE");
	if (!path)
		return;
	struct stat st;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) != 0 || st.st_size < HEADER_BYTES) {
		fprintf(stderr, "mpps_peer: %s: no file of mpps trace peer\n", path);
		return;
	}
	void *base = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (base == MAP_FAILED) {
		fprintf(stderr, "mpps_peer: map %s: %m\n", path);
		return;
	}
	head = base;
	uint64_t need = HEADER_BYTES + (uint64_t)head->slots * head->slot_bytes;
	uint64_t slot_need = sizeof(struct slot) + (uint64_t)head->ring * sizeof(struct record);
	if (memcmp(head->magic, "MPPSPEER", 8) != 0 || head->version != 2 || need > (uint64_t)st.st_size ||
	    head->slot_bytes < slot_need || head->ring == 0 || (head->ring & (head->ring - 1))) {
		fprintf(stderr, "mpps_peer: %s: not of this version\n", path);
		return;
	}
	/* A child of the program has none of its ports. */
	if (head->pid)
		return;
	head->pid = getpid();
	snprintf(head->dpdk, sizeof(head->dpdk), "%s", rte_version());
	unsigned year = 0;
	if (sscanf(head->dpdk, "DPDK %u", &year) != 1 || year != RTE_VER_YEAR) {
		snprintf(head->error, sizeof(head->error), "the program has %.40s, the plug-in was built with DPDK %u.%02u",
			 head->dpdk, RTE_VER_YEAR, RTE_VER_MONTH);
		return;
	}
	uint32_t least = UINT32_MAX;
	for (int i = 0; i < 1000; i++) {
		uint64_t t0 = rte_rdtsc(), t1 = rte_rdtsc();
		least = RTE_MIN(least, (uint32_t)(t1 - t0));
	}
	head->reading = least;
	read_time_namespace();
	pair_of_clocks(&head->tsc0, &head->ns0);
	longest_run = UINT64_MAX;
	/* Signals are the program's own threads' to take. */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_t thread;
	int failed = pthread_create(&thread, NULL, look, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failed) {
		snprintf(head->error, sizeof(head->error), "start the thread that looks for ports: %s", strerror(failed));
		return;
	}
	pthread_setname_np(thread, "mpps-peer");
	pthread_detach(thread);
}
