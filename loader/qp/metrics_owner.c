// SPDX-License-Identifier: BSD-2-Clause
#include "metrics_owner.h"

#include <stdio.h>
#include <string.h>

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

void metrics_owner_of(const struct owners *owners, const char *device, const struct qp_entry *entry,
		      struct metrics_owner *out)
{
	const struct ownertable *table = owners_table(owners);
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
