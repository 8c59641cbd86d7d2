// SPDX-License-Identifier: BSD-2-Clause
#include "ownertable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ownertable {
	const char *proc;
	struct owner *list; /* by local number, then device */
	size_t count;
	const struct owner **remote; /* those with a remote number, by it */
	size_t remote_count;
};

struct ownertable *ownertable_new(const char *proc)
{
	struct ownertable *table = calloc(1, sizeof(*table));

	if (table)
		table->proc = proc;
	return table;
}

void ownertable_free(struct ownertable *table)
{
	if (!table)
		return;
	free(table->list);
	free(table->remote);
	free(table);
}

/* --- building --- */

static int ownertable_compare(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	if (x->key.qpn != y->key.qpn)
		return x->key.qpn < y->key.qpn ? -1 : 1;
	return x->key.device < y->key.device ? -1 : x->key.device > y->key.device;
}

static int ownertable_compare_remote(const void *a, const void *b)
{
	const struct owner *x = *(const struct owner *const *)a;
	const struct owner *y = *(const struct owner *const *)b;

	if (x->is.remote_qpn != y->is.remote_qpn)
		return x->is.remote_qpn < y->is.remote_qpn ? -1 : 1;
	return ownertable_compare(x, y);
}

/* A process stays in its cgroup: what is known of a queue pair's is not read again. */
static void ownertable_find_job(const struct ownertable *table, struct owner *owner)
{
	const struct owner *before = table->count
					     ? bsearch(owner, table->list, table->count,
						       sizeof(*table->list), ownertable_compare)
					     : NULL;

	if (before && before->is.pid == owner->is.pid &&
	    before->is.first_local_ns == owner->is.first_local_ns)
		owner->job = before->job;
	else if (owner->is.pid)
		job_read(table->proc, owner->is.pid, &owner->job);
}

int ownertable_replace(struct ownertable *table, struct owner *entries, size_t count)
{
	const struct owner **remote = calloc(count + 1, sizeof(*remote));
	size_t remote_count = 0;

	if (!remote) {
		free(entries);
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		entries[i].is.comm[sizeof(entries[i].is.comm) - 1] = '\0';
		entries[i].is.device[sizeof(entries[i].is.device) - 1] = '\0';
		ownertable_find_job(table, &entries[i]);
	}
	if (count)
		qsort(entries, count, sizeof(*entries), ownertable_compare);
	for (size_t i = 0; i < count; i++)
		if (entries[i].is.flags & ESC_OWNER_REMOTE_QPN)
			remote[remote_count++] = &entries[i];
	if (remote_count)
		qsort(remote, remote_count, sizeof(*remote), ownertable_compare_remote);
	free(table->list);
	free(table->remote);
	table->list = entries;
	table->count = count;
	table->remote = remote;
	table->remote_count = remote_count;
	return 0;
}

const struct owner *ownertable_list(const struct ownertable *table, size_t *count)
{
	*count = table->count;
	return table->list;
}

/* --- looking up --- */

/* Index of the first with at least this number. */
static size_t ownertable_first_local(const struct ownertable *table, uint32_t qpn)
{
	size_t low = 0, high = table->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table->list[middle].key.qpn < qpn)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static size_t ownertable_first_remote(const struct ownertable *table, uint32_t qpn)
{
	size_t low = 0, high = table->remote_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table->remote[middle]->is.remote_qpn < qpn)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The kernel's name may be longer than the field in the map. */
static bool ownertable_is_on(const struct owner *owner, const char *device)
{
	return !strncmp(owner->is.device, device, sizeof(owner->is.device) - 1);
}

static bool ownertable_same(const struct esc_address *a, const struct esc_address *b)
{
	return !memcmp(a, b, sizeof(*a));
}

const struct owner *ownertable_local(const struct ownertable *table, const char *device,
				     uint32_t qpn)
{
	for (size_t i = ownertable_first_local(table, qpn);
	     i < table->count && table->list[i].key.qpn == qpn; i++)
		if (ownertable_is_on(&table->list[i], device))
			return &table->list[i];
	return NULL;
}

const struct owner *ownertable_remote(const struct ownertable *table,
				      const struct esc_address *remote, uint32_t remote_qpn,
				      const struct esc_address *local)
{
	for (size_t i = ownertable_first_remote(table, remote_qpn);
	     i < table->remote_count && table->remote[i]->is.remote_qpn == remote_qpn; i++) {
		const struct esc_owner *is = &table->remote[i]->is;

		if ((is->flags & ESC_OWNER_PATH) && ownertable_same(&is->remote, remote) &&
		    (!local || ownertable_same(&is->local, local)))
			return table->remote[i];
	}
	return NULL;
}

static const struct owner *ownertable_only_listed(const struct ownertable *table,
						  uint32_t remote_qpn, const char *device)
{
	const struct owner *found = NULL;

	for (size_t i = ownertable_first_remote(table, remote_qpn);
	     i < table->remote_count && table->remote[i]->is.remote_qpn == remote_qpn; i++) {
		const struct owner *owner = table->remote[i];

		if ((owner->is.flags & ESC_OWNER_PATH) || !ownertable_is_on(owner, device))
			continue;
		if (found)
			return NULL;
		found = owner;
	}
	return found;
}

/* By the destination's address alone: the interface's RDMA device is not known. */
static const struct owner *ownertable_at(const struct ownertable *table,
					 const struct esc_address *local, uint32_t qpn)
{
	for (size_t i = ownertable_first_local(table, qpn);
	     i < table->count && table->list[i].key.qpn == qpn; i++)
		if ((table->list[i].is.flags & ESC_OWNER_PATH) &&
		    ownertable_same(&table->list[i].is.local, local))
			return &table->list[i];
	return NULL;
}

const struct owner *ownertable_of_qp(const struct ownertable *table, const struct esc_qp_key *key,
				     const char *device)
{
	const struct owner *found;

	if (key->direction == ESC_DIRECTION_RX)
		return device[0] ? ownertable_local(table, device, key->dest_qpn)
				 : ownertable_at(table, &key->dst, key->dest_qpn);
	found = ownertable_remote(table, &key->dst, key->dest_qpn, &key->src);
	if (!found && device[0])
		found = ownertable_only_listed(table, key->dest_qpn, device);
	return found;
}

/* --- facts --- */

size_t ownertable_ready(const struct ownertable *table, const char *device, unsigned int port,
			uint64_t now_local_ns, uint64_t for_ns)
{
	size_t ready = 0;

	for (size_t i = 0; i < table->count; i++) {
		const struct esc_owner *is = &table->list[i].is;
		bool there = !port || !(is->flags & ESC_OWNER_PORT) || is->port == port;

		ready += is->state == ESC_OWNER_RTS && there &&
			 ownertable_is_on(&table->list[i], device) &&
			 now_local_ns >= is->changed_local_ns &&
			 now_local_ns - is->changed_local_ns >= for_ns;
	}
	return ready;
}

size_t ownertable_rocev1(const struct ownertable *table, const struct owner **out, size_t max)
{
	size_t count = 0;

	for (size_t i = 0; i < table->count; i++) {
		const struct esc_owner *is = &table->list[i].is;

		if (!(is->flags & ESC_OWNER_PATH) || is->gid_type != ESC_GID_ROCE_V1)
			continue;
		if (count < max)
			out[count] = &table->list[i];
		count++;
	}
	return count;
}
