// SPDX-License-Identifier: BSD-2-Clause
#include "clock.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/log.h"
#include "clocksync/graph.h"
#include "clocksync/local.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "internal.h"
#include "page.h"

const struct event_kind clock_events[] = {CLOCK_EVENTS(EVENT_KIND){}};

void clock_report(const struct clock *clock, unsigned int kind, const char *subject, json_t *seen)
{
	events_add(clock->core->events,
		   &(struct event){.kind = &clock_events[kind], .subject = subject, .seen = seen});
}

uint64_t clock_epoch(const struct clock *clock)
{
	return clock->epoch;
}

struct esc_fleet *clock_fleet(const struct clock *clock)
{
	return clock->fleet;
}

int64_t clock_local_at(const struct clock *clock, uint64_t monotonic_ns)
{
	return clock_local_ns(monotonic_ns, clock->lab_offset_ns, clock->lab_drift_ppb);
}

const struct hostclock *clock_host(const struct clock *clock)
{
	return &clock->host;
}

uint64_t clock_rounds(const struct clock *clock)
{
	return clock->rounds;
}

/* --- edges --- */

struct clock_edge *clock_add_edge(struct clock *clock, enum fleet_plane plane, uint64_t id,
				  const char *host)
{
	struct clock_edge *edge;
	size_t slot = 0;

	while (slot < CLOCK_EDGES_MAX && clock->edges[slot])
		slot++;
	edge = slot < CLOCK_EDGES_MAX ? calloc(1, sizeof(*edge)) : NULL;
	if (!edge)
		return NULL;
	edge->slot = slot;
	edge->id = id;
	edge->plane = plane;
	snprintf(edge->host, sizeof(edge->host), "%s", host);
	edge->begun_local_ns = clock_local_at(clock, time_local_ns());
	edge_init(&edge->fit, (int64_t)clock->core->config->clock.window_ns);
	clock->edges[slot] = edge;
	return edge;
}

void clock_remove_edge(struct clock *clock, struct clock_edge *edge)
{
	clock->edges[edge->slot] = NULL;
	if (edge->slot < CONSENSUS_PEERS_MAX)
		consensus_peer_init(&clock->host.consensus, edge->slot);
	free(edge);
}

void clock_listen(struct clock *clock, const struct clock_listener *listener, void *context)
{
	clock->listener = listener;
	clock->listener_context = context;
}

void clock_configure(struct clock *clock, bool on)
{
	const struct members *members = fleet_members(clock->core->fleet);
	const char *host = clock->core->config->host;
	struct roster *roster = &clock->members;
	const struct clock_edge *edge;
	unsigned int edges = 0;
	bool known;

	for_each_edge (clock, edge)
		edges++;
	clock->host.config.degree = clock->host.consensus.degree = edges;
	roster_free(roster);
	known = members && !roster_build_all(roster, members, host);
	if (on && known && roster->self != ROSTER_NOBODY)
		clock->host.config.rank = graph_rank(roster->ids, roster->count, roster->self, 0);
	if (on && !clock->runs)
		clock->host.consensus.first_round_ns = clock_local_at(clock, time_local_ns());
	clock->runs = clock->runs || on || clock->model_taken;
}

void clock_tick(struct clock *clock, uint64_t now_ns)
{
	if (now_ns < clock->round_due_ns)
		return;
	clock->round_due_ns += HOSTCLOCK_ROUND_NS;
	if (clock->round_due_ns <= now_ns)
		clock->round_due_ns = now_ns + HOSTCLOCK_ROUND_NS;
	clock_round(clock, now_ns);
}

/* --- what is known --- */

void clock_get(const struct clock *clock, struct clock_facts *out)
{
	const struct hostclock *host = &clock->host;
	const struct consensus *consensus = &host->consensus;
	const struct clock_edge *edge;

	memset(out, 0, sizeof(*out));
	out->state = host->state;
	out->monotonic_ns = (int64_t)time_local_ns();
	out->local_ns = clock_local_at(clock, (uint64_t)out->monotonic_ns);
	out->used = consensus->used;
	out->heard = consensus->heard;
	out->degree = consensus->degree;
	out->rounds = clock->rounds;
	out->moves = consensus->moves;
	for_each_edge (clock, edge)
		out->one_sided |= edge->one_sided;
	out->last_used_age_ns =
		consensus->last_used_ns ? out->local_ns - consensus->last_used_ns : -1;
	out->known = host->model.generation && host->state != CLOCK_FREE_RUNNING;
	if (!out->known)
		return;
	out->model = host->model;
	out->fabric_ns = clock_model_read(&host->model, out->local_ns);
	out->bound_ns = clock_model_bound(&host->model, out->local_ns);
	out->residual_ns = consensus->residual_ns;
	out->reach = consensus->reach;
	clock_get_tai(clock, out);
}

/* --- from start to end --- */

static void open_page(struct clock *clock)
{
	char *copy = strdup(clock->core->config->socket), *path = NULL, *error = NULL;

	if (copy && asprintf(&path, "%s/clock", dirname(copy)) >= 0 &&
	    clockpage_open(&clock->page, path, clock->lab_offset_ns, clock->lab_drift_ppb, &error))
		log_warning("%s", error ? error : path);
	free(error);
	free(path);
	free(copy);
}

static bool read_fabric(void *context, int64_t *fabric_ns, int64_t *bound_ns)
{
	struct clock_facts facts;

	clock_get(context, &facts);
	*fabric_ns = facts.fabric_ns;
	*bound_ns = facts.bound_ns;
	return facts.known;
}

static void clock_close(void *self)
{
	struct clock *clock = self;

	events_set_clock(clock->core->events, NULL, NULL);
	ring_buffer__free(clock->ring);
	clock_close_maps(clock);
	clockpage_close(clock->page);
	roster_free(&clock->members);
	free(clock);
}

static int clock_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct clock *clock = calloc(1, sizeof(*clock));
	const struct dataplane *dataplane = needs[0];
	int err;

	if (!clock)
		return -ENOMEM;
	clock->core = core;
	clock->members.self = ROSTER_NOBODY;
	clock->lab_offset_ns = core->config->lab.clock_offset_ns;
	clock->lab_drift_ppb = core->config->lab.clock_drift_ppb;
	/* Hosts that started together are not to have their rounds together. */
	clock->round_due_ns = time_local_ns() + core->start_realtime_ns / 1000 % HOSTCLOCK_ROUND_NS;
	err = clock_open_maps(clock, dataplane, error);
	if (!err)
		err = clock_open_ring(clock, dataplane_map_fd(dataplane, "probes"), error);
	if (err) {
		clock_close(clock);
		return err;
	}
	/* Later than the one before, also when the system clock was set back. */
	clock->epoch = time_realtime_ns();
	if (clock->epoch <= clock->fleet->epoch)
		clock->epoch = clock->fleet->epoch + 1;
	open_page(clock);
	clock_start_host(clock);
	events_set_clock(core->events, read_fabric, clock);
	*self = clock;
	return 0;
}

const struct capability clock_capability = {
	.name = "clock",
	.needs = {"dataplane"},
	.verbs = clock_verb_handlers,
	.events = clock_events,
	.metrics = clock_metrics,
	.open = clock_open,
	.close = clock_close,
	.status = clock_put_status,
	.write_metrics = clock_write_metrics,
};
