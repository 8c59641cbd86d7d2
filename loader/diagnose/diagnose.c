// SPDX-License-Identifier: BSD-2-Clause
/* What the daemon knows to the diagnosis (verdict.h), and its results to those who look at them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "base/log.h"
#include "base/prom.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "delay/delay.h"
#include "internal.h"
#include "mesh/mesh.h"

#define POLL_SAMPLES 8 /* enough for a poll to stand for itself, else the last second does */
#define MESH_WINDOW_NS 1000000000
#define REPORTED_MOST 64 /* verdicts in `status` */
#define ACTIVE_MOST 512

struct judge {
	struct core *core;
	struct dataplane *dataplane;
	struct mesh *mesh;
	struct qptable *table;
	struct delays *delays;
	struct verdicts *verdicts;
	struct verdict_qp *qps; /* of the newest poll */
	size_t qp_count;
	struct verdict_peer peers[MESH_PEERS_MAX];
	size_t peer_count;
	struct verdict_port ports[ESC_PORTS_MAX];
	char devices[ESC_PORTS_MAX][64]; /* RDMA, by index of the port; "" none */
	size_t port_count;
	bool failed; /* logged once */
};

/* --- what goes in --- */

static void take_delay(struct verdict_qp *qp, const struct delays_entry *entry)
{
	const struct delays_span *recent = &entry->recent;
	const struct delays_span *span =
		entry->poll.samples >= POLL_SAMPLES ? &entry->poll : recent;

	if (!recent->samples)
		return;
	qp->delay = (struct verdict_delay){.samples = span->samples,
					   .ce = span->samples * recent->ce / recent->samples,
					   .min_ns = span->min_ns,
					   .p50_ns = span->p50_ns,
					   .p99_ns = span->p99_ns,
					   .max_ns = span->max_ns,
					   .bound_ns = recent->bound_ns};
	qp->stack_known = true;
	qp->stack_max_ns = recent->stack_max_ns;
	qp->queue_known = recent->queue_samples > 0;
	qp->queue_max_ns = recent->queue_max_ns;
}

static void take_sent(struct verdict_qp *out, const struct esc_qp *qp)
{
	out->sport = qp->sport;
	out->transport = qp->transport;
	out->packets = qp->packets;
	out->bytes = qp->bytes;
	out->retransmits = qp->retransmits;
	out->next_psn = qp->requests.next;
	out->next_known = qp->requests.flags & ESC_PSN_VALID;
	out->mid_message = qp->requests.flags & ESC_PSN_MESSAGE;
}

static void take_answers(struct verdict_qp *out, const struct esc_qp *qp)
{
	out->paired = true;
	out->answered_psn = qp->responses.next;
	out->answered_known = qp->responses.flags & ESC_PSN_VALID;
	out->acks = qp->acks;
	out->nak_sequence = qp->nak_sequence;
	out->naks_other = qp_naks(qp) - qp->nak_sequence;
	out->rnr_naks = qp->rnr_naks;
}

/* Never 0. */
static uint64_t job_id(const struct job *job)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (const char *at = job->name; *at; at++)
		hash = (hash ^ (uint8_t)*at) * 0x100000001b3;
	return hash | 1;
}

/*
 * By what the kernel's queue pairs are known for: who is alive and of which job, and what comes to
 * the local queue pair from where @tx goes to. NULL: not known so.
 */
static const struct qp_entry *take_owner(const struct judge *judge, struct verdict_qp *qp)
{
	const char *device = judge->devices[qp->key.port % ESC_PORTS_MAX];
	const struct owner *owner =
		ownertable_of_qp(owners_table(qptable_owners(judge->table)), &qp->key, device);
	struct esc_qp_key back = {.src = qp->key.dst,
				  .dst = qp->key.src,
				  .direction = ESC_DIRECTION_RX,
				  .port = qp->key.port};

	if (!owner)
		return NULL;
	qp->alive = owner->is.state == ESC_OWNER_RTS;
	if (owner->job.kind != JOB_NONE)
		qp->job = job_id(&owner->job);
	back.dest_qpn = owner->key.qpn;
	return qptable_find(judge->table, &back);
}

static int gather_qps(struct judge *judge)
{
	size_t count;
	const struct qp_entry *entries = qptable_entries(judge->table, &count);
	struct verdict_qp *qps = reallocarray(judge->qps, count + 1, sizeof(*qps));
	struct answers *answers;
	int err = qps ? answers_new(&answers, entries, count) : -ENOMEM;

	if (qps)
		judge->qps = qps;
	if (err)
		return err;
	judge->qp_count = 0;
	for (size_t i = 0; i < count; i++) {
		struct verdict_qp *qp = &qps[judge->qp_count];
		const struct qp_entry *back, *by_owner;

		if (entries[i].key.direction != ESC_DIRECTION_TX)
			continue;
		*qp = (struct verdict_qp){.key = entries[i].key};
		if (entries[i].delays)
			take_delay(qp, entries[i].delays);
		take_sent(qp, &entries[i].qp);
		back = answers_of(answers, &entries[i], &qp->nothing_back);
		by_owner = take_owner(judge, qp);
		if (by_owner)
			back = by_owner;
		if (back)
			take_answers(qp, &back->qp);
		judge->qp_count++;
	}
	answers_free(answers);
	return 0;
}

/* Only those that some queue pair goes to: quantiles cost. */
static void gather_peers(struct judge *judge)
{
	const struct esc_address *before = NULL;

	judge->peer_count = 0;
	for (size_t i = 0; i < judge->qp_count && judge->peer_count < MESH_PEERS_MAX; i++) {
		const struct esc_address *dst = &judge->qps[i].key.dst;
		struct verdict_peer *peer = &judge->peers[judge->peer_count];
		struct mesh_out_facts facts;

		if ((before && !memcmp(before, dst, sizeof(*dst))) ||
		    !mesh_get_out(judge->mesh, dst, MESH_WINDOW_NS, &facts))
			continue;
		before = dst;
		*peer = (struct verdict_peer){.address = *dst,
					      .source_port = facts.source_port,
					      .up = facts.state == PEER_UP};
		peer->delay = (struct verdict_delay){.samples = facts.owd.samples,
						     .min_ns = facts.owd.min_ns,
						     .p50_ns = facts.owd.p50_ns,
						     .p99_ns = facts.owd.p99_ns,
						     .max_ns = facts.owd.max_ns,
						     .bound_ns = facts.bound_ns};
		judge->peer_count++;
	}
}

static void gather_ports(struct judge *judge)
{
	const struct ownertable *owners = owners_table(qptable_owners(judge->table));
	const struct dataplane *dataplane = judge->dataplane;

	judge->port_count = 0;
	memset(judge->devices, 0, sizeof(judge->devices));
	for (unsigned int i = 0; i < dataplane_port_count(dataplane); i++) {
		struct verdict_port *port = &judge->ports[judge->port_count];
		struct esc_port_counts counts;
		struct port_info info;

		if (judge->port_count >= ESC_PORTS_MAX || dataplane_port(dataplane, i, &info) ||
		    dataplane_port_counts(dataplane, info.index, &counts))
			continue;
		*port = (struct verdict_port){.index = info.index,
					      .hears = port_counts_rx(&info),
					      .rocev1_rx = counts.rx_rocev1_frames,
					      .rocev1_tx = counts.tx_rocev1_frames};
		snprintf(judge->devices[info.index % ESC_PORTS_MAX], sizeof(judge->devices[0]),
			 "%s", info.rdma_device);
		if (owners && info.rdma_device[0])
			port->rocev1_gids =
				ownertable_rocev1(owners, info.rdma_device, info.rdma_port);
		memcpy(port->name, info.name, sizeof(port->name));
		port->name[sizeof(port->name) - 1] = '\0';
		judge->port_count++;
	}
}

static const char *interface_of(const void *context, uint8_t index)
{
	const struct judge *judge = context;

	for (size_t i = 0; i < judge->port_count; i++)
		if (judge->ports[i].index == index)
			return judge->ports[i].name;
	return "";
}

static void judge_poll(void *context, uint64_t now_local_ns)
{
	struct judge *judge = context;
	const struct verdict_event *events;
	struct verdict_look look = {.now_ns = now_local_ns};
	size_t count;
	int err;

	gather_ports(judge);
	err = gather_qps(judge);
	if (!err) {
		gather_peers(judge);
		look.qps = judge->qps;
		look.qp_count = judge->qp_count;
		look.peers = judge->peers;
		look.peer_count = judge->peer_count;
		look.ports = judge->ports;
		look.port_count = judge->port_count;
		err = verdicts_look(judge->verdicts, &look, &events, &count);
	}
	if (err) {
		if (!judge->failed)
			log_error("queue pairs cannot be judged: %s", strerror(-err));
		judge->failed = true;
		return;
	}
	judge->failed = false;
	for (size_t i = 0; i < count; i++)
		judge_tell(judge->core->events, &events[i], interface_of, judge);
}

/* --- what stands --- */

static int compare_age(const void *a, const void *b)
{
	const struct verdict_active *one = a, *two = b;

	return one->first_ns < two->first_ns ? -1 : one->first_ns > two->first_ns;
}

static json_t *report_one(const struct judge *judge, const struct verdict_active *active,
			  uint64_t now_ns)
{
	const char *interface = interface_of(judge, active->subject.key.port);
	char subject[JUDGE_SUBJECT_BYTES];
	json_t *object = json_object();
	json_t *seen = judge_figures(active->evidence.seen, active->evidence.seen_count);

	json_put_text(object, "kind", verdict_kind_name(active->kind));
	json_put_text(object, "subject", judge_subject(&active->subject, interface, subject));
	json_put_count(object, "since_ms", (now_ns - active->first_ns) / 1000000);
	judge_put_words(seen, &active->evidence, &active->subject, interface);
	json_object_set_new(object, "seen", seen);
	return object;
}

static json_t *active_json(const struct judge *judge, uint64_t now_local_ns)
{
	struct verdict_active *active;
	json_t *list;
	size_t count;

	active = calloc(ACTIVE_MOST, sizeof(*active));
	if (!active)
		return NULL;
	count = verdicts_active(judge->verdicts, active, ACTIVE_MOST);
	list = json_array();
	qsort(active, count < ACTIVE_MOST ? count : ACTIVE_MOST, sizeof(*active), compare_age);
	for (size_t i = 0; i < count && i < REPORTED_MOST; i++)
		json_array_append_new(list, report_one(judge, &active[i], now_local_ns));
	free(active);
	return list;
}

static bool is_about(const struct verdict_subject *subject, const struct esc_qp_key *key)
{
	if (subject->about == VERDICT_ABOUT_QP)
		return !memcmp(&subject->key, key, sizeof(*key));
	return subject->about == VERDICT_ABOUT_PAIR && key->direction == ESC_DIRECTION_TX &&
	       !memcmp(&subject->key.src, &key->src, sizeof(key->src)) &&
	       !memcmp(&subject->key.dst, &key->dst, sizeof(key->dst));
}

static void describe_qp(void *self, const struct qp_entry *entry, json_t *qp)
{
	const struct judge *judge = self;
	const struct verdict_subject *subject;
	enum verdict_kind kind;
	json_t *list = NULL;
	size_t at = 0;

	while (verdicts_next(judge->verdicts, &at, &kind, &subject)) {
		if (!is_about(subject, &entry->key))
			continue;
		if (!list)
			list = json_array();
		json_array_append_new(list, json_string(verdict_kind_name(kind)));
	}
	if (list)
		json_object_set_new(qp, "diagnoses", list);
}

/* --- as a capability --- */

#define DIAGNOSE_METRICS(X)                                                                        \
	X(VERDICTS_ACTIVE, "diagnoses_active", GAUGE, "Diagnoses that stand now, by kind.")        \
	X(VERDICTS_TOTAL, "diagnoses_total", COUNTER,                                              \
	  "Diagnoses that began since the daemon started, those without an event included.")
enum { DIAGNOSE_METRICS(METRIC_ENUM) };
static const struct metric diagnose_metrics[] = {DIAGNOSE_METRICS(METRIC){}};

static void write_metrics(void *self, FILE *out)
{
	struct prom_family *active = FAMILY_OF(&diagnose_metrics[VERDICTS_ACTIVE]);
	struct prom_family *total = FAMILY_OF(&diagnose_metrics[VERDICTS_TOTAL]);
	const struct judge *judge = self;

	for (unsigned int i = 0; i < VERDICT_KINDS; i++)
		prom_count(active, verdicts_active_count(judge->verdicts, i), "kind",
			   verdict_kind_name(i), NULL);
	for (unsigned int i = 0; i < VERDICT_KINDS; i++)
		prom_count(total, verdicts_total(judge->verdicts, i), "kind", verdict_kind_name(i),
			   NULL);
}

static void status(void *self, json_t *object)
{
	json_put(object, "diagnoses", active_json(self, time_local_ns()));
}

static int open_diagnose(void **self, struct core *core, void *const needs[], char **error)
{
	struct judge *judge = calloc(1, sizeof(*judge));
	int err = judge ? verdicts_new(&judge->verdicts) : -ENOMEM;

	if (err) {
		free(judge);
		return explain(error, err, "diagnosis: %s", strerror(-err));
	}
	judge->core = core;
	judge->dataplane = needs[0];
	judge->mesh = needs[1];
	judge->table = needs[2];
	judge->delays = needs[3];
	delays_listen(judge->delays, judge_poll, judge);
	*self = judge;
	return 0;
}

static void close_diagnose(void *self)
{
	struct judge *judge = self;

	delays_listen(judge->delays, NULL, NULL);
	verdicts_free(judge->verdicts);
	free(judge->qps);
	free(judge);
}

const struct capability diagnose_capability = {
	.name = "diagnose",
	.needs = {"dataplane", "mesh", "qp", "delay"},
	.events = verdict_events,
	.metrics = diagnose_metrics,
	.open = open_diagnose,
	.close = close_diagnose,
	.status = status,
	.qp = describe_qp,
	.write_metrics = write_metrics,
};
