// SPDX-License-Identifier: BSD-2-Clause
#include "paths.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/explain.h"
#include "base/log.h"
#include "internal.h"
#include "mesh/mesh.h"
#include "net/rtnl.h"

#define TICK_SLACK_NS 1000000ull
#define TAIL_DEVIATIONS 3      /* the 99th percentile above the median, some */
#define PORTS_NS 5000000000ull /* facts of an interface; its link is known at once */

/* --- every 250 ms --- */

/* A request without a reply within a second is lost. */
static void count_losses(struct paths *paths, struct paths_pair *pair)
{
	for_each_candidate (pair, i) {
		struct candidate *path = &pair->candidates[i];
		const struct esc_path *map = paths_map_entry(paths, pair, i);
		uint64_t then = path->sent_then[0], replied;

		memmove(path->sent_then, path->sent_then + 1,
			sizeof(path->sent_then) - sizeof(path->sent_then[0]));
		path->sent_then[PATHS_HORIZON - 1] =
			__atomic_load_n(&map->probes, __ATOMIC_RELAXED);
		replied = __atomic_load_n(&map->replies, __ATOMIC_RELAXED);
		paths->total.replied += replied - path->replied;
		path->replied = replied;
		if (then <= replied || then - replied <= path->lost)
			continue;
		paths->total.lost += then - replied - path->lost;
		path->lost = then - replied;
	}
}

/*
 * Where no switch replies, floors distinguish routes: once for each window of samples. The noise of
 * delays without queues: of a floor, how far the median is above the minimum; of a single delay,
 * the tail of the path that has the shortest one.
 */
static void update_floors(struct paths_pair *pair, uint64_t now_ns)
{
	struct pathset_config usual, *config = &pair->set.config;
	struct quantiles delays[ESC_PATHS_MAX] = {};
	double tail_ns = INFINITY;

	if (now_ns < pair->floor_due_ns || !paths_is_silent(pair))
		return;
	pair->floor_due_ns = now_ns + (uint64_t)PATHSTAT_WINDOW_NS;
	pathset_config_default(&usual);
	config->floor_noise_ns = usual.floor_noise_ns;
	for_each_candidate (pair, i) {
		const struct candidate *path = &pair->candidates[i];

		pathstat_quantiles(path->out.samples ? &path->out : &path->rtt, (int64_t)now_ns,
				   &delays[i]);
		if (delays[i].samples < PATHSTAT_RECENT)
			continue;
		config->floor_noise_ns =
			fmax(config->floor_noise_ns, (double)(delays[i].p50_ns - delays[i].min_ns));
		tail_ns = fmin(tail_ns,
			       (double)(delays[i].p99_ns - delays[i].p50_ns) / TAIL_DEVIATIONS);
	}
	config->delay_noise_ns =
		isfinite(tail_ns) ? fmax(tail_ns, usual.delay_noise_ns) : usual.delay_noise_ns;
	for_each_candidate (pair, i) {
		int index = paths_set_index(pair, pair->candidates[i].sport);

		if (index >= 0 && delays[i].samples >= PATHSTAT_RECENT)
			pathset_see_floor(&pair->set, (size_t)index, (double)delays[i].min_ns);
	}
	pair->changed = true;
}

void paths_read_ports(struct paths *paths)
{
	const struct dataplane *dataplane = paths->dataplane;
	struct port_info port;

	memset(paths->ports, 0, sizeof(paths->ports));
	for (unsigned int i = 0; i < dataplane_port_count(dataplane); i++)
		if (!dataplane_port(dataplane, i, &port) && port.index < ESC_PORTS_MAX)
			paths->ports[port.index] = port;
}

static void update(struct paths *paths, uint64_t now_ns)
{
	struct paths_pair *pair;

	if (now_ns >= paths->ports_due_ns) {
		paths->ports_due_ns = now_ns + PORTS_NS;
		paths_read_ports(paths);
	}
	paths_update_pairs(paths, now_ns);
	paths_update_uses(paths, now_ns);
	for_each_pair (paths, pair) {
		count_losses(paths, pair);
		update_floors(pair, now_ns);
		paths_choose_standbys(paths, pair);
	}
}

/* --- the tick --- */

bool paths_are_probed(const struct paths *paths)
{
	return paths->on && !paths->paused;
}

/* Returns the time to the next tick. */
static uint64_t probe_tick(struct paths *paths, uint64_t now_ns)
{
	bool paused = dataplane_is_off(paths->dataplane), active = false;
	struct paths_pair *pair;

	if (paused != paths->paused)
		pathsend_pause(paths->send, paused);
	paths->paused = paused;
	ring_buffer__consume(paths->ring);
	if (!paths_are_probed(paths))
		return PATHS_TICK_IDLE_NS;
	if (now_ns >= paths->update_due_ns) {
		paths->update_due_ns = now_ns + PATHS_UPDATE_NS;
		update(paths, now_ns);
	}
	for_each_pair (paths, pair) {
		paths_evaluate(paths, pair, now_ns);
		for_each_candidate (pair, i)
			active |= pair->candidates[i].use == PATH_ACTIVE;
	}
	paths_survey_tick(paths, now_ns);
	if (active)
		return PATHS_TICK_ACTIVE_NS;
	return paths->trying ? PATHS_TICK_SURVEY_NS : PATHS_TICK_IDLE_NS;
}

static uint64_t paths_tick(void *context, uint64_t now_ns)
{
	struct paths *paths = context;
	uint64_t next_ns = probe_tick(paths, now_ns);

	if (paths->tick)
		paths->tick(paths->tick_context, now_ns);
	return next_ns;
}

void paths_on_tick(struct paths *paths, paths_tick_fn *fn, void *context)
{
	paths->tick = fn;
	paths->tick_context = context;
}

/* A link came or went: known at once, without probes. */
static void paths_links_changed(void *self)
{
	int64_t now_ns = (int64_t)time_local_ns();
	struct paths *paths = self;
	struct paths_pair *pair;

	if (!paths->on)
		return;
	/* Of the interfaces that are known: one query each, not all facts. */
	for (unsigned int i = 0; i < ESC_PORTS_MAX; i++) {
		struct port_info *port = &paths->ports[i];
		struct link_facts link;

		if (!port->name[0])
			continue;
		port->link_up = !rtnl_link(port->name, &link) && link.up;
		port->ifindex = port->link_up ? link.ifindex : port->ifindex;
	}
	for_each_pair (paths, pair) {
		bool carrier = paths->ports[pair->port % ESC_PORTS_MAX].link_up;

		for_each_candidate (pair, i) {
			struct esc_path *map = paths_map_entry(paths, pair, i);
			struct pathlive_damp *damp = &pair->candidates[i].damp;
			enum pathlive_state before = damp->state;

			if (damp->no_carrier == !carrier)
				continue;
			pathlive_carrier(damp, &paths->live, carrier, now_ns);
			map->state = (uint8_t)damp->state;
			if (damp->state == PATHLIVE_DOWN && before != PATHLIVE_DOWN)
				paths_report_down(paths, pair, i, &map->live);
		}
		paths_choose_standbys(paths, pair);
	}
}

/* --- open and close --- */

static void take_deadlines(struct paths *paths)
{
	const struct config *config = paths->core->config;

	pathlive_config_default(&paths->live);
	paths->live.dead_after_ns = (int64_t)config->paths.dead_after_ns;
	paths->live.return_after_ns = (int64_t)config->paths.return_after_ns;
}

static void take_config(struct paths *paths)
{
	const struct config *config = paths->core->config;
	struct paths_pair *pair;

	take_deadlines(paths);
	paths->on = config->paths.on && fleet_members(paths->core->fleet) && !*paths->note;
	paths->total.share.interval_ns[PATH_STANDBY] = config->paths.standby_interval_ns;
	for_each_pair (paths, pair) {
		pair->changed = true;
		if (!paths->on)
			paths_pair_end(paths, pair);
	}
}

static void paths_reconfigure(void *self, const struct config *old)
{
	struct paths *paths = self;

	(void)old;
	paths->update_due_ns = 0;
	take_config(paths);
}

static int start(struct paths *paths, char **error)
{
	int err = paths_open_maps(paths, error);

	if (err)
		return err;
	err = pathsend_new(&paths->send);
	if (err)
		return explain(error, err, "the thread that sends path probes: %s", strerror(-err));
	err = paths_survey_open(paths);
	/* Without raw sockets nothing can be sent from a queue pair's port. */
	if (err) {
		snprintf(paths->note, sizeof(paths->note),
			 "raw sockets cannot be opened (%s): allow escapementd CAP_NET_RAW",
			 strerror(-err));
		log_warning("no candidate paths: %s", paths->note);
	}
	paths->paused = dataplane_is_off(paths->dataplane);
	pathsend_pause(paths->send, paths->paused);
	paths_read_ports(paths);
	take_deadlines(paths);
	paths_take_over(paths, time_local_ns());
	take_config(paths); /* switched off, that ends what was taken over */
	err = core_timer_new(paths->core, &paths->timer, PATHS_TICK_IDLE_NS, TICK_SLACK_NS,
			     paths_tick, paths);
	return err < 0 ? explain(error, err, "paths: no timer: %s", strerror(-err)) : 0;
}

static void paths_close(void *self)
{
	struct paths *paths = self;

	mesh_on_resume(paths->mesh, NULL, NULL);
	core_timer_free(paths->timer);
	pathsend_free(paths->send);
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++)
		paths_pair_forget(paths->by_slot[i]);
	paths_survey_close(paths);
	paths_close_maps(paths);
	free(paths->facts);
	free(paths);
}

static int paths_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct paths *paths = calloc(1, sizeof(*paths));
	int err;

	if (!paths)
		return explain(error, -ENOMEM, "paths: out of memory");
	paths->core = core;
	paths->dataplane = needs[0];
	paths->mesh = needs[1];
	paths->qps = needs[2];
	paths->icmp_fd[0] = paths->icmp_fd[1] = -1;
	if (getrandom(&paths->random, sizeof(paths->random), 0) < 0)
		paths->random = time_local_ns();
	err = start(paths, error);
	if (err) {
		paths_close(paths);
		return err;
	}
	mesh_on_resume(paths->mesh, paths_reset_heard, paths);
	*self = paths;
	return 0;
}

/* --- facts --- */

static const char *pair_note(const struct paths *paths, const struct paths_pair *pair,
			     uint64_t now_ns)
{
	if (paths->paused)
		return "the kill switch is on";
	if (!pair->sending)
		return pair->open_error == -ENODEV
			       ? "its interface is not there, or lacks a program of ours"
			       : "the socket for its probes could not be opened; the log says why";
	if (!pair->replied_ns && now_ns - pair->since_ns > 2000000000)
		return "no reply to path probes from there: is escapementd running, with this host "
		       "in its members?";
	if (pair->replied_ns && !paths_pair_replies(pair, now_ns))
		return "no more replies to path probes";
	if (paths_is_silent(pair))
		return "no switch on the way replies: paths are distinguished by their delays alone";
	if (pair->set.groups > paths->core->config->paths.per_peer)
		return "there are more paths than paths.per_peer allows";
	return NULL;
}

size_t paths_pairs(const struct paths *paths, const struct path_pair_facts **out)
{
	struct paths *mine = (struct paths *)paths; /* the list is only kept for the caller */
	struct path_pair_facts *facts;
	uint64_t now_ns = time_local_ns();
	const struct paths_pair *pair;

	*out = NULL;
	if (!paths->pairs)
		return 0;
	facts = reallocarray(mine->facts, paths->pairs, sizeof(*facts));
	if (!facts)
		return 0;
	*out = mine->facts = facts;
	for_each_pair (paths, pair) {
		*facts = (struct path_pair_facts){
			.slot = pair->slot,
			.key = pair->key,
			.port = pair->port,
			.qps = pair->qps,
			.groups = pair->set.groups,
			.complete = pathset_is_complete(&pair->set),
			.replying = paths_pair_replies(pair, now_ns),
			.crowded = pair->crowded,
			.distance = pair->distance,
			.routes = pair->set.generation,
			.note = pair_note(paths, pair, now_ns),
		};
		memcpy(facts->peer, pair->host, sizeof(facts->peer));
		for_each_candidate (pair, i)
			facts->candidates++;
		facts++;
	}
	return paths->pairs;
}

static struct paths_pair *pair_at(const struct paths *paths, unsigned int slot)
{
	return slot < ESC_PATH_SLOTS_MAX ? paths->by_slot[slot] : NULL;
}

size_t paths_candidates(const struct paths *paths, unsigned int slot,
			struct path_facts out[ESC_PATHS_MAX])
{
	const struct paths_pair *pair = pair_at(paths, slot);
	uint64_t now_ns = time_local_ns();
	size_t count = 0;

	if (!pair)
		return 0;
	for_each_candidate (pair, i)
		paths_candidate_facts(paths, pair, i, now_ns, &out[count++]);
	return count;
}

int paths_id_of(const struct paths *paths, unsigned int slot, uint16_t sport)
{
	const struct paths_pair *pair = pair_at(paths, slot);

	return pair ? paths_pair_id_of(pair, sport) : -ENOENT;
}

void paths_quantiles(const struct paths *paths, unsigned int slot, unsigned int id,
		     struct quantiles *out, struct quantiles *in)
{
	const struct paths_pair *pair = pair_at(paths, slot);
	int64_t now_ns = (int64_t)time_local_ns();

	*out = *in = (struct quantiles){};
	if (!pair || id >= ESC_PATHS_MAX)
		return;
	pathstat_quantiles(&pair->candidates[id].out, now_ns, out);
	pathstat_quantiles(&pair->candidates[id].in, now_ns, in);
}

void paths_get(const struct paths *paths, struct paths_facts *out)
{
	const struct paths_pair *pair;
	struct pathsend_counts counts;

	pathsend_get(paths->send, &counts);
	*out = paths->total;
	out->on = paths->on;
	out->pairs = paths->pairs;
	out->budget_pps = paths->core->config->paths.budget_pps;
	out->sent = counts.sent;
	out->failed = counts.failed;
	out->last_error = counts.last_error;
	memcpy(out->note, paths->note, sizeof(out->note));
	for_each_pair (paths, pair)
		for_each_candidate (pair, i)
			out->candidates[pair->candidates[i].damp.state]++;
}

const struct capability paths_capability = {
	.name = "paths",
	.needs = {"dataplane", "mesh", "qp"},
	.verbs = paths_verb_handlers,
	.events = paths_events,
	.metrics = paths_metrics,
	.open = paths_open,
	.close = paths_close,
	.reconfigure = paths_reconfigure,
	.links_changed = paths_links_changed,
	.status = paths_put_status,
	.write_metrics = paths_write_metrics,
};
