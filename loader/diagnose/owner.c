// SPDX-License-Identifier: BSD-2-Clause
/* What the owners of queue pairs (trace) add: who is alive, of which job, and which packets answer.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Never 0. */
static uint64_t job_id(const struct job *job)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (const char *at = job->name; *at; at++)
		hash = (hash ^ (uint8_t)*at) * 0x100000001b3;
	return hash | 1;
}

static int compare_keys(const void *key, const void *entry)
{
	return memcmp(key, &((const struct qp_entry *)entry)->key, sizeof(struct esc_qp_key));
}

/* What comes to the local queue pair from where @tx goes to. */
static const struct qp_entry *find_back(const struct qp_entry *entries, size_t count,
					const struct esc_qp_key *tx, uint32_t local_qpn)
{
	struct esc_qp_key key = {.src = tx->dst,
				 .dst = tx->src,
				 .dest_qpn = local_qpn,
				 .direction = ESC_DIRECTION_RX,
				 .port = tx->port};

	return bsearch(&key, entries, count, sizeof(*entries), compare_keys);
}

const struct qp_entry *judge_owner(struct verdict_qp *qp, const struct ownertable *owners,
				   const char *device, const struct qp_entry *entries, size_t count)
{
	const struct owner *owner = owners ? ownertable_of_qp(owners, &qp->key, device) : NULL;

	if (!owner)
		return NULL;
	qp->alive = owner->is.state == ESC_OWNER_RTS;
	if (owner->job.kind != JOB_NONE)
		qp->job = job_id(&owner->job);
	return find_back(entries, count, &qp->key, owner->key.qpn);
}

uint32_t judge_rocev1(const struct ownertable *owners, const char *device, unsigned int port)
{
	const struct owner *list[64];
	size_t count = owners && *device ? ownertable_rocev1(owners, list, 64) : 0;
	uint32_t here = 0;

	for (size_t i = 0; i < count && i < 64; i++)
		here += !strcmp(list[i]->is.device, device) && list[i]->is.port == port;
	return here;
}
