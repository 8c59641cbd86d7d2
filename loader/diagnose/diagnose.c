// SPDX-License-Identifier: BSD-2-Clause
/* Diagnosis as a capability: collects the figures of a poll, and shows what diagnosis.c finds. */
#include "diagnose.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/explain.h"
#include "base/json.h"
#include "base/log.h"
#include "base/fields.h"
#include "dataplane/dataplane.h"
#include "delay/delay.h"
#include "internal.h"
#include "mesh/mesh.h"
#include "paths/paths.h"
#include "rotation/rotation.h"

#define POLL_SAMPLES 8 /* enough for a poll to stand for itself, else the last second does */
#define MESH_WINDOW_NS 1000000000
#define REPORTED_MOST 64 /* diagnoses in `status` */

struct diagnose {
	struct core *core;
	struct dataplane *dataplane;
	struct mesh *mesh;
	struct paths *paths;
	struct rotation *rotation;
	struct qptable *table;
	struct delays *delays;
	struct diagnoses *diagnoses;
	/* Of the newest poll. */
	struct diag_input input; /* of the three lists */
	struct diag_qp *qps;
	struct diag_peer *peers;
	struct diag_port ports[ESC_PORTS_MAX];
	char devices[ESC_PORTS_MAX][64]; /* RDMA, by index of the port; "" none */
	bool failed;			 /* logged once */
};

/* --- collection --- */

static void read_delay(struct diag_qp *qp, const struct delays_entry *entry)
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

/*
 * By the owner of the local queue pair: whether a process holds it, its job, and the queue pair
 * that receives from the destination of @qp. NULL: not known. @foreign: no RDMA device made the
 * packets.
 */
static const struct qp_entry *read_owner(const struct diagnose *diagnose, struct diag_qp *qp,
					 bool foreign)
{
	const char *device = diagnose->devices[qp->key.port % ESC_PORTS_MAX];
	const struct owner *owner = qptable_owner(diagnose->table, &qp->key, device);
	struct esc_qp_key back = {.src = qp->key.dst,
				  .dst = qp->key.src,
				  .direction = ESC_DIRECTION_RX,
				  .port = qp->key.port};

	if (!owner) {
		qp->foreign = foreign && device[0] && qptable_has_owners(diagnose->table);
		return NULL;
	}
	qp->alive = owner->is.state == ESC_OWNER_RTS;
	if (owner->job.kind != JOB_NONE)
		qp->job = hash_add(HASH_FIRST, owner->job.name, strlen(owner->job.name)) |
			  1; /* never 0 */
	back.dest_qpn = owner->key.qpn;
	return qptable_find(diagnose->table, &back);
}

static int gather_qps(struct diagnose *diagnose)
{
	size_t count;
	const struct qp_entry *entries = qptable_entries(diagnose->table, &count);
	struct diag_qp *qps = reallocarray(diagnose->qps, count + 1, sizeof(*qps));
	struct replies *replies;
	int err = qps ? replies_new(&replies, entries, count) : -ENOMEM;

	if (qps)
		diagnose->input.qps = diagnose->qps = qps;
	if (err)
		return err;
	diagnose->input.qp_count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct esc_qp *tx = &entries[i].qp, *rx;
		struct diag_qp *qp = &qps[diagnose->input.qp_count];
		const struct qp_entry *back, *by_owner;

		if (entries[i].key.direction != ESC_DIRECTION_TX)
			continue;
		*qp = (struct diag_qp){
			.key = entries[i].key,
			.sport = tx->sport,
			.transport = tx->transport,
			.bytes = tx->bytes,
			.retransmits = tx->retransmits,
			.next_psn = tx->requests.next,
			.next_known = tx->requests.flags & ESC_PSN_VALID,
			.mid_message = tx->requests.flags & ESC_PSN_MESSAGE,
			.asked = tx->requests.flags & ESC_PSN_ASKED,
		};
		if (entries[i].delays)
			read_delay(qp, entries[i].delays);
		back = replies_of(replies, &entries[i], &qp->nothing_back);
		by_owner = read_owner(diagnose, qp, tx->unknown);
		if (by_owner)
			back = by_owner;
		if (back) {
			rx = &back->qp;
			qp->paired = true;
			qp->acked_psn = rx->responses.next;
			qp->acked_known = rx->responses.flags & ESC_PSN_VALID;
			qp->acks = rx->acks;
			qp->nak_sequence = rx->nak_sequence;
			qp->rnr_naks = rx->rnr_naks;
		}
		diagnose->input.qp_count++;
	}
	free(replies);
	return 0;
}

static void set_peer(struct diag_peer *peer, enum diag_source source, const struct quantiles *owd,
		     int64_t bound_ns)
{
	peer->source = source;
	peer->delay = (struct diag_delay){.samples = (uint32_t)owd->samples,
					  .min_ns = owd->min_ns,
					  .p50_ns = owd->p50_ns,
					  .p99_ns = owd->p99_ns,
					  .max_ns = owd->max_ns,
					  .bound_ns = bound_ns};
}

static bool read_mesh(const struct diagnose *diagnose, struct diag_peer *peer)
{
	struct mesh_out_facts facts;

	if (!mesh_get_out(diagnose->mesh, &peer->address, MESH_WINDOW_NS, &facts))
		return false;
	set_peer(peer, DIAG_BY_MESH, &facts.owd, facts.bound_ns);
	peer->up = facts.state == PEER_UP;
	peer->source_port = facts.source_port;
	peer->age_ns = facts.age_ns;
	return true;
}

static bool read_path(const struct diagnose *diagnose, struct diag_peer *peer, bool slow)
{
	struct esc_path_key key = {peer->src, peer->address};
	struct path_out_facts facts;

	if (!paths_get_out(diagnose->paths, &key, slow, &facts))
		return false;
	set_peer(peer, DIAG_BY_PATH, &facts.owd, facts.bound_ns);
	peer->up = facts.up;
	peer->source_port = facts.source_port;
	if (facts.at_ns)
		peer->age_ns = time_local_ns() - (uint64_t)facts.at_ns;
	return true;
}

static bool read_rotation(const struct diagnose *diagnose, struct diag_peer *peer)
{
	struct esc_path_key key = {peer->src, peer->address};
	struct rotation_out_facts facts;

	if (!rotation_get_out(diagnose->rotation, &key, &facts) || facts.age_ns > LAW_PROBES_AGE_NS)
		return false;
	set_peer(peer, DIAG_BY_ROTATION, &facts.owd, facts.bound_ns);
	peer->up = true;
	peer->source_port = facts.source_port;
	peer->age_ns = facts.age_ns;
	return true;
}

/*
 * For each pair of addresses. Delays of probes are compared with those of queue pairs of which
 * each is slow (find_inband()), and cost time to read: of the others they are not read.
 */
static int gather_peers(struct diagnose *diagnose)
{
	const struct diag_qp *qps = diagnose->qps;
	size_t end, count = diagnose->input.qp_count;
	struct diag_peer *peers = reallocarray(diagnose->peers, count + 1, sizeof(*peers));

	if (!peers)
		return -ENOMEM;
	diagnose->input.peers = diagnose->peers = peers;
	diagnose->input.peer_count = 0;
	for (size_t at = 0; at < count; at = end) {
		const struct esc_qp_key *key = &qps[at].key;
		struct diag_peer *peer = &peers[diagnose->input.peer_count];
		bool slow = true, found;

		for (end = at; end < count && diag_is_same_pair(key, &qps[end].key); end++)
			slow &= !qps[end].delay.samples ||
				qps[end].delay.p50_ns > LAW_INBAND_MARGIN_NS;
		*peer = (struct diag_peer){.src = key->src, .address = key->dst};
		found = read_mesh(diagnose, peer);
		if (peer->delay.samples < LAW_MESH_SAMPLES_MIN)
			found |= read_path(diagnose, peer, slow);
		if (!found)
			found = read_rotation(diagnose, peer);
		diagnose->input.peer_count += found;
	}
	return 0;
}

static void gather_ports(struct diagnose *diagnose)
{
	const struct dataplane *dataplane = diagnose->dataplane;

	diagnose->input.port_count = 0;
	memset(diagnose->devices, 0, sizeof(diagnose->devices));
	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		struct diag_port *port = &diagnose->ports[diagnose->input.port_count];
		struct port_facts facts;
		const struct port_info *info = &facts.info;

		if (dataplane_port(dataplane, slot, &facts))
			continue;
		*port = (struct diag_port){.index = slot,
					   .counts_rx = port_counts_rx(info),
					   .rocev1_rx = facts.counts.rx_rocev1_frames,
					   .rocev1_tx = facts.counts.tx_rocev1_frames};
		snprintf(diagnose->devices[slot], sizeof(diagnose->devices[0]), "%s",
			 info->rdma_device);
		if (info->rdma_device[0])
			port->rocev1_gids =
				qptable_rocev1(diagnose->table, info->rdma_device, info->rdma_port);
		snprintf(port->name, sizeof(port->name), "%s", info->name);
		diagnose->input.port_count++;
	}
}

/* --- events --- */

_Static_assert(DIAG_BEGIN == 0 && DIAG_CHANGE == 1 && DIAG_CLEAR == 2, "index of diag_events");
/* By kind, three each: begin, change, clear. */
#define PHASES(id, name, severity, help, ...)                                                      \
	[3 * (id)] = {name, EVENT_##severity, help, .begins = (name), ##__VA_ARGS__},              \
	     [3 * (id) + 1] = {name "_changed", EVENT_NOTICE, "Its cause is another now.",         \
			       .begins = (name), ##__VA_ARGS__},                                   \
	     [3 * (id) + 2] = {name "_cleared", EVENT_NOTICE, "It is over.", .ends = (name)},
static const struct event_kind diag_events[] = {DIAG_LIST(PHASES){}};

/* @interface: of its port, "" unknown. */
static const char *subject_text(const struct diag_subject *subject, const char *interface,
				char out[ADDRESS_QP_BYTES])
{
	const struct esc_qp_key *key = &subject->key;
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES];

	if (subject->about == DIAG_ABOUT_QP)
		return address_format_qp(&key->src, &key->dst, key->dest_qpn, out);
	if (subject->about == DIAG_ABOUT_PORT)
		snprintf(out, ADDRESS_QP_BYTES, "%s", interface);
	else
		snprintf(out, ADDRESS_QP_BYTES, "%s>%s", address_format(&key->src, src),
			 address_format(&key->dst, dst));
	return out;
}

static json_t *figures_json(const struct diag_figure *figures, size_t count)
{
	json_t *object = json_object();

	for (size_t i = 0; i < count; i++) {
		double value = figures[i].value;
		bool whole = fabs(value) < 9e15 && value == rint(value);

		json_put(object, figures[i].name,
			 whole ? json_integer((json_int_t)value)
			       : json_real(round(value * 1e4) / 1e4));
	}
	return object;
}

static json_t *seen_json(const struct diag_active *active, const char *interface)
{
	const struct diag_subject *subject = &active->subject;
	const struct diag_evidence *evidence = &active->evidence;
	json_t *seen = figures_json(evidence->seen, evidence->seen_count);
	char text[ADDRESS_TEXT_BYTES];

	json_put_text(seen, "cause", evidence->cause);
	json_put_text(seen, "note", evidence->note);
	json_put_text(seen, "probes", evidence->probes);
	if (subject->about != DIAG_ABOUT_PORT) {
		json_put_text(seen, "src", address_format(&subject->key.src, text));
		json_put_text(seen, "dst", address_format(&subject->key.dst, text));
	}
	if (subject->about == DIAG_ABOUT_QP)
		json_put_count(seen, "dest_qpn", subject->key.dest_qpn);
	if (subject->about != DIAG_ABOUT_PAIR)
		json_put_text(seen, "interface", interface);
	return seen;
}

void diagnose_emit(struct events *events, const struct diag_event *event, const char *interface)
{
	const struct diag_evidence *evidence = &event->of.evidence;
	const struct event_kind *kind = &diag_events[3 * event->of.kind];
	static const enum event_about abouts[] = {[DIAG_ABOUT_QP] = EVENT_QP,
						  [DIAG_ABOUT_PAIR] = EVENT_PAIR,
						  [DIAG_ABOUT_PORT] = EVENT_NIC};
	double seconds = (event->now_ns - event->of.first_ns) / 1e9;
	bool about_qp = event->of.subject.about == DIAG_ABOUT_QP;
	char subject[ADDRESS_QP_BYTES];
	json_t *seen, *result = NULL;

	if (event->phase == DIAG_MORE) {
		seen = json_pack("{s:I}", "suppressed", (json_int_t)event->left_out);
		events_add(events, &(struct event){.kind = kind,
						   .subject = "more",
						   .no_condition = true,
						   .seen = seen});
		return;
	}
	kind += event->phase;
	subject_text(&event->of.subject, interface, subject);
	seen = seen_json(&event->of, interface);
	json_put_count(seen, "since_ms", (event->now_ns - event->of.first_ns) / 1000000);
	if (event->phase == DIAG_BEGIN)
		log_warning("%s: %s%s%s", kind->name, subject, evidence->cause ? ": " : "",
			    evidence->cause ? evidence->cause : "");
	if (event->phase == DIAG_CLEAR)
		result = json_pack("{s:f, s:s}", "duration_s", round(seconds * 1e3) / 1e3, "reason",
				   event->because);
	events_add(events,
		   &(struct event){
			   .kind = kind,
			   .subject = subject,
			   .about = abouts[event->of.subject.about],
			   .qp = about_qp ? &event->of.subject.key : NULL,
			   .seen = seen,
			   .expected = figures_json(evidence->expected, evidence->expected_count),
			   .result = result,
		   });
}

/* "": the port is not there. */
static const char *interface_of(const struct diagnose *diagnose, const struct diag_subject *subject)
{
	for (size_t i = 0; i < diagnose->input.port_count; i++)
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
	if (!err)
		err = gather_peers(diagnose);
	if (!err) {
		diagnose->input.now_ns = now_local_ns;
		err = diagnoses_update(diagnose->diagnoses, &diagnose->input, &events, &count);
	}
	if (err && !diagnose->failed)
		log_error("queue pairs cannot be evaluated: %s", strerror(-err));
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
	char subject[ADDRESS_QP_BYTES];
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
			      subject_text(&active[i]->subject, interface, subject));
		json_put_count(object, "since_ms", (now_ns - active[i]->first_ns) / 1000000);
		json_put(object, "seen", seen_json(active[i], interface));
		json_array_append_new(list, object);
	}
	json_put(status, "diagnoses", list);
}

static void describe_qp(void *self, const struct qp_entry *entry, json_t *qp)
{
	const struct diagnose *diagnose = self;
	const struct diag_active *active;
	json_t *list = NULL;
	size_t at = 0;

	while ((active = diagnoses_next(diagnose->diagnoses, &at))) {
		const struct diag_subject *subject = &active->subject;

		if (subject->about == DIAG_ABOUT_QP
			    ? memcmp(&subject->key, &entry->key, sizeof(subject->key)) != 0
			    : subject->about != DIAG_ABOUT_PAIR ||
				      entry->key.direction != ESC_DIRECTION_TX ||
				      !diag_is_same_pair(&subject->key, &entry->key))
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
	const struct book_kind *kinds = ((const struct diagnose *)self)->diagnoses->book.kinds;

	for (unsigned int i = 0; i < DIAG_KINDS; i++)
		prom_count(active, kinds[i].active, "kind", diag_kind_name(i), NULL);
	for (unsigned int i = 0; i < DIAG_KINDS; i++)
		prom_count(total, kinds[i].total, "kind", diag_kind_name(i), NULL);
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
	diagnose->paths = needs[4];
	diagnose->rotation = needs[5];
	diagnose->input.ports = diagnose->ports;
	delays_listen(diagnose->delays, poll, diagnose);
	*self = diagnose;
	return 0;
}

static void close_diagnose(void *self)
{
	struct diagnose *diagnose = self;

	delays_listen(diagnose->delays, NULL, NULL);
	diagnoses_free(diagnose->diagnoses);
	free(diagnose->peers);
	free(diagnose->qps);
	free(diagnose);
}

const struct capability diagnose_capability = {
	.name = "diagnose",
	.needs = {"dataplane", "mesh", "qp", "delay", "paths", "rotation"},
	.events = diag_events,
	.metrics = diagnose_metrics,
	.open = open_diagnose,
	.close = close_diagnose,
	.status = status,
	.qp = describe_qp,
	.write_metrics = write_metrics,
};
