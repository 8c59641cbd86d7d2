// SPDX-License-Identifier: BSD-2-Clause
#include "table.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "internal.h"

#define QPTABLE_EVENTS_MAX 64		     /* of a kind, a refresh */
#define QPTABLE_RATE_NS 500000000	     /* a rate is over no less */
#define QPTABLE_FULL_QUIET_NS 10000000000ULL /* between two qp_table_full */

int qptable_new(struct qptable **out, int qps_fd, uint32_t max, uint64_t idle_ns,
		struct events *events)
{
	struct qptable *table = calloc(1, sizeof(*table));
	int err;

	*out = NULL;
	if (!table)
		return -ENOMEM;
	table->fd = qps_fd;
	table->max = max;
	table->idle_ns = idle_ns;
	table->events = events;
	err = qpread_new(&table->reader, qps_fd, max);
	if (err) {
		free(table);
		return err;
	}
	*out = table;
	return 0;
}

void qptable_free(struct qptable *table)
{
	if (!table)
		return;
	qpread_free(table->reader);
	free(table->entries);
	free(table);
}

void qptable_set_idle(struct qptable *table, uint64_t idle_ns)
{
	table->idle_ns = idle_ns;
}

/* --- sums --- */

uint64_t qp_naks(const struct esc_qp *qp)
{
	return qp->nak_sequence + qp->nak_invalid_request + qp->nak_remote_access +
	       qp->nak_remote_operational + qp->nak_other;
}

static void totals_add(struct qp_totals *totals, const struct esc_qp *qp)
{
	totals->packets += qp->packets;
	totals->bytes += qp->bytes;
	totals->messages += qp->messages;
	totals->ce += qp->ce;
	totals->cnps += qp->cnps;
	totals->psn_gaps += qp->psn_gaps;
	totals->duplicates += qp->duplicates;
	totals->retransmits += qp->retransmits;
	totals->naks += qp_naks(qp);
	totals->rnr_naks += qp->rnr_naks;
}

void qptable_totals(const struct qptable *table, enum esc_direction direction,
		    struct qp_totals *out)
{
	*out = table->aged[direction];
	for (size_t i = 0; i < table->count; i++)
		if (table->entries[i].key.direction == direction)
			totals_add(out, &table->entries[i].qp);
}

uint64_t qp_message_quantile(const struct esc_qp *qp, double q)
{
	uint64_t total = 0, rank, passed = 0;

	for (size_t i = 0; i < ESC_MESSAGE_BUCKETS; i++)
		total += qp->message_sizes[i].count;
	if (!total)
		return 0;
	rank = (uint64_t)ceil(q * (double)total);
	if (rank < 1)
		rank = 1;
	for (size_t i = 0; i < ESC_MESSAGE_BUCKETS; i++) {
		const struct esc_message_bucket *bucket = &qp->message_sizes[i];

		passed += bucket->count;
		if (bucket->count && passed >= rank)
			return bucket->bytes / bucket->count;
	}
	return qp->message_max;
}

/* --- one refresh --- */

/* An entry is over: what it counted stays in the totals. */
static void qptable_age(struct qptable *table, const struct esc_qp_key *key,
			const struct esc_qp *qp)
{
	totals_add(&table->aged[key->direction & 1], qp);
	qptell_add(&table->gone, key, qp);
}

static double qptable_rate(uint64_t now, uint64_t before, uint64_t ns)
{
	return ns ? (double)(now - before) * 1e9 / (double)ns : 0;
}

static uint64_t qp_losses(const struct esc_qp *qp)
{
	return qp->psn_gaps + qp->retransmits;
}

static void entry_set_rate(struct qp_entry *entry, uint64_t now_local_ns)
{
	uint64_t ns = now_local_ns - entry->rate_local_ns;

	entry->packets_per_second = qptable_rate(entry->qp.packets, entry->rate_packets, ns);
	entry->bytes_per_second = qptable_rate(entry->qp.bytes, entry->rate_bytes, ns);
	entry->loss_per_second = qptable_rate(qp_losses(&entry->qp), entry->rate_losses, ns);
	entry->rate_local_ns = now_local_ns;
	entry->rate_packets = entry->qp.packets;
	entry->rate_bytes = entry->qp.bytes;
	entry->rate_losses = qp_losses(&entry->qp);
}

/* The same entry, read again; refreshes may follow each other closely. */
static void entry_update(struct qp_entry *entry, const struct qp_entry *before,
			 uint64_t now_local_ns)
{
	entry->packets_per_second = before->packets_per_second;
	entry->bytes_per_second = before->bytes_per_second;
	entry->loss_per_second = before->loss_per_second;
	entry->rate_local_ns = before->rate_local_ns;
	entry->rate_packets = before->rate_packets;
	entry->rate_bytes = before->rate_bytes;
	entry->rate_losses = before->rate_losses;
	if (now_local_ns - before->rate_local_ns >= QPTABLE_RATE_NS)
		entry_set_rate(entry, now_local_ns);
	entry->seen_local_ns = before->seen_local_ns;
	entry->moved_local_ns = before->moved_local_ns;
	if (entry->qp.packets != before->qp.packets)
		entry->seen_local_ns = entry->moved_local_ns = now_local_ns;
}

/* New since the last refresh, or to us: the first rate is over the time that it has lived. */
static void entry_start(struct qptable *table, struct qp_entry *entry, uint64_t now_local_ns)
{
	uint64_t start = entry->qp.first_local_ns;

	entry->seen_local_ns = now_local_ns;
	/* What a daemon before us left may have ended long ago. */
	entry->moved_local_ns = table->refreshed_local_ns ? now_local_ns : 0;
	entry->rate_local_ns = start < now_local_ns ? start : now_local_ns;
	if (now_local_ns - entry->rate_local_ns >= QPTABLE_RATE_NS)
		entry_set_rate(entry, now_local_ns);
	qptell_add(&table->seen, &entry->key, &entry->qp);
}

/*
 * Both lists are sorted: walks them side by side. An entry that is not in the
 * map any more was deleted by somebody else; one whose first packet is another
 * was deleted and came again.
 */
static void qptable_merge(struct qptable *table, struct qp_entry *fresh, size_t count,
			  uint64_t now_local_ns)
{
	size_t old = 0;

	for (size_t i = 0; i < count; i++) {
		int order = -1;

		while (old < table->count) {
			order = memcmp(&table->entries[old].key, &fresh[i].key,
				       sizeof(fresh[i].key));
			if (order >= 0)
				break;
			qptable_age(table, &table->entries[old].key, &table->entries[old].qp);
			old++;
		}
		if (old == table->count || order != 0) {
			entry_start(table, &fresh[i], now_local_ns);
			continue;
		}
		if (table->entries[old].qp.first_local_ns == fresh[i].qp.first_local_ns) {
			entry_update(&fresh[i], &table->entries[old], now_local_ns);
		} else {
			qptable_age(table, &fresh[i].key, &table->entries[old].qp);
			entry_start(table, &fresh[i], now_local_ns);
		}
		old++;
	}
	for (; old < table->count; old++)
		qptable_age(table, &table->entries[old].key, &table->entries[old].qp);
	free(table->entries);
	table->entries = fresh;
	table->count = count;
}

/* Takes entries out of the map that have been still for so long. */
static void qptable_retire(struct qptable *table, uint64_t now_local_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < table->count; i++) {
		struct qp_entry *entry = &table->entries[i];
		bool idle = table->idle_ns && now_local_ns - entry->seen_local_ns >= table->idle_ns;

		if (idle && !qpread_take(table->fd, &entry->key, &entry->qp)) {
			qptable_age(table, &entry->key, &entry->qp);
			continue;
		}
		if (kept != i)
			table->entries[kept] = *entry;
		kept++;
	}
	table->count = kept;
}

static void qptable_tell_full(struct qptable *table, uint64_t now_local_ns)
{
	uint64_t since = table->refused - table->refused_told;

	if (!since || (table->refused_told_local_ns &&
		       now_local_ns - table->refused_told_local_ns < QPTABLE_FULL_QUIET_NS))
		return;
	qptell_full(table->events, since, table->count, table->max);
	table->refused_told = table->refused;
	table->refused_told_local_ns = now_local_ns;
}

int qptable_refresh(struct qptable *table, uint64_t now_local_ns, uint64_t refused)
{
	bool first = !table->refreshed_local_ns;
	struct qp_entry *fresh;
	size_t count;
	int err;

	err = qpread_all(table->reader, &fresh, &count);
	if (err)
		return err;
	/* Those that a daemon before us has told of are only summed up. */
	qptell_start(&table->seen, table->events, QP_SEEN, first ? 0 : QPTABLE_EVENTS_MAX);
	qptell_start(&table->gone, table->events, QP_GONE, QPTABLE_EVENTS_MAX);
	qptable_merge(table, fresh, count, now_local_ns);
	qptable_retire(table, now_local_ns);
	qptell_end(&table->seen, first);
	qptell_end(&table->gone, false);
	table->refused = refused;
	if (first)
		table->refused_told = refused; /* said by the daemon before us */
	qptable_tell_full(table, now_local_ns);
	table->refreshed_local_ns = now_local_ns;
	return 0;
}

uint64_t qptable_refreshed_ns(const struct qptable *table)
{
	return table->refreshed_local_ns;
}

const struct qp_entry *qptable_entries(const struct qptable *table, size_t *count)
{
	*count = table->count;
	return table->entries;
}
