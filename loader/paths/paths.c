// SPDX-License-Identifier: BSD-2-Clause
#include "paths.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/explain.h"
#include "base/log.h"
#include "internal.h"
#include "mesh/mesh.h"
#include "net/rtnl.h"

#define TICK_SLACK_NS 1000000ull
#define TAIL_DEVIATIONS 3      /* the 99th percentile above the median, some */
#define PORTS_NS 5000000000ull /* facts of an interface; its link is known at once */
/* A path is usable that was measured in the last so many intervals, or within MEASURED_NS. */
#define MEASURED_INTERVALS 4
#define MEASURED_NS 50000000ull

#define MAP_BYTES (ESC_PATH_SLOTS_MAX * sizeof(struct esc_paths))
_Static_assert(sizeof(struct esc_paths) % 8 == 0, "values of an array lie at steps of 8 bytes");

/* --- replies, from the ring --- */

static int record_read(void *context, void *bytes, size_t size)
{
	const struct esc_path_record *record = bytes;
	struct paths *paths = context;
	struct paths_pair *pair;
	struct candidate *path;
	double delay_ns;
	int64_t at_ns;
	bool timed;
	int index;

	if (size >= sizeof(*record) && record->path == ESC_PATH_NONE && paths->record)
		paths->record(paths->record_context, record);
	pair = size >= sizeof(*record) && record->slot < ESC_PATH_SLOTS_MAX
		       ? paths->by_slot[record->slot]
		       : NULL;
	if (!pair)
		return 0;
	at_ns = (int64_t)record->ktime_ns;
	timed = record->flags & ESC_PATH_TIMED;
	pair->replied_ns = record->ktime_ns;
	paths_update_distance(pair, record->hop_limit);
	if (record->path >= ESC_PATHS_MAX)
		return 0;
	path = &pair->candidates[record->path];
	if (!record->sport || path->facts.sport != record->sport)
		return 0;
	pathstat_add(&path->rtt, at_ns, (double)record->rtt_ns, 0);
	if (timed)
		pathstat_add(&path->out, at_ns, (double)record->out_ns, record->out_bound_ns);
	if (record->flags & ESC_PATH_REPLY_TIMED)
		pathstat_add(&path->in, at_ns, (double)record->in_ns, record->in_bound_ns);
	delay_ns = timed ? (double)record->out_ns : (double)record->rtt_ns;
	index = paths_is_silent(pair) && pathstat_is_delay(delay_ns)
			? paths_set_index(pair, record->sport)
			: -ENOENT;
	/* Without fabric time the round trip has the queue in it as well. */
	if (index >= 0)
		pathset_sample(&pair->set, (size_t)index,
			       record->ktime_ns / paths->facts.share.interval_ns[PATH_STANDBY],
			       delay_ns);
	return 0;
}

/* --- every 250 ms --- */

/* A request without a reply within a second is lost. */
static void count_losses(struct paths *paths, struct paths_pair *pair)
{
	for_each_candidate (pair, path) {
		uint64_t then = path->sent_then[0], replied = load(path->map->replies);

		memmove(path->sent_then, path->sent_then + 1,
			sizeof(path->sent_then) - sizeof(path->sent_then[0]));
		path->sent_then[PATHS_HORIZON - 1] = load(path->map->probes);
		paths->facts.replied += replied - path->facts.replied;
		path->facts.replied = replied;
		if (then <= replied || then - replied <= path->facts.lost)
			continue;
		paths->facts.lost += then - replied - path->facts.lost;
		path->facts.lost = then - replied;
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
	for_each_candidate (pair, path) {
		struct quantiles *delay = &delays[path->facts.id];

		pathstat_quantiles(path->out.samples ? &path->out : &path->rtt, (int64_t)now_ns,
				   delay);
		if (delay->samples < PATHSTAT_RECENT)
			continue;
		config->floor_noise_ns =
			fmax(config->floor_noise_ns, (double)(delay->p50_ns - delay->min_ns));
		tail_ns = fmin(tail_ns, (double)(delay->p99_ns - delay->p50_ns) / TAIL_DEVIATIONS);
	}
	config->delay_noise_ns =
		isfinite(tail_ns) ? fmax(tail_ns, usual.delay_noise_ns) : usual.delay_noise_ns;
	for_each_candidate (pair, path) {
		const struct quantiles *delay = &delays[path->facts.id];
		int index = paths_set_index(pair, path->facts.sport);

		if (index >= 0 && delay->samples >= PATHSTAT_RECENT)
			pathset_add_floor(&pair->set, (size_t)index, (double)delay->min_ns);
	}
	pair->changed = true;
}

static void read_ports(struct paths *paths)
{
	const struct dataplane *dataplane = paths->dataplane;
	struct port_facts port;

	memset(paths->ports, 0, sizeof(paths->ports));
	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++)
		if (!dataplane_port(dataplane, slot, &port))
			paths->ports[slot] = port.info;
}

/* --- the tick --- */

bool paths_are_probed(const struct paths *paths)
{
	return paths->facts.on && !paths->paused;
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
	if (now_ns >= paths->sweep_due_ns) {
		paths->sweep_due_ns = now_ns + PATHS_UPDATE_NS;
		paths_sweep_received(paths, now_ns);
	}
	if (!paths_are_probed(paths))
		return PATHS_TICK_IDLE_NS;
	if (now_ns >= paths->update_due_ns) {
		paths->update_due_ns = now_ns + PATHS_UPDATE_NS;
		if (now_ns >= paths->ports_due_ns) {
			paths->ports_due_ns = now_ns + PORTS_NS;
			read_ports(paths);
		}
		paths_update_pairs(paths, now_ns);
		paths_update_uses(paths, now_ns);
		for_each_pair (paths, pair) {
			count_losses(paths, pair);
			update_floors(pair, now_ns);
			paths_choose_backups(pair);
		}
	}
	for_each_pair (paths, pair) {
		paths_evaluate(paths, pair, now_ns);
		for_each_candidate (pair, path)
			active |= path->facts.use == PATH_ACTIVE;
	}
	if (paths->uses_changed)
		paths_update_uses(paths, now_ns);
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

/* XDP received the report of a path's death: the tick comes now. */
static int on_death(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct paths *paths = context;

	(void)source;
	(void)fd;
	(void)events;
	core_timer_run(paths->timer);
	return 0;
}

void paths_on_tick(struct paths *paths, paths_tick_fn *fn, void *context)
{
	paths->tick = fn;
	paths->tick_context = context;
}

bool paths_has(const struct paths *paths, const struct esc_path_key *key)
{
	return paths_find(paths, key);
}

struct pathsend_pair *paths_sending(const struct paths *paths, const struct esc_path_key *key)
{
	const struct paths_pair *pair = paths_find(paths, key);

	return pair ? pair->sending : NULL;
}

struct pathsend *paths_sender(struct paths *paths)
{
	return paths->send;
}

void paths_on_record(struct paths *paths, paths_record_fn *fn, void *context)
{
	paths->record = fn;
	paths->record_context = context;
}

void paths_read_records(struct paths *paths)
{
	ring_buffer__consume(paths->ring);
}

/* A link came or went: known at once, without probes. */
static void paths_links_changed(void *self)
{
	int64_t now_ns = (int64_t)time_local_ns();
	struct paths *paths = self;
	struct paths_pair *pair;

	if (!paths->facts.on)
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
		bool carrier = paths->ports[pair->facts.port % ESC_PORTS_MAX].link_up;

		for_each_candidate (pair, path) {
			struct pathlive_damp *damp = &path->damp;
			enum pathlive_state before = damp->state;

			if (damp->no_carrier == !carrier)
				continue;
			pathlive_carrier(damp, &paths->live, carrier, now_ns);
			path->map->state = (uint8_t)damp->state;
			if (damp->state == PATHLIVE_DOWN && before != PATHLIVE_DOWN)
				paths_report_down(paths, pair, path, &path->map->live);
		}
		paths_choose_backups(pair);
	}
}

/* --- open and close --- */

static void take_config(struct paths *paths)
{
	const struct config *config = paths->core->config;
	struct paths_pair *pair;

	paths->live.dead_after_ns = (int64_t)config->paths.dead_after_ns;
	paths->live.return_after_ns = (int64_t)config->paths.return_after_ns;
	paths->facts.on =
		config->paths.on && fleet_members(paths->core->fleet) && !*paths->facts.note;
	paths->facts.share.interval_ns[PATH_STANDBY] = config->paths.standby_interval_ns;
	for_each_pair (paths, pair) {
		pair->changed = true;
		if (!paths->facts.on)
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
	const struct dataplane *dataplane = paths->dataplane;
	void *memory = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			    dataplane_map_fd(dataplane, "paths"), 0);
	int err;

	if (memory == MAP_FAILED)
		return explain(error, -errno, "the map paths cannot be mapped: %s",
			       strerror(errno));
	paths->map = memory;
	paths->slots_fd = dataplane_map_fd(dataplane, "path_slots");
	paths->steers_fd = dataplane_map_fd(dataplane, "steers");
	paths->ring = ring_buffer__new(dataplane_map_fd(dataplane, "path_records"), record_read,
				       paths, NULL);
	if (!paths->ring)
		return explain(error, -errno, "the ring path_records cannot be read: %s",
			       strerror(errno));
	err = pathsend_new(&paths->send);
	if (err)
		return explain(error, err, "the thread that sends path probes: %s", strerror(-err));
	err = paths_survey_open(paths);
	/* Without raw sockets nothing can be sent from a queue pair's port. */
	if (err) {
		snprintf(paths->facts.note, sizeof(paths->facts.note),
			 "raw sockets cannot be opened (%s): allow escapementd CAP_NET_RAW",
			 strerror(-err));
		log_warning("no candidate paths: %s", paths->facts.note);
	}
	paths->paused = dataplane_is_off(dataplane);
	pathsend_pause(paths->send, paths->paused);
	read_ports(paths);
	pathlive_config_default(&paths->live);
	take_config(paths); /* before the pairs are taken over, for their deadlines */
	paths_take_over(paths, time_local_ns());
	take_config(paths); /* switched off, that ends what was taken over */
	err = core_timer_new(paths->core, &paths->timer, PATHS_TICK_IDLE_NS, TICK_SLACK_NS,
			     paths_tick, paths);
	/* By wakeups alone: records that are to wait for the tick are there at any time. */
	if (err >= 0)
		err = sd_event_add_io(paths->core->loop, &paths->deaths,
				      dataplane_map_fd(dataplane, "path_records"),
				      EPOLLIN | EPOLLET, on_death, paths);
	return err < 0 ? explain(error, err, "paths: no timer: %s", strerror(-err)) : 0;
}

static void paths_close(void *self)
{
	struct paths *paths = self;

	mesh_on_resume(paths->mesh, NULL, NULL);
	sd_event_source_disable_unref(paths->deaths);
	core_timer_free(paths->timer);
	pathsend_free(paths->send);
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++)
		paths_pair_forget(paths->by_slot[i]);
	paths_survey_close(paths);
	ring_buffer__free(paths->ring);
	if (paths->map)
		munmap(paths->map, MAP_BYTES);
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
	mesh_on_resume(paths->mesh, paths_reset_received, paths);
	*self = paths;
	return 0;
}

/* --- facts --- */

static struct paths_pair *pair_at(const struct paths *paths, unsigned int slot)
{
	return slot < ESC_PATH_SLOTS_MAX ? paths->by_slot[slot] : NULL;
}

const struct path_pair_facts *paths_pair(const struct paths *paths, unsigned int slot)
{
	const struct paths_pair *pair = pair_at(paths, slot);

	return pair ? &pair->facts : NULL;
}

void paths_owd_out(const struct paths *paths, unsigned int slot, unsigned int id,
		   struct quantiles *out)
{
	const struct paths_pair *pair = pair_at(paths, slot);

	*out = (struct quantiles){};
	if (pair && id < ESC_PATHS_MAX && pair->candidates[id].facts.sport)
		pathstat_quantiles(&pair->candidates[id].out, (int64_t)time_local_ns(), out);
}

size_t paths_candidates(const struct paths *paths, unsigned int slot,
			struct path_facts out[ESC_PATHS_MAX])
{
	const struct paths_pair *pair = pair_at(paths, slot);
	uint64_t now_ns = time_local_ns();
	size_t count = 0;

	if (!pair)
		return 0;
	for_each_candidate (pair, path) {
		struct path_facts *facts = &out[count++];
		/* "Now" is the last four probes or so. */
		uint64_t span_ns = MEASURED_INTERVALS * path->facts.interval_ns;
		int index = paths_set_index(pair, path->facts.sport);

		*facts = path->facts;
		facts->state = path->damp.state;
		facts->received = paths_was_received(path);
		facts->diverted_ns = load(path->map->diverted_ns);
		facts->diverted_packets = load(path->map->diverted);
		facts->sent = load(path->map->probes);
		facts->replied = load(path->map->replies);
		pathstat_now(&path->out, (int64_t)span_ns, &facts->out);
		pathstat_now(&path->in, (int64_t)span_ns, &facts->in);
		if (span_ns < MEASURED_NS)
			span_ns = MEASURED_NS;
		facts->usable = facts->state == PATHLIVE_UP && !facts->diverted_ns &&
				facts->out.at_ns && now_ns < (uint64_t)facts->out.at_ns + span_ns;
		if (index < 0)
			continue;
		facts->group = pair->set.ports[index].group;
		memcpy(facts->hops, pair->set.ports[index].hops, sizeof(facts->hops));
	}
	return count;
}

int paths_id_of(const struct paths *paths, unsigned int slot, uint16_t sport)
{
	const struct paths_pair *pair = pair_at(paths, slot);

	return pair ? paths_pair_id_of(pair, sport) : -ENOENT;
}

static bool is_used(const struct paths_pair *pair)
{
	for_each_candidate (pair, path)
		if (path->facts.qps)
			return true;
	return false;
}

bool paths_get_out(const struct paths *paths, const struct esc_path_key *key, bool delays,
		   struct path_out_facts *out)
{
	const struct paths_pair *pair = paths_find(paths, key);
	const struct pathstat *stats[ESC_PATHS_MAX];
	int64_t now_ns = (int64_t)time_local_ns();
	struct path_delay newest;
	bool used;

	*out = (struct path_out_facts){};
	if (!pair || !pair->replied_ns)
		return false;
	out->up = paths_pair_replies(pair, (uint64_t)now_ns);
	used = is_used(pair);
	for_each_candidate (pair, path) {
		if (!delays || !path->out.samples || (used && !path->facts.qps))
			continue;
		stats[out->paths++] = &path->out;
		pathstat_now(&path->out, PATHSTAT_WINDOW_NS, &newest);
		out->bound_ns = (int64_t)fmax((double)out->bound_ns, ceil(newest.bound_ns));
		if (newest.at_ns <= out->at_ns)
			continue;
		out->at_ns = newest.at_ns;
		out->source_port = path->facts.sport;
	}
	pathstat_merge(stats, out->paths, now_ns, &out->owd);
	return true;
}

uint32_t paths_floors(const struct paths *paths)
{
	return paths->floors;
}

void paths_get(const struct paths *paths, struct paths_facts *out)
{
	const struct paths_pair *pair;
	struct pathsend_counts counts;

	pathsend_get(paths->send, &counts);
	*out = paths->facts;
	out->budget_pps = paths->core->config->paths.budget_pps;
	out->sent = counts.sent;
	out->failed = counts.failed;
	out->last_error = counts.last_error;
	paths_count_overflow(paths, &out->quotes);
	for_each_pair (paths, pair)
		for_each_candidate (pair, path)
			out->candidates[path->damp.state]++;
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
