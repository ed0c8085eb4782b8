/* Flow rules: from plain bytes to rte_flow. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_flow.h>

#include "mpps_dpdk.h"

/* The headers lie first in DPDK's items, as on the wire. */
_Static_assert(sizeof(struct rte_ether_hdr) <= MPPS_FLOW_BYTES, "eth");
_Static_assert(sizeof(struct rte_vlan_hdr) <= MPPS_FLOW_BYTES, "vlan");
_Static_assert(offsetof(struct rte_flow_item_ipv4, hdr) == 0 && sizeof(struct rte_ipv4_hdr) <= MPPS_FLOW_BYTES, "ipv4");
_Static_assert(offsetof(struct rte_flow_item_ipv6, hdr) == 0 && sizeof(struct rte_ipv6_hdr) <= MPPS_FLOW_BYTES, "ipv6");
_Static_assert(offsetof(struct rte_flow_item_udp, hdr) == 0 && sizeof(struct rte_udp_hdr) <= MPPS_FLOW_BYTES, "udp");
_Static_assert(offsetof(struct rte_flow_item_tcp, hdr) == 0 && sizeof(struct rte_tcp_hdr) <= MPPS_FLOW_BYTES, "tcp");

union any_item {
	struct rte_flow_item_eth eth;
	struct rte_flow_item_vlan vlan;
	struct rte_flow_item_ipv4 ipv4;
	struct rte_flow_item_ipv6 ipv6;
	struct rte_flow_item_udp udp;
	struct rte_flow_item_tcp tcp;
};

struct encoded {
	struct rte_flow_attr attr;
	struct rte_flow_item pattern[MPPS_FLOW_ITEMS + 1];
	struct rte_flow_action actions[MPPS_FLOW_ACTIONS + 1];
	union any_item spec[MPPS_FLOW_ITEMS], last[MPPS_FLOW_ITEMS], mask[MPPS_FLOW_ITEMS];
	struct rte_flow_action_queue queue[MPPS_FLOW_ACTIONS];
	struct rte_flow_action_mark mark[MPPS_FLOW_ACTIONS];
	struct rte_flow_action_count count[MPPS_FLOW_ACTIONS];
	struct rte_flow_action_rss rss;
};

static const struct {
	enum rte_flow_item_type type;
	size_t size;
} ITEMS[] = {
	[MPPS_FLOW_ETH] = { RTE_FLOW_ITEM_TYPE_ETH, sizeof(struct rte_ether_hdr) },
	[MPPS_FLOW_VLAN] = { RTE_FLOW_ITEM_TYPE_VLAN, sizeof(struct rte_vlan_hdr) },
	[MPPS_FLOW_IPV4] = { RTE_FLOW_ITEM_TYPE_IPV4, sizeof(struct rte_ipv4_hdr) },
	[MPPS_FLOW_IPV6] = { RTE_FLOW_ITEM_TYPE_IPV6, sizeof(struct rte_ipv6_hdr) },
	[MPPS_FLOW_UDP] = { RTE_FLOW_ITEM_TYPE_UDP, sizeof(struct rte_udp_hdr) },
	[MPPS_FLOW_TCP] = { RTE_FLOW_ITEM_TYPE_TCP, sizeof(struct rte_tcp_hdr) },
};

static int
encode(const struct mpps_flow_rule *rule, struct encoded *out)
{
	memset(out, 0, sizeof(*out));
	out->attr.group = rule->group;
	out->attr.priority = rule->priority;
	out->attr.ingress = rule->ingress;
	out->attr.egress = rule->egress;
	out->attr.transfer = rule->transfer;
	if (rule->items > MPPS_FLOW_ITEMS || rule->actions > MPPS_FLOW_ACTIONS || rule->rss_queues > MPPS_FLOW_QUEUES)
		return -E2BIG;
	for (unsigned int i = 0; i < rule->items; i++) {
		const struct mpps_flow_item *from = &rule->item[i];
		if (from->kind > MPPS_FLOW_TCP)
			return -EINVAL;
		out->pattern[i].type = ITEMS[from->kind].type;
		if (from->any)
			continue;
		memcpy(&out->spec[i], from->spec, ITEMS[from->kind].size);
		memcpy(&out->last[i], from->last, ITEMS[from->kind].size);
		memcpy(&out->mask[i], from->mask, ITEMS[from->kind].size);
		out->pattern[i].spec = &out->spec[i];
		out->pattern[i].mask = &out->mask[i];
		out->pattern[i].last = from->range ? &out->last[i] : NULL;
	}
	out->pattern[rule->items].type = RTE_FLOW_ITEM_TYPE_END;
	for (unsigned int i = 0; i < rule->actions; i++) {
		struct rte_flow_action *to = &out->actions[i];
		uint32_t value = rule->action[i].value;
		switch (rule->action[i].kind) {
		case MPPS_FLOW_QUEUE:
			out->queue[i].index = (uint16_t)value;
			*to = (struct rte_flow_action){ RTE_FLOW_ACTION_TYPE_QUEUE, &out->queue[i] };
			break;
		case MPPS_FLOW_RSS:
			out->rss.queue_num = rule->rss_queues;
			out->rss.queue = rule->rss_queue;
			*to = (struct rte_flow_action){ RTE_FLOW_ACTION_TYPE_RSS, &out->rss };
			break;
		case MPPS_FLOW_DROP:
			to->type = RTE_FLOW_ACTION_TYPE_DROP;
			break;
		case MPPS_FLOW_MARK:
			out->mark[i].id = value;
			*to = (struct rte_flow_action){ RTE_FLOW_ACTION_TYPE_MARK, &out->mark[i] };
			break;
		case MPPS_FLOW_COUNT:
			*to = (struct rte_flow_action){ RTE_FLOW_ACTION_TYPE_COUNT, &out->count[i] };
			break;
		case MPPS_FLOW_PASSTHRU:
			to->type = RTE_FLOW_ACTION_TYPE_PASSTHRU;
			break;
		default:
			return -EINVAL;
		}
	}
	out->actions[rule->actions].type = RTE_FLOW_ACTION_TYPE_END;
	return 0;
}

static void
tell(const struct rte_flow_error *error, char *why, size_t size)
{
	snprintf(why, size, "%s", error->message != NULL ? error->message : "");
}

int
mpps_flow_validate(uint16_t port, const struct mpps_flow_rule *rule, char *why, size_t size)
{
	struct rte_flow_error error = { 0 };
	struct encoded encoded;
	int result = encode(rule, &encoded);

	if (result == 0)
		result = rte_flow_validate(port, &encoded.attr, encoded.pattern, encoded.actions, &error);
	tell(&error, why, size);
	return result;
}

void *
mpps_flow_create(uint16_t port, const struct mpps_flow_rule *rule, int *failed, char *why, size_t size)
{
	struct rte_flow_error error = { 0 };
	struct rte_flow *flow = NULL;
	struct encoded encoded;

	*failed = encode(rule, &encoded);
	if (*failed == 0) {
		flow = rte_flow_create(port, &encoded.attr, encoded.pattern, encoded.actions, &error);
		*failed = flow == NULL ? (rte_errno != 0 ? -rte_errno : -EINVAL) : 0;
	}
	tell(&error, why, size);
	return flow;
}

int
mpps_flow_count(uint16_t port, void *flow, uint64_t *packets)
{
	struct rte_flow_query_count count = { 0 };
	struct rte_flow_action action[2] = { { RTE_FLOW_ACTION_TYPE_COUNT, NULL }, { RTE_FLOW_ACTION_TYPE_END, NULL } };
	struct rte_flow_error error = { 0 };
	int result = rte_flow_query(port, flow, action, &count, &error);

	*packets = count.hits_set ? count.hits : 0;
	return result;
}

int
mpps_flow_destroy(uint16_t port, void *flow)
{
	struct rte_flow_error error = { 0 };

	return rte_flow_destroy(port, flow, &error);
}
