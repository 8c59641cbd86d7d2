// SPDX-License-Identifier: BSD-2-Clause
/*
 * Classes, and the flows in the maps. A flow's class is the operator's, else the first of the
 * configuration that matches, else 0.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/array.h"
#include "base/explain.h"
#include "dataplane/dataplane.h"
#include "internal.h"
#include "qp/qp.h"

#define SHARE_NS 1000000000ull

/* --- classes --- */

const struct pace_class *pace_classes(const struct pace *pace, unsigned int *count)
{
	*count = pace->class_count;
	return pace->classes;
}

static int class_index(const struct pace *pace, const char *name)
{
	for (unsigned int i = 0; i < pace->class_count; i++)
		if (!strcmp(pace->classes[i].name, name))
			return (int)i;
	return -ENOENT;
}

/* Appends one with the threshold of the section and weight 1; at most ESC_PACE_CLASSES. */
static struct pace_class *class_add(struct pace *pace, const char *name)
{
	struct pace_class *class = &pace->classes[pace->class_count++];

	*class = (struct pace_class){
		.weight = 1,
		.threshold_ns = pace_keys(pace->core->config)->threshold_ns,
	};
	snprintf(class->name, sizeof(class->name), "%s", name);
	return class;
}

void pace_load_classes(struct pace *pace)
{
	const struct pace_keys *keys = pace_keys(pace->core->config);
	struct pace_class old[ESC_PACE_CLASSES];
	unsigned int old_count = pace->class_count;

	memcpy(old, pace->classes, sizeof(old));
	pace->class_count = 0;
	class_add(pace, "default");
	for (size_t i = 0; i < keys->class_count; i++) {
		const struct pace_class_keys *match = &keys->classes[i];
		struct pace_class *class = class_add(pace, match->name);

		class->weight = match->weight;
		class->threshold_ns = match->threshold_ns;
		class->own_threshold = match->own_threshold;
		class->match = match;
	}
	/* Totals continue under a class's name. */
	for (unsigned int i = 0; i < old_count; i++) {
		int index = class_index(pace, old[i].name);
		struct pace_class *class = &pace->classes[index < 0 ? 0 : index];

		class->packets += old[i].packets;
		class->held += old[i].held;
		class->held_ns += old[i].held_ns;
		class->bounded += old[i].bounded;
		class->samples += old[i].samples;
		class->unsure += old[i].unsure;
	}
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

	bpf_map_lookup_elem(pace->ctl_fd, &zero, &pace->ctl);
	memset(pace->ctl.dscp_class, 0, sizeof(pace->ctl.dscp_class));
	for (unsigned int i = pace->class_count; i-- > 1;) {
		const struct pace_class_keys *match = pace->classes[i].match;

		/* What depends on more than the DSCP is assigned to each queue pair. */
		if (!match || match->job || match->cgroup || match->port_first)
			continue;
		for (int dscp = 0; dscp < 64; dscp++)
			if (match->dscps >> dscp & 1)
				pace->ctl.dscp_class[dscp] = i;
	}
	pace_next_generation(pace);
	pace_write_rules(pace);
}

void pace_next_generation(struct pace *pace)
{
	uint32_t zero = 0;

	pace->ctl.generation++;
	pace->ctl.generation += !pace->ctl.generation; /* new entries begin with 0 */
	bpf_map_update_elem(pace->ctl_fd, &zero, &pace->ctl, BPF_ANY);
}

/* --- the class of a flow --- */

static int write_assignment(struct pace *pace, const struct esc_qp_key *key, unsigned int class,
			    bool by_operator)
{
	struct esc_pace_assignment assigned = {.class = class, .by_operator = by_operator};
	int err = bpf_map_update_elem(pace->assigned_fd, key, &assigned, BPF_ANY);

	pace_next_generation(pace);
	return err;
}

static void delete_assignment(struct pace *pace, const struct esc_qp_key *key)
{
	if (!bpf_map_delete_elem(pace->assigned_fd, key))
		pace_next_generation(pace);
}

static bool matches(const struct pace_class_keys *match, const struct paced *flow,
		    const struct qp_entry *entry, const struct owner *owner)
{
	if (!match || (!match->dscps && !match->job && !match->cgroup && !match->port_first))
		return false;
	if (match->dscps && !(match->dscps >> flow->now.dscp & 1))
		return false;
	if (match->port_first &&
	    (entry->qp.sport < match->port_first || entry->qp.sport > match->port_last))
		return false;
	if (match->job && (!owner || fnmatch(match->job, owner->job.name, 0)))
		return false;
	return !match->cgroup || (owner && !fnmatch(match->cgroup, owner->job.cgroup, 0));
}

static void assign(struct pace *pace, struct paced *flow, bool with_owner)
{
	const struct qp_entry *entry = qptable_find(pace->qps, &flow->key);
	const struct owner *owner = NULL;
	unsigned int class = 0;
	struct port_facts port;

	if (!entry || flow->by_operator || !flow->now.generation)
		return;
	if (with_owner && dataplane_port(pace->dataplane, flow->key.port, &port))
		port.info.rdma_device[0] = '\0';
	if (with_owner)
		owner = qptable_owner(pace->qps, &flow->key, port.info.rdma_device);
	for (unsigned int i = pace->class_count; i-- > 1;)
		if (matches(pace->classes[i].match, flow, entry, owner))
			class = i;
	if (class == flow->now.class)
		return;
	if (class == pace->ctl.dscp_class[flow->now.dscp & 63])
		delete_assignment(pace, &flow->key);
	else
		write_assignment(pace, &flow->key, class, false);
}

void pace_assign_flows(struct pace *pace)
{
	bool with_owner = false;

	for (unsigned int i = 1; i < pace->class_count; i++) {
		const struct pace_class_keys *match = pace->classes[i].match;

		with_owner = with_owner || (match && (match->job || match->cgroup));
	}
	for (size_t i = 0; i < pace->count; i++)
		assign(pace, &pace->flows[i], with_owner);
}

/* --- by the operator --- */

int pace_set_class(struct pace *pace, const char *name, uint32_t weight, uint64_t threshold_ns,
		   char **error)
{
	int index = class_index(pace, name);
	struct pace_class *class;

	if (strlen(name) > 15)
		return explain(error, -EINVAL, "class `%.32s`: a name has at most 15 bytes", name);
	if (index < 0 && pace->class_count == ESC_PACE_CLASSES)
		return explain(error, -ENOSPC, "there are %d classes, and no room for `%s`",
			       ESC_PACE_CLASSES, name);
	class = index < 0 ? class_add(pace, name) : &pace->classes[index];
	if (weight)
		class->weight = weight;
	if (threshold_ns) {
		class->threshold_ns = threshold_ns;
		class->own_threshold = true;
	}
	pace_write_rules(pace);
	if (pace->follower)
		pace->follower->classes_changed(pace->follower_context);
	events_add(pace->core->events,
		   &(struct event){
			   .kind = &pace_events[PACE_CLASS_SET],
			   .subject = class->name,
			   .done = json_pack("{s:i, s:I}", "weight", (int)class->weight,
					     "threshold_ns", (json_int_t) class->threshold_ns),
		   });
	return 0;
}

int pace_assign(struct pace *pace, const struct pace_assignment *want, json_t **result,
		char **error)
{
	const struct esc_qp_key *key = NULL;
	const struct qp_entry *entries;
	int class = want->class ? class_index(pace, want->class) : 0, err = 0;
	struct esc_address src, dst;
	size_t count, found = 0;
	struct paced *flow;

	if (class < 0)
		return explain(error, class,
			       "there is no class `%.15s`; `escapement pace set --class %.15s` "
			       "makes it",
			       want->class, want->class);
	core_refresh(pace->core);
	if ((want->src && !address_parse(want->src, &src)) || !address_parse(want->dst, &dst))
		return explain(error, -EINVAL,
			       "--src and --dst should be addresses as `escapement qp` shows them");
	entries = qptable_entries(pace->qps, &count);
	for (size_t i = 0; i < count; i++) {
		const struct esc_qp_key *at = &entries[i].key;

		if (at->direction != ESC_DIRECTION_TX || at->dest_qpn != want->qpn ||
		    memcmp(&at->dst, &dst, sizeof(dst)) ||
		    (want->src && memcmp(&at->src, &src, sizeof(src))))
			continue;
		key = at;
		found++;
	}
	if (found != 1)
		return explain(error, found ? -EEXIST : -ENOENT,
			       found ? "%zu queue pairs here send to %s qpn %u; say which by --src"
				     : "no queue pair here (%zu) sends to %s qpn %u; `escapement "
				       "qp` shows those that do",
			       found, want->dst, want->qpn);
	if (want->class)
		err = write_assignment(pace, key, (unsigned int)class, true);
	else
		delete_assignment(pace, key);
	if (err)
		return explain(error, err, "the class cannot be set: %s",
			       err == -E2BIG ? "too many queue pairs have a class set by `pace set`"
					     : strerror(-err));
	flow = pace_find(pace, key);
	if (flow)
		flow->by_operator = want->class != NULL;
	*result = json_pack("{s:s, s:i, s:s*}", "dst", want->dst, "qpn", (int)want->qpn, "class",
			    want->class);
	return 0;
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

unsigned int pace_class_of(const struct pace *pace, const struct paced *flow)
{
	return flow->now.class < pace->class_count ? flow->now.class : 0;
}

void pace_add_totals(struct pace_class *class, const struct paced *flow)
{
	class->packets += flow->now.packets;
	class->held += flow->now.held;
	class->held_ns += flow->now.flow.held_ns;
	class->bounded += flow->now.bounded;
	class->samples += flow->now.samples;
	class->unsure += flow->now.unsure;
}

static void update_shares(struct paced *flow, uint64_t now_ns)
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

int pace_read_flows(struct pace *pace, uint64_t now_local_ns)
{
	size_t before = pace->count, most = 2 * (before + ESC_QPS_MAX_DEFAULT), kept = 0;
	struct esc_qp_key key, next;
	int err = bpf_map_get_next_key(pace->flows_fd, NULL, &next);

	for (size_t i = 0; i < before; i++)
		pace->flows[i].seen = false;
	for (size_t steps = 0; !err && steps < most; steps++) {
		struct esc_pace_assignment assigned;
		struct esc_qp_pace value;
		struct paced *flow;

		key = next;
		/* Of two keys in the walk the first may go only when the second is known. */
		err = bpf_map_get_next_key(pace->flows_fd, &key, &next);
		if (!qptable_find(pace->qps, &key)) {
			bpf_map_delete_elem(pace->flows_fd, &key);
			continue;
		}
		if (bpf_map_lookup_elem(pace->flows_fd, &key, &value))
			continue;
		flow = bsearch(&(struct paced){.key = key}, pace->flows, before,
			       sizeof(*pace->flows), flow_compare);
		if (!flow) {
			flow = array_add(&pace->flows, &pace->count, &pace->room, sizeof(*flow));
			if (!flow)
				return -ENOMEM;
			flow->key = key;
			flow->held_share = -1;
			if (!bpf_map_lookup_elem(pace->assigned_fd, &key, &assigned))
				flow->by_operator = assigned.by_operator;
		}
		flow->seen = true;
		flow->now = value;
		update_shares(flow, now_local_ns);
	}
	/* A walk that a deletion restarted may have returned a key twice. */
	if (pace->count)
		qsort(pace->flows, pace->count, sizeof(*pace->flows), flow_compare);
	for (size_t i = 0; i < pace->count; i++) {
		struct paced *flow = &pace->flows[i];

		if (!flow->seen) {
			pace_add_totals(&pace->classes[pace_class_of(pace, flow)], flow);
			delete_assignment(pace, &flow->key);
		} else if (!kept || flow_compare(flow, &pace->flows[kept - 1])) {
			pace->flows[kept++] = *flow;
		}
	}
	pace->count = kept;
	return 0;
}
