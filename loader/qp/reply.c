// SPDX-License-Identifier: BSD-2-Clause
/* The verbs `qp` and `top`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "internal.h"

struct qp_reply {
	struct qptable *table;
	struct port_facts ports[ESC_PORTS_MAX];
	unsigned int port_count;
};

/* Members that are known of a local queue pair; a process may use any bytes as its name. */
static void put_owner(json_t *qp, const struct owner *owner)
{
	static const char *const gid_types[] = {
		[ESC_GID_IB] = "IB",
		[ESC_GID_ROCE_V1] = "RoCE v1",
		[ESC_GID_ROCE_V2] = "RoCE v2",
	};

	if (!owner)
		return;
	json_put_text(qp, "rdma_device", owner->is.device);
	json_put_count(qp, "local_qpn", owner->key.qpn);
	if (owner->is.pid)
		json_put_count(qp, "pid", owner->is.pid);
	json_put_text(qp, "comm", owner->is.comm);
	json_put_text(qp, "job", owner->job.name);
	if (owner->job.kind != JOB_NONE)
		json_put_text(qp, "job_kind", job_kind_name(owner->job.kind));
	json_put_text(qp, "cgroup", owner->job.cgroup);
	if (owner->is.flags & ESC_OWNER_PATH && owner->is.gid_type <= ESC_GID_ROCE_V2)
		json_put_text(qp, "gid_type", gid_types[owner->is.gid_type]);
}

static int write_qp(FILE *out, const struct qp_reply *reply, const struct qp_entry *entry)
{
	const struct port_info *port =
		report_port(reply->ports, reply->port_count, entry->key.port);
	json_t *qp = report_qp(entry, port ? port->name : NULL);
	int err;

	put_owner(qp, ownertable_of_qp(owners_table(reply->table->owners), &entry->key,
				       port ? port->rdma_device : ""));
	core_describe_qp(reply->table->core, entry, qp);
	err = json_dumpf(qp, out, JSON_COMPACT) ? -ENOMEM : 0;
	json_decref(qp);
	return err;
}

/* Written entry by entry: a full table as one JSON tree would take a hundred megabytes. */
static int write_qps(struct qptable *table, FILE *out, const struct qp_entry **list, size_t count,
		     size_t most)
{
	struct esc_reason_count reasons[ESC_REASON_MAX];
	struct qp_reply reply = {.table = table};
	int err = 0;

	reply.port_count = dataplane_read_ports(table->dataplane, reply.ports);
	fputs("{\"ok\":true,\"result\":{\"qps\":[", out);
	for (size_t i = 0; !err && i < count && i < most; i++) {
		if (i)
			fputc(',', out);
		err = write_qp(out, &reply, list[i]);
	}
	if (err)
		return err;
	fprintf(out, "],\"tracked\":%zu,\"max\":%u", table->count,
		dataplane_qps_max(table->dataplane));
	if (!dataplane_reasons(table->dataplane, reasons))
		fprintf(out, ",\"refused\":%llu",
			(unsigned long long)reason_sum(&reasons[ESC_REASON_QP_TABLE_FULL]));
	if (count > most)
		fprintf(out, ",\"not_shown\":%zu", count - most);
	fputs("}}\n", out);
	return ferror(out) ? -ENOMEM : 0;
}

static json_t *reply_qp(void *self, struct request *request)
{
	const char *key = json_text(request->args, "key"), *sort = json_text(request->args, "sort");
	size_t most = REPORT_QPS_MOST, count, bytes;
	struct qptable *table = self;
	struct report_qp_filter filter;
	enum report_qp_order order;
	const struct qp_entry **list;
	char *text = NULL;
	FILE *out;
	int err;

	if (!report_qp_filter(key, &filter))
		return request_misuse(request,
				      "`%.64s` names no queue pair; give a QPN (17, 0x11), a part "
				      "of an address, or SRC>DST/QPN",
				      key);
	report_qp_order(sort, &order);
	if (request_has(request, "top") && json_count(request->args, "top") < most)
		most = json_count(request->args, "top");
	core_refresh(table->core);
	list = report_qp_choose(table->entries, table->count, &filter, order, table->delay_order,
				&count);
	out = open_memstream(&text, &bytes);
	err = list && out ? write_qps(table, out, list, count, most) : -ENOMEM;
	if (out && fclose(out))
		err = -ENOMEM;
	free(list);
	if (!err)
		return request_raw(request, text, bytes);
	free(text);
	return request_fail(request, REQUEST_FAILED, NULL);
}

const struct verb_handler qp_verb_handlers[] = {{"qp", reply_qp}, {"top", reply_qp}, {}};
