// SPDX-License-Identifier: BSD-2-Clause
/* The figures of a poll into the diagnosis (diagnosis.h), and its results out of it. */
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
#include "law.h"
#include "mesh/mesh.h"

#define POLL_SAMPLES 8 /* enough for a poll to stand for itself, else the last second does */
#define MESH_WINDOW_NS 1000000000
#define REPORTED_MOST 64 /* diagnoses in `status` */

struct diagnose {
	struct core *core;
	struct dataplane *dataplane;
	struct mesh *mesh;
	struct qptable *table;
	struct delays *delays;
	struct diagnoses *diagnoses;
	/* Of the newest poll. */
	struct diag_qp *qps;
	size_t qp_count;
	struct diag_peer peers[MESH_PEERS_MAX];
	size_t peer_count;
	struct diag_port ports[ESC_PORTS_MAX];
	char devices[ESC_PORTS_MAX][64]; /* RDMA, by index of the port; "" none */
	size_t port_count;
	bool failed; /* logged once */
};

/* --- what goes in --- */

static void take_delay(struct diag_qp *qp, const struct delays_entry *entry)
{
	const struct delays_span *recent = &entry->recent;
	const struct delays_span *span =
		entry->poll.samples >= POLL_SAMPLES ? &entry->poll : recent;

	if (!recent->samples)
		return;
	qp->delay = (struct diag_delay){.samples = span->samples,
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

static void take_sent(struct diag_qp *out, const struct esc_qp *qp)
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

static void take_answers(struct diag_qp *out, const struct esc_qp *qp)
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
 * By the owner of the local queue pair: whether it is alive, its job, and what comes to it from
 * where @qp goes to. NULL: not known so.
 */
static const struct qp_entry *take_owner(const struct diagnose *diagnose, struct diag_qp *qp)
{
	const char *device = diagnose->devices[qp->key.port % ESC_PORTS_MAX];
	const struct owner *owner =
		ownertable_of_qp(owners_table(qptable_owners(diagnose->table)), &qp->key, device);
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
	return qptable_find(diagnose->table, &back);
}

static int gather_qps(struct diagnose *diagnose)
{
	size_t count;
	const struct qp_entry *entries = qptable_entries(diagnose->table, &count);
	struct diag_qp *qps = reallocarray(diagnose->qps, count + 1, sizeof(*qps));
	struct answers *answers;
	int err = qps ? answers_new(&answers, entries, count) : -ENOMEM;

	if (qps)
		diagnose->qps = qps;
	if (err)
		return err;
	diagnose->qp_count = 0;
	for (size_t i = 0; i < count; i++) {
		struct diag_qp *qp = &qps[diagnose->qp_count];
		const struct qp_entry *back, *by_owner;

		if (entries[i].key.direction != ESC_DIRECTION_TX)
			continue;
		*qp = (struct diag_qp){.key = entries[i].key};
		if (entries[i].delays)
			take_delay(qp, entries[i].delays);
		take_sent(qp, &entries[i].qp);
		back = answers_of(answers, &entries[i], &qp->nothing_back);
		by_owner = take_owner(diagnose, qp);
		if (by_owner)
			back = by_owner;
		if (back)
			take_answers(qp, &back->qp);
		diagnose->qp_count++;
	}
	answers_free(answers);
	return 0;
}

/* Only those that some queue pair goes to: quantiles cost. */
static void gather_peers(struct diagnose *diagnose)
{
	const struct esc_address *before = NULL;

	diagnose->peer_count = 0;
	for (size_t i = 0; i < diagnose->qp_count && diagnose->peer_count < MESH_PEERS_MAX; i++) {
		const struct esc_address *dst = &diagnose->qps[i].key.dst;
		struct diag_peer *peer = &diagnose->peers[diagnose->peer_count];
		struct mesh_out_facts facts;

		if ((before && !memcmp(before, dst, sizeof(*dst))) ||
		    !mesh_get_out(diagnose->mesh, dst, MESH_WINDOW_NS, &facts))
			continue;
		before = dst;
		*peer = (struct diag_peer){
			.address = *dst,
			.source_port = facts.source_port,
			.up = facts.state == PEER_UP,
			.delay = {.samples = facts.owd.samples,
				  .min_ns = facts.owd.min_ns,
				  .p50_ns = facts.owd.p50_ns,
				  .p99_ns = facts.owd.p99_ns,
				  .max_ns = facts.owd.max_ns,
				  .bound_ns = facts.bound_ns},
		};
		diagnose->peer_count++;
	}
}

static void gather_ports(struct diagnose *diagnose)
{
	const struct ownertable *owners = owners_table(qptable_owners(diagnose->table));
	const struct dataplane *dataplane = diagnose->dataplane;

	diagnose->port_count = 0;
	memset(diagnose->devices, 0, sizeof(diagnose->devices));
	for (unsigned int i = 0; i < dataplane_port_count(dataplane); i++) {
		struct diag_port *port = &diagnose->ports[diagnose->port_count];
		struct esc_port_counts counts;
		struct port_info info;

		if (diagnose->port_count >= ESC_PORTS_MAX || dataplane_port(dataplane, i, &info) ||
		    dataplane_port_counts(dataplane, info.index, &counts))
			continue;
		*port = (struct diag_port){.index = info.index,
					   .counts_rx = port_counts_rx(&info),
					   .rocev1_rx = counts.rx_rocev1_frames,
					   .rocev1_tx = counts.tx_rocev1_frames};
		snprintf(diagnose->devices[info.index % ESC_PORTS_MAX],
			 sizeof(diagnose->devices[0]), "%s", info.rdma_device);
		if (owners && info.rdma_device[0])
			port->rocev1_gids =
				ownertable_rocev1(owners, info.rdma_device, info.rdma_port);
		memcpy(port->name, info.name, sizeof(port->name));
		port->name[sizeof(port->name) - 1] = '\0';
		diagnose->port_count++;
	}
}

/* "": the port is not there. */
static const char *interface_of(const struct diagnose *diagnose, const struct diag_subject *subject)
{
	for (size_t i = 0; i < diagnose->port_count; i++)
		if (diagnose->ports[i].index == subject->key.port)
			return diagnose->ports[i].name;
	return "";
}

static void poll(void *self, uint64_t now_local_ns)
{
	struct diagnose *diagnose = self;
	const struct diag_event *events;
	size_t count;
	int err;

	gather_ports(diagnose);
	err = gather_qps(diagnose);
	if (!err) {
		gather_peers(diagnose);
		err = diagnoses_update(diagnose->diagnoses,
				       &(struct diag_input){.now_ns = now_local_ns,
							    .qps = diagnose->qps,
							    .qp_count = diagnose->qp_count,
							    .peers = diagnose->peers,
							    .peer_count = diagnose->peer_count,
							    .ports = diagnose->ports,
							    .port_count = diagnose->port_count},
				       &events, &count);
	}
	if (err && !diagnose->failed)
		log_error("queue pairs cannot be judged: %s", strerror(-err));
	diagnose->failed = err;
	for (size_t i = 0; !err && i < count; i++)
		diagnose_emit(diagnose->core->events, &events[i],
			      interface_of(diagnose, &events[i].of.subject));
}

/* --- what is active --- */

static int compare_age(const void *a, const void *b)
{
	const struct diag_active *one = *(const struct diag_active *const *)a;
	const struct diag_active *two = *(const struct diag_active *const *)b;

	return one->first_ns < two->first_ns ? -1 : one->first_ns > two->first_ns;
}

static void status(void *self, json_t *status)
{
	const struct diagnose *diagnose = self;
	const struct diag_active *active[LAW_BOOK_MAX], *one;
	char subject[DIAGNOSE_SUBJECT_BYTES];
	uint64_t now_ns = time_local_ns();
	json_t *list = json_array();
	size_t count = 0, at = 0;

	while ((one = diagnoses_next(diagnose->diagnoses, &at)))
		active[count++] = one;
	qsort(active, count, sizeof(active[0]), compare_age);
	for (size_t i = 0; i < count && i < REPORTED_MOST; i++) {
		const char *interface = interface_of(diagnose, &active[i]->subject);
		json_t *object = json_object();

		json_put_text(object, "kind", diag_kind_name(active[i]->kind));
		json_put_text(object, "subject",
			      diagnose_subject(&active[i]->subject, interface, subject));
		json_put_count(object, "since_ms", (now_ns - active[i]->first_ns) / 1000000);
		json_put(object, "seen", diagnose_seen(active[i], interface));
		json_array_append_new(list, object);
	}
	json_put(status, "diagnoses", list);
}

static bool is_about(const struct diag_subject *subject, const struct esc_qp_key *key)
{
	if (subject->about == DIAG_ABOUT_QP)
		return !memcmp(&subject->key, key, sizeof(*key));
	return subject->about == DIAG_ABOUT_PAIR && key->direction == ESC_DIRECTION_TX &&
	       !memcmp(&subject->key.src, &key->src, sizeof(key->src)) &&
	       !memcmp(&subject->key.dst, &key->dst, sizeof(key->dst));
}

static void describe_qp(void *self, const struct qp_entry *entry, json_t *qp)
{
	const struct diagnose *diagnose = self;
	const struct diag_active *active;
	json_t *list = NULL;
	size_t at = 0;

	while ((active = diagnoses_next(diagnose->diagnoses, &at))) {
		if (!is_about(&active->subject, &entry->key))
			continue;
		if (!list)
			list = json_array();
		json_array_append_new(list, json_string(diag_kind_name(active->kind)));
	}
	json_put(qp, "diagnoses", list);
}

/* --- as a capability --- */

#define DIAGNOSE_METRICS(X)                                                                        \
	X(DIAGNOSES_ACTIVE, "diagnoses_active", GAUGE, "Diagnoses that stand now, by kind.")       \
	X(DIAGNOSES_TOTAL, "diagnoses_total", COUNTER,                                             \
	  "Diagnoses that began since the daemon started, those without an event included.")
enum { DIAGNOSE_METRICS(METRIC_ENUM) };
static const struct metric diagnose_metrics[] = {DIAGNOSE_METRICS(METRIC){}};

static void write_metrics(void *self, FILE *out)
{
	struct prom_family *active = FAMILY_OF(&diagnose_metrics[DIAGNOSES_ACTIVE]);
	struct prom_family *total = FAMILY_OF(&diagnose_metrics[DIAGNOSES_TOTAL]);
	const struct diagnose *diagnose = self;

	for (unsigned int i = 0; i < DIAG_KINDS; i++)
		prom_count(active, diagnoses_active_count(diagnose->diagnoses, i), "kind",
			   diag_kind_name(i), NULL);
	for (unsigned int i = 0; i < DIAG_KINDS; i++)
		prom_count(total, diagnoses_total(diagnose->diagnoses, i), "kind",
			   diag_kind_name(i), NULL);
}

static int open_diagnose(void **self, struct core *core, void *const needs[], char **error)
{
	struct diagnose *diagnose = calloc(1, sizeof(*diagnose));
	int err = diagnose ? diagnoses_new(&diagnose->diagnoses) : -ENOMEM;

	if (err) {
		free(diagnose);
		return explain(error, err, "diagnosis: %s", strerror(-err));
	}
	diagnose->core = core;
	diagnose->dataplane = needs[0];
	diagnose->mesh = needs[1];
	diagnose->table = needs[2];
	diagnose->delays = needs[3];
	delays_listen(diagnose->delays, poll, diagnose);
	*self = diagnose;
	return 0;
}

static void close_diagnose(void *self)
{
	struct diagnose *diagnose = self;

	delays_listen(diagnose->delays, NULL, NULL);
	diagnoses_free(diagnose->diagnoses);
	free(diagnose->qps);
	free(diagnose);
}

const struct capability diagnose_capability = {
	.name = "diagnose",
	.needs = {"dataplane", "mesh", "qp", "delay"},
	.events = diag_events,
	.metrics = diagnose_metrics,
	.open = open_diagnose,
	.close = close_diagnose,
	.status = status,
	.qp = describe_qp,
	.write_metrics = write_metrics,
};
