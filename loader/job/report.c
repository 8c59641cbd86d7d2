// SPDX-License-Identifier: BSD-2-Clause
/* The verb job, what `qp` shows of jobs, and the metrics. */
#include <string.h>

#include "base/json.h"
#include "internal.h"

#define SHOWN_MOST 2   /* jobs in the metrics, of 17 series each, with verbs 21 */
#define EVENTS_MOST 64 /* in one report */

#define JOB_METRICS(X)                                                                             \
	X(JOBS, "jobs", GAUGE, "Jobs that have queue pairs here.")                                 \
	X(JOB_QPS, "job_queue_pairs", GAUGE, "Queue pairs of a job, one per direction.")           \
	X(JOB_PACKETS, "job_packets_total", COUNTER,                                               \
	  "Packets of a job's queue pairs, with those that ended.")                                \
	X(JOB_BYTES, "job_bytes_total", COUNTER, "Bytes of these packets, IP header to ICRC.")     \
	X(JOB_MESSAGES, "job_messages_total", COUNTER, "Messages that ended in order.")            \
	X(JOB_CE, "job_ce_packets_total", COUNTER, "Packets with a congestion mark (ECN CE).")     \
	X(JOB_GAPS, "job_psn_gaps_total", COUNTER, "Times that a sequence number was skipped.")    \
	X(JOB_RETRANSMITS, "job_retransmit_packets_total", COUNTER,                                \
	  "Packets that had been sent before.")                                                    \
	X(JOB_VERBS_MESSAGES, "job_verbs_messages_total", COUNTER,                                 \
	  "Messages that a job's processes counted with libescapement-verbs.")                     \
	X(JOB_VERBS_BYTES, "job_verbs_bytes_total", COUNTER,                                       \
	  "Bytes of these messages, without headers.")                                             \
	X(JOB_OWD, "job_owd_seconds", HISTOGRAM,                                                   \
	  "One-way delays of a job's packets, in fabric time.")
enum { JOB_METRICS(METRIC_ENUM) };
const struct metric job_metrics[] = {JOB_METRICS(METRIC){}};

/* --- sums as JSON and as metrics --- */

/* A direction of a job. */
struct job_row {
	struct job_counts counts;
	const struct job_sum *job;
	unsigned int direction;
};

static bool is_tx(const void *row)
{
	return ((const struct job_row *)row)->direction == ESC_DIRECTION_TX;
}

static bool is_rx(const void *row)
{
	return !is_tx(row);
}

#define ROW(member, key) FIELD(struct job_row, counts.member, U64, key)
#define METRIC_OF(id) .metric = &job_metrics[id]
static const struct field row_fields[] = {
	{ROW(packets, "packets"), METRIC_OF(JOB_PACKETS)},
	{ROW(bytes, "bytes"), METRIC_OF(JOB_BYTES)},
	{ROW(payload_bytes, "payload_bytes")},
	{ROW(messages, "messages"), METRIC_OF(JOB_MESSAGES)},
	{ROW(ce, "ce"), METRIC_OF(JOB_CE), .known = is_rx},
	{ROW(cnps, "cnps")},
	{ROW(psn_gaps, "psn_gaps"), METRIC_OF(JOB_GAPS), .known = is_rx},
	{ROW(psn_missing, "psn_missing"), .known = is_rx},
	{ROW(duplicates, "duplicates"), .known = is_rx},
	{ROW(retransmits, "retransmits"), METRIC_OF(JOB_RETRANSMITS), .known = is_tx},
	{ROW(naks, "naks")},
	{ROW(rnr_naks, "rnr_naks")},
	{},
};

static const char *direction_name(unsigned int direction)
{
	return direction == ESC_DIRECTION_TX ? "tx" : "rx";
}

static void put_counts(json_t *object, const struct job_counts counts[2])
{
	for (unsigned int d = 0; d < 2; d++) {
		struct job_row row = {counts[d], NULL, d};
		json_t *sums = json_object();

		fields_put(sums, row_fields, &row);
		json_put(object, direction_name(d), sums);
	}
}

static bool has_verbs(const struct job_sum *job)
{
	const struct ibverbs_growth *is = &job->verbs;

	return job->verbs_qps || is->messages || is->received || is->errors;
}

static json_t *verbs_json(const struct ibverbs_growth *is)
{
	return json_pack("{s:{s:I, s:I}, s:{s:I, s:I}, s:I}", "tx", "messages",
			 (json_int_t)is->messages, "bytes", (json_int_t)is->bytes, "rx", "messages",
			 (json_int_t)is->received, "bytes", (json_int_t)is->received_bytes,
			 "errors", (json_int_t)is->errors);
}

/* --- delays --- */

struct job_delays {
	struct delayhist hist;
	double sum_ns;
	uint32_t bound_ns;
};

/* Of entries that ended and of those that are there; @out->hist is freed by the caller. */
static void read_delays(const struct jobs *jobs, const struct job_sum *job, struct job_delays *out)
{
	size_t count;
	const struct qp_entry *entries = qptable_entries(jobs->table, &count);
	struct delayhist live = {};

	*out = (struct job_delays){.sum_ns = job->owd_sum_ns, .bound_ns = job->owd_bound_ns};
	for (size_t i = 0; i < count; i++) {
		const struct delays_entry *delays = entries[i].delays;

		if (!entries[i].job || entries[i].job->job != job || !delays)
			continue;
		delayhist_add_since(&live, delays->owd.histogram, NULL);
		if (delays->bound_max_ns > out->bound_ns)
			out->bound_ns = delays->bound_max_ns;
	}
	out->sum_ns += delayhist_sum(&live);
	delayhist_add(&out->hist, &live);
	delayhist_add(&out->hist, &job->owd);
	delayhist_free(&live);
}

static json_t *delays_json(const struct jobs *jobs, const struct job_sum *job)
{
	struct job_delays delays;
	json_t *object = NULL;
	uint64_t samples;

	read_delays(jobs, job, &delays);
	samples = delayhist_samples(&delays.hist);
	if (samples) {
		object = json_object();
		json_put_count(object, "samples", samples);
		json_put_integer(object, "p50", delayhist_quantile(&delays.hist, 0.5));
		json_put_integer(object, "p99", delayhist_quantile(&delays.hist, 0.99));
		json_put_integer(object, "max", delayhist_quantile(&delays.hist, 1));
		json_put_count(object, "bound", delays.bound_ns);
	}
	delayhist_free(&delays.hist);
	return object;
}

/* --- what `qp` shows --- */

void jobs_put_qp(void *self, const struct qp_entry *entry, json_t *qp)
{
	const struct jobs *jobs = self;
	const struct esc_qp *is = &entry->qp;
	const struct qp_entry *back;
	struct esc_qp_key key;

	if (is->requests.flags & ESC_PSN_VALID)
		json_put_count(qp, "request_psn", is->requests.next);
	if (entry->key.direction == ESC_DIRECTION_TX &&
	    qptable_find_back(jobs->table, &entry->key, is->sport, &key)) {
		back = qptable_find(jobs->table, &key);
		if (back && back->qp.responses.flags & ESC_PSN_VALID)
			json_put_count(qp, "acked_psn", back->qp.responses.next);
	}
	if (!entry->job)
		return;
	json_put_name(qp, "job_id", entry->job->job->id);
	qp_put_progress(qp, &entry->job->last);
}

/* --- the verb --- */

const struct job_sum *jobs_find(const struct jobs *jobs, const char *typed)
{
	for (size_t i = 0; i < jobs->count; i++)
		if (job_id_matches(jobs->list[i]->id, typed))
			return jobs->list[i];
	return NULL;
}

static bool is_job(const struct job *job, const char *id)
{
	char text[JOB_ID_BYTES];

	return !strcmp(job_id_of(job, text), id);
}

/* The queue pairs of @job, as `qp` has them, each with this host's name. */
static json_t *qps_json(const struct jobs *jobs, const struct job_sum *job)
{
	size_t count;
	const struct qp_entry *entries = qptable_entries(jobs->table, &count);
	struct port_facts ports[ESC_PORTS_MAX];
	unsigned int port_count = dataplane_read_ports(jobs->dataplane, ports);
	json_t *list = json_array(), *verbs = ibverbs_job_rows(jobs->verbs, is_job, job->id), *qp;
	size_t v;

	for (size_t i = 0; i < count; i++) {
		if (!entries[i].job || entries[i].job->job != job)
			continue;
		qp = qptable_describe(jobs->table, &entries[i],
				      report_port(ports, port_count, entries[i].key.port));
		json_put_text(qp, "host", jobs->core->config->host);
		json_array_append_new(list, qp);
	}
	json_array_foreach (verbs, v, qp) {
		json_put_text(qp, "host", jobs->core->config->host);
		json_array_append(list, qp);
	}
	json_decref(verbs);
	return list;
}

static json_t *sum_json(const struct jobs *jobs, const struct job_sum *job)
{
	uint64_t now_ns = time_local_ns();
	json_t *object = json_object();

	json_put_name(object, "job_id", job->id);
	json_put_text(object, "kind", job->kind);
	json_put_name(object, "cgroup", job->cgroup);
	json_put_text(object, "host", jobs->core->config->host);
	json_put_count(object, "qp_count", job->qps + job->verbs_qps);
	json_put_count(object, "qps_ended", job->ended);
	json_put_count(object, "began_ms", (now_ns - job->first_local_ns) / 1000000);
	if (job->last_local_ns)
		json_put_count(object, "last_packet_ms", (now_ns - job->last_local_ns) / 1000000);
	/* Of packets that the kernel does not see nothing is known, not zero. */
	if (job->qps || job->ended)
		put_counts(object, job->counts);
	if (has_verbs(job))
		json_put(object, "verbs", verbs_json(&job->verbs));
	if (job->ranks)
		json_put_count(object, "nccl_ranks", job->ranks);
	json_put(object, "owd_ns", delays_json(jobs, job));
	return object;
}

static json_t *list_json(const struct jobs *jobs)
{
	json_t *object = json_object(), *list = json_array(), *none = json_object();
	struct job_counts counts[2];
	size_t qps;

	for (size_t i = 0; i < jobs->count; i++)
		json_array_append_new(list, sum_json(jobs, jobs->list[i]));
	json_put_text(object, "host", jobs->core->config->host);
	json_put(object, "jobs", list);
	jobs_sum_none(jobs, counts, &qps);
	json_put_count(none, "qp_count", qps);
	put_counts(none, counts);
	json_put(object, "none", none);
	if (jobs->dropped)
		json_put_count(object, "jobs_dropped", jobs->dropped);
	if (!qptable_has_owners(jobs->table))
		json_put_text(
			object, "note",
			"owners of queue pairs are not known here: `escapement status` has why");
	return object;
}

static bool is_of_job(const json_t *event, const char *id)
{
	const char *job = json_text(event, "job");

	return *job && (job_id_matches(id, job) || !strcmp(id, job));
}

/* The newest events about its queue pairs, and how many there are of each kind. */
static void put_events(json_t *object, const struct jobs *jobs, const char *id)
{
	json_t *all = events_since(jobs->core->events, 0), *event;
	json_t *kinds = json_object(), *list = json_array();
	size_t i;

	json_array_foreach (all, i, event) {
		const char *kind = json_text(event, "kind");

		if (!is_of_job(event, id))
			continue;
		json_put_count(kinds, kind, json_count(kinds, kind) + 1);
		json_array_append(list, event);
		if (json_array_size(list) > EVENTS_MOST)
			json_array_remove(list, 0);
	}
	json_decref(all);
	json_put(object, "event_kinds", kinds);
	json_put(object, "events", list);
}

/* Findings state the job as events do, with its step. */
static json_t *findings_json(const struct jobs *jobs, const char *id)
{
	json_t *all = findings_list(jobs->findings, NULL), *list = json_array(), *one;
	size_t i;

	json_array_foreach (all, i, one)
		if (is_of_job(one, id))
			json_array_append(list, one);
	json_decref(all);
	return list;
}

/* Takes @communicators over. */
static void put_communicators(json_t *object, json_t *communicators)
{
	if (json_array_size(communicators))
		json_put(object, "communicators", communicators);
	else
		json_decref(communicators);
}

static json_t *reply_job(void *self, struct request *request)
{
	const char *id = request_text(request, "id", NULL);
	const char *view = request_text(request, "view", NULL);
	const struct job_sum *job;
	struct jobs *jobs = self;
	json_t *object, *qps, *timeline;

	core_refresh(jobs->core);
	if (!id)
		return list_json(jobs);
	job = jobs_find(jobs, id);
	if (!job)
		return request_misuse(request,
				      "no job `%.96s` has or had queue pairs here; `escapement "
				      "job` lists those that did",
				      id);
	object = sum_json(jobs, job);
	qps = qps_json(jobs, job);
	if (view) {
		timeline = job_timeline(qps, request_count(request, "quiet_ns", JOB_QUIET_NS));
		json_put_name(timeline, "job_id", job->id);
		json_decref(object);
		json_decref(qps);
		return timeline;
	}
	job_put_groups(object, qps);
	json_put(object, "qps", qps);
	put_communicators(object, nccl_job_communicators(jobs->nccl, is_job, job->id));
	json_put(object, "findings", findings_json(jobs, job->id));
	put_events(object, jobs, job->id);
	return object;
}

const struct verb_handler job_verb_handlers[] = {{"job", reply_job}, {}};

/* --- metrics --- */

/* Few, since each job has all of them: in seconds. */
static const double bounds[] = {10e-6, 100e-6, 1e-3, 10e-3};
#define BOUNDS (sizeof(bounds) / sizeof(bounds[0]))

static void write_delays(struct prom_family *family, const struct jobs *jobs,
			 const struct job_sum *job)
{
	struct prom_histogram histogram = {.bounds = bounds, .bound_count = BOUNDS};
	struct job_delays delays;
	uint64_t below[BOUNDS];
	size_t at = 0;

	read_delays(jobs, job, &delays);
	for (size_t i = 0; i < BOUNDS; i++) {
		while (at < delays.hist.count &&
		       (double)esc_owd_bucket_floor(delays.hist.bars[at].bucket + 1u) <=
			       bounds[i] * 1e9)
			histogram.count += delays.hist.bars[at++].count;
		below[i] = histogram.count;
	}
	while (at < delays.hist.count)
		histogram.count += delays.hist.bars[at++].count;
	histogram.below = below;
	histogram.sum = delays.sum_ns / 1e9;
	if (histogram.count)
		prom_histogram(family, &histogram, "job_id", job->id, NULL);
	delayhist_free(&delays.hist);
}

static void write_verbs(struct prom_family *messages, struct prom_family *bytes,
			const struct job_sum *job)
{
	const struct ibverbs_growth *is = &job->verbs;

	if (!has_verbs(job))
		return;
	prom_count(messages, is->messages, "job_id", job->id, "direction", "tx", NULL);
	prom_count(messages, is->received, "job_id", job->id, "direction", "rx", NULL);
	prom_count(bytes, is->bytes, "job_id", job->id, "direction", "tx", NULL);
	prom_count(bytes, is->received_bytes, "job_id", job->id, "direction", "rx", NULL);
}

static const struct prom_label *row_labels(const void *row, void *context)
{
	const struct job_row *of = row;
	struct prom_label *labels = context;

	labels[0] = (struct prom_label){"job_id", of->job->id};
	labels[1] = (struct prom_label){"direction", direction_name(of->direction)};
	return labels;
}

/* A label that is no ASCII would have the whole file refused. */
static bool is_plain(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f)
			return false;
	return true;
}

/* The newest that have queue pairs, then the newest of those that ended. */
static size_t choose(const struct jobs *jobs, const struct job_sum *out[SHOWN_MOST])
{
	size_t count = 0;

	for (int ended = 0; ended < 2; ended++)
		for (size_t i = jobs->count; i-- && count < SHOWN_MOST;)
			if (jobs_is_running(jobs->list[i]) != ended && is_plain(jobs->list[i]->id))
				out[count++] = jobs->list[i];
	return count;
}

void jobs_write_metrics(void *self, FILE *out)
{
	const struct jobs *jobs = self;
	const struct job_sum *shown[SHOWN_MOST];
	size_t count = choose(jobs, shown), running = 0;
	struct prom_family *qps = FAMILY_OF(&job_metrics[JOB_QPS]);
	struct prom_family *owd = FAMILY_OF(&job_metrics[JOB_OWD]);
	struct prom_family *messages = FAMILY_OF(&job_metrics[JOB_VERBS_MESSAGES]);
	struct prom_family *bytes = FAMILY_OF(&job_metrics[JOB_VERBS_BYTES]);
	struct job_row rows[2 * SHOWN_MOST];
	struct prom_label labels[3] = {};

	for (size_t i = 0; i < jobs->count; i++)
		running += jobs_is_running(jobs->list[i]);
	prom_count(FAMILY_OF(&job_metrics[JOBS]), running, NULL);
	for (size_t i = 0; i < count; i++) {
		prom_count(qps, shown[i]->qps + shown[i]->verbs_qps, "job_id", shown[i]->id, NULL);
		for (unsigned int d = 0; d < 2; d++)
			rows[2 * i + d] = (struct job_row){shown[i]->counts[d], shown[i], d};
	}
	fields_write(out, row_fields, rows, 2 * count, sizeof(rows[0]), row_labels, labels);
	for (size_t i = 0; i < count; i++)
		write_verbs(messages, bytes, shown[i]);
	for (size_t i = 0; i < count; i++)
		write_delays(owd, jobs, shown[i]);
}
