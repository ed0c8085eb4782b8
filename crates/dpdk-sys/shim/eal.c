/* The environment: starting and ending DPDK, what it logs, packet memory. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "mpps_dpdk.h"

/* What rte_errno says; something, where it says nothing. */
static int
failure(void)
{
	return rte_errno != 0 ? -rte_errno : -EINVAL;
}

/* What DPDK logs is kept, not printed: it is told with the error that it explains. */
static struct {
	pthread_mutex_t lock;
	char text[8192];
	size_t len;
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

static ssize_t
keep(void *cookie, const char *text, size_t size)
{
	(void)cookie;
	pthread_mutex_lock(&kept.lock);
	size_t from = size > sizeof(kept.text) ? size - sizeof(kept.text) : 0;
	size_t n = size - from;
	if (kept.len + n > sizeof(kept.text)) {
		size_t drop = kept.len + n - sizeof(kept.text);
		memmove(kept.text, kept.text + drop, kept.len - drop);
		kept.len -= drop;
	}
	memcpy(kept.text + kept.len, text + from, n);
	kept.len += n;
	pthread_mutex_unlock(&kept.lock);
	return (ssize_t)size;
}

size_t
mpps_log_take(char *text, size_t size)
{
	pthread_mutex_lock(&kept.lock);
	size_t n = kept.len < size ? kept.len : size;
	memcpy(text, kept.text + kept.len - n, n);
	kept.len = 0;
	pthread_mutex_unlock(&kept.lock);
	return n;
}

static int
keep_print(int level, const char *format, va_list args)
{
	char line[512];
	int n;

	/* 0: a warning, the lowest of libbpf's and of libxdp's levels; above are information and debugging. */
	if (level > 0)
		return 0;
	n = vsnprintf(line, sizeof(line), format, args);
	if (n > 0)
		keep(NULL, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
	return n;
}

/* net_af_xdp brings libraries that print by themselves. They are there if its plugin was loaded, and not linked to. */
static void
keep_prints_of(const char *library, const char *setter)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
	void *symbol = handle != NULL ? dlsym(handle, setter) : NULL;
	void *(*set)(int (*)(int, const char *, va_list));

	if (symbol != NULL) {
		memcpy(&set, &symbol, sizeof(set));
		set(keep_print);
	}
}

static FILE *
tmpfile_in_memory(void)
{
	int fd = memfd_create("mpps", MFD_CLOEXEC);
	FILE *file = fd >= 0 ? fdopen(fd, "w+") : NULL;

	if (file == NULL && fd >= 0)
		close(fd);
	return file;
}

/* The EAL answers a wrong argument with some hundred lines of usage, whatever its log is set to. */
struct silence {
	int out, err;
	FILE *text;
};

static void
silence_begin(struct silence *s)
{
	fflush(NULL);
	s->text = tmpfile_in_memory();
	if (s->text == NULL)
		return;
	s->out = dup(STDOUT_FILENO);
	s->err = dup(STDERR_FILENO);
	if (s->out >= 0 && s->err >= 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		if (null >= 0) {
			dup2(null, STDOUT_FILENO);
			close(null);
		}
		dup2(fileno(s->text), STDERR_FILENO);
	}
}

/* What was said as an error is kept with the log. */
static void
silence_end(struct silence *s)
{
	char line[512];

	if (s->text == NULL)
		return;
	fflush(NULL);
	if (s->out >= 0 && s->err >= 0) {
		dup2(s->out, STDOUT_FILENO);
		dup2(s->err, STDERR_FILENO);
	}
	if (s->out >= 0)
		close(s->out);
	if (s->err >= 0)
		close(s->err);
	rewind(s->text);
	while (fgets(line, sizeof(line), s->text) != NULL)
		keep(NULL, line, strlen(line));
	fclose(s->text);
}

/* Drivers that want to hear of packets by a signal (net_tap: one for each) take a real-time signal to the process. Its
 * first thread would get all of them, and a sleep that is broken off thousands of times a second ends late or never
 * where a lane holds the core. The EAL's own threads were made before: theirs to take. Ours inherit this, and so do
 * threads that drivers make later (net_vhost). The highest of them stays: by it threads give up their privileges. */
static void
leave_signals_to_eal(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	for (int number = SIGRTMIN; number < SIGRTMAX; number++)
		sigaddset(&signals, number);
	(void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

int
mpps_eal_init(int argc, char **argv, int keep_log)
{
	int result;
	if (keep_log) {
		FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = keep });
		if (stream != NULL) {
			setvbuf(stream, NULL, _IOLBF, 1024);
			rte_openlog_stream(stream);
		}
	}
	struct silence silence = { -1, -1, NULL };

	if (keep_log)
		silence_begin(&silence);
	result = rte_eal_init(argc, argv) < 0 ? failure() : 0;
	silence_end(&silence);
	if (result < 0)
		return result;
	if (keep_log) {
		keep_prints_of("libbpf.so.1", "libbpf_set_print");
		keep_prints_of("libxdp.so.1", "libxdp_set_print");
	}
	leave_signals_to_eal();
	/* Ours by its name, unless the user gave one, and empty without shared configuration. What is not empty stays. */
	(void)rmdir(rte_eal_get_runtime_dir());
	return 0;
}

int
mpps_eal_cleanup(void)
{
	/* It unmaps what the interrupt thread would walk over. */
	return mpps_intr_end() ? rte_eal_cleanup() : -EBUSY;
}

int
mpps_probe(const char *devargs)
{
	return rte_dev_probe(devargs);
}

int
mpps_unplug(const char *name)
{
	return mpps_intr_lost() ? -EBUSY : rte_eal_hotplug_remove("vdev", name);
}

int
mpps_thread_register(void)
{
	/* The main thread of a program that opened the port itself has its lcore id already. */
	if (rte_lcore_id() != LCORE_ID_ANY)
		return 0;
	return rte_thread_register() < 0 ? failure() : 1;
}

void
mpps_thread_unregister(void)
{
	rte_thread_unregister();
}

struct rte_mempool *
mpps_pool_create(const char *name, uint32_t mbufs, uint16_t data_room, int socket, int *error)
{
	unsigned int cache = RTE_MEMPOOL_CACHE_MAX_SIZE;
	struct rte_mempool *pool;

	/* The cache may hold half as much again; a pool must not disappear in it. */
	if (mbufs < 4 * cache)
		cache = mbufs / 4;
	pool = rte_pktmbuf_pool_create(name, mbufs, cache, 0, (uint16_t)(data_room + RTE_PKTMBUF_HEADROOM), socket);
	if (pool == NULL && socket != SOCKET_ID_ANY)
		pool = rte_pktmbuf_pool_create(name, mbufs, cache, 0, (uint16_t)(data_room + RTE_PKTMBUF_HEADROOM),
					       SOCKET_ID_ANY);
	*error = pool == NULL ? failure() : 0;
	return pool;
}

struct content {
	const uint8_t *bytes;
	uint16_t len;
};

static void
fill(struct rte_mempool *pool, void *opaque, void *object, unsigned int index)
{
	const struct content *content = opaque;
	struct rte_mbuf *m = object;
	(void)pool;
	(void)index;
	if (content->len <= m->buf_len - RTE_PKTMBUF_HEADROOM)
		memcpy((uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM, content->bytes, content->len);
}

void
mpps_pool_fill(struct rte_mempool *pool, const uint8_t *bytes, uint16_t len)
{
	struct content content = { bytes, len };
	rte_mempool_obj_iter(pool, fill, &content);
}

void
mpps_pool_free(struct rte_mempool *pool)
{
	if (!mpps_intr_lost())
		rte_mempool_free(pool);
}
