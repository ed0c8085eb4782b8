/* What the device counted. Off the packet path. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_ethdev.h>

#include "mpps_dpdk.h"

int
mpps_port_stats(uint16_t port, struct mpps_port_stats *out)
{
	struct rte_eth_stats stats;
	int error = rte_eth_stats_get(port, &stats);

	if (error != 0)
		return error;
	out->ipackets = stats.ipackets;
	out->opackets = stats.opackets;
	out->imissed = stats.imissed;
	out->ierrors = stats.ierrors;
	out->oerrors = stats.oerrors;
	out->rx_nombuf = stats.rx_nombuf;
	return 0;
}

int
mpps_port_xstats(uint16_t port, struct mpps_xstat *out, unsigned int max)
{
	int n = rte_eth_xstats_get_names(port, NULL, 0);
	struct rte_eth_xstat_name *names;
	struct rte_eth_xstat *values;
	unsigned int told = 0;
	int got;

	if (n <= 0)
		return n;
	names = calloc((size_t)n, sizeof(*names));
	values = calloc((size_t)n, sizeof(*values));
	if (names == NULL || values == NULL) {
		free(names);
		free(values);
		return -ENOMEM;
	}
	got = rte_eth_xstats_get_names(port, names, (unsigned int)n) == n ? rte_eth_xstats_get(port, values, (unsigned int)n)
									  : 0;
	for (int i = 0; i < got && i < n && told < max; i++) {
		if (values[i].id >= (uint64_t)n)
			continue;
		snprintf(out[told].name, sizeof(out[told].name), "%s", names[values[i].id].name);
		out[told].value = values[i].value;
		told++;
	}
	free(names);
	free(values);
	return (int)told;
}
