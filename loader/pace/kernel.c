// SPDX-License-Identifier: BSD-2-Clause
/* Pacing's side of the maps: rules, orders and `control` are written here, `qp_pace` is read. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "core/core.h"
#include "internal.h"
#include "qp/qp.h"

#define SHARE_NS 1000000000ull

void pace_write_ports(struct pace *pace)
{
	uint16_t ports = 0;

	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++)
		if (pace->wanted >> slot & 1 && pace->ports[slot].able && !pace->blind)
			ports |= 1u << slot;
	if (!ports && pace->control->pace_ports)
		pace->ended_local_ns = time_local_ns();
	__atomic_store_n(&pace->control->pace_ports, ports, __ATOMIC_SEQ_CST);
	if (ports)
		__atomic_or_fetch(&pace->control->flags, ESC_CONTROL_PACE, __ATOMIC_SEQ_CST);
}

void pace_clear_flag(struct pace *pace, uint64_t now_local_ns)
{
	if (!pace->control->pace_ports &&
	    now_local_ns - pace->ended_local_ns >= ESC_PACE_HOLD_MAX_NS &&
	    pace->control->flags & ESC_CONTROL_PACE)
		__atomic_and_fetch(&pace->control->flags, ~ESC_CONTROL_PACE, __ATOMIC_SEQ_CST);
}

void pace_write_rules(struct pace *pace)
{
	for (uint32_t index = 0; index < ESC_PACE_RULES; index++) {
		unsigned int slot = index / ESC_PACE_CLASSES, class = index % ESC_PACE_CLASSES;
		struct pause_rule rule = {};

		if (class < pace->class_count && pace->ports[slot].line_Bps) {
			pause_rule_default(&rule, pace->classes[class].threshold_ns,
					   pace->ports[slot].line_Bps);
			rule.hold_max_ns = pace_keys(pace->core->config)->hold_max_ns;
			rule.weight = pace->classes[class].weight * PAUSE_WEIGHT_ONE;
		}
		bpf_map_update_elem(pace->rules_fd, &index, &rule, BPF_ANY);
	}
}

void pace_publish(struct pace *pace)
{
	uint32_t zero = 0;

	bpf_map_lookup_elem(pace->word_fd, &zero, &pace->word);
	memset(pace->word.dscp_class, 0, sizeof(pace->word.dscp_class));
	for (unsigned int i = pace->class_count; i-- > 1;) {
		const struct pace_class_keys *match = pace->classes[i].match;

		/* What depends on more than the DSCP is ordered for each queue pair. */
		if (!match || match->job || match->cgroup || match->port_first)
			continue;
		for (int dscp = 0; dscp < 64; dscp++)
			if (match->dscps >> dscp & 1)
				pace->word.dscp_class[dscp] = i;
	}
	pace->word.generation++;
	pace->word.generation += !pace->word.generation; /* new entries begin with 0 */
	bpf_map_update_elem(pace->word_fd, &zero, &pace->word, BPF_ANY);
	pace_write_rules(pace);
}

void pace_forget_orders(struct pace *pace)
{
	struct esc_qp_key key;

	/* Bounded: somebody else may be writing the map. */
	for (int i = 0; i < 2 * ESC_PACE_ASSIGNED_MAX; i++) {
		if (bpf_map_get_next_key(pace->orders_fd, NULL, &key))
			break;
		bpf_map_delete_elem(pace->orders_fd, &key);
	}
}

void pace_next_generation(struct pace *pace)
{
	uint32_t zero = 0;

	pace->word.generation++;
	pace->word.generation += !pace->word.generation;
	bpf_map_update_elem(pace->word_fd, &zero, &pace->word, BPF_ANY);
}

int pace_order(struct pace *pace, const struct esc_qp_key *key, unsigned int class,
	       bool by_operator)
{
	struct esc_pace_assignment order = {.class = class, .by_operator = by_operator};
	int err = bpf_map_update_elem(pace->orders_fd, key, &order, BPF_ANY);

	pace_next_generation(pace);
	return err;
}

void pace_withdraw(struct pace *pace, const struct esc_qp_key *key)
{
	if (!bpf_map_delete_elem(pace->orders_fd, key))
		pace_next_generation(pace);
}

/* --- flows --- */

static int flow_compare(const void *a, const void *b)
{
	return memcmp(&((const struct paced *)a)->key, &((const struct paced *)b)->key,
		      sizeof(struct esc_qp_key));
}

struct paced *pace_find(const struct pace *pace, const struct esc_qp_key *key)
{
	struct paced wanted = {.key = *key};

	return pace->count ? bsearch(&wanted, pace->flows, pace->count, sizeof(*pace->flows),
				     flow_compare)
			   : NULL;
}

static int entry_compare(const void *key, const void *entry)
{
	return memcmp(key, &((const struct qp_entry *)entry)->key, sizeof(struct esc_qp_key));
}

static bool is_known(const struct pace *pace, const struct esc_qp_key *key)
{
	size_t count;
	const struct qp_entry *entries = qptable_entries(pace->qps, &count);

	return count && bsearch(key, entries, count, sizeof(*entries), entry_compare);
}

static void flow_gone(struct pace *pace, struct paced *flow)
{
	unsigned int index = flow->now.class < pace->class_count ? flow->now.class : 0;
	struct pace_class *class = &pace->classes[index];

	class->packets += flow->now.packets;
	class->held += flow->now.held;
	class->held_ns += flow->now.flow.held_ns;
	class->bounded += flow->now.bounded;
	pace->gone_samples += flow->now.samples;
	pace->gone_unsure += flow->now.unsure;
	pace_withdraw(pace, &flow->key);
}

static struct paced *flow_add(struct pace *pace, const struct esc_qp_key *key)
{
	struct esc_pace_assignment order = {};

	if (array_reserve(&pace->flows, &pace->room, pace->count + 1, sizeof(*pace->flows)))
		return NULL;
	if (bpf_map_lookup_elem(pace->orders_fd, key, &order))
		order.by_operator = 0;
	pace->flows[pace->count] =
		(struct paced){.key = *key, .by_operator = order.by_operator, .held_share = -1};
	return &pace->flows[pace->count++];
}

static void take_share(struct paced *flow, uint64_t now_ns)
{
	uint64_t span_ns = now_ns - flow->base_local_ns;

	if (flow->base_local_ns && span_ns < SHARE_NS)
		return;
	if (flow->base_local_ns) {
		flow->held_share = (double)(flow->now.flow.held_ns - flow->base_held_ns) / span_ns;
		flow->paused_share =
			(double)(flow->now.flow.paused_ns - flow->base_paused_ns) / span_ns;
	}
	flow->base_local_ns = now_ns;
	flow->base_held_ns = flow->now.flow.held_ns;
	flow->base_paused_ns = flow->now.flow.paused_ns;
}

static void drop_unseen(struct pace *pace)
{
	size_t kept = 0;

	for (size_t i = 0; i < pace->count; i++) {
		if (pace->flows[i].seen)
			pace->flows[kept++] = pace->flows[i];
		else
			flow_gone(pace, &pace->flows[i]);
	}
	pace->count = kept;
}

/* A walk that a deletion made begin anew may have met a new flow twice. */
static void sort_flows(struct pace *pace)
{
	size_t kept = 1;

	if (!pace->count)
		return;
	qsort(pace->flows, pace->count, sizeof(*pace->flows), flow_compare);
	for (size_t i = 1; i < pace->count; i++)
		if (flow_compare(&pace->flows[i], &pace->flows[kept - 1]))
			pace->flows[kept++] = pace->flows[i];
	pace->count = kept;
}

int pace_read_flows(struct pace *pace, uint64_t now_local_ns)
{
	size_t before = pace->count, most = 2 * (before + ESC_QPS_MAX_DEFAULT);
	struct esc_qp_key key, next;
	int err = bpf_map_get_next_key(pace->flows_fd, NULL, &next);

	for (size_t i = 0; i < before; i++)
		pace->flows[i].seen = false;
	for (size_t steps = 0; !err && steps < most; steps++) {
		struct esc_qp_pace value;
		struct paced *flow;

		key = next;
		/* Of two keys in the walk the first may go only when the second is known. */
		err = bpf_map_get_next_key(pace->flows_fd, &key, &next);
		if (!is_known(pace, &key)) {
			bpf_map_delete_elem(pace->flows_fd, &key);
			continue;
		}
		if (bpf_map_lookup_elem(pace->flows_fd, &key, &value))
			continue;
		flow = bsearch(&(struct paced){.key = key}, pace->flows, before,
			       sizeof(*pace->flows), flow_compare);
		if (!flow)
			flow = flow_add(pace, &key);
		if (!flow)
			return -ENOMEM;
		flow->seen = true;
		flow->now = value;
		take_share(flow, now_local_ns);
	}
	drop_unseen(pace);
	sort_flows(pace);
	return 0;
}
