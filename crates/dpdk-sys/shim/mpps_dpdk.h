/* The shim's interface: what Rust calls (src/ffi.rs mirrors it). One call per burst on the packet path; structures of
 * our own off it, so that DPDK's may change from release to release. Failures are negative errno values. */
#ifndef MPPS_DPDK_H
#define MPPS_DPDK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rte_mbuf;
struct rte_mempool;

/* Offsets that Rust relies on; checked against struct rte_mbuf in burst.c and against RteMbuf in src/mbuf.rs. */
enum {
	MPPS_MBUF_BUF_ADDR = 0,
	MPPS_MBUF_DATA_OFF = 16,
	MPPS_MBUF_REFCNT = 18,
	MPPS_MBUF_NB_SEGS = 20,
	MPPS_MBUF_PORT = 22,
	MPPS_MBUF_OL_FLAGS = 24,
	MPPS_MBUF_PKT_LEN = 36,
	MPPS_MBUF_DATA_LEN = 40,
	MPPS_MBUF_BUF_LEN = 54,
	MPPS_MBUF_POOL = 56,
	MPPS_MBUF_SIZE = 128,
};

/* ---- burst.c: the packet path */
uint16_t mpps_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
uint16_t mpps_rx_burst_unmarked(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
uint16_t mpps_tx_burst_offload(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n, uint64_t *refused);
/* Where a port's burst function and its queues are found: what rte_eth_rx_burst and rte_eth_tx_burst read for each
 * burst. The port changes them when it is stopped. */
struct mpps_entry {
	uint16_t (*const *function)(void *queue, struct rte_mbuf **mbufs, uint16_t n);
	void **const *queues;
};
struct mpps_entry mpps_rx_entry(uint16_t port);
struct mpps_entry mpps_tx_entry(uint16_t port);
/* Packets that wait in a receive queue; negative where the driver does not count them. */
int mpps_rx_fill(uint16_t port, uint16_t queue);
/* ---- guard.c: the same where the other end can take the rings away */
int mpps_guard_install(void);
uint16_t mpps_rx_burst_guarded(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
uint16_t mpps_tx_burst_guarded(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n, uint64_t *refused);

/* ---- memif.c: bursts over a memif of which nothing is believed, where the driver is linked in */
struct mpps_memif_conf {
	const char *path;	/* of the socket, without the zero of a name that is no file */
	uint64_t (*memory_left)(void);	/* bytes that the memory limit of this process leaves */
	uint32_t id;
	uint16_t buffer;	/* bytes of a client's buffers */
	uint16_t rx_queues, tx_queues;
	uint8_t server;
};
/* Negative: an errno. Positive: it is open, and can't wake readers that sleep, because of this errno. */
int mpps_memif_open(uint16_t port, const struct mpps_memif_conf *conf, struct rte_mempool **rx_pools);
/* The driver has closed it; the interrupt thread is aside. */
void mpps_memif_close(uint16_t port);
uint16_t mpps_memif_rx(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
uint16_t mpps_memif_tx(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n, uint64_t *refused);
/* What the other end did that ended the traffic; NULL: nothing. Constant strings. */
const char *mpps_memif_fault(uint16_t port);
/* Connections that were refused, and why the last was. */
uint64_t mpps_memif_refused(uint16_t port, const char **why);

uint16_t mpps_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint16_t n);
void mpps_free_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint16_t n);
void mpps_free(struct rte_mbuf *mbuf);

/* ---- eal.c: the environment */
int mpps_eal_init(int argc, char **argv, int keep_log);
int mpps_eal_cleanup(void);
size_t mpps_log_take(char *text, size_t size);
int mpps_probe(const char *devargs);
int mpps_unplug(const char *name);
int mpps_thread_register(void);
void mpps_thread_unregister(void);
struct rte_mempool *mpps_pool_create(const char *name, uint32_t mbufs, uint16_t data_room, int socket, int *error);
void mpps_pool_fill(struct rte_mempool *pool, const uint8_t *bytes, uint16_t len);
void mpps_pool_free(struct rte_mempool *pool);

/* ---- intr.c: the EAL's interrupt thread, put aside. False: it does not come, now or ever again. */
bool mpps_intr_pause(void);
/* After a pause, by the same thread. */
void mpps_intr_resume(void);
/* For good: the EAL ends. */
bool mpps_intr_end(void);
/* Nothing may be taken down any more. */
bool mpps_intr_lost(void);

/* ---- port.c: devices */
struct mpps_port_info {
	char driver[64];
	uint8_t mac[6];
	uint8_t tx_checksum;	/* offers IPv4 and UDP checksums on transmit */
	uint8_t fast_free;	/* offers RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE */
	uint8_t rx_checksum;	/* verifies UDP checksums */
	uint8_t rss;		/* can hash: 1: addresses; 2: addresses and UDP ports; 0: neither */
	uint16_t mtu;		/* bytes */
	uint16_t max_rx_queues, max_tx_queues;
	uint16_t rx_ring, tx_ring;	/* descriptors, as the driver prefers; 0: no preference */
	int32_t socket;		/* NUMA node, -1: not known */
	uint32_t interface;	/* index of the kernel's interface beneath, 0: none */
};

struct mpps_port_conf {
	uint16_t rx_queues, tx_queues;
	uint16_t rx_ring, tx_ring;	/* descriptors */
	uint16_t mtu;		/* bytes; set on the device where set_mtu says so */
	uint8_t rss;		/* 0: none; 1: addresses; 2: addresses and ports, as far as offered */
	uint8_t tx_checksum, fast_free, rx_checksum;
	uint8_t set_mtu;
	uint8_t promisc;	/* 1: on, 0: off, 2: leave it */
};

/* What came of it. */
struct mpps_port_state {
	uint16_t rx_ring, tx_ring;
	uint16_t mtu;
	uint8_t promisc, allmulticast;	/* are on */
	uint64_t rss;		/* what is hashed */
	const char *step;	/* on failure: which call it was */
};

int mpps_port_by_name(const char *name, uint16_t *port);
int mpps_port_by_mac(const uint8_t *mac, uint16_t *port);
int mpps_port_macs(char *text, size_t size);
int mpps_port_info(uint16_t port, struct mpps_port_info *info);
int mpps_port_start(uint16_t port, const struct mpps_port_conf *conf, struct rte_mempool **rx_pools, int socket,
		    struct mpps_port_state *state);
void mpps_port_stop(uint16_t port);
/* Ends what mpps_memif_open began, too. */
void mpps_port_close(uint16_t port);
/* 1: up, 0: down; speed in Mbit/s, 0: not known. */
int mpps_link(uint16_t port, uint32_t *mbps);
/* Has removals of the port's device noted. vfio asks for a device that is to be removed every 10 s until the process
 * has closed it; DPDK's interrupt thread takes the question. */
void mpps_watch_removal(uint16_t port);
/* The device is to be removed. */
bool mpps_wanted_back(uint16_t port);

/* ---- stats.c */
struct mpps_port_stats {
	uint64_t ipackets, opackets, imissed, ierrors, oerrors, rx_nombuf;
};
struct mpps_xstat {
	char name[64];
	uint64_t value;
};
int mpps_port_stats(uint16_t port, struct mpps_port_stats *stats);
int mpps_port_xstats(uint16_t port, struct mpps_xstat *out, unsigned int max);

/* ---- flow.c: headers are as on the wire, in the first bytes of the arrays. */
enum { MPPS_FLOW_ETH, MPPS_FLOW_VLAN, MPPS_FLOW_IPV4, MPPS_FLOW_IPV6, MPPS_FLOW_UDP, MPPS_FLOW_TCP };
enum { MPPS_FLOW_QUEUE, MPPS_FLOW_RSS, MPPS_FLOW_DROP, MPPS_FLOW_MARK, MPPS_FLOW_COUNT, MPPS_FLOW_PASSTHRU };
enum { MPPS_FLOW_ITEMS = 8, MPPS_FLOW_ACTIONS = 8, MPPS_FLOW_QUEUES = 128, MPPS_FLOW_BYTES = 40 };

struct mpps_flow_item {
	uint32_t kind;
	uint8_t any;		/* no field is compared */
	uint8_t range;		/* last is given */
	uint8_t spec[MPPS_FLOW_BYTES], last[MPPS_FLOW_BYTES], mask[MPPS_FLOW_BYTES];
};
struct mpps_flow_action {
	uint32_t kind;
	uint32_t value;
};
struct mpps_flow_rule {
	uint32_t group, priority;
	uint8_t ingress, egress, transfer;
	uint8_t items, actions;
	uint16_t rss_queues;
	struct mpps_flow_item item[MPPS_FLOW_ITEMS];
	struct mpps_flow_action action[MPPS_FLOW_ACTIONS];
	uint16_t rss_queue[MPPS_FLOW_QUEUES];
};
int mpps_flow_validate(uint16_t port, const struct mpps_flow_rule *rule, char *why, size_t size);
void *mpps_flow_create(uint16_t port, const struct mpps_flow_rule *rule, int *error, char *why, size_t size);
int mpps_flow_count(uint16_t port, void *flow, uint64_t *packets);
int mpps_flow_destroy(uint16_t port, void *flow);

/* src/ffi.rs has the same numbers. */
_Static_assert(sizeof(struct mpps_port_info) == 92, "mpps_port_info");
_Static_assert(sizeof(struct mpps_memif_conf) == 32 && offsetof(struct mpps_memif_conf, server) == 26,
	       "mpps_memif_conf");
_Static_assert(sizeof(struct mpps_port_conf) == 16, "mpps_port_conf");
_Static_assert(sizeof(struct mpps_port_state) == 24, "mpps_port_state");
_Static_assert(sizeof(struct mpps_port_stats) == 48, "mpps_port_stats");
_Static_assert(sizeof(struct mpps_xstat) == 72, "mpps_xstat");
_Static_assert(sizeof(struct mpps_flow_item) == 128, "mpps_flow_item");
_Static_assert(sizeof(struct mpps_flow_rule) == 16 + 8 * 128 + 8 * 8 + 256, "mpps_flow_rule");

#endif
