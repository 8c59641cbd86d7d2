// SPDX-License-Identifier: BSD-2-Clause
/* A run: the rails, the rounds, what is sent in them and what is replied. */
#include "pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/address.h"
#include "base/explain.h"
#include "base/log.h"
#include "clock/clock.h"
#include "dataplane/dataplane.h"
#include "internal.h"
#include "paths/paths.h"

#define PORTS_COUNT 16384 /* from PROBESOCK_PORT_BASE on */
_Static_assert(PAIRS_LANES_MAX *PAIRS_PROBES < PORTS_COUNT, "a source port for each request");

/* --- lanes --- */

/* NICs are of one rail by its label; without one, by their place among the host's. */
struct place {
	const char *rail;
	unsigned int place;
};

static bool same_rail(const struct place *one, const struct place *other)
{
	if (one->rail || other->rail)
		return one->rail && other->rail && !strcmp(one->rail, other->rail);
	return one->place == other->place;
}

/* The NICs of a host on a plane, with their places. */
static size_t ports_of(const struct members *members, const struct member_host *host,
		       enum fleet_plane plane, const struct member *ports[MEMBER_PORTS_MAX],
		       struct place places[MEMBER_PORTS_MAX])
{
	size_t count = members_ports(members, host, plane, ports, MEMBER_PORTS_MAX);
	unsigned int unnamed = 0;

	for (size_t i = 0; i < count; i++)
		places[i] = (struct place){.rail = ports[i]->rail,
					   .place = ports[i]->rail ? 0 : unnamed++};
	return count;
}

static int lane_open(struct pairs_lane *lane, const struct rotation_own *own,
		     const struct member *self, size_t hosts)
{
	*lane = (struct pairs_lane){.own = *own, .self = self, .partner = ROTATION_NONE};
	lane->others = calloc(hosts, sizeof(struct member *));
	lane->places = calloc(hosts, sizeof(*lane->places));
	lane->results = calloc(hosts, sizeof(*lane->results));
	lane->echo_fd = echo_open(own->interface, &own->address);
	if (lane->echo_fd >= 0)
		lane->mtu = echo_mtu(lane->echo_fd, own->interface);
	else
		log_warning("pairs: no ICMP socket on %s: %s; packets of full size are not tested",
			    own->interface, strerror(-lane->echo_fd));
	return lane->others && lane->places && lane->results ? 0 : -ENOMEM;
}

static void lane_close(struct pairs *pairs, struct pairs_lane *lane)
{
	pathsend_remove(paths_sender(pairs->paths), lane->sending);
	if (lane->echo_fd >= 0)
		close(lane->echo_fd);
	free(lane->others);
	free(lane->places);
	free(lane->results);
}

static void close_lanes(struct pairs *pairs)
{
	for (size_t i = 0; i < pairs->lane_count; i++)
		lane_close(pairs, &pairs->lanes[i]);
	free(pairs->lanes);
	pairs->lanes = NULL;
	pairs->lane_count = 0;
}

static const struct member_host *own_host(const struct pairs *pairs, const struct members *members)
{
	for (size_t i = 0; members && i < members->host_count; i++)
		if (!strcmp(members_host_name(members, &members->hosts[i]),
			    pairs->core->config->host))
			return &members->hosts[i];
	return NULL;
}

/* The NICs of all hosts on the rail of each lane of a plane from @first on. */
static void fill_lanes(struct pairs *pairs, const struct members *members, enum fleet_plane plane,
		       size_t first, const struct place *places)
{
	const struct member *ports[MEMBER_PORTS_MAX];
	struct place theirs[MEMBER_PORTS_MAX];

	for (size_t h = 0; h < members->host_count; h++) {
		size_t count = ports_of(members, &members->hosts[h], plane, ports, theirs);

		for (size_t i = first; i < pairs->lane_count; i++) {
			struct pairs_lane *lane = &pairs->lanes[i];

			for (size_t k = 0; k < count; k++) {
				if (!same_rail(&places[i], &theirs[k]))
					continue;
				if (ports[k] == lane->self)
					lane->index = lane->count;
				lane->places[lane->count] = (uint8_t)k;
				lane->others[lane->count++] = ports[k];
				break;
			}
		}
	}
}

static int open_lanes(struct pairs *pairs, const struct members *members,
		      const struct member_host *host)
{
	const struct member *ports[MEMBER_PORTS_MAX];
	struct place theirs[MEMBER_PORTS_MAX], places[PAIRS_LANES_MAX];

	pairs->lanes = calloc(PAIRS_LANES_MAX, sizeof(*pairs->lanes));
	if (!pairs->lanes)
		return -ENOMEM;
	pairs->left_out = 0;
	for (unsigned int plane = 0; plane < 2; plane++) {
		size_t count = ports_of(members, host, plane, ports, theirs);
		size_t first = pairs->lane_count;

		for (size_t i = 0; i < count; i++) {
			const struct rotation_own *own =
				rotation_own(pairs->rotation, &ports[i]->address);

			/* A member without the label `plane` is on both. */
			if (!own || own->plane != plane || pairs->lane_count == PAIRS_LANES_MAX) {
				pairs->left_out += !own;
				continue;
			}
			places[pairs->lane_count] = theirs[i];
			if (lane_open(&pairs->lanes[pairs->lane_count++], own, ports[i],
				      members->host_count))
				return -ENOMEM;
		}
		fill_lanes(pairs, members, plane, first, places);
	}
	return 0;
}

/* --- a round --- */

static enum pairs_class class_of(const struct member *one, const struct member *other)
{
	if (one->rack && other->rack && !strcmp(one->rack, other->rack))
		return PAIRS_RACK;
	return one->pod && other->pod && !strcmp(one->pod, other->pod) ? PAIRS_POD : PAIRS_FABRIC;
}

static void lane_begin(struct pairs *pairs, struct pairs_lane *lane, uint64_t round)
{
	uint64_t cycle = rotation_cycle(lane->count);
	const struct member *other;
	struct pairs_pair *result;
	struct pathpacket packet;

	lane->sent = lane->echoes = 0;
	/* Shorter rails than the longest one have met. */
	lane->partner =
		round < cycle ? rotation_partner(lane->count, round, lane->index) : ROTATION_NONE;
	if (lane->partner == ROTATION_NONE)
		return;
	other = lane->others[lane->partner];
	result = &lane->results[lane->partner];
	*result = (struct pairs_pair){.class = (uint8_t)class_of(lane->self, other)};
	lane->key = (struct esc_path_key){lane->own.address, other->address};
	packet = (struct pathpacket){
		.from = lane->own.address,
		.to = other->address,
		.to_port = lane->own.probe_port,
		.target = graph_member_id(other->host),
		.flags = lane->own.plane == FLEET_PLANE_FRONTEND ? ESC_PROBE_PLANE : 0,
	};
	result->used = paths_has(pairs->paths, &lane->key);
	if (!result->used && pathsend_add(paths_sender(pairs->paths), lane->own.interface, &packet,
					  0, &lane->sending))
		lane->partner = ROTATION_NONE;
}

static void lane_end(struct pairs *pairs, struct pairs_lane *lane)
{
	pathsend_remove(paths_sender(pairs->paths), lane->sending);
	lane->sending = NULL;
	lane->partner = ROTATION_NONE;
}

static uint16_t sport_of(const struct pairs *pairs, const struct pairs_lane *lane,
			 unsigned int probe)
{
	size_t number = (size_t)(lane - pairs->lanes) * PAIRS_PROBES + probe;

	return (uint16_t)(PROBESOCK_PORT_BASE + (pairs->round * 7919 + number) % PORTS_COUNT);
}

static void send_probes(struct pairs *pairs, struct pairs_lane *lane, unsigned int due)
{
	struct pairs_pair *result = &lane->results[lane->partner];
	struct pathsend_pair *sending =
		result->used ? paths_sending(pairs->paths, &lane->key) : lane->sending;

	/* A queue pair came or went in this round: what was sent tells nothing. */
	if (lane->sent < PAIRS_PROBES && result->used != paths_has(pairs->paths, &lane->key)) {
		*result = (struct pairs_pair){};
		lane_end(pairs, lane);
		return;
	}
	/* A loop that is late sends at a higher rate for a while, and not all at once. */
	for (unsigned int i = 0; sending && lane->sent < due && i < PAIRS_BURST; i++) {
		if (pathsend_try(paths_sender(pairs->paths), sending,
				 sport_of(pairs, lane, lane->sent), PATHPACKET_HOP_LIMIT,
				 &lane->sequence[lane->sent])) {
			pairs->failed++;
			return;
		}
		lane->sent++;
		result->sent++;
		pairs->sent++;
	}
}

/* Of this round; each lane has a socket of its own. */
static uint16_t echo_number(const struct pairs *pairs, unsigned int echo)
{
	return (uint16_t)(pairs->round * PAIRS_ECHOES + echo);
}

static void send_echo(struct pairs *pairs, struct pairs_lane *lane, unsigned int due)
{
	struct pairs_pair *result = &lane->results[lane->partner];
	struct pairs_echo echo = {.ident = pairs->ident,
				  .sequence = echo_number(pairs, lane->echoes),
				  .full = lane->echoes % 2};

	if (lane->echoes >= due || lane->echo_fd < 0 || !lane->mtu)
		return;
	lane->echoes++;
	if (echo_send(lane->echo_fd, &lane->others[lane->partner]->address, &echo,
		      echo.full ? lane->mtu : PAIRS_ECHO_SMALL_BYTES))
		return;
	if (echo.full)
		result->full_sent++;
	else
		result->small_sent++;
}

static void read_echoes(struct pairs *pairs, struct pairs_lane *lane)
{
	bool ipv4 = address_is_ipv4(&lane->own.address);
	struct esc_address from;
	struct pairs_echo echo;

	while (lane->echo_fd >= 0 && echo_read(lane->echo_fd, ipv4, pairs->ident, &from, &echo)) {
		struct pairs_pair *result;

		if (lane->partner == ROTATION_NONE ||
		    (uint16_t)(echo.sequence - echo_number(pairs, 0)) >= lane->echoes ||
		    memcmp(&from, &lane->others[lane->partner]->address, sizeof(from)))
			continue;
		result = &lane->results[lane->partner];
		if (echo.full)
			result->full_replied++;
		else
			result->small_replied++;
	}
}

static void keep_least(int64_t *least_ns, int64_t value_ns)
{
	/* A clock that is wrong by more than the delay is no reason to show none. */
	if (value_ns > 0 && (!*least_ns || value_ns < *least_ns))
		*least_ns = value_ns;
}

static void on_record(void *context, const struct esc_path_record *record)
{
	struct pairs *pairs = context;
	unsigned int number =
		(unsigned int)(record->sport + PORTS_COUNT - PROBESOCK_PORT_BASE % PORTS_COUNT +
			       PORTS_COUNT - pairs->round * 7919 % PORTS_COUNT) %
		PORTS_COUNT;
	struct pairs_lane *lane = &pairs->lanes[number / PAIRS_PROBES];
	unsigned int probe = number % PAIRS_PROBES;
	struct pairs_pair *result;

	if (number / PAIRS_PROBES >= pairs->lane_count || lane->partner == ROTATION_NONE ||
	    probe >= lane->sent || lane->sequence[probe] != record->sequence)
		return;
	lane->sequence[probe] = ~lane->sequence[probe]; /* once */
	result = &lane->results[lane->partner];
	result->replied++;
	pairs->replied++;
	if (record->flags & ESC_PATH_TIMED) {
		keep_least(&result->out_ns, record->out_ns);
		if (record->out_bound_ns > (int64_t)result->bound_ns)
			result->bound_ns = (uint32_t)record->out_bound_ns;
	}
	if (record->flags & ESC_PATH_REPLY_TIMED)
		keep_least(&result->in_ns, record->in_ns);
}

/* --- a run --- */

static void finish(struct pairs *pairs, const char *state, const char *why)
{
	rotation_lend(pairs->rotation, NULL, NULL);
	for (size_t i = 0; i < pairs->lane_count; i++) {
		lane_end(pairs, &pairs->lanes[i]);
		if (pairs->lanes[i].echo_fd >= 0)
			close(pairs->lanes[i].echo_fd);
		pairs->lanes[i].echo_fd = -EBADF;
	}
	pairs->state = state;
	snprintf(pairs->note, sizeof(pairs->note), "%s", why ? why : "");
}

static bool is_under_way(const struct pairs *pairs)
{
	return !strcmp(pairs->state, "waiting") || !strcmp(pairs->state, "running");
}

void pairs_stop(struct pairs *pairs, const char *why)
{
	if (is_under_way(pairs))
		finish(pairs, "stopped", why);
}

static void round_begin(struct pairs *pairs, uint64_t round)
{
	paths_read_records(pairs->paths); /* replies of the round that is over */
	pairs->round = round;
	for (size_t i = 0; i < pairs->lane_count; i++) {
		lane_end(pairs, &pairs->lanes[i]);
		lane_begin(pairs, &pairs->lanes[i], round);
	}
}

static void run_on(struct pairs *pairs, uint64_t round, uint64_t fabric_ns)
{
	unsigned int probes, echoes;

	if (strcmp(pairs->state, "running")) {
		pairs->state = "running";
		rotation_lend(pairs->rotation, on_record, pairs);
		round_begin(pairs, round);
	} else if (round != pairs->round) {
		round_begin(pairs, round);
	}
	for (size_t i = 0; i < pairs->lane_count; i++) {
		struct pairs_lane *lane = &pairs->lanes[i];

		read_echoes(pairs, lane);
		if (lane->partner == ROTATION_NONE)
			continue;
		pairs_at(&pairs->plan, fabric_ns, lane->index > lane->partner, &round, &probes,
			 &echoes);
		send_echo(pairs, lane, echoes);
		send_probes(pairs, lane, probes);
	}
}

static uint64_t tick(void *context, uint64_t now_ns)
{
	struct pairs *pairs = context;
	unsigned int probes, echoes;
	struct clock_facts clock;
	uint64_t round;

	(void)now_ns;
	if (!is_under_way(pairs))
		return 0;
	clock_get(pairs->clock, &clock);
	if (dataplane_is_off(pairs->dataplane)) {
		finish(pairs, "stopped", "the kill switch is on");
		return 0;
	}
	if (!clock.known) {
		finish(pairs, "stopped", "fabric time was lost");
		return 0;
	}
	switch (pairs_at(&pairs->plan, (uint64_t)clock.fabric_ns, false, &round, &probes,
			 &echoes)) {
	case PAIRS_WAITING:
		break;
	case PAIRS_RUNNING:
		run_on(pairs, round, (uint64_t)clock.fabric_ns);
		break;
	case PAIRS_OVER:
		paths_read_records(pairs->paths);
		finish(pairs, "completed", NULL);
		return 0;
	}
	return PAIRS_TICK_NS;
}

static int why_not(struct pairs *pairs, const struct members *members,
		   const struct clock_facts *now, char **error)
{
	if (is_under_way(pairs))
		return explain(error, -EBUSY,
			       "run %llu is under way: wait for it, or `escapement pairs stop`",
			       (unsigned long long)pairs->plan.run_ns);
	if (dataplane_is_off(pairs->dataplane))
		return explain(error, -ENETDOWN,
			       "the kill switch is on: `escapement mode observe` first");
	if (!members)
		return explain(error, -ENOENT,
			       "there is no members file: name it with `members` in the "
			       "configuration");
	if (!own_host(pairs, members))
		return explain(error, -ENOENT, "host `%s` is not in the members file",
			       pairs->core->config->host);
	if (!now->known || now->fabric_ns <= 0)
		return explain(error, -EAGAIN,
			       "there is no fabric time yet: `escapement clock wait --bound 10us`");
	return 0;
}

/* Jobs keep the links: the slowest NIC decides how long a round is at least. */
static int plan_round(struct pairs *pairs, uint64_t round_ns, char **error)
{
	const struct pairs_lane *slowest = NULL;
	uint64_t least_ns = 0;

	for (size_t i = 0; i < pairs->lane_count; i++) {
		uint64_t needs_ns = pairs_round_least(pairs->lanes[i].mtu, pairs->lanes[i].own.bps);

		if (needs_ns <= least_ns)
			continue;
		least_ns = needs_ns;
		slowest = &pairs->lanes[i];
	}
	if (!round_ns)
		round_ns = least_ns > PAIRS_ROUND_DEFAULT_NS ? least_ns : PAIRS_ROUND_DEFAULT_NS;
	pairs->plan.round_ns = round_ns;
	if (round_ns >= least_ns && round_ns <= PAIRS_ROUND_MOST_NS)
		return 0;
	return explain(error, -EINVAL,
		       "a round of %llu ms would load %s, which has %.0f Mbit/s, by more than "
		       "1%%: give `--round %llums` on all hosts, or more%s",
		       (unsigned long long)(round_ns / 1000000), slowest->own.interface,
		       slowest->own.bps / 1e6, (unsigned long long)(least_ns / 1000000),
		       least_ns > PAIRS_ROUND_MOST_NS ? "; 60 s are the most: leave it out of the "
							"members file"
						      : "");
}

/* The longest rail decides; a run that all its rounds are over of has nothing to do. */
static int plan_rounds(struct pairs *pairs, const struct clock_facts *now, char **error)
{
	uint64_t end_ns;

	pairs->plan.rounds = 0;
	for (size_t i = 0; i < pairs->lane_count; i++)
		if (rotation_cycle(pairs->lanes[i].count) > pairs->plan.rounds)
			pairs->plan.rounds = rotation_cycle(pairs->lanes[i].count);
	if (!pairs->plan.rounds)
		return explain(error, -ENOENT,
			       "no NIC of this host is a member with others on its rail: compare "
			       "the members file with `escapement status`");
	end_ns = pairs->plan.run_ns + pairs->plan.rounds * pairs->plan.round_ns;
	if ((uint64_t)now->fabric_ns >= end_ns)
		return explain(
			error, -ETIME,
			"run %llu is over: give a time of `escapement clock` that is to come",
			(unsigned long long)pairs->plan.run_ns);
	if (pairs->plan.run_ns > (uint64_t)now->fabric_ns + 3600000000000ull)
		return explain(
			error, -EINVAL,
			"run %llu would begin in more than an hour of fabric time: its id is "
			"the time of its first round, in ns",
			(unsigned long long)pairs->plan.run_ns);
	return 0;
}

int pairs_start(struct pairs *pairs, uint64_t run_ns, uint64_t round_ns, char **error)
{
	const struct members *members = fleet_members(pairs->core->fleet);
	struct clock_facts now;
	int err;

	if (is_under_way(pairs) && (!run_ns || run_ns == pairs->plan.run_ns))
		return 0; /* that one is waited for */
	clock_get(pairs->clock, &now);
	err = why_not(pairs, members, &now, error);
	if (err)
		return err;
	if (rotation_read_own(pairs->rotation))
		return explain(
			error, -EAGAIN,
			"the addresses of the interfaces cannot be read now, another program "
			"holds the kernel's RTNL lock: try again");
	close_lanes(pairs);
	pairs->state = "none";
	pairs->plan = (struct pairs_plan){
		.run_ns = run_ns ? run_ns : pairs_run_id((uint64_t)now.fabric_ns),
	};
	pairs->sent = pairs->replied = pairs->failed = pairs->round = 0;
	if (getrandom(&pairs->ident, sizeof(pairs->ident), 0) < 0)
		pairs->ident = (uint16_t)time_local_ns();
	pairs->plan.most_rounds = rotation_cycle((uint32_t)members->host_count);
	err = open_lanes(pairs, members, own_host(pairs, members));
	if (err)
		explain_text(error, "out of memory");
	else
		err = plan_round(pairs, round_ns, error);
	if (!err)
		err = plan_rounds(pairs, &now, error);
	if (err) {
		close_lanes(pairs);
		return err;
	}
	pairs->state = "waiting";
	pairs->note[0] = '\0';
	core_timer_free(pairs->timer);
	pairs->timer = NULL;
	err = core_timer_new(pairs->core, &pairs->timer, PAIRS_TICK_NS, 0, tick, pairs);
	if (err) {
		pairs->state = "none";
		return explain(error, err, "no timer: %s", strerror(-err));
	}
	return 0;
}

/* --- as a capability --- */

/* What is kept refers to the members before. */
static void on_members(void *context, const struct members *before)
{
	struct pairs *pairs = context;

	(void)before;
	pairs_stop(pairs, "the member list changed");
	if (pairs->lanes && strcmp(pairs->state, "stopped")) {
		pairs->state = "stopped";
		snprintf(pairs->note, sizeof(pairs->note), "the member list changed");
	}
	close_lanes(pairs);
}

static int turned_off(void *self, const char *by, char **error)
{
	(void)by;
	(void)error;
	pairs_stop(self, "the kill switch is on");
	return 0;
}

static void pairs_close(void *self)
{
	struct pairs *pairs = self;

	pairs_stop(pairs, "the daemon ends");
	fleet_unsubscribe(pairs->core->fleet, &pairs->members);
	core_timer_free(pairs->timer);
	close_lanes(pairs);
	free(pairs);
}

static int pairs_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct pairs *pairs = calloc(1, sizeof(*pairs));

	if (!pairs)
		return explain(error, -ENOMEM, "pairs: out of memory");
	pairs->core = core;
	pairs->dataplane = needs[0];
	pairs->clock = needs[1];
	pairs->paths = needs[2];
	pairs->rotation = needs[3];
	pairs->state = "none";
	pairs->members = (struct fleet_subscriber){.changed = on_members, .context = pairs};
	fleet_subscribe(core->fleet, &pairs->members);
	*self = pairs;
	return 0;
}

const struct capability pairs_capability = {
	.name = "pairs",
	.needs = {"dataplane", "clock", "paths", "rotation"},
	.verbs = pairs_verb_handlers,
	.open = pairs_open,
	.close = pairs_close,
	.off = turned_off,
};
