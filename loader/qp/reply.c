// SPDX-License-Identifier: BSD-2-Clause
/* The verbs `qp` and `top`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "internal.h"
#include "report_owner.h"

struct qp_reply {
	struct qptable *table;
	struct port_facts ports[ESC_PORTS_MAX];
	unsigned int port_count;
};

static const struct port_info *port_of(const struct qp_reply *reply, unsigned int index)
{
	for (unsigned int i = 0; i < reply->port_count; i++)
		if (reply->ports[i].info.index == index)
			return &reply->ports[i].info;
	return NULL;
}

static int write_qp(FILE *out, const struct qp_reply *reply, const struct qp_entry *entry)
{
	const struct port_info *port = port_of(reply, entry->key.port);
	json_t *qp = report_qp(entry, port ? port->name : NULL);
	int err;

	report_put_owner(qp, reply->table->owners, &entry->key, port ? port->rdma_device : "");
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

static json_t *reply_qps(struct qptable *table, struct request *request,
			 const struct report_qp_filter *filter, enum report_qp_order order,
			 size_t most)
{
	const struct qp_entry **list;
	size_t chosen = 0, bytes;
	char *text = NULL;
	FILE *out;
	int err;

	list = report_qp_choose(table->entries, table->count, filter, order, table->delay_order,
				&chosen);
	out = open_memstream(&text, &bytes);
	err = list && out ? write_qps(table, out, list, chosen, most) : -ENOMEM;
	if (out && fclose(out))
		err = -ENOMEM;
	free(list);
	if (!err)
		return request_raw(request, text, bytes);
	free(text);
	return request_fail(request, REQUEST_FAILED, NULL);
}

static json_t *reply_qp(void *self, struct request *request)
{
	struct report_qp_filter filter;
	enum report_qp_order order;
	const char *key, *sort;
	struct qptable *table = self;
	uint64_t top;

	if (!request_text(request, "key", NULL, &key) ||
	    !request_text(request, "sort", "bytes", &sort) ||
	    !request_count(request, "top", 0, UINT64_MAX, REPORT_QPS_MOST, &top))
		return NULL;
	if (!report_qp_filter(key, &filter))
		return request_misuse(request,
				      "`%.64s` names no queue pair; give a QPN (17, 0x11), a part "
				      "of an address, or SRC>DST/QPN",
				      key);
	if (!report_qp_order(sort, &order))
		return request_misuse(
			request,
			"queue pairs are not sorted by `%.32s`; give one of " REPORT_QP_ORDERS,
			sort);
	core_refresh(table->core);
	return reply_qps(table, request, &filter, order,
			 top < REPORT_QPS_MOST ? top : REPORT_QPS_MOST);
}

const struct verb_handler qp_verb_handlers[] = {{"qp", reply_qp}, {"top", reply_qp}, {}};
