// SPDX-License-Identifier: BSD-2-Clause
/* `steer set` and `steer clear`: from words to an order in the map. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "daemon/daemon.h"
#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "qp/table.h"
#include "internal.h"

/* A gap that two packets of an undisturbed stream do not have. */
#define HOLD_OF_NOW_NS 1000000ull

static int parse_addresses(const struct steer_order *order, struct esc_address *src,
			   struct esc_address *dst, char **error)
{
	if (order->src && !address_parse(order->src, src))
		return explain(error, -EINVAL, "--src %.64s is no IP address", order->src);
	if (!address_parse(order->dst, dst))
		return explain(error, -EINVAL, "--dst %.64s is no IP address", order->dst);
	return 0;
}

/* The one queue pair that sends as @order says. */
static int find_entry(const struct steer *steer, const struct steer_order *order,
		      const struct qp_entry **out, char **error)
{
	struct esc_address src = {0}, dst;
	const struct qp_entry *entries;
	size_t count, found = 0;
	int err = parse_addresses(order, &src, &dst, error);

	if (err)
		return err;
	core_refresh(&steer->daemon->core);
	entries = qptable_entries(steer->daemon->qps, &count);
	for (size_t i = 0; i < count; i++) {
		const struct esc_qp_key *key = &entries[i].key;

		if (key->direction != ESC_DIRECTION_TX || key->dest_qpn != order->qpn ||
		    memcmp(&key->dst, &dst, sizeof(dst)) ||
		    (order->src && memcmp(&key->src, &src, sizeof(src))))
			continue;
		*out = &entries[i];
		found++;
	}
	if (found == 1)
		return 0;
	if (!found)
		return explain(error, -ENOENT,
			       "no queue pair here sends to %.64s with QPN %u; `escapement qp` "
			       "lists those that do (direction tx)",
			       order->dst, order->qpn);
	return explain(error, -EEXIST,
		       "%zu queue pairs send to %.64s with QPN %u; name one with --src ADDRESS",
		       found, order->dst, order->qpn);
}

static int check_steerable(const struct steer *steer, const struct qp_entry *qp,
			   const struct steer_order *order, char **error)
{
	char name[16], text[128];

	if (dataplane_is_off(steer->daemon->dataplane))
		return explain(error, -EBUSY,
			       "the kill switch is on and nothing is attached; `escapement mode "
			       "observe` ends it");
	if (!(steer_ports(steer) >> qp->key.port & 1)) {
		const char *interface = steer_interface(steer, qp->key.port, name);

		return explain(error, -EPERM,
			       "%s is in mode observe; `escapement mode steer %s` allows steering",
			       interface ? interface : "its interface", interface ? interface : "");
	}
	if (order->label && qp->qp.ip_version != 6)
		return explain(error, -EINVAL,
			       "%s is IPv4, which has no flow label; give --sport PORT",
			       steer_subject(&qp->key, text));
	return 0;
}

static int check_held(struct steer *steer, const struct esc_qp_key *key, char **error)
{
	uint64_t now_ns = time_local_ns();
	char text[128];

	for (size_t i = 0; i < steer->held_count; i++) {
		const struct steer_held *held = &steer->held[i];

		if (memcmp(&held->key, key, sizeof(*key)) || held->until_local_ns <= now_ns)
			continue;
		return explain(error, -EAGAIN,
			       "%s was taken back (%s) and is left alone for %llu s more; `steer "
			       "clear` of it ends that",
			       steer_subject(key, text), verify_meaning(held->why),
			       (unsigned long long)(held->until_local_ns - now_ns) / 1000000000 +
				       1);
	}
	return 0;
}

static void forget_held(struct steer *steer, const struct esc_qp_key *key)
{
	for (size_t i = steer->held_count; i-- > 0;)
		if (!memcmp(&steer->held[i].key, key, sizeof(*key)))
			steer->held[i] = steer->held[--steer->held_count];
}

/* When it is to take effect. */
static void set_times(struct steered *entry, const struct steer_order *order)
{
	uint64_t now_ns = time_local_ns();

	entry->ordered_local_ns = now_ns;
	entry->done = false;
	entry->before = entry->now;
	entry->want.hold_ns = order->now ? HOLD_OF_NOW_NS : order->hold_ns;
	entry->want.start_local_ns = order->now ? 0 : now_ns + order->within_ns;
	entry->want.force_local_ns = order->now ? 0 : now_ns + 2 * order->within_ns;
}

static int publish(struct steer *steer, struct steered *entry, json_t **result, char **error)
{
	char text[128];
	int err = steer_publish(steer, entry);

	if (err) {
		explain(error, err, "%s: the map steers took no order: %s",
			steer_subject(&entry->key, text), strerror(-err));
		steer_withdraw(steer, &entry->key);
		*entry = steer->list[--steer->count];
		return err;
	}
	*result = steer_show(steer, entry);
	return 0;
}

int steer_set(struct steer *steer, const struct steer_order *order, json_t **result, char **error)
{
	const struct qp_entry *qp = NULL;
	struct steered *entry;
	int err = find_entry(steer, order, &qp, error);

	if (!err)
		err = check_steerable(steer, qp, order, error);
	if (!err)
		err = check_held(steer, &qp->key, error);
	if (err)
		return err;
	entry = steer_find(steer, &qp->key);
	if (!entry && steer->count == ESC_STEERS_MAX)
		return explain(error, -ENOSPC, "%d queue pairs are steered, which is the most",
			       ESC_STEERS_MAX);
	if (!entry)
		entry = steer_add(steer, &qp->key);
	if (!entry)
		return -ENOMEM;
	entry->now = qp->qp.steer;
	if (!(qp->qp.steer_flags & ESC_QP_STEERED)) { /* counts of earlier orders stay in it */
		entry->now.sport = 0;
		entry->now.flags = 0;
	}
	entry->first_local_ns = qp->qp.first_local_ns;
	entry->own_sport = qp->qp.sport;
	entry->state = STEERED_WAITS;
	entry->want.sport = order->sport;
	entry->want.flow_label = order->flow_label;
	entry->want.flags = order->label ? ESC_STEER_LABEL : 0;
	entry->reason = STEER_BY_OPERATOR;
	entry->by_itself = false;
	set_times(entry, order);
	steer_count(steer, entry, &qp->qp);
	return publish(steer, entry, result, error);
}

static int clear_entry(struct steer *steer, struct steered *entry, const struct steer_order *order,
		       json_t **result, char **error)
{
	entry->state = STEERED_CLEARS;
	entry->reason = STEER_BY_OPERATOR;
	entry->by_itself = false;
	entry->want.sport = 0;
	entry->want.flow_label = 0;
	entry->want.flags = 0;
	set_times(entry, order);
	return publish(steer, entry, result, error);
}

int steer_clear(struct steer *steer, const struct steer_order *order, json_t **result, char **error)
{
	struct esc_address src = {0}, dst;
	size_t cleared = 0;
	int err = parse_addresses(order, &src, &dst, error);

	*result = json_array();
	for (size_t i = steer->held_count; !err && i-- > 0;) {
		struct esc_qp_key key = steer->held[i].key;

		if (key.dest_qpn != order->qpn || memcmp(&key.dst, &dst, sizeof(dst)) ||
		    (order->src && memcmp(&key.src, &src, sizeof(src))))
			continue;
		forget_held(steer, &key);
		cleared++;
	}
	for (size_t i = steer->count; !err && i-- > 0;) {
		struct steered *entry = &steer->list[i];
		json_t *one = NULL;

		if (entry->key.dest_qpn != order->qpn ||
		    memcmp(&entry->key.dst, &dst, sizeof(dst)) ||
		    (order->src && memcmp(&entry->key.src, &src, sizeof(src))))
			continue;
		err = clear_entry(steer, entry, order, &one, error);
		if (!err)
			json_array_append_new(*result, one);
		cleared++;
	}
	if (!err && !cleared)
		err = explain(error, -ENOENT,
			      "no queue pair to %.64s with QPN %u is steered; `escapement steer` "
			      "lists those that are",
			      order->dst, order->qpn);
	if (err) {
		json_decref(*result);
		*result = NULL;
	}
	return err;
}

int steer_clear_all(struct steer *steer, bool now, json_t **result)
{
	struct steer_order order = {
		.hold_ns = STEER_HOLD_DEFAULT_NS, .within_ns = STEER_WITHIN_DEFAULT_NS, .now = now};

	*result = json_array();
	steer->held_count = 0;
	for (size_t i = steer->count; i-- > 0;) {
		json_t *one = NULL;

		if (steer->list[i].state != STEERED_COVERED &&
		    !clear_entry(steer, &steer->list[i], &order, &one, NULL))
			json_array_append_new(*result, one);
	}
	return 0;
}
