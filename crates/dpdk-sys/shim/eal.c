/* The environment: starting and ending DPDK, what it logs, packet memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "mpps_dpdk.h"

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

int
mpps_eal_init(int argc, char **argv, int keep_log)
{
	if (keep_log) {
		FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = keep });
		if (stream != NULL) {
			setvbuf(stream, NULL, _IOLBF, 1024);
			rte_openlog_stream(stream);
		}
	}
	if (rte_eal_init(argc, argv) < 0)
		return -rte_errno;
	/* Without shared configuration nothing is ever put there. Where something is, it stays. */
	(void)rmdir(rte_eal_get_runtime_dir());
	return 0;
}

int
mpps_eal_cleanup(void)
{
	return rte_eal_cleanup();
}

int
mpps_probe(const char *devargs)
{
	return rte_dev_probe(devargs);
}

int
mpps_unplug(const char *name)
{
	return rte_eal_hotplug_remove("vdev", name);
}

int
mpps_thread_register(void)
{
	/* The main thread of a program that opened the port itself has its lcore id already. */
	if (rte_lcore_id() != LCORE_ID_ANY)
		return 0;
	return rte_thread_register() < 0 ? -rte_errno : 1;
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
	*error = pool == NULL ? -rte_errno : 0;
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

uint32_t
mpps_pool_in_use(struct rte_mempool *pool)
{
	return rte_mempool_in_use_count(pool);
}

void
mpps_pool_free(struct rte_mempool *pool)
{
	rte_mempool_free(pool);
}
