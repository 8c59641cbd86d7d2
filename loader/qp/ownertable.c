// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "owners.h"

/* Owners by one of their numbers; those of equal ones by local number and device. */
struct numbered {
	uint32_t qpn;
	const struct owner *owner;
};
struct index {
	struct numbered *first, *end;
};

struct ownertable {
	const char *proc;
	struct owner *list; /* by local number, then device */
	size_t count;
	struct index local, remote;
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
	free(table->local.first);
	free(table->remote.first);
	free(table);
}

size_t ownertable_count(const struct ownertable *table)
{
	return table->count;
}

/* --- building --- */

static int compare_owners(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	if (x->key.qpn != y->key.qpn)
		return x->key.qpn < y->key.qpn ? -1 : 1;
	return x->key.device < y->key.device ? -1 : x->key.device > y->key.device;
}

static int compare_numbered(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;

	if (x->qpn != y->qpn)
		return x->qpn < y->qpn ? -1 : 1;
	return x->owner < y->owner ? -1 : x->owner > y->owner;
}

/* A process stays in its cgroup: what is known of a queue pair's is not read again. */
static void find_job(const struct ownertable *table, struct owner *owner)
{
	const struct owner *before = table->count ? bsearch(owner, table->list, table->count,
							    sizeof(*owner), compare_owners)
						  : NULL;

	if (before && before->is.pid == owner->is.pid &&
	    before->is.first_local_ns == owner->is.first_local_ns)
		owner->job = before->job;
	else if (owner->is.pid)
		job_read(table->proc, owner->is.pid, &owner->job);
}

int ownertable_replace(struct ownertable *table, struct owner *entries, size_t count)
{
	struct index local = {.first = calloc(count + 1, sizeof(*local.first))};
	struct index remote = {.first = calloc(count + 1, sizeof(*remote.first))};

	if (!local.first || !remote.first) {
		free(local.first);
		free(remote.first);
		free(entries);
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		entries[i].is.comm[sizeof(entries[i].is.comm) - 1] = '\0';
		entries[i].is.device[sizeof(entries[i].is.device) - 1] = '\0';
		find_job(table, &entries[i]);
	}
	if (count)
		qsort(entries, count, sizeof(*entries), compare_owners);
	local.end = local.first;
	remote.end = remote.first;
	for (size_t i = 0; i < count; i++) {
		*local.end++ = (struct numbered){entries[i].key.qpn, &entries[i]};
		if (entries[i].is.flags & ESC_OWNER_REMOTE_QPN)
			*remote.end++ = (struct numbered){entries[i].is.remote_qpn, &entries[i]};
	}
	qsort(remote.first, remote.end - remote.first, sizeof(*remote.first), compare_numbered);
	free(table->list);
	free(table->local.first);
	free(table->remote.first);
	table->list = entries;
	table->count = count;
	table->local = local;
	table->remote = remote;
	return 0;
}

/* --- lookup --- */

/* The first with at least @qpn. */
static const struct numbered *lower_bound(const struct index *index, uint32_t qpn)
{
	const struct numbered *low = index->first, *high = index->end;

	while (low < high) {
		const struct numbered *middle = low + (high - low) / 2;

		if (middle->qpn < qpn)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The kernel's name may be longer than the field in the map. */
static bool is_on(const struct owner *owner, const char *device)
{
	return !strncmp(owner->is.device, device, sizeof(owner->is.device) - 1);
}

static bool is_same(const struct esc_address *a, const struct esc_address *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static const struct owner *find_local(const struct ownertable *table, const struct esc_qp_key *key,
				      const char *device)
{
	for (const struct numbered *at = lower_bound(&table->local, key->dest_qpn);
	     at < table->local.end && at->qpn == key->dest_qpn; at++) {
		const struct esc_owner *is = &at->owner->is;

		if (device[0] ? is_on(at->owner, device)
			      : is->flags & ESC_OWNER_PATH && is_same(&is->local, &key->dst))
			return at->owner;
	}
	return NULL;
}

const struct owner *ownertable_of_qp(const struct ownertable *table, const struct esc_qp_key *key,
				     const char *device)
{
	const struct owner *listed = NULL;
	size_t listed_count = 0;

	if (!table)
		return NULL;
	if (key->direction == ESC_DIRECTION_RX)
		return find_local(table, key, device);
	for (const struct numbered *at = lower_bound(&table->remote, key->dest_qpn);
	     at < table->remote.end && at->qpn == key->dest_qpn; at++) {
		const struct esc_owner *is = &at->owner->is;

		if (is->flags & ESC_OWNER_PATH) {
			if (is_same(&is->remote, &key->dst) && is_same(&is->local, &key->src))
				return at->owner;
		} else if (device[0] && is_on(at->owner, device)) {
			listed = at->owner;
			listed_count++;
		}
	}
	return listed_count == 1 ? listed : NULL;
}

size_t ownertable_ready(const struct ownertable *table, const char *device, unsigned int port,
			uint64_t now_local_ns, uint64_t for_ns)
{
	size_t ready = 0;

	for (size_t i = 0; i < table->count; i++) {
		const struct esc_owner *is = &table->list[i].is;
		bool there = !port || !(is->flags & ESC_OWNER_PORT) || is->port == port;

		ready += is->state == ESC_OWNER_RTS && there && is_on(&table->list[i], device) &&
			 now_local_ns >= is->changed_local_ns &&
			 now_local_ns - is->changed_local_ns >= for_ns;
	}
	return ready;
}

size_t ownertable_rocev1(const struct ownertable *table, const char *device, unsigned int port)
{
	size_t count = 0;

	for (size_t i = 0; i < table->count; i++) {
		const struct esc_owner *is = &table->list[i].is;

		count += is->flags & ESC_OWNER_PATH && is->gid_type == ESC_GID_ROCE_V1 &&
			 is_on(&table->list[i], device) && is->port == port;
	}
	return count;
}
