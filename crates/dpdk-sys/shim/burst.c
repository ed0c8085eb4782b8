/* The packet path: one call per burst. */
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <string.h>

#include "mpps_dpdk.h"

#define AT(field, offset) _Static_assert(offsetof(struct rte_mbuf, field) == (offset), "rte_mbuf." #field " has moved")
AT(buf_addr, MPPS_MBUF_BUF_ADDR);
AT(data_off, MPPS_MBUF_DATA_OFF);
AT(refcnt, MPPS_MBUF_REFCNT);
AT(nb_segs, MPPS_MBUF_NB_SEGS);
AT(port, MPPS_MBUF_PORT);
AT(ol_flags, MPPS_MBUF_OL_FLAGS);
AT(pkt_len, MPPS_MBUF_PKT_LEN);
AT(data_len, MPPS_MBUF_DATA_LEN);
AT(buf_len, MPPS_MBUF_BUF_LEN);
AT(pool, MPPS_MBUF_POOL);
_Static_assert(sizeof(struct rte_mbuf) == MPPS_MBUF_SIZE, "rte_mbuf has grown");
/* The flags that Rust reads and writes (src/mbuf.rs). */
_Static_assert(RTE_MBUF_F_RX_L4_CKSUM_MASK == ((1ULL << 3) | (1ULL << 8)), "RX checksum flags have moved");
_Static_assert(RTE_MBUF_F_RX_L4_CKSUM_GOOD == (1ULL << 8), "RX checksum flags have moved");
_Static_assert(RTE_MBUF_F_RX_L4_CKSUM_NONE == ((1ULL << 3) | (1ULL << 8)), "RX checksum flags have moved");
_Static_assert(RTE_MBUF_F_TX_UDP_CKSUM == (3ULL << 52), "TX checksum flags have moved");

/* A frame is one piece of memory to everyone above. What does not fit into its first segment stays as it is, and its
 * frame says that it was cut. */
static __rte_noinline void
flatten(struct rte_mbuf **mbufs, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++)
		if (mbufs[i]->nb_segs > 1)
			(void)rte_pktmbuf_linearize(mbufs[i]);
}

uint16_t
mpps_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	uint16_t got = rte_eth_rx_burst(port, queue, mbufs, n);
	unsigned int segments = 1;

	for (uint16_t i = 0; i < got; i++)
		segments |= mbufs[i]->nb_segs;
	if (unlikely(segments != 1))
		flatten(mbufs, got);
	return got;
}

/* For drivers whose bursts need nothing done. What else rte_eth_rx_burst would do is left out: callbacks on queues,
 * which only this process could add, and it adds none, trace points, and the checks of debug builds. */
struct mpps_entry
mpps_rx_entry(uint16_t port)
{
	struct rte_eth_fp_ops *ops = &rte_eth_fp_ops[port];

	return (struct mpps_entry){ .function = &ops->rx_pkt_burst, .queues = &ops->rxq.data };
}

int
mpps_rx_fill(uint16_t port, uint16_t queue)
{
	return rte_eth_rx_queue_count(port, queue);
}

struct mpps_entry
mpps_tx_entry(uint16_t port)
{
	struct rte_eth_fp_ops *ops = &rte_eth_fp_ops[port];

	return (struct mpps_entry){ .function = &ops->tx_pkt_burst, .queues = &ops->txq.data };
}

/* Bits 61 and 62 say how a buffer is held; the one above says nothing to DPDK. */
#define UNMARKED (1ULL << 63)
_Static_assert((RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL) == 3ULL << 61, "the flag for unmarked checksums is taken");

uint16_t
mpps_rx_burst_unmarked(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	uint16_t got = rte_eth_rx_burst(port, queue, mbufs, n);

	for (uint16_t i = 0; i < got; i++)
		mbufs[i]->ol_flags |= UNMARKED;
	return got;
}

/* Says where the headers of a frame are whose UDP checksum was left to the device. */
static void
describe(struct rte_mbuf *m)
{
	const uint8_t *bytes = rte_pktmbuf_mtod(m, const uint8_t *);
	uint16_t at = 12, type;

	if (!(m->ol_flags & RTE_MBUF_F_TX_L4_MASK))
		return;
	m->ol_flags &= ~(RTE_MBUF_F_TX_L4_MASK | RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IPV6);
	type = (uint16_t)(bytes[at] << 8 | bytes[at + 1]);
	if (type == RTE_ETHER_TYPE_VLAN) {
		at += 4;
		type = (uint16_t)(bytes[at] << 8 | bytes[at + 1]);
	}
	m->tx_offload = 0;
	m->l2_len = at + 2;
	/* What mpps generates has neither options nor extension headers. Questions and answers are no UDP. */
	if (type == RTE_ETHER_TYPE_IPV4 && bytes[at + 2 + 9] == IPPROTO_UDP) {
		m->l3_len = 20;
		m->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_UDP_CKSUM;
	} else if (type == RTE_ETHER_TYPE_IPV6 && bytes[at + 2 + 6] == IPPROTO_UDP) {
		m->l3_len = 40;
		m->ol_flags |= RTE_MBUF_F_TX_IPV6 | RTE_MBUF_F_TX_UDP_CKSUM;
	}
}

uint16_t
mpps_tx_burst_offload(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n, uint64_t *refused)
{
	uint16_t ready;

	for (uint16_t i = 0; i < n; i++)
		describe(mbufs[i]);
	ready = rte_eth_tx_prepare(port, queue, mbufs, n);
	if (unlikely(ready == 0 && n > 0)) {
		/* The driver will never take this one: it would block those behind it. */
		rte_pktmbuf_free(mbufs[0]);
		*refused += 1;
		return 1;
	}
	return rte_eth_tx_burst(port, queue, mbufs, ready);
}

/* All or nothing was nothing: fewer may still be there. */
static __rte_noinline uint16_t
fewer(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++)
		if (rte_mempool_get(pool, (void **)&mbufs[i]) != 0)
			return i;
	return n;
}

uint16_t
mpps_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint16_t n)
{
	/* A buffer in its pool has one owner, one segment and none behind it (rte_mbuf_raw_alloc). The rest of what a frame
	 * to be sent needs is set here, its length by whoever writes it: half of what rte_pktmbuf_alloc_bulk does. */
	if (unlikely(rte_mempool_get_bulk(pool, (void **)mbufs, n) != 0))
		n = fewer(pool, mbufs, n);
	for (uint16_t i = 0; i < n; i++) {
		mbufs[i]->data_off = RTE_PKTMBUF_HEADROOM;
		mbufs[i]->ol_flags = 0;
	}
	return n;
}

/* What rte_pktmbuf_prefree_seg would have to look at, in one word each: one owner and one segment; neither indirect nor
 * external. */
#define ONE_OWNER ((1ULL << 16) | (1ULL << 32))
#define ONE_OWNER_MASK (0xffffULL << 16 | 0xffffULL << 32)
#define OWNERS_AT MPPS_MBUF_DATA_OFF
_Static_assert(MPPS_MBUF_REFCNT == OWNERS_AT + 2 && MPPS_MBUF_NB_SEGS == OWNERS_AT + 4,
	       "refcnt and nb_segs have moved");

void
mpps_free_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint16_t n)
{
	uint64_t odd = 0;

	for (uint16_t i = 0; i < n; i++) {
		const struct rte_mbuf *m = mbufs[i];
		uint64_t owners;

		memcpy(&owners, (const char *)m + OWNERS_AT, sizeof(owners));
		odd |= (owners ^ ONE_OWNER) & ONE_OWNER_MASK;
		odd |= m->ol_flags & (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL);
		odd |= (uintptr_t)m->pool ^ (uintptr_t)pool;
	}
	if (likely(odd == 0 && n > 0))
		rte_mempool_put_bulk(pool, (void *const *)mbufs, n);
	else
		rte_pktmbuf_free_bulk(mbufs, n);
}

void
mpps_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}
