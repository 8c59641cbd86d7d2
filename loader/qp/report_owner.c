// SPDX-License-Identifier: BSD-2-Clause
#include "report_owner.h"

#include "base/json.h"

const char *report_gid_type(const struct esc_owner *owner)
{
	static const char *const names[] = {
		[ESC_GID_IB] = "IB",
		[ESC_GID_ROCE_V1] = "RoCE v1",
		[ESC_GID_ROCE_V2] = "RoCE v2",
	};

	if (!(owner->flags & ESC_OWNER_PATH) || owner->gid_type > ESC_GID_ROCE_V2)
		return NULL;
	return names[owner->gid_type];
}

/* A process may call itself anything; JSON takes UTF-8 alone. */
static void put_free_text(json_t *object, const char *key, const char *text)
{
	json_t *value = *text ? json_string(text) : NULL;

	if (value)
		json_object_set_new(object, key, value);
}

void report_put_owner(json_t *qp, const struct owners *owners, const struct esc_qp_key *key,
		      const char *device)
{
	const struct ownertable *table = owners_table(owners);
	const struct owner *owner = table ? ownertable_of_qp(table, key, device) : NULL;

	if (!owner)
		return;
	json_put_text(qp, "rdma_device", owner->is.device);
	json_put_count(qp, "local_qpn", owner->key.qpn);
	if (owner->is.pid)
		json_put_count(qp, "pid", owner->is.pid);
	put_free_text(qp, "comm", owner->is.comm);
	put_free_text(qp, "job", owner->job.name);
	if (owner->job.kind != JOB_NONE)
		json_put_text(qp, "job_kind", job_kind_name(owner->job.kind));
	put_free_text(qp, "cgroup", owner->job.cgroup);
	json_put_text(qp, "gid_type", report_gid_type(&owner->is));
}

json_t *report_tracing(const struct owners *owners)
{
	struct owners_facts facts;
	json_t *object;

	if (!owners)
		return NULL;
	object = json_object();
	owners_get_facts(owners, &facts);
	json_put_text(object, "method", facts.how);
	json_put_text(object, "note", facts.note);
	json_put_count(object, "known", facts.tracked);
	json_put_count(object, "max", facts.max);
	json_put_count(object, "refused", facts.refused);
	return object;
}
