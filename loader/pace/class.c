// SPDX-License-Identifier: BSD-2-Clause
/* Which class a flow is of: by hand, by the first of the configuration's classes that it fits, or
 * 0. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "qp/qp.h"
#include "internal.h"
#include "base/units.h"

static void class_set(struct pace_class *class, const char *name, uint32_t weight,
		      uint64_t threshold_ns, const struct pace_class_keys *match)
{
	snprintf(class->name, sizeof(class->name), "%s", name);
	class->weight = weight;
	class->threshold_ns = threshold_ns;
	class->own_threshold = match && match->own_threshold;
	class->match = match;
}

unsigned int pace_get_rules(const struct pace *pace, struct pace_class_rule rules[ESC_PACE_CLASSES])
{
	for (unsigned int i = 0; i < pace->class_count; i++) {
		const struct pace_class *class = &pace->classes[i];

		rules[i] = (struct pace_class_rule){
			.name = class->name,
			.weight = class->weight,
			.threshold_ns = class->own_threshold ? class->threshold_ns : 0,
			.match = class->match,
		};
	}
	return pace->class_count;
}

int pace_class_index(const struct pace *pace, const char *name)
{
	for (unsigned int i = 0; i < pace->class_count; i++)
		if (!strcmp(pace->classes[i].name, name))
			return (int)i;
	return -ENOENT;
}

/* Counts go on under a class's name. */
static void keep_totals(struct pace *pace, const struct pace_class *old, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		int index = pace_class_index(pace, old[i].name);
		struct pace_class *class = index < 0 ? &pace->classes[0] : &pace->classes[index];

		class->packets += old[i].packets;
		class->held += old[i].held;
		class->held_ns += old[i].held_ns;
		class->bounded += old[i].bounded;
	}
}

void pace_take_classes(struct pace *pace)
{
	struct pace_class old[ESC_PACE_CLASSES];
	unsigned int old_count = pace->class_count;
	const struct config *config = pace->core->config;

	memcpy(old, pace->classes, sizeof(old));
	memset(pace->classes, 0, sizeof(pace->classes));
	class_set(&pace->classes[0], "default", 1, pace_keys(config)->threshold_ns, NULL);
	for (size_t i = 0; i < pace_keys(config)->class_count; i++) {
		const struct pace_class_keys *match = &pace_keys(config)->classes[i];

		class_set(&pace->classes[i + 1], match->name, match->weight, match->threshold_ns,
			  match);
	}
	pace->class_count = pace_keys(config)->class_count + 1;
	keep_totals(pace, old, old_count);
}

/* --- who fits --- */

static const char *device_of(const struct pace *pace, unsigned int slot, char out[64])
{
	const struct dataplane *dataplane = pace->dataplane;
	struct port_info port;

	out[0] = '\0';
	for (unsigned int i = 0; i < dataplane_port_count(dataplane); i++)
		if (!dataplane_port(dataplane, i, &port) && port.index == slot)
			snprintf(out, 64, "%s", port.rdma_device);
	return out;
}

static bool fits(const struct pace_class_keys *match, const struct paced *flow,
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

static bool names_owner(const struct pace *pace)
{
	for (unsigned int i = 1; i < pace->class_count; i++)
		if (pace->classes[i].match &&
		    (pace->classes[i].match->job || pace->classes[i].match->cgroup))
			return true;
	return false;
}

static const struct qp_entry *entry_of(const struct pace *pace, const struct esc_qp_key *key)
{
	size_t count;
	const struct qp_entry *entries = qptable_entries(pace->qps, &count);

	for (size_t low = 0, high = count; low < high;) {
		size_t middle = (low + high) / 2;
		int order = memcmp(key, &entries[middle].key, sizeof(*key));

		if (!order)
			return &entries[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

static void assign(struct pace *pace, struct paced *flow, bool with_owner)
{
	const struct qp_entry *entry = entry_of(pace, &flow->key);
	const struct owner *owner = NULL;
	unsigned int class = 0;
	char device[64];

	if (!entry || flow->by_operator || !flow->now.generation)
		return;
	if (with_owner && pace->owners)
		owner = ownertable_of_qp(owners_table(pace->owners), &flow->key,
					 device_of(pace, flow->key.port, device));
	for (unsigned int i = pace->class_count; i-- > 1;)
		if (fits(pace->classes[i].match, flow, entry, owner))
			class = i;
	if (class == flow->now.class)
		return;
	if (class == pace->word.dscp_class[flow->now.dscp & 63])
		pace_withdraw(pace, &flow->key);
	else
		pace_order(pace, &flow->key, class, false);
}

void pace_assign_flows(struct pace *pace)
{
	bool with_owner = names_owner(pace);

	for (size_t i = 0; i < pace->count; i++)
		assign(pace, &pace->flows[i], with_owner);
}

/* --- by hand --- */

int pace_set_class(struct pace *pace, const struct pace_class_change *change, char **error)
{
	int index = pace_class_index(pace, change->name);
	struct pace_class *class;

	if (strlen(change->name) > 15)
		return explain(error, -EINVAL, "class `%.32s`: a name has at most 15 bytes",
			       change->name);
	if (index < 0 && pace->class_count == ESC_PACE_CLASSES)
		return explain(error, -ENOSPC, "there are %d classes, and no room for `%s`",
			       ESC_PACE_CLASSES, change->name);
	if (index < 0) {
		index = (int)pace->class_count++;
		class_set(&pace->classes[index], change->name, 1,
			  pace_keys(pace->core->config)->threshold_ns, NULL);
	}
	class = &pace->classes[index];
	if (change->weight)
		class->weight = change->weight;
	if (change->threshold_ns) {
		class->threshold_ns = change->threshold_ns;
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

/* The one entry of `qps` that is meant. */
static int find_one(struct pace *pace, const struct pace_assignment *want,
		    const struct qp_entry **out, char **error)
{
	const struct qp_entry *entries;
	struct esc_address src, dst;
	size_t count, found = 0;

	if ((want->src && !address_parse(want->src, &src)) || !address_parse(want->dst, &dst))
		return explain(error, -EINVAL,
			       "--src and --dst should be addresses as `escapement qp` shows them");
	entries = qptable_entries(pace->qps, &count);
	for (size_t i = 0; i < count; i++) {
		const struct esc_qp_key *key = &entries[i].key;

		if (key->direction != ESC_DIRECTION_TX || key->dest_qpn != want->qpn ||
		    memcmp(&key->dst, &dst, sizeof(dst)) ||
		    (want->src && memcmp(&key->src, &src, sizeof(src))))
			continue;
		*out = &entries[i];
		found++;
	}
	if (found == 1)
		return 0;
	return explain(error, found ? -EEXIST : -ENOENT,
		       found ? "%zu queue pairs here send to %s qpn %u; say which by --src"
			     : "no queue pair here (%zu) sends to %s qpn %u; `escapement qp` shows "
			       "those that do",
		       found, want->dst, want->qpn);
}

int pace_assign(struct pace *pace, const struct pace_assignment *want, json_t **result,
		char **error)
{
	const struct qp_entry *entry = NULL;
	int class = want->class ? pace_class_index(pace, want->class) : 0;
	struct paced *flow;
	int err;

	if (class < 0)
		return explain(
			error, class,
			"there is no class `%.15s`; `escapement pace set --class %.15s` makes "
			"it",
			want->class, want->class);
	core_refresh(pace->core);
	err = find_one(pace, want, &entry, error);
	if (err)
		return err;
	if (want->class)
		err = pace_order(pace, &entry->key, (unsigned int)class, true);
	else
		pace_withdraw(pace, &entry->key);
	if (err)
		return explain(error, err, "the class cannot be ordered: %s",
			       err == -E2BIG ? "too many queue pairs have one by hand"
					     : strerror(-err));
	flow = pace_find(pace, &entry->key);
	if (flow)
		flow->by_operator = want->class != NULL;
	*result = json_pack("{s:s, s:i, s:s*}", "dst", want->dst, "qpn", (int)want->qpn, "class",
			    want->class);
	return 0;
}
