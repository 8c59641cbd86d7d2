// SPDX-License-Identifier: BSD-2-Clause
/* What is shown of queue pairs that processes count, and their metrics. */
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "fleet/fleet.h"
#include "internal.h"

#define IBVERBS_METRICS(X)                                                                         \
	X(VERBS_PROCESSES, "verbs_processes", GAUGE,                                               \
	  "Processes that run with libescapement-verbs and have queue pairs.")                     \
	X(VERBS_QPS, "verbs_queue_pairs", GAUGE, "Queue pairs of these processes.")                \
	X(VERBS_REFUSED, "verbs_refused", GAUGE,                                                   \
	  "Files of libescapement-verbs that are not read now, for want of room.")                 \
	X(VERBS_MESSAGES, "verbs_messages_total", COUNTER,                                         \
	  "Messages that these processes posted, by kind, and received.")                          \
	X(VERBS_BYTES, "verbs_bytes_total", COUNTER, "Bytes of these messages, without headers.")  \
	X(VERBS_ERRORS, "verbs_completion_errors_total", COUNTER,                                  \
	  "Completions of these processes with another status than success.")                      \
	X(VERBS_DELAYS, "verbs_message_delays_total", COUNTER,                                     \
	  "Delays of messages that were measured at both ends.")                                   \
	X(VERBS_REPORTS_REFUSED, "verbs_reports_refused_total", COUNTER,                           \
	  "Reports of received messages that were not of a member, or damaged.")
enum { IBVERBS_METRICS(METRIC_ENUM) };
const struct metric ibverbs_metrics[] = {IBVERBS_METRICS(METRIC){}};
const struct event_kind ibverbs_events[] = {IBVERBS_EVENTS(EVENT_KIND){}};

static const char *const kinds[SEGMENT_KINDS] = {
	[SEGMENT_SEND] = "send", [SEGMENT_WRITE] = "write",   [SEGMENT_WRITE_IMM] = "write_imm",
	[SEGMENT_READ] = "read", [SEGMENT_ATOMIC] = "atomic", [SEGMENT_OTHER] = "other",
};

/* enum ibv_wc_status, as ibv_wc_status_str() has them. */
static const char *const statuses[SEGMENT_STATUSES] = {
	NULL,
	"local_length",
	"local_qp_operation",
	"local_ee_context",
	"local_protection",
	"flushed",
	"memory_window_bind",
	"bad_response",
	"local_access",
	"remote_invalid_request",
	"remote_access",
	"remote_operation",
	"retries_exceeded",
	"rnr_retries_exceeded",
	"local_rdd_violation",
	"remote_invalid_rd_request",
	"remote_aborted",
	"invalid_ee_context",
	"invalid_ee_context_state",
	"fatal",
	"response_timeout",
	"general",
	"tag_matching",
	"other",
};

const char *report_status(unsigned int status)
{
	return statuses[status];
}

const char *report_peer(const struct ibverbs *verbs, const struct esc_address *address)
{
	return verbs->core && verbs->core->fleet
		       ? members_host(fleet_members(verbs->core->fleet), address)
		       : NULL;
}

static const char *const states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

/* enum ibv_qp_type */
static const char *transport_name(unsigned int type)
{
	return type == 2 ? "RC" : type == 3 ? "UC" : type == 4 ? "UD" : type == 9 ? "XRC" : NULL;
}

/* --- rows --- */

static int compare_rows(const void *a, const void *b)
{
	const struct verbs_row *x = a, *y = b;

	return memcmp(&x->key, &y->key, sizeof(x->key));
}

static void make_key(struct esc_qp_key *key, const struct segment_qp *qp,
		     enum esc_direction direction)
{
	bool tx = direction == ESC_DIRECTION_TX;

	*key = (struct esc_qp_key){.direction = direction};
	if (!(qp->flags & SEGMENT_HAS_PATH))
		return;
	memcpy(&key->src, tx ? qp->local : qp->remote, sizeof(key->src));
	memcpy(&key->dst, tx ? qp->remote : qp->local, sizeof(key->dst));
	key->dest_qpn = tx ? qp->dest_qpn : qp->qpn;
}

/* An ended one is shown for as long as one of the registry would be. */
static bool is_shown(const struct verbs_qp *qp, uint64_t idle_ns)
{
	return qp->is.state == SEGMENT_LIVE ||
	       (qp->is.state == SEGMENT_ENDED && time_local_ns() - qp->moved_local_ns < idle_ns);
}

const struct verbs_row *report_find(const struct ibverbs *verbs, const struct esc_qp_key *key)
{
	struct verbs_row of = {.key = *key};

	of.key.port = 0;
	return verbs->row_count
		       ? bsearch(&of, verbs->rows, verbs->row_count, sizeof(of), compare_rows)
		       : NULL;
}

static void mark_known(struct ibverbs *verbs)
{
	size_t count;
	const struct qp_entry *entries = qptable_entries(verbs->table, &count);

	for (size_t i = 0; verbs->row_count && i < count; i++) {
		struct verbs_row *row = (struct verbs_row *)report_find(verbs, &entries[i].key);

		if (row)
			row->in_registry = true;
	}
}

static void add_rows(struct ibverbs *verbs, struct process *process, const struct verbs_qp *qp)
{
	for (unsigned int d = 0; d < 2; d++) {
		struct verbs_row *row = &verbs->rows[verbs->row_count];

		if (d == ESC_DIRECTION_RX && !qp->is.received)
			continue;
		*row = (struct verbs_row){.process = process, .qp = qp};
		make_key(&row->key, &qp->is, d);
		verbs->row_count++;
	}
}

void report_make_rows(struct ibverbs *verbs)
{
	const struct processes *processes = &verbs->processes;
	size_t room = 2 * processes->qp_count + 1;

	free(verbs->rows);
	free(verbs->shown);
	verbs->row_count = verbs->shown_count = 0;
	verbs->rows = calloc(room, sizeof(*verbs->rows));
	verbs->shown = calloc(room, sizeof(*verbs->shown));
	if (!verbs->rows || !verbs->shown)
		return;
	for (size_t i = 0; i < processes->count; i++) {
		struct process *process = processes->list[i];

		process->rows = 0;
		for (size_t q = 0; q < process->count; q++)
			if (is_shown(&process->qps[q], processes->idle_ns))
				add_rows(verbs, process, &process->qps[q]);
	}
	if (verbs->row_count)
		qsort(verbs->rows, verbs->row_count, sizeof(*verbs->rows), compare_rows);
	mark_known(verbs);
	for (size_t i = 0; i < verbs->row_count; i++) {
		if (verbs->rows[i].in_registry)
			continue;
		verbs->shown[verbs->shown_count++] = i;
		verbs->rows[i].process->rows++;
	}
}

/* --- as JSON --- */

static json_t *messages_json(uint64_t messages, uint64_t bytes)
{
	json_t *object = json_object();

	json_put_count(object, "messages", messages);
	json_put_count(object, "bytes", bytes);
	return object;
}

static void put_latency(json_t *object, const struct segment_qp *qp)
{
	uint64_t samples, p50 = segment_latency_quantile(qp, 0.5, &samples);
	json_t *latency;

	if (!samples)
		return;
	latency = json_object();
	json_put_count(latency, "samples", samples);
	json_put_count(latency, "mean", qp->latency_sum_ns / samples);
	json_put_count(latency, "p50", p50);
	json_put_count(latency, "p99", segment_latency_quantile(qp, 0.99, &samples));
	json_put_count(latency, "max", qp->latency_max_ns);
	json_put(object, "completion_ns", latency);
}

static void put_delays(json_t *object, const struct verbs_delays *is)
{
	json_t *delay, *newest;
	uint64_t samples;

	if (!is || !is->joined)
		return;
	delay = json_object();
	newest = json_object();
	json_put_count(delay, "samples", is->joined);
	json_put_count(delay, "mean", is->sum_ns / is->joined);
	json_put_count(delay, "p50", segment_quantile(is->histogram, 0.5, &samples));
	json_put_count(delay, "p99", segment_quantile(is->histogram, 0.99, &samples));
	json_put_count(delay, "max", (uint64_t)is->max_ns);
	json_put_count(delay, "bound", is->bound_ns);
	json_put_count(newest, "number", is->newest.number);
	json_put_count(newest, "fabric_ns", (uint64_t)is->newest.fabric_ns);
	json_put_count(newest, "delay", (uint64_t)is->newest_ns);
	json_put_count(newest, "bound", is->newest_bound_ns);
	json_put(delay, "newest", newest);
	if (is->is_broken)
		json_put_text(delay, "note", "ended: the ends do not number the same messages");
	json_put(object, "message_delay_ns", delay);
}

/* What it waits for; a process that does not poll may have its completions. */
static void put_pending(json_t *object, const struct verbs_row *row)
{
	json_t *pending;

	if (!row->qp->pending_local_ns || row->process->fd < 0)
		return;
	pending = json_object();
	json_put_count(pending, "operations", watch_pending(&row->qp->is));
	json_put_count(pending, "ago_ms", (time_local_ns() - row->qp->pending_local_ns) / 1000000);
	json_put_bool(pending, "polls", row->process->polled_local_ns >= row->qp->pending_local_ns);
	json_put(object, "pending", pending);
}

static void put_attributes(json_t *object, const struct segment_qp *qp)
{
	json_put_text(object, "state", states[qp->qp_state]);
	json_put_count(object, "epoch", qp->epoch);
	if (qp->flags & SEGMENT_HAS_PATH) {
		json_put_count(object, "path_mtu", qp->path_mtu);
		json_put_count(object, "port", qp->port);
		json_put_count(object, "sgid_index", qp->sgid_index);
		json_put_count(object, "flow_label", qp->flow_label);
		json_put_count(object, "traffic_class", qp->traffic_class);
	}
	if (qp->flags & SEGMENT_HAS_TIMER) {
		json_put_count(object, "ack_timeout_us", (4096ull << qp->ack_timeout) / 1000);
		json_put_count(object, "retry_count", qp->retry_count);
		json_put_count(object, "rnr_retry", qp->rnr_retry);
	}
}

json_t *report_counts(const struct verbs_row *row)
{
	const struct segment_qp *qp = &row->qp->is;
	json_t *object = json_object(), *sizes = json_object(), *errors = json_object();
	char size[24];

	for (unsigned int i = 0; i < SEGMENT_KINDS; i++)
		if (qp->messages[i])
			json_put(object, kinds[i], messages_json(qp->messages[i], qp->bytes[i]));
	json_put_count(object, "local_qpn", qp->qpn);
	json_put(object, "received", messages_json(qp->received, qp->received_bytes));
	json_put_count(object, "received_imm", qp->received_imm);
	json_put_count(object, "receives_posted", qp->receives);
	json_put_count(object, "signaled", qp->signaled);
	json_put_count(object, "completed", qp->completed);
	for (unsigned int i = 0; i < SEGMENT_SIZES; i++) {
		snprintf(size, sizeof(size), "%u", i ? 1u << i : 0);
		if (qp->sizes[i])
			json_put_count(sizes, size, qp->sizes[i]);
	}
	json_put(object, "sizes", sizes);
	for (unsigned int i = 1; i < SEGMENT_STATUSES; i++)
		if (qp->statuses[i])
			json_put_count(errors, statuses[i], qp->statuses[i]);
	json_put(object, "errors", errors);
	put_pending(object, row);
	put_latency(object, qp);
	put_delays(object, row->qp->delays);
	put_attributes(object, qp);
	return object;
}

void ibverbs_put_process(json_t *object, const struct process *process)
{
	char id[JOB_ID_BYTES];

	if (process->pid)
		json_put_count(object, "pid", process->pid);
	json_put_name(object, "comm", process->header.comm);
	json_put_name(object, "rank", process->header.rank);
	json_put_name(object, "job_variable", process->header.job_id);
	json_put_name(object, "job", process->job.name);
	if (*job_id_of(&process->job, id))
		json_put_name(object, "job_id", id);
	if (process->job.kind != JOB_NONE)
		json_put_text(object, "job_kind", job_kind_name(process->job.kind));
	json_put_name(object, "cgroup", process->job.cgroup);
	if (process->fd < 0)
		json_put_bool(object, "ended", true);
}

json_t *report_row(const struct verbs_row *row)
{
	bool tx = row->key.direction == ESC_DIRECTION_TX;
	const struct segment_qp *qp = &row->qp->is;
	double rate = tx ? row->qp->sent_per_second : row->qp->received_per_second;
	json_t *object = json_object();
	char text[ADDRESS_QP_BYTES];

	if (qp->flags & SEGMENT_HAS_PATH) {
		json_put_text(
			object, "key",
			address_format_qp(&row->key.src, &row->key.dst, row->key.dest_qpn, text));
		json_put_text(object, "src", address_format(&row->key.src, text));
		json_put_text(object, "dst", address_format(&row->key.dst, text));
		json_put_count(object, "dest_qpn", row->key.dest_qpn);
	}
	json_put_text(object, "direction", tx ? "tx" : "rx");
	json_put_text(object, "source", "verbs");
	json_put_text(object, "transport", transport_name(qp->type));
	json_put_name(object, "rdma_device", qp->device);
	json_put_count(object, "local_qpn", qp->qpn);
	json_put_count(object, "messages", tx ? segment_messages(qp) : qp->received);
	json_put_count(object, "payload_bytes", tx ? segment_bytes(qp) : qp->received_bytes);
	json_put_real(object, "bytes_per_second", rate);
	json_put_count(object, "throughput_bps", (uint64_t)(rate * 8));
	json_put_count(object, "first_local_ns", qp->first_local_ns);
	json_put_count(object, "last_local_ns", row->qp->moved_local_ns);
	ibverbs_put_process(object, row->process);
	qp_put_progress(object, &row->qp->progress[row->key.direction]);
	if (qp->state == SEGMENT_ENDED)
		json_put_bool(object, "ended", true);
	if (tx)
		json_put(object, "verbs", report_counts(row));
	return object;
}

/* --- metrics --- */

static void write_messages(FILE *out, const struct processes *processes, bool bytes)
{
	struct prom_family *family =
		FAMILY_OF(&ibverbs_metrics[bytes ? VERBS_BYTES : VERBS_MESSAGES]);

	for (size_t d = 0; d < processes->device_count; d++) {
		const struct verbs_totals *totals = &processes->totals[d];

		for (unsigned int i = 0; i < SEGMENT_KINDS; i++)
			if (totals->messages[i])
				prom_count(family, bytes ? totals->bytes[i] : totals->messages[i],
					   "device", totals->device, "kind", kinds[i], NULL);
		prom_count(family, bytes ? totals->received_bytes : totals->received, "device",
			   totals->device, "kind", "receive", NULL);
	}
}

static bool has_any(const struct processes *processes)
{
	for (size_t i = 0; i < processes->count; i++)
		if (!processes->list[i]->files)
			return true;
	return processes->device_count || processes->refused;
}

void ibverbs_write_metrics(void *self, FILE *out)
{
	const struct ibverbs *verbs = self;
	const struct processes *processes = &verbs->processes;
	struct prom_family *errors;
	size_t running = 0, live = 0;

	/* Few hosts have such processes, and the number of series is limited. */
	if (!has_any(processes))
		return;
	for (size_t i = 0; i < processes->count; i++) {
		const struct process *process = processes->list[i];

		running += process->fd >= 0 && !process->files;
		for (size_t q = 0; process->fd >= 0 && q < process->count; q++)
			live += process->qps[q].is.state == SEGMENT_LIVE;
	}
	prom_count(FAMILY_OF(&ibverbs_metrics[VERBS_PROCESSES]), running, NULL);
	prom_count(FAMILY_OF(&ibverbs_metrics[VERBS_QPS]), live, NULL);
	prom_count(FAMILY_OF(&ibverbs_metrics[VERBS_REFUSED]), processes->refused, NULL);
	prom_count(FAMILY_OF(&ibverbs_metrics[VERBS_DELAYS]), verbs->joined, NULL);
	prom_count(FAMILY_OF(&ibverbs_metrics[VERBS_REPORTS_REFUSED]), verbs->reports_refused,
		   NULL);
	write_messages(out, processes, false);
	write_messages(out, processes, true);
	errors = FAMILY_OF(&ibverbs_metrics[VERBS_ERRORS]);
	for (size_t i = 0; i < processes->device_count; i++)
		prom_count(errors, processes->totals[i].errors, "device",
			   processes->totals[i].device, NULL);
}
