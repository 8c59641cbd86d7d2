// SPDX-License-Identifier: BSD-2-Clause
#include "paths.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <systemd/sd-event.h>

#include "daemon/daemon.h"
#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "base/log.h"
#include "internal.h"
#include "net/rtnl.h"

#define LOOK_SLACK_US 1000
#define TAIL_DEVIATIONS 3      /* the 99th percentile above the middle, some */
#define PORTS_NS 5000000000ull /* what an interface is; its link is known at once */

/* --- a look --- */

/* Requests have a second to be answered in. */
static void count_losses(struct paths *paths, struct paths_pair *pair)
{
	for (unsigned int i = 0; i < ESC_PATH_LANES_MAX; i++) {
		struct paths_lane *lane = &pair->lanes[i];
		const struct esc_lane *map = paths_map_lane(paths, pair, i);
		uint64_t then, answered;

		if (!lane->sport)
			continue;
		then = lane->sent_then[0];
		memmove(lane->sent_then, lane->sent_then + 1,
			sizeof(lane->sent_then) - sizeof(lane->sent_then[0]));
		lane->sent_then[PATHS_HORIZON - 1] =
			__atomic_load_n(&map->probes, __ATOMIC_RELAXED);
		answered = __atomic_load_n(&map->replies, __ATOMIC_RELAXED);
		paths->answered += answered - lane->answered;
		lane->answered = answered;
		if (then <= answered || then - answered <= lane->lost)
			continue;
		paths->lost += then - answered - lane->lost;
		lane->lost = then - answered;
	}
}

static void lane_quantiles(const struct paths_lane *lane, uint64_t now_ns, struct quantiles *out)
{
	*out = (struct quantiles){};
	if (lane->sport)
		pathstat_quantiles(lane->out.samples ? &lane->out : &lane->rtt, (int64_t)now_ns,
				   out);
}

/*
 * What paths scatter by, nothing said of queues: a floor as its middle stands above its least,
 * a single delay as the tail of the path that has the least of it.
 */
static void see_noise(struct paths_pair *pair, uint64_t now_ns)
{
	struct pathset_config usual, *config = &pair->set.config;
	double floor_ns, tail_ns = INFINITY;

	pathset_config_default(&usual);
	floor_ns = usual.floor_noise_ns;
	for (unsigned int i = 0; i < ESC_PATH_LANES_MAX; i++) {
		struct quantiles delays;

		lane_quantiles(&pair->lanes[i], now_ns, &delays);
		if (delays.samples < PATHSTAT_RECENT)
			continue;
		floor_ns = fmax(floor_ns, (double)(delays.p50_ns - delays.min_ns));
		tail_ns = fmin(tail_ns, (double)(delays.p99_ns - delays.p50_ns) / TAIL_DEVIATIONS);
	}
	config->floor_noise_ns = floor_ns;
	config->delay_noise_ns =
		isfinite(tail_ns) ? fmax(tail_ns, usual.delay_noise_ns) : usual.delay_noise_ns;
}

/* Where no switch answers floors tell paths apart; of the last seconds, each time those run. */
static void see_floors(struct paths_pair *pair, uint64_t now_ns)
{
	if (now_ns < pair->floor_due_ns || !paths_is_silent(pair))
		return;
	pair->floor_due_ns = now_ns + (uint64_t)PATHSTAT_WINDOW_NS;
	see_noise(pair, now_ns);
	for (unsigned int i = 0; i < ESC_PATH_LANES_MAX; i++) {
		int index = paths_set_index(pair, pair->lanes[i].sport);
		struct quantiles delays;

		lane_quantiles(&pair->lanes[i], now_ns, &delays);
		if (index >= 0 && delays.samples >= PATHSTAT_RECENT)
			pathset_see_floor(&pair->set, (size_t)index, (double)delays.min_ns);
	}
	pair->changed = true;
}

void paths_read_ports(struct paths *paths)
{
	const struct dataplane *dataplane = paths->daemon->dataplane;
	struct port_info port;

	memset(paths->ports, 0, sizeof(paths->ports));
	for (unsigned int i = 0; i < dataplane_port_count(dataplane); i++)
		if (!dataplane_port(dataplane, i, &port) && port.index < ESC_PORTS_MAX)
			paths->ports[port.index] = port;
}

static void paths_round(struct paths *paths, uint64_t now_ns)
{
	if (now_ns >= paths->ports_due_ns) {
		paths->ports_due_ns = now_ns + PORTS_NS;
		paths_read_ports(paths);
	}
	paths_follow_qps(paths, now_ns);
	paths_follow_uses(paths, now_ns);
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++) {
		struct paths_pair *pair = paths->by_slot[i];

		if (!pair)
			continue;
		count_losses(paths, pair);
		see_floors(pair, now_ns);
		paths_choose_standbys(paths, pair);
	}
}

static void watch_switch(struct paths *paths)
{
	bool paused = dataplane_is_off(paths->daemon->dataplane);

	if (paused == paths->paused)
		return;
	paths->paused = paused;
	pathsend_pause(paths->send, paused);
}

static uint64_t paths_look(struct paths *paths)
{
	uint64_t now_ns = time_local_ns();
	bool active = false;

	watch_switch(paths);
	paths_read_records(paths);
	if (paths->paused || !paths->on)
		return PATHS_SLOW_NS;
	if (now_ns >= paths->round_due_ns) {
		paths->round_due_ns = now_ns + PATHS_ROUND_NS;
		paths_round(paths, now_ns);
	}
	for (unsigned int i = 0; paths->pairs && i < ESC_PATH_SLOTS_MAX; i++) {
		if (!paths->by_slot[i])
			continue;
		paths_judge(paths, paths->by_slot[i], now_ns);
		for (unsigned int k = 0; k < ESC_PATH_LANES_MAX; k++)
			active |= paths->by_slot[i]->lanes[k].use == PATH_ACTIVE;
	}
	paths_survey_turn(paths, now_ns);
	if (paths->listener)
		paths->listener(paths->listener_context, now_ns);
	if (active)
		return PATHS_FAST_NS;
	return paths->trying ? PATHS_TRYING_NS : PATHS_SLOW_NS;
}

static int on_look(sd_event_source *source, uint64_t due_us, void *context)
{
	struct paths *paths = context;

	(void)due_us;
	sd_event_source_set_time_relative(source, paths_look(paths) / 1000);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* Of the interfaces that are known: a question each, not all that there is to know of them. */
static void read_links(struct paths *paths)
{
	for (unsigned int i = 0; i < ESC_PORTS_MAX; i++) {
		struct port_info *port = &paths->ports[i];
		struct link_facts link;

		if (!port->name[0])
			continue;
		port->link_up = !rtnl_link(port->name, &link) && link.up;
		port->ifindex = port->link_up ? link.ifindex : port->ifindex;
	}
}

void paths_see_links(struct paths *paths)
{
	int64_t now_ns = (int64_t)time_local_ns();

	if (!paths || !paths->on)
		return;
	read_links(paths);
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++) {
		struct paths_pair *pair = paths->by_slot[i];
		bool carrier = pair && paths->ports[pair->port % ESC_PORTS_MAX].link_up;

		for (unsigned int k = 0; pair && k < ESC_PATH_LANES_MAX; k++) {
			struct paths_lane *lane = &pair->lanes[k];
			enum pathlive_state before = lane->damp.state;

			if (!lane->sport || lane->damp.no_carrier == !carrier)
				continue;
			pathlive_carrier(&lane->damp, &paths->live, carrier, now_ns);
			paths_map_lane(paths, pair, k)->state = (uint8_t)lane->damp.state;
			if (lane->damp.state == PATHLIVE_DOWN && before != PATHLIVE_DOWN)
				paths_tell_down(paths, pair, k,
						&paths_map_lane(paths, pair, k)->live);
		}
		if (pair)
			paths_choose_standbys(paths, pair);
	}
}

/* --- from nothing to probes --- */

static void take_deadlines(struct paths *paths)
{
	const struct config *config = paths->daemon->config;

	pathlive_config_default(&paths->live);
	paths->live.dead_after_ns = (int64_t)config->paths.dead_after_ns;
	paths->live.return_after_ns = (int64_t)config->paths.return_after_ns;
}

static void take_config(struct paths *paths)
{
	const struct config *config = paths->daemon->config;

	take_deadlines(paths);
	paths->on = config->paths.on && fleet_members(paths->daemon->core.fleet) && !*paths->note;
	paths->share.interval_ns[PATH_STANDBY] = config->paths.standby_interval_ns;
	if (!paths->on)
		paths_end_all(paths);
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++)
		if (paths->by_slot[i])
			paths->by_slot[i]->changed = true;
}

void paths_reconfigure(struct paths *paths)
{
	if (!paths)
		return;
	paths->round_due_ns = 0;
	take_config(paths);
}

static int paths_start(struct paths *paths, char **error)
{
	struct daemon *daemon = paths->daemon;
	int err = paths_open(paths, error);

	if (err)
		return err;
	err = pathsend_new(&paths->send);
	if (err)
		return explain(error, err, "the thread that sends path probes: %s", strerror(-err));
	err = paths_survey_open(paths);
	/* Without raw sockets nothing can be sent from a queue pair's port. */
	if (err) {
		snprintf(paths->note, sizeof(paths->note),
			 "raw sockets cannot be had (%s): allow escapementd CAP_NET_RAW",
			 strerror(-err));
		log_warning("no candidate paths: %s", paths->note);
	}
	paths->paused = dataplane_is_off(daemon->dataplane);
	pathsend_pause(paths->send, paths->paused);
	paths_read_ports(paths);
	take_deadlines(paths);
	paths_adopt(paths, time_local_ns());
	take_config(paths); /* switched off, that is the end of what was adopted */
	err = sd_event_add_time_relative(daemon->event, &paths->timer, CLOCK_MONOTONIC,
					 PATHS_SLOW_NS / 1000, LOOK_SLACK_US, on_look, paths);
	return err < 0 ? explain(error, err, "sd-event: %s", strerror(-err)) : 0;
}

int paths_new(struct paths **out, struct daemon *daemon, char **error)
{
	struct paths *paths = calloc(1, sizeof(*paths));
	int err;

	*out = NULL;
	if (!paths)
		return -ENOMEM;
	paths->daemon = daemon;
	paths->icmp_fd[0] = paths->icmp_fd[1] = -1;
	if (getrandom(&paths->random, sizeof(paths->random), 0) < 0)
		paths->random = time_local_ns();
	err = paths_start(paths, error);
	if (err)
		paths_free(paths);
	else
		*out = paths;
	return err;
}

void paths_free(struct paths *paths)
{
	if (!paths)
		return;
	sd_event_source_disable_unref(paths->timer);
	pathsend_free(paths->send);
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++)
		paths_pair_forget(paths->by_slot[i]);
	paths_survey_close(paths);
	paths_close(paths);
	free(paths->facts);
	free(paths);
}

/* --- what is known --- */

void paths_listen(struct paths *paths, paths_listener_fn *fn, void *context)
{
	if (!paths)
		return;
	paths->listener = fn;
	paths->listener_context = context;
}

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
		return "nobody answers path probes there: is escapementd running, with this host "
		       "in its members?";
	if (pair->replied_ns && !paths_pair_answers(pair, now_ns))
		return "path probes are not answered any more";
	if (paths_is_silent(pair))
		return "no switch on the way answers: paths are told apart by their delays alone";
	if (pair->set.groups > paths->daemon->config->paths.per_peer)
		return "there are more paths than paths.per_peer allows lanes";
	return NULL;
}

static void pair_facts(const struct paths *paths, const struct paths_pair *pair, uint64_t now_ns,
		       struct path_pair_facts *out)
{
	*out = (struct path_pair_facts){
		.slot = pair->slot,
		.key = pair->key,
		.port = pair->port,
		.qps = pair->qps,
		.groups = pair->set.groups,
		.complete = pathset_is_complete(&pair->set),
		.silent = paths_is_silent(pair),
		.answers = paths_pair_answers(pair, now_ns),
		.crowded = pair->crowded,
		.distance = pair->distance,
		.routes = pair->set.generation,
		.note = pair_note(paths, pair, now_ns),
	};
	memcpy(out->peer, pair->host, sizeof(out->peer));
	for (unsigned int i = 0; i < ESC_PATH_LANES_MAX; i++)
		out->lanes += pair->lanes[i].sport != 0;
}

size_t paths_pairs(const struct paths *paths, const struct path_pair_facts **out)
{
	struct paths *mine = (struct paths *)paths; /* the list is only kept for the caller */
	uint64_t now_ns = time_local_ns();
	size_t count = 0;
	void *grown;

	*out = NULL;
	if (!paths || !paths->pairs)
		return 0;
	grown = reallocarray(mine->facts, paths->pairs, sizeof(*mine->facts));
	if (!grown)
		return 0;
	mine->facts = grown;
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++)
		if (paths->by_slot[i])
			pair_facts(paths, paths->by_slot[i], now_ns, &mine->facts[count++]);
	*out = mine->facts;
	return count;
}

static struct paths_pair *pair_at(const struct paths *paths, unsigned int slot)
{
	return paths && slot < ESC_PATH_SLOTS_MAX ? paths->by_slot[slot] : NULL;
}

size_t paths_lanes(const struct paths *paths, unsigned int slot,
		   struct path_lane_facts out[ESC_PATH_LANES_MAX])
{
	const struct paths_pair *pair = pair_at(paths, slot);
	uint64_t now_ns = time_local_ns();
	size_t count = 0;

	for (unsigned int i = 0; pair && i < ESC_PATH_LANES_MAX; i++)
		if (pair->lanes[i].sport)
			paths_lane_facts(paths, pair, i, now_ns, &out[count++]);
	return count;
}

int paths_lane_of(const struct paths *paths, unsigned int slot, uint16_t sport)
{
	const struct paths_pair *pair = pair_at(paths, slot);

	return pair ? paths_pair_lane_of(pair, sport) : -ENOENT;
}

void paths_quantiles(const struct paths *paths, unsigned int slot, unsigned int lane,
		     struct quantiles *out, struct quantiles *in)
{
	const struct paths_pair *pair = pair_at(paths, slot);
	int64_t now_ns = (int64_t)time_local_ns();

	*out = *in = (struct quantiles){};
	if (!pair || lane >= ESC_PATH_LANES_MAX)
		return;
	pathstat_quantiles(&pair->lanes[lane].out, now_ns, out);
	pathstat_quantiles(&pair->lanes[lane].in, now_ns, in);
}

void paths_get(const struct paths *paths, struct paths_facts *out)
{
	struct pathsend_counts counts;

	*out = (struct paths_facts){};
	if (!paths)
		return;
	pathsend_get(paths->send, &counts);
	out->there = true;
	out->on = paths->on;
	memcpy(out->note, paths->note, sizeof(out->note));
	out->pairs = paths->pairs;
	out->pairs_refused = paths->pairs_refused;
	out->budget_pps = paths->daemon->config->paths.budget_pps;
	out->share = paths->share;
	out->sent = counts.sent;
	out->failed = counts.failed;
	out->last_error = counts.last_error;
	out->answered = paths->answered;
	out->lost = paths->lost;
	out->tries = paths->tries;
	out->failovers = paths->failovers;
	out->returns = paths->returns;
	memcpy(out->failover, paths->failover, sizeof(out->failover));
	out->failover_sum_s = paths->failover_sum_s;
	for (unsigned int i = 0; i < ESC_PATH_SLOTS_MAX; i++)
		for (unsigned int k = 0; paths->by_slot[i] && k < ESC_PATH_LANES_MAX; k++)
			if (paths->by_slot[i]->lanes[k].sport)
				out->lanes[paths->by_slot[i]->lanes[k].damp.state]++;
}
