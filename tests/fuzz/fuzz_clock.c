// SPDX-License-Identifier: BSD-2-Clause
/*
 * Records of the rings, as XDP makes them of packets of members with a key: any times, views and
 * anchors. Fabric time has a bound that is not negative, and all can be shown.
 */
#include <jansson.h>
#include <math.h>

#include "base/now.h"
#include "clock/internal.h"
#include "core/events.h"
#include "clocksync/graph.h"
#include "input.h"
#include "paths/internal.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define PEERS 3
#define NICS 2	   /* of ours, each with an edge to each peer */
#define RECORDS 48 /* of one input */
#define ROUND 8	   /* records */

static struct config config = {
	.clock = {.window_ns = 2000000000},
	.mesh = {.pair_interval_ns = 1000000},
};
static struct core core = {.config = &config};
static struct esc_clock clock_map;
static struct esc_fleet fleet_map;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return events_new(&core.events, 16, NULL);
}

/* Near @usual, or any. */
static int64_t a_time(struct input *in, int64_t usual)
{
	uint64_t form = input_take(in, 1);

	if (form < 0x80)
		return ns_add(usual, (int64_t)(int16_t)input_take(in, 2) * 64);
	if (form < 0xc0)
		return ns_add(usual, (int64_t)(1ull << (form & 0x3f)));
	return (int64_t)input_take(in, 8);
}

static void fill(struct esc_probe_event *e, struct input *in, uint32_t number, int64_t now_ns)
{
	uint64_t kinds = input_take(in, 1);

	*e = (struct esc_probe_event){
		.peer = 1 + (kinds >> 4) % (PEERS + 1),
		.port = number / ROUND % NICS,
		.nic = 1 + (uint32_t)(kinds >> 4) % (PEERS + 1),
		.epoch = 7 + !(kinds & 0x0f),
		.kind = kinds & 1 ? ESC_PROBE_EVENT_REPLY : ESC_PROBE_EVENT_REQUEST,
		.flags = (kinds & 2 ? ESC_PROBE_VIEW : 0) | (number & 1 ? ESC_PROBE_SECOND : 0),
		.sequence = number,
		.pair = number / 2,
		.view_state = CLOCK_SYNCED,
		.view_reach = kinds & 4 ? 0xffff : (uint16_t)input_take(in, 2),
		.view_generation = number,
	};
	/* The time of arrival is ours: of a request t2, of a reply t4. */
	e->t1 = (uint64_t)a_time(in, now_ns);
	e->t2 = (uint64_t)now_ns;
	if (e->kind == ESC_PROBE_EVENT_REPLY) {
		e->t2 = (uint64_t)a_time(in, ns_add((int64_t)e->t1, 1000));
		e->t3 = (uint64_t)a_time(in, ns_add((int64_t)e->t2, 1000));
		e->t4 = (uint64_t)now_ns;
	}
	e->view_ref_local_ns = a_time(in, now_ns);
	e->view_ref_fabric_ns = a_time(in, now_ns);
	e->view_rate_q40 = kinds & 8 ? (int64_t)input_take(in, 8) : (int16_t)input_take(in, 2);
	e->view_bound_ns = (uint32_t)input_take(in, 4);
	e->view_ref_fraction = (uint32_t)input_take(in, 4);
	e->anchor_ref_fabric_ns = a_time(in, now_ns);
	e->anchor_ahead_ns = a_time(in, 37000000000);
	e->anchor_rate_q40 = kinds & 8 ? (int64_t)input_take(in, 8) : 0;
	e->anchor_sequence = (uint32_t)input_take(in, 2);
	e->anchor_bound_ns = (uint32_t)input_take(in, 4);
	e->anchor_id = (uint32_t)graph_member_id("h1");
	e->anchor_hops = (uint8_t)input_take(in, 1);
}

static void check(struct clock *clock)
{
	struct request request = {};
	struct clock_facts facts;
	json_t *shown;
	char *text;

	clock_get(clock, &facts);
	if (facts.known && facts.bound_ns < 0)
		abort();
	if (facts.known && facts.tai_known && facts.tai_bound_ns < 0)
		abort();
	shown = clock_verb_handlers[0].reply(clock, &request);
	text = json_dumps(shown, 0);
	if (!text)
		abort();
	free(text);
	json_decref(shown);
}

static void run_clock(struct input in)
{
	static struct clock clock;
	char name[8];

	memset(&clock_map, 0, sizeof(clock_map));
	memset(&fleet_map, 0, sizeof(fleet_map));
	clock = (struct clock){.core = &core, .map = &clock_map, .fleet = &fleet_map, .runs = true};
	clock_start_host(&clock);
	for (uint64_t peer = 1; peer <= PEERS; peer++) {
		snprintf(name, sizeof(name), "h%d", (int)peer);
		for (unsigned int port = 0; port < NICS; port++)
			clock_add_edge(&clock, &(struct clock_edge_config){
						       .plane = FLEET_PLANE_BACKEND,
						       .id = peer,
						       .host = name,
						       .part = port ? "2" : "1",
						       .port = port,
						       .interface = port ? "eth2" : "eth1",
						       .nic = (uint32_t)peer,
					       });
	}
	for (uint32_t number = 0; number < RECORDS && in.at < in.end; number++) {
		int64_t now_ns = clock_local_at(&clock, time_local_ns());
		struct esc_probe_event event;

		fill(&event, &in, number, now_ns);
		clock.read_local_ns = now_ns;
		clock_take_record(&clock, &event, sizeof(event));
		if (number % ROUND != ROUND - 1)
			continue;
		clock.round_due_ns = 0;
		clock_tick(&clock, time_local_ns());
		check(&clock);
	}
	for (size_t slot = 0; slot < CLOCK_EDGES_MAX; slot++)
		if (clock.edges[slot])
			clock_remove_edge(&clock, clock.edges[slot]);
}

/* Delays of a path, by the times in replies. */
static void run_path(struct input in)
{
	int64_t now_ns = (int64_t)time_local_ns();
	struct pathstat stat = {};
	struct quantiles delays;
	struct path_delay delay;

	pathstat_clear(&stat);
	for (unsigned int i = 0; i < RECORDS && in.at < in.end; i++)
		pathstat_add(&stat, ns_add(now_ns, i * 1000000), (double)a_time(&in, 20000),
			     (double)(uint32_t)input_take(&in, 4));
	pathstat_now(&stat, 1000000000, &delay);
	pathstat_quantiles(&stat, ns_add(now_ns, 1000000), &delays);
	pathstat_published_floor(&stat, now_ns, (double)a_time(&in, 20000));
	pathstat_free(&stat);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input in = {bytes, bytes + size};

	if (input_take(&in, 1) & 1)
		run_path(in);
	else
		run_clock(in);
	return 0;
}
