/* Devices: found, described, started, stopped. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_ether.h>

#include "mpps_dpdk.h"

#define UDP_HASH (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP)

int
mpps_port_by_name(const char *name, uint16_t *port)
{
	uint16_t id;

	if (rte_eth_dev_get_port_by_name(name, port) == 0)
		return 0;
	/* A device may have named its port otherwise. */
	RTE_ETH_FOREACH_DEV(id) {
		struct rte_eth_dev_info info;
		if (rte_eth_dev_info_get(id, &info) == 0 && info.device != NULL &&
		    strcmp(rte_dev_name(info.device), name) == 0) {
			*port = id;
			return 0;
		}
	}
	return -ENODEV;
}

int
mpps_port_by_mac(const uint8_t *mac, uint16_t *port)
{
	uint16_t id;

	/* Skips devices that another one owns: below a failsafe or netvsc port there is one with the same address. */
	RTE_ETH_FOREACH_DEV(id) {
		struct rte_ether_addr own;
		if (rte_eth_macaddr_get(id, &own) == 0 && memcmp(own.addr_bytes, mac, 6) == 0) {
			*port = id;
			return 0;
		}
	}
	return -ENODEV;
}

int
mpps_port_macs(char *text, size_t size)
{
	uint16_t id;
	size_t at = 0;

	if (size == 0)
		return 0;
	text[0] = '\0';
	RTE_ETH_FOREACH_DEV(id) {
		struct rte_ether_addr own;
		if (rte_eth_macaddr_get(id, &own) != 0 || at + 20 > size)
			continue;
		at += (size_t)snprintf(text + at, size - at, "%s" RTE_ETHER_ADDR_PRT_FMT, at ? " " : "",
				       RTE_ETHER_ADDR_BYTES(&own));
	}
	return (int)at;
}

int
mpps_port_info(uint16_t port, struct mpps_port_info *out)
{
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	const uint64_t tx = RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
	int error = rte_eth_dev_info_get(port, &info);

	if (error != 0)
		return error;
	memset(out, 0, sizeof(*out));
	snprintf(out->driver, sizeof(out->driver), "%s", info.driver_name != NULL ? info.driver_name : "");
	if (rte_eth_macaddr_get(port, &mac) == 0)
		memcpy(out->mac, mac.addr_bytes, 6);
	out->tx_checksum = (info.tx_offload_capa & tx) == tx;
	out->fast_free = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE) != 0;
	out->rx_checksum = (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_UDP_CKSUM) != 0;
	if (rte_eth_dev_get_mtu(port, &out->mtu) != 0)
		out->mtu = RTE_ETHER_MTU;
	out->max_rx_queues = info.max_rx_queues;
	out->max_tx_queues = info.max_tx_queues;
	out->rx_ring = info.default_rxportconf.ring_size;
	out->tx_ring = info.default_txportconf.ring_size;
	out->socket = rte_eth_dev_socket_id(port);
	if ((info.flow_type_rss_offloads & RTE_ETH_RSS_IP) != 0)
		out->rss = (info.flow_type_rss_offloads & (RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP)) != 0 ? 2 : 1;
	out->interface = info.if_index;
	return 0;
}

#define STEP(call)                     \
	do {                           \
		state->step = #call;   \
		error = (call);        \
		if (error != 0)        \
			return error;  \
	} while (0)

int
mpps_port_start(uint16_t port, const struct mpps_port_conf *conf, struct rte_mempool **rx_pools, int socket,
		struct mpps_port_state *state)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf eth = { 0 };
	int error;

	memset(state, 0, sizeof(*state));
	STEP(rte_eth_dev_info_get(port, &info));
	if (conf->tx_checksum)
		eth.txmode.offloads |= (RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) & info.tx_offload_capa;
	if (conf->fast_free)
		eth.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE & info.tx_offload_capa;
	if (conf->rx_checksum)
		eth.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_UDP_CKSUM & info.rx_offload_capa;
	/* Left at 0, it would become 1500, whatever the device has. */
	eth.rxmode.mtu = conf->mtu;
	if (conf->rss != 0 && conf->rx_queues > 1) {
		state->rss = (conf->rss == 1 ? RTE_ETH_RSS_IP : UDP_HASH) & info.flow_type_rss_offloads;
		if (state->rss != 0) {
			eth.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
			eth.rx_adv_conf.rss_conf.rss_hf = state->rss;
		}
	}
	STEP(rte_eth_dev_configure(port, conf->rx_queues, conf->tx_queues, &eth));
	/* Drivers that do not look at the configuration have a call of its own for it. */
	if (conf->set_mtu) {
		error = rte_eth_dev_set_mtu(port, conf->mtu);
		if (error != 0 && error != -ENOTSUP) {
			state->step = "rte_eth_dev_set_mtu";
			return error;
		}
	}
	state->rx_ring = conf->rx_ring;
	state->tx_ring = conf->tx_ring;
	STEP(rte_eth_dev_adjust_nb_rx_tx_desc(port, &state->rx_ring, &state->tx_ring));
	for (uint16_t queue = 0; queue < conf->rx_queues; queue++) {
		struct rte_eth_rxconf rx = info.default_rxconf;
		rx.offloads = eth.rxmode.offloads;
		STEP(rte_eth_rx_queue_setup(port, queue, state->rx_ring, (unsigned int)socket, &rx, rx_pools[queue]));
	}
	for (uint16_t queue = 0; queue < conf->tx_queues; queue++) {
		struct rte_eth_txconf tx = info.default_txconf;
		tx.offloads = eth.txmode.offloads;
		STEP(rte_eth_tx_queue_setup(port, queue, state->tx_ring, (unsigned int)socket, &tx));
	}
	STEP(rte_eth_dev_start(port));
	/* Virtual devices have no filter to switch off. */
	if (conf->promisc == 1)
		(void)rte_eth_promiscuous_enable(port);
	else if (conf->promisc == 0)
		(void)rte_eth_promiscuous_disable(port);
	/* Neighbour discovery asks a group that is made of our address. */
	(void)rte_eth_allmulticast_enable(port);
	state->promisc = rte_eth_promiscuous_get(port) == 1;
	state->allmulticast = rte_eth_allmulticast_get(port) == 1;
	if (rte_eth_dev_get_mtu(port, &state->mtu) != 0)
		state->mtu = RTE_ETHER_MTU;
	(void)rte_eth_stats_reset(port);
	(void)rte_eth_xstats_reset(port);
	return 0;
}

static bool
is_memif(uint16_t port)
{
	struct rte_eth_dev_info info;

	return rte_eth_dev_info_get(port, &info) == 0 && info.driver_name != NULL &&
	       strcmp(info.driver_name, "net_memif") == 0;
}

/* Ports whose devices the kernel wants back. */
static atomic_bool wanted_back[RTE_MAX_ETHPORTS];

static void
on_event(const char *device, enum rte_dev_event_type event, void *port)
{
	(void)device;
	if (event == RTE_DEV_EVENT_REMOVE)
		atomic_store(&wanted_back[(uintptr_t)port], true);
}

void
mpps_watch_removal(uint16_t port)
{
	struct rte_eth_dev_info info;

	if (rte_eth_dev_info_get(port, &info) == 0 && info.device != NULL)
		(void)rte_dev_event_callback_register(rte_dev_name(info.device), on_event, (void *)(uintptr_t)port);
}

bool
mpps_wanted_back(uint16_t port)
{
	return atomic_load(&wanted_back[port]);
}

/* A memif is disconnected by the interrupt thread, too: not at the same time. Where that thread can't be put aside, the
 * port stays as it is. Other drivers may have use for the thread here. */
void
mpps_port_stop(uint16_t port)
{
	bool memif = is_memif(port);

	if (memif && !mpps_intr_pause())
		return;
	(void)rte_eth_dev_stop(port);
	if (memif)
		mpps_intr_resume();
}

void
mpps_port_close(uint16_t port)
{
	bool memif = is_memif(port);

	if (memif && !mpps_intr_pause())
		return;
	(void)rte_eth_dev_close(port);
	if (memif) {
		mpps_memif_close(port);
		mpps_intr_resume();
	}
}

int
mpps_link(uint16_t port, uint32_t *mbps)
{
	struct rte_eth_link link = { 0 };
	int error = rte_eth_link_get_nowait(port, &link);

	if (error != 0)
		return error;
	*mbps = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
	return link.link_status == RTE_ETH_LINK_UP;
}
