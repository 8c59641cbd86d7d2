// SPDX-License-Identifier: BSD-2-Clause
#include "metrics_owner.h"

#include <stdio.h>
#include <string.h>

#include "base/prom.h"

static const char *device_of(const struct metrics_facts *facts, const struct qp_entry *entry)
{
	for (unsigned int i = 0; i < facts->port_count; i++)
		if (facts->ports[i].info.index == entry->key.port)
			return facts->ports[i].info.rdma_device;
	return "";
}

static const char *version_of(const struct esc_owner *owner)
{
	if (!(owner->flags & ESC_OWNER_PATH))
		return NULL;
	return owner->gid_type == ESC_GID_ROCE_V1   ? "1"
	       : owner->gid_type == ESC_GID_ROCE_V2 ? "2"
						    : NULL;
}

/* Prometheus refuses a whole file for one label that is no UTF-8. */
static const char *plain(const char *text)
{
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
			return NULL;
	return text;
}

void metrics_owner_of(const struct metrics_facts *facts, const struct qp_entry *entry,
		      struct metrics_owner *out)
{
	const char *device = device_of(facts, entry);
	const struct ownertable *table = owners_table(facts->owners);
	const struct owner *owner = table ? ownertable_of_qp(table, &entry->key, device) : NULL;

	memset(out, 0, sizeof(*out));
	snprintf(out->device, sizeof(out->device), "%s", device);
	if (!owner)
		return;
	snprintf(out->local_qpn, sizeof(out->local_qpn), "%u", owner->key.qpn);
	if (owner->is.flags & ESC_OWNER_PATH)
		snprintf(out->sgid_index, sizeof(out->sgid_index), "%u", owner->is.sgid_index);
	if (owner->is.pid)
		snprintf(out->pid, sizeof(out->pid), "%u", owner->is.pid);
	out->roce_version = version_of(&owner->is);
	out->comm = plain(owner->is.comm);
	out->job = plain(owner->job.name);
}

void metrics_write_owners(FILE *out, const struct metrics_facts *facts)
{
	struct prom_family *how =
		FAMILY("qp_tracing_info", GAUGE, "How owners of queue pairs are known, always 1.");
	struct prom_family *known =
		FAMILY("qp_owners", GAUGE, "Queue pairs of this host's RDMA devices.");
	struct prom_family *refused = FAMILY("qp_owners_refused_total", COUNTER,
					     "Queue pairs that found the table of owners full.");
	struct owners_facts owners;

	if (!facts->owners)
		return;
	owners_get_facts(facts->owners, &owners);
	prom_count(how, 1, "how", owners.how, NULL);
	if (!strcmp(owners.how, "none"))
		return;
	prom_count(known, owners.tracked, NULL);
	prom_count(refused, owners.refused, NULL);
}
