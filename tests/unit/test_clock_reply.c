// SPDX-License-Identifier: BSD-2-Clause
/* The capability `clock` as it shows itself: `clock`, `status` and the metrics. */
#include <criterion/criterion.h>

#include "base/json.h"
#include "clock/internal.h"
#include "core/core.h"
#include "shown.h"

#define MS 1000000ll

extern const struct capability clock_capability;

static struct config config = {.clock = {.window_ns = 2000 * MS}};
static struct core core = {.config = &config};
static struct clock the_clock;

static struct clock_edge *add(enum fleet_plane plane, const char *host)
{
	const struct clock_edge_config edge_config = {.plane = plane,
						      .id = host[1],
						      .host = host,
						      .part = config_plane_name(plane),
						      .interface = "eth1",
						      .nic = (uint32_t)host[1]};
	struct clock_edge *edge = clock_add_edge(&the_clock, &edge_config);

	cr_assert_not_null(edge);
	return edge;
}

static void begin(void)
{
	the_clock = (struct clock){.core = &core, .suspended_ns = time_suspended_ns()};
	hostclock_init(&the_clock.host,
		       &(struct hostclock_config){.degree = 1, .round_ns = HOSTCLOCK_ROUND_NS}, 0);
}

static void synced(void)
{
	int64_t now_ns = clock_local_at(&the_clock, time_local_ns());

	the_clock.host.state = CLOCK_SYNCED;
	the_clock.host.model = (struct clock_model){
		.generation = 7,
		.ref_local_ns = now_ns,
		.ref_fabric_ns = now_ns + 5000,
		.slew_end_local_ns = now_ns,
		.slew_end_fabric_ns = now_ns + 5000,
		.rate = 1 << 20,
		.bound_local_ns = now_ns,
		.bound_ns = 250,
	};
	the_clock.host.consensus.used = 3;
	the_clock.host.consensus.reports = 4;
	the_clock.host.consensus.last_used_ns = now_ns;
	the_clock.host.consensus.residual_ns = 12.5;
}

static void end(void)
{
	for (size_t slot = 0; slot < CLOCK_EDGES_MAX; slot++)
		if (the_clock.edges[slot])
			clock_remove_edge(&the_clock, the_clock.edges[slot]);
}

TestSuite(clock_reply, .init = begin, .fini = end);

Test(clock_reply, without_fabric_time)
{
	static const char *const unknown[] = {"bound_ns",   "fabric_ns",	"model",
					      "generation", "last_sync_age_ms", "tai"};
	json_t *object, *first;

	add(FLEET_PLANE_BACKEND, "h2");
	object = reply_of(&clock_capability, &the_clock);
	cr_expect_str_eq(text(object, "state"), "free_running");
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		cr_expect_null(get(object, unknown[i]), "%s is not known", unknown[i]);
	cr_expect_eq(number(object, "peers_used"), 0);
	first = json_array_get(get(object, "peers"), 0);
	cr_expect_str_eq(text(first, "peer"), "h2");
	cr_expect(json_is_false(get(first, "used")));
	cr_expect_null(get(first, "offset_ns"), "no fit yet");
	cr_expect_null(get(first, "error_ns"));
	json_decref(object);
	object = status_of(&clock_capability, &the_clock);
	cr_expect_str_eq(text(get(object, "clock"), "state"), "free_running");
	cr_expect_null(get(get(object, "clock"), "bound_ns"));
	json_decref(object);
}

/* fabric(local) = ref_fabric_ns + (local - ref_local_ns) * (1 + rate_ppb * 1e-9), on both parts. */
Test(clock_reply, the_model_reads_as_documented)
{
	struct clock_facts clock = {
		.state = CLOCK_SYNCED,
		.known = true,
		.model = {.ref_local_ns = 1000000000000,
			  .ref_fabric_ns = 5000000000000,
			  .ref_rate = 30000000,
			  .rate = 20000000,
			  .generation = 7},
	};

	clock.model.slew_end_local_ns = clock.model.ref_local_ns + 250000000;
	clock.model.slew_end_fabric_ns = clock.model.ref_fabric_ns + 250000000 +
					 clock_scale(250000000, clock.model.ref_rate);
	for (int64_t after = 0; after < 1000000000; after += 99999999) {
		json_t *object, *model;
		double reading;

		clock.local_ns = clock.model.ref_local_ns + after;
		clock.fabric_ns = clock_model_read(&clock.model, clock.local_ns);
		object = clock_facts_json(&clock);
		model = (json_t *)get(object, "model");
		reading = (double)(clock.local_ns - number(model, "ref_local_ns"));
		reading *= 1 + real_number(model, "rate_ppb") * 1e-9;
		cr_expect_float_eq(reading,
				   (double)(clock.fabric_ns - number(model, "ref_fabric_ns")), 1.1);
		cr_expect_eq(get(model, "slew_local_ns") != NULL, after < 250000000);
		json_decref(object);
	}
}

Test(clock_reply, peers_by_plane_and_host)
{
	static const char *const hosts[] = {"h2", "h10", "h3"};
	struct clock_edge *edge;
	json_t *object, *peer;
	size_t i;

	add(FLEET_PLANE_FRONTEND, "h3");
	add(FLEET_PLANE_BACKEND, "h10");
	edge = add(FLEET_PLANE_BACKEND, "h2");
	edge->fit.estimate = (struct edge_estimate){.valid = true,
						    .offset_ns = -1000,
						    .offset_fraction_ns = 0.5,
						    .pairs_kept = 80,
						    .averaged = 8};
	the_clock.host.consensus.peers[edge->place].status = CONSENSUS_REFUSED_DRIFT;
	the_clock.host.consensus.peers[edge->place].drift_ppb = 40;
	synced();
	object = reply_of(&clock_capability, &the_clock);
	cr_expect_str_eq(text(object, "state"), "synced");
	cr_expect_eq(number(object, "generation"), 7);
	cr_expect_eq(number(object, "peers_reachable"), 4);
	cr_expect_geq(number(object, "bound_ns"), 250);
	cr_expect_eq(json_array_size(get(object, "peers")), 3);
	json_array_foreach (get(object, "peers"), i, peer)
		cr_expect_str_eq(text(peer, "peer"), hosts[i]);
	peer = json_array_get(get(object, "peers"), 0);
	cr_expect_str_eq(text(peer, "consensus"), "refused_drift");
	cr_expect_float_eq(real_number(peer, "offset_ns"), -999.5, 1e-9);
	cr_expect_eq(number(peer, "pairs_kept"), 80);
	cr_expect_eq(number(peer, "averaged"), 8);
	cr_expect_eq(real_number(peer, "error_ppb"), 40);
	peer = json_array_get(get(object, "peers"), 2);
	cr_expect_str_eq(text(peer, "plane"), "frontend");
	json_decref(object);
}

/* A synced neighbor reports the TAI of @anchor; returns the host that TAI is then from, or NULL. */
static const char *accepted_from(const char *anchor, char *anchors)
{
	static struct esc_fleet fleet;
	static struct roster_member list[] = {{.host = "h1"}, {.host = "h12"}, {.host = "h2"}};
	static uint64_t ids[] = {11, 12, 13};
	static struct fleet_plan plan = {.all = {.list = list, .ids = ids, .count = 3, .self = 1}};
	int64_t now_ns = clock_local_at(&the_clock, time_local_ns());
	struct clock_edge *edge = add(FLEET_PLANE_BACKEND, "h2");
	struct clock_facts facts = {};

	synced();
	fleet.self = ids[1];
	the_clock.fleet = &fleet;
	the_clock.plan = &plan;
	config.clock.anchors = anchors;
	edge->view_known = true;
	edge->view_fresh_ns = now_ns;
	edge->view.state = CLOCK_SYNCED;
	the_clock.host.consensus.peers[edge->place].status = CONSENSUS_USED;
	edge->anchor = (struct anchor_report){.ref_fabric_ns = now_ns, .sequence = 1, .anchor = 99};
	for (size_t i = 0; i < 3; i++)
		if (!strcmp(list[i].host, anchor))
			edge->anchor.anchor = ids[i];
	clock_anchor_round(&the_clock, now_ns);
	clock_get(&the_clock, &facts);
	clock_remove_edge(&the_clock, edge);
	config.clock.anchors = NULL;
	return facts.tai_known ? facts.tai_anchor : NULL;
}

Test(clock_reply, tai_of_listed_anchors_only)
{
	const char *host = accepted_from("h1", NULL);

	cr_expect(host && !strcmp(host, "h1"), "without a list any member is accepted");
	/* It was accepted: a list without it drops it. */
	cr_expect_null(accepted_from("h1", "h2"));
	cr_expect_null(accepted_from("h1", "h12,  h2"), "no part of a name");
	cr_expect_null(accepted_from("h7", "h2,h1"), "an id of no member");
	host = accepted_from("h1", "h2,h1");
	cr_expect(host && !strcmp(host, "h1"));
}

/* A host that is not in the list does not distribute TAI, and reports why. */
Test(clock_reply, an_anchor_that_is_not_listed)
{
	config.clock.anchor = true;
	config.lab.tai_offset_ns = 37000000000;
	cr_expect_null(accepted_from("h7", "h1"));
	cr_expect(the_clock.anchor.note && strstr(the_clock.anchor.note, "clock.anchors"));
	config.clock.anchor = false;
	config.lab.tai_offset_ns = 0;
}

Test(clock_reply, tai_of_an_anchor)
{
	const struct clock_facts clock = {
		.state = CLOCK_SYNCED,
		.known = true,
		.tai_known = true,
		.tai_ns = 37000000000,
		.tai_bound_ns = 900,
		.tai_age_ns = 2000 * MS,
		.tai_hops = 2,
		.tai_anchor = "h1",
		.tai_note = "no TAI offset",
	};
	json_t *object = clock_facts_json(&clock);
	const json_t *tai = get(object, "tai");

	cr_expect_eq(number(tai, "ns"), 37000000000);
	cr_expect_eq(number(tai, "bound_ns"), 900);
	cr_expect_eq(number(tai, "hops"), 2);
	cr_expect_eq(real_number(tai, "anchor_age_s"), 2);
	cr_expect_str_eq(text(tai, "anchor"), "h1");
	cr_expect_str_eq(text(object, "tai_note"), "no TAI offset");
	json_decref(object);
}

/* A counter of 2.5 GHz, 2 ppm fast. */
static void count_cycles(void)
{
	struct cycles_step step;

	for (uint64_t i = 0; i < 12; i++)
		cycles_add(&the_clock.cycles.series, (int64_t)(1000 + i) * CYCLES_STEP_NS,
			   1000 + i * 5000010000, 50, &step);
}

Test(clock_reply, cycles)
{
	struct request request = {};
	json_t *reply;

	count_cycles();
	the_clock.cycles.steps = 2;
	reply = clock_reply_cycles(&the_clock, &request);
	cr_expect_eq(json_count(reply, "steps"), 2);
	cr_expect_float_eq(json_real_value(json_object_get(reply, "rate_hz")), 2500005000.0, 0.1);
	/* The first reading began the reference, the second the first interval. */
	cr_expect_eq(json_count(reply, "first_fabric_ns"), 1001 * CYCLES_STEP_NS);
	cr_expect_eq(json_array_size(json_object_get(reply, "ahead_ns")), 10);
	cr_expect_eq(json_array_size(json_object_get(reply, "bound_ns")), 10);
	cr_expect_null(json_object_get(reply, "note"));
	json_decref(reply);
	cycles_restart(&the_clock.cycles.series);
	the_clock.cycles.note = "why";
	reply = clock_reply_cycles(&the_clock, &request);
	cr_expect_str_eq(json_text(reply, "note"), "why");
	cr_expect_null(json_object_get(reply, "rate_hz"));
	cr_expect_null(json_object_get(reply, "ahead_ns"));
	json_decref(reply);
}

Test(clock_reply, metrics)
{
	char *metrics;

	synced();
	count_cycles();
	the_clock.anchor.current =
		(struct anchor_report){.sequence = 1,
				       .ref_fabric_ns = the_clock.host.model.ref_fabric_ns,
				       .ahead_ns = 37,
				       .bound_ns = 40};
	metrics = metrics_of(&clock_capability, &the_clock);
	expect_line(metrics, "escapement_clock_state{state=\"synced\"} 1");
	expect_line(metrics, "escapement_clock_state{state=\"holdover\"} 0");
	expect_line(metrics, "escapement_clock_peers 3");
	expect_line(metrics, "escapement_clock_cycles_steps_total 0");
	expect_line(metrics, "escapement_clock_frequency_offset_ratio 9.5367431640625e-07");
	expect_line(metrics, "escapement_clock_loop_residual_seconds 1.25e-08");
	cr_expect(strstr(metrics, "\nescapement_clock_error_bound_seconds 2.5"), "%s", metrics);
	expect_families(metrics, clock_capability.metrics);
	free(metrics);
}

Test(clock_reply, metrics_without_fabric_time)
{
	char *metrics = metrics_of(&clock_capability, &the_clock);

	expect_line(metrics, "escapement_clock_state{state=\"synced\"} 0");
	expect_no_family(metrics, "clock_error_bound_seconds");
	expect_no_family(metrics, "clock_frequency_offset_ratio");
	expect_no_family(metrics, "clock_last_sync_timestamp_seconds");
	expect_no_family(metrics, "clock_tai");
	expect_no_family(metrics, "clock_cycles_frequency_hertz");
	free(metrics);
}

Test(clock_reply, after_a_suspension_there_is_no_fabric_time)
{
	static struct esc_fleet fleet;
	static struct esc_clock map;
	uint64_t suspended_ns = the_clock.suspended_ns;
	struct clock_edge *edge = add(FLEET_PLANE_BACKEND, "h2");
	struct clock_facts facts;

	cr_assert_eq(events_new(&core.events, 16, NULL), 0);
	the_clock.fleet = &fleet;
	the_clock.map = &map;
	synced();
	clock_write_model(&the_clock);
	edge->view_known = true;
	cr_expect_not(clock_check_suspended(&the_clock, suspended_ns + 1000));
	clock_get(&the_clock, &facts);
	cr_expect(facts.known);

	/* Seen by a request before the loop's next round, and by that. */
	the_clock.suspended_ns -= 2000 * MS;
	clock_get(&the_clock, &facts);
	cr_expect_not(facts.known);
	cr_expect_eq(facts.state, CLOCK_FREE_RUNNING);
	cr_expect(clock_check_suspended(&the_clock, time_suspended_ns()));
	cr_expect_eq(map.slot[map.generation & 1].state, CLOCK_FREE_RUNNING);
	cr_expect_not(edge->view_known);
	clock_get(&the_clock, &facts);
	cr_expect_not(facts.known);
	events_free(core.events);
	core.events = NULL;
}

/* --- a pause that only the neighbors' probes show --- */

#define AHEAD_NS 5000000 /* of the peers' clocks */
#define DELAY_NS 20000

static struct esc_fleet paused_fleet;
static struct esc_clock paused_map;

/* Synced with @count peers, each measured. */
static void measured(size_t count)
{
	static const char *const hosts[] = {"h2", "h3", "h4"};
	int64_t now_ns = clock_local_at(&the_clock, time_local_ns());

	cr_assert_eq(events_new(&core.events, 16, NULL), 0);
	the_clock.fleet = &paused_fleet;
	the_clock.map = &paused_map;
	synced();
	clock_write_model(&the_clock);
	for (size_t i = 0; i < count; i++) {
		struct clock_edge *edge = add(FLEET_PLANE_BACKEND, hosts[i]);

		edge_init(&edge->fit, 2000 * MS);
		edge->epoch = 1;
		edge->begun_local_ns = 0;
		edge->fit.estimate = (struct edge_estimate){.valid = true,
							    .local_ns = now_ns,
							    .offset_ns = AHEAD_NS,
							    .floor_ns = DELAY_NS};
		edge->known = edge->fit.estimate;
		/* Fabric time is 5 us ahead of local time here. */
		edge->view = (struct clock_view){.state = CLOCK_SYNCED,
						 .ref_local_ns = now_ns + AHEAD_NS,
						 .ref_fabric_ns = now_ns + 5000,
						 .bound_ns = 250};
		edge->view_known = true;
	}
}

/* A request of a peer, sent @late_ns after it was by its clock; true: there is fabric time. */
static bool request(char host, int64_t late_ns)
{
	int64_t now_ns = clock_local_at(&the_clock, time_local_ns());
	struct esc_probe_event event = {
		.peer = (uint64_t)host,
		.nic = (uint32_t)host,
		.epoch = 1,
		.kind = ESC_PROBE_EVENT_REQUEST,
		.t1 = (uint64_t)(now_ns + AHEAD_NS - DELAY_NS + late_ns),
		.t2 = (uint64_t)now_ns,
	};
	struct clock_facts facts;

	the_clock.read_local_ns = now_ns;
	clock_take_record(&the_clock, &event, sizeof(event));
	clock_get(&the_clock, &facts);
	return facts.known;
}

/* A reply to a request: @late_ns is what the peer's clock is ahead now. */
static bool reply(char host, int64_t late_ns)
{
	int64_t now_ns = clock_local_at(&the_clock, time_local_ns());
	struct esc_probe_event event = {
		.peer = (uint64_t)host,
		.nic = (uint32_t)host,
		.epoch = 1,
		.kind = ESC_PROBE_EVENT_REPLY,
		.t1 = (uint64_t)(now_ns - 2 * DELAY_NS),
		.t2 = (uint64_t)(now_ns - DELAY_NS + AHEAD_NS + late_ns),
		.t3 = (uint64_t)(now_ns - DELAY_NS + AHEAD_NS + late_ns),
		.t4 = (uint64_t)now_ns,
	};
	struct clock_facts facts;

	the_clock.read_local_ns = now_ns;
	clock_take_record(&the_clock, &event, sizeof(event));
	clock_get(&the_clock, &facts);
	return facts.known;
}

static void forget_events(void)
{
	events_free(core.events);
	core.events = NULL;
}

Test(clock_reply, what_most_neighbors_sent_in_our_future_shows_that_our_clock_stood_still)
{
	measured(3);
	cr_expect(request('2', 0));
	cr_expect(request('2', -500 * MS), "a queue");
	cr_expect(request('2', 10000 * MS), "one of three");
	cr_expect_not(request('3', 10000 * MS), "two of three");
	cr_expect_eq(paused_map.slot[paused_map.generation & 1].state, CLOCK_FREE_RUNNING);
	cr_expect_not(the_clock.edges[0]->fit.estimate.valid, "measured again");
	cr_expect_not(request('4', 10000 * MS));
	forget_events();
}

Test(clock_reply, a_wrong_fit_or_another_fabric_time_is_no_jump)
{
	measured(1);
	the_clock.edges[0]->known.offset_ns -= 100 * MS;
	cr_expect(request('2', 0), "by the fit it is early, by fabric time not");
	the_clock.edges[0]->known.offset_ns += 100 * MS;
	the_clock.edges[0]->view.ref_fabric_ns += 100000 * MS;
	cr_expect(request('2', 0), "only by fabric time");
	cr_expect_eq(the_clock.edges[0]->early_ns[CLOCK_BACKWARD], 0);
	forget_events();
}

Test(clock_reply, with_one_neighbor_it_is_the_clock_that_is_behind)
{
	measured(1);
	cr_expect(reply('2', 0));
	cr_expect(reply('2', -10000 * MS), "the peer's clock stopped, not ours");
	clock_restart_early(&the_clock, clock_local_at(&the_clock, time_local_ns()));
	cr_expect_not(the_clock.edges[0]->fit.estimate.valid, "the peer is measured again");
	forget_events();
}

Test(clock_reply, replies_show_it_as_well)
{
	measured(1);
	cr_expect_not(reply('2', 50 * MS));
	forget_events();
}

Test(clock_reply, a_clock_that_jumped_ahead_is_shown_by_two_neighbors)
{
	measured(3);
	cr_expect(reply('2', -10000 * MS));
	cr_expect(reply('2', -10000 * MS), "the same one");
	cr_expect_not(reply('3', -10000 * MS));
	forget_events();
}

/* What was sent before it is no measurement of after it. */
Test(clock_reply, a_reply_to_a_request_of_before_is_not_used)
{
	int64_t now_ns;

	measured(1);
	cr_expect_not(request('2', 10000 * MS));
	now_ns = the_clock.edges[0]->begun_local_ns;
	clock_take_record(&the_clock,
			  &(struct esc_probe_event){.peer = '2',
						    .nic = '2',
						    .epoch = 1,
						    .kind = ESC_PROBE_EVENT_REPLY,
						    .t1 = (uint64_t)(now_ns - 1),
						    .t2 = (uint64_t)now_ns,
						    .t3 = (uint64_t)now_ns,
						    .t4 = (uint64_t)now_ns + DELAY_NS},
			  sizeof(struct esc_probe_event));
	cr_expect_eq(the_clock.edges[0]->fit.received_ns[CLOCK_FORWARD], 0);
	forget_events();
}

Test(clock_reply, a_nic_that_is_not_probed_from_any_more)
{
	struct clock_edge *edge;
	json_t *list;

	cr_assert_eq(events_new(&core.events, 16, NULL), 0);
	edge = add(FLEET_PLANE_BACKEND, "h2");
	the_clock.nics[edge->port].differs = true;
	clock_remove_edge(&the_clock, edge);
	list = events_since(core.events, 0);
	cr_expect_str_eq(text(json_array_get(list, 0), "kind"), "nic_timestamps_unknown");
	cr_expect_str_eq(text(json_array_get(list, 0), "subject"), "eth1");
	json_decref(list);
	forget_events();
}

/* The kinds of all events, in their order. */
static void expect_events(const char *kinds)
{
	json_t *list = events_since(core.events, 0), *event;
	char shown[128] = "";
	size_t i;

	json_array_foreach (list, i, event)
		snprintf(shown + strlen(shown), sizeof(shown) - strlen(shown), "%s%s", i ? " " : "",
			 text(event, "kind"));
	cr_expect_str_eq(shown, kinds);
	json_decref(list);
}

Test(clock_reply, a_neighbor_is_reported_once_it_was_apart_for_seconds)
{
	struct clock_place *place;
	struct consensus_peer *peer;

	measured(1);
	place = &the_clock.places[the_clock.edges[0]->place];
	peer = &the_clock.host.consensus.peers[place - the_clock.places];
	peer->status = CONSENSUS_REFUSED_OFFSET;
	peer->refused_since_ns = 1000 * MS;
	clock_report_place(&the_clock, place, 60000 * MS);
	expect_events("");
	peer->apart_since_ns = 60000 * MS;
	clock_report_place(&the_clock, place, 61900 * MS);
	expect_events("");
	clock_report_place(&the_clock, place, 62100 * MS);
	clock_report_place(&the_clock, place, 62350 * MS);
	expect_events("clock_refused");
	clock_report_place(&the_clock, place, 70100 * MS);
	expect_events("clock_refused clock_falseticker");
	peer->status = CONSENSUS_ABSENT;
	clock_report_place(&the_clock, place, 70350 * MS);
	peer->status = CONSENSUS_REFUSED_OFFSET;
	peer->apart_since_ns = 0;
	clock_report_place(&the_clock, place, 70600 * MS);
	clock_report_place(&the_clock, place, 70850 * MS);
	expect_events("clock_refused clock_falseticker clock_accepted");
	forget_events();
}
