/* Bursts over a memif whose other end is not trusted.
 *
 * Every descriptor is read once, into registers, and looked at there: the other end may change it at any time. Region,
 * offset and length must lie in the memory that was mapped; ring positions are ours, and the other end's must lie
 * within a ring of ours. The first that does not ends the run, with what it did. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_memcpy.h>

#include "memif.h"
#include "mpps_dpdk.h"

pthread_mutex_t memif_lock = PTHREAD_MUTEX_INITIALIZER;

static struct memif_port *ports[RTE_MAX_ETHPORTS];

struct memif_port *
memif_port_of(const char *path, uint32_t id, bool server)
{
	for (unsigned int i = 0; i < RTE_MAX_ETHPORTS; i++) {
		struct memif_port *port = ports[i];
		if (port != NULL && port->id == id && port->server == server && strcmp(port->path, path) == 0)
			return port;
	}
	return NULL;
}

bool
memif_serves(const char *path)
{
	for (unsigned int i = 0; i < RTE_MAX_ETHPORTS; i++)
		if (ports[i] != NULL && ports[i]->server && strcmp(ports[i]->path, path) == 0)
			return true;
	return false;
}

void
memif_fault(struct memif_port *port, const char *what)
{
	const char *none = NULL;

	atomic_compare_exchange_strong(&port->fault, &none, what);
}

struct memif_link *
memif_link_new(void)
{
	struct memif_link *link = calloc(1, sizeof(*link));

	if (link == NULL)
		return NULL;
	link->holders = 1;
	for (unsigned int kind = 0; kind < 2; kind++)
		for (unsigned int i = 0; i < MEMIF_RINGS; i++)
			link->ring[kind][i].event = -1;
	return link;
}

void
memif_link_release(struct memif_link *link)
{
	if (link == NULL || --link->holders > 0)
		return;
	for (unsigned int i = 0; i < link->regions; i++) {
		memif_unwatch(link->region[i].base);
		munmap(link->region[i].base, link->region[i].mapped);
	}
	for (unsigned int kind = 0; kind < 2; kind++)
		for (unsigned int i = 0; i < MEMIF_RINGS; i++)
			if (link->ring[kind][i].event >= 0)
				close(link->ring[kind][i].event);
	free(link);
}

/* Regions that the driver has, by their addresses. The driver has those of one connection a port. */
static struct lent {
	struct memif_link *link;	/* NULL: free */
	void *base;
} lents[4 * MEMIF_REGIONS];

void *
memif_lend(struct memif_link *link, unsigned int region)
{
	for (unsigned int i = 0; i < sizeof(lents) / sizeof(lents[0]); i++)
		if (lents[i].link == NULL) {
			lents[i] = (struct lent){ link, link->region[region].base };
			link->holders++;
			return lents[i].base;
		}
	return MAP_FAILED;
}

bool
memif_lent_back(void *base)
{
	for (unsigned int i = 0; i < sizeof(lents) / sizeof(lents[0]); i++)
		if (lents[i].link != NULL && lents[i].base == base) {
			struct memif_link *link = lents[i].link;
			lents[i].link = NULL;
			memif_link_release(link);
			return true;
		}
	return false;
}

int
mpps_memif_open(uint16_t id, const struct mpps_memif_conf *conf, struct rte_mempool **rx_pools)
{
	struct memif_port *port = calloc(1, sizeof(*port));
	int wakes = 0;

	if (port == NULL || strlen(conf->path) >= sizeof(port->path))
		goto failed;
	strcpy(port->path, conf->path);
	port->id = conf->id;
	port->server = conf->server;
	port->memory_left = conf->memory_left;
	port->memory_first = conf->memory_left();
	port->buffer = conf->buffer;
	port->rx_queues = conf->rx_queues;
	port->tx_queues = conf->tx_queues;
	port->rx = aligned_alloc(128, sizeof(struct memif_lane) * (size_t)(conf->rx_queues + 1));
	port->tx = aligned_alloc(128, sizeof(struct memif_lane) * (size_t)(conf->tx_queues + 1));
	if (port->rx == NULL || port->tx == NULL)
		goto failed;
	memset(port->rx, 0, sizeof(struct memif_lane) * conf->rx_queues);
	memset(port->tx, 0, sizeof(struct memif_lane) * conf->tx_queues);
	for (uint16_t i = 0; i < conf->rx_queues; i++)
		port->rx[i].pool = rx_pools[i];
	/* Most readers poll, so a port goes without. */
	for (uint16_t i = 0; i < conf->tx_queues; i++) {
		int error = memif_wake_begin(&port->tx[i].wakes);
		if (error != 0)
			wakes = -error;
	}
	pthread_mutex_lock(&memif_lock);
	ports[id] = port;
	pthread_mutex_unlock(&memif_lock);
	return wakes;
failed:
	if (port != NULL) {
		free(port->rx);
		free(port->tx);
	}
	free(port);
	return -ENOMEM;
}

void
mpps_memif_close(uint16_t id)
{
	struct memif_port *port;

	pthread_mutex_lock(&memif_lock);
	port = ports[id];
	ports[id] = NULL;
	if (port != NULL) {
		for (uint16_t i = 0; i < port->rx_queues; i++)
			memif_link_release(port->rx[i].held);
		for (uint16_t i = 0; i < port->tx_queues; i++) {
			memif_link_release(port->tx[i].held);
			memif_wake_end(port->tx[i].wakes);
		}
		memif_link_release(atomic_exchange(&port->link, NULL));
	}
	pthread_mutex_unlock(&memif_lock);
	memif_end_sources();
	/* The port itself stays: a connection of another port may name it. There are one or two a process. */
}

const char *
mpps_memif_fault(uint16_t id)
{
	return ports[id] != NULL ? atomic_load(&ports[id]->fault) : NULL;
}

uint64_t
mpps_memif_refused(uint16_t id, const char **why)
{
	if (ports[id] == NULL)
		return 0;
	*why = atomic_load(&ports[id]->refusal);
	return atomic_load(&ports[id]->refused);
}

/* Takes up the connection that there is now, or lets go of one that has ended. False: there is none. */
static __rte_noinline bool
attach(uint16_t id, struct memif_port *port, struct memif_lane *lane, uint16_t queue, unsigned int kind, bool reads)
{
	struct rte_eth_link up = { 0 };

	pthread_mutex_lock(&memif_lock);
	struct memif_link *link = atomic_load(&port->link);
	if (lane->held != link) {
		memif_link_release(lane->held);
		lane->held = NULL;
	}
	/* The driver writes to the rings before it says that the link is up, and never after. */
	if (link != NULL && lane->held == NULL && rte_eth_link_get_nowait(id, &up) == 0 && up.link_status) {
		const struct memif_ring_place *place = &link->ring[kind][queue];
		link->holders++;
		lane->held = link;
		lane->at = 0;
		lane->ring = NULL;
		lane->event = place->event;
		if (place->set) {
			lane->size = (uint16_t)(1u << place->log2);
			lane->mask = (uint16_t)(lane->size - 1);
			lane->ring = (struct memif_shared_ring *)(link->region[place->region].base + place->offset);
			/* A client offers its buffers first. */
			if (reads && kind == MEMIF_S2C) {
				for (uint16_t i = 0; i < lane->size; i++)
					((_Atomic uint32_t *)&lane->ring->desc[i][0])[1] = port->buffer;
				atomic_store_explicit(&lane->ring->head, lane->size, memory_order_release);
			}
		}
	}
	bool have = lane->held != NULL && lane->ring != NULL;
	pthread_mutex_unlock(&memif_lock);
	return have;
}

/* Whether the lane has the connection that there is. */
static inline bool
ready(uint16_t id, struct memif_port *port, struct memif_lane *lane, uint16_t queue, unsigned int kind, bool reads)
{
	struct memif_link *link = atomic_load_explicit(&port->link, memory_order_acquire);

	if (likely(link != NULL && link == lane->held))
		return lane->ring != NULL && atomic_load_explicit(&port->fault, memory_order_relaxed) == NULL;
	if (link == NULL && lane->held == NULL)
		return false;
	return attach(id, port, lane, queue, kind, reads) && atomic_load(&port->fault) == NULL;
}

/* A descriptor as it was at one moment. */
struct desc {
	uint16_t flags, region;
	uint32_t length, offset;
};

static inline struct desc
look(struct memif_shared_ring *ring, uint16_t slot)
{
	uint64_t first = atomic_load_explicit(&ring->desc[slot][0], memory_order_relaxed);
	uint64_t second = atomic_load_explicit(&ring->desc[slot][1], memory_order_relaxed);

	return (struct desc){ (uint16_t)first, (uint16_t)(first >> 16), (uint32_t)(first >> 32), (uint32_t)second };
}

/* The bytes that it means; NULL where they are not all in a region. */
static inline uint8_t *
memory(const struct memif_link *link, const struct desc *d, uint32_t length)
{
	if (unlikely(d->region >= link->regions))
		return NULL;
	const struct memif_region *region = &link->region[d->region];
	if (unlikely((uint64_t)d->offset + length > region->size))
		return NULL;
	return region->base + d->offset;
}

static const char OUTSIDE[] = "it named memory outside its regions";
static const char WILD[] = "it moved a ring's position further than the ring is long";
static const char ENDLESS[] = "a packet of its never ends";
static const char LONG[] = "a packet of its is longer than any can be";

static inline void
fresh(struct rte_mbuf *m, uint16_t port, uint16_t len)
{
	m->data_off = RTE_PKTMBUF_HEADROOM;
	m->ol_flags = 0;
	m->port = port;
	m->packet_type = 0;
	m->data_len = len;
	m->pkt_len = len;
}

/* A packet over several descriptors, or longer than a buffer. Returns how many descriptors it took, of `avail`; 0:
 * there is no buffer for it, and it stays; negative: a fault. */
static __rte_noinline int
gather(uint16_t id, struct memif_port *port, struct memif_lane *lane, struct rte_mbuf *head, uint16_t avail)
{
	uint16_t room = rte_pktmbuf_data_room_size(lane->pool) - RTE_PKTMBUF_HEADROOM;
	struct rte_mbuf *last = head;
	uint16_t used = 0;
	struct desc d;

	fresh(head, id, 0);
	do {
		if (used == avail) {
			memif_fault(port, ENDLESS);
			goto undo;
		}
		d = look(lane->ring, (uint16_t)(lane->at + used++) & lane->mask);
		const uint8_t *from = memory(lane->held, &d, d.length);
		if (from == NULL) {
			memif_fault(port, OUTSIDE);
			goto undo;
		}
		/* Else a packet larger than the mempool would be tried for ever. */
		if ((uint64_t)head->pkt_len + d.length > UINT16_MAX) {
			memif_fault(port, LONG);
			goto undo;
		}
		for (uint32_t left = d.length; left > 0;) {
			if (last->data_len == room) {
				struct rte_mbuf *more = head->nb_segs < RTE_MBUF_MAX_NB_SEGS ? rte_pktmbuf_alloc(lane->pool)
											    : NULL;
				if (more == NULL)
					goto no_room;
				fresh(more, id, 0);
				last->next = more;
				last = more;
				head->nb_segs++;
			}
			uint16_t take = (uint16_t)RTE_MIN(left, (uint32_t)(room - last->data_len));
			rte_memcpy(rte_pktmbuf_mtod_offset(last, uint8_t *, last->data_len), from, take);
			last->data_len += take;
			head->pkt_len += take;
			from += take;
			left -= take;
		}
	} while (d.flags & MEMIF_NEXT);
	return used;
no_room:
	used = 0;
undo:
	if (head->next != NULL) {
		rte_pktmbuf_free(head->next);
		head->next = NULL;
	}
	head->nb_segs = 1;
	return atomic_load(&port->fault) != NULL ? -1 : 0;
}

uint16_t
mpps_memif_rx(uint16_t id, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	struct memif_port *port = ports[id];
	struct memif_lane *lane = &port->rx[queue];
	const unsigned int kind = port->server ? MEMIF_C2S : MEMIF_S2C;

	if (unlikely(!ready(id, port, lane, queue, kind, true)))
		return 0;
	struct memif_shared_ring *ring = lane->ring;
	uint16_t end = atomic_load_explicit(kind == MEMIF_C2S ? &ring->head : &ring->tail, memory_order_acquire);
	uint16_t avail = (uint16_t)(end - lane->at);
	if (avail == 0)
		return 0;
	if (unlikely(avail > lane->size)) {
		memif_fault(port, WILD);
		return 0;
	}
	n = mpps_alloc_bulk(lane->pool, mbufs, RTE_MIN(n, avail));

	const uint16_t room = rte_pktmbuf_data_room_size(lane->pool) - RTE_PKTMBUF_HEADROOM;
	const uint16_t begun = lane->at;
	uint16_t got = 0;
	while (got < n && avail > 0) {
		struct desc d = look(ring, lane->at & lane->mask);
		struct rte_mbuf *m = mbufs[got];
		if (likely(!(d.flags & MEMIF_NEXT) && d.length <= room)) {
			const uint8_t *from = memory(lane->held, &d, d.length);
			if (unlikely(from == NULL)) {
				memif_fault(port, OUTSIDE);
				break;
			}
			fresh(m, id, (uint16_t)d.length);
			rte_memcpy(rte_pktmbuf_mtod(m, void *), from, d.length);
			lane->at++;
			avail--;
		} else {
			int used = gather(id, port, lane, m, avail);
			if (used <= 0)
				break;
			lane->at += (uint16_t)used;
			avail -= (uint16_t)used;
			if (m->nb_segs > 1)
				(void)rte_pktmbuf_linearize(m);
		}
		got++;
	}
	if (unlikely(got < n))
		rte_pktmbuf_free_bulk(mbufs + got, n - got);
	if (kind == MEMIF_C2S) {
		atomic_store_explicit(&ring->tail, lane->at, memory_order_release);
	} else {
		for (uint16_t slot = begun; slot != lane->at; slot++)
			atomic_store_explicit((_Atomic uint32_t *)&ring->desc[slot & lane->mask][0] + 1, port->buffer,
					      memory_order_relaxed);
		atomic_store_explicit(&ring->head, (uint16_t)(lane->at + lane->size), memory_order_release);
	}
	return got;
}

static inline void
write_desc(struct memif_shared_ring *ring, uint16_t slot, uint16_t flags, uint16_t region, uint32_t length)
{
	atomic_store_explicit(&ring->desc[slot][0], (uint64_t)flags | (uint64_t)region << 16 | (uint64_t)length << 32,
			      memory_order_relaxed);
}

/* A packet of several segments, or longer than a buffer of the ring. Returns how many of `free` descriptors it took; 0:
 * they are too few; negative: a fault. */
static __rte_noinline int
scatter(struct memif_port *port, struct memif_lane *lane, struct rte_mbuf *m, uint16_t free)
{
	uint16_t used = 0, segments = m->nb_segs, from = 0;
	uint32_t left = m->pkt_len;

	do {
		if (used == free)
			return 0;
		uint16_t slot = (uint16_t)(lane->at + used++) & lane->mask;
		struct desc d = look(lane->ring, slot);
		uint32_t room = port->server ? d.length : port->buffer, done = 0;
		uint8_t *to = memory(lane->held, &d, room);
		if (to == NULL) {
			memif_fault(port, OUTSIDE);
			return -1;
		}
		while (done < room && left > 0) {
			if (from == m->data_len) {
				if (--segments == 0) {
					left = 0;
					break;
				}
				m = m->next;
				from = 0;
				continue;
			}
			uint32_t take = RTE_MIN(room - done, (uint32_t)(m->data_len - from));
			rte_memcpy(to + done, rte_pktmbuf_mtod_offset(m, uint8_t *, from), take);
			done += take;
			from += (uint16_t)take;
			left -= take;
		}
		write_desc(lane->ring, slot, left > 0 ? MEMIF_NEXT : 0, d.region, done);
	} while (left > 0);
	return used;
}

/* A reader that sleeps is woken. */
static __rte_noinline void
wake(const struct memif_lane *lane)
{
	if (lane->event >= 0)
		memif_wake(lane->wakes, lane->event);
}

uint16_t
mpps_memif_tx(uint16_t id, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n, uint64_t *refused)
{
	struct memif_port *port = ports[id];
	struct memif_lane *lane = &port->tx[queue];
	const unsigned int kind = port->server ? MEMIF_S2C : MEMIF_C2S;

	if (unlikely(!ready(id, port, lane, queue, kind, false)))
		return 0;
	struct memif_shared_ring *ring = lane->ring;
	uint16_t free;
	if (kind == MEMIF_S2C) {
		free = (uint16_t)(atomic_load_explicit(&ring->head, memory_order_acquire) - lane->at);
	} else {
		uint16_t filled = (uint16_t)(lane->at - atomic_load_explicit(&ring->tail, memory_order_acquire));
		free = (uint16_t)(lane->size - filled);
	}
	if (unlikely(free > lane->size)) {
		memif_fault(port, WILD);
		return 0;
	}

	uint16_t sent = 0;
	while (sent < n && free > 0) {
		struct rte_mbuf *m = mbufs[sent];
		uint16_t slot = lane->at & lane->mask;
		struct desc d = look(ring, slot);
		uint32_t room = kind == MEMIF_S2C ? d.length : port->buffer;
		if (likely(m->nb_segs == 1 && m->data_len <= room)) {
			uint8_t *to = memory(lane->held, &d, m->data_len);
			if (unlikely(to == NULL)) {
				memif_fault(port, OUTSIDE);
				break;
			}
			rte_memcpy(to, rte_pktmbuf_mtod(m, const void *), m->data_len);
			write_desc(ring, slot, 0, d.region, m->data_len);
			lane->at++;
			free--;
		} else {
			int used = scatter(port, lane, m, free);
			if (used < 0)
				break;
			if (used == 0) {
				/* With the whole ring free it never will fit. */
				if (free < lane->size)
					break;
				*refused += 1;
			}
			lane->at += (uint16_t)used;
			free -= (uint16_t)used;
		}
		sent++;
	}
	if (likely(sent > 0)) {
		atomic_store_explicit(kind == MEMIF_S2C ? &ring->tail : &ring->head, lane->at, memory_order_release);
		if (unlikely(!(atomic_load_explicit(&ring->flags, memory_order_relaxed) & MEMIF_MASK_INT)))
			wake(lane);
		mpps_free_bulk(mbufs[0]->pool, mbufs, sent);
	}
	return sent;
}
