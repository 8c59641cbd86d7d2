// SPDX-License-Identifier: BSD-2-Clause
/* The capability `clock` as it shows itself: `clock`, `status` and the metrics. */
#include <criterion/criterion.h>

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
	struct clock_edge *edge = clock_add_edge(&the_clock, plane, host[1], host);

	cr_assert_not_null(edge);
	return edge;
}

static void begin(void)
{
	the_clock = (struct clock){.core = &core, .members = {.self = ROSTER_NOBODY}};
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
		.turn_local_ns = now_ns,
		.turn_fabric_ns = now_ns + 5000,
		.rate = 1 << 20,
		.bound_local_ns = now_ns,
		.bound_ns = 250,
	};
	the_clock.host.consensus.used = 3;
	the_clock.host.consensus.heard = 4;
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
			  .line_rate = 30000000,
			  .rate = 20000000,
			  .generation = 7},
	};

	clock.model.turn_local_ns = clock.model.ref_local_ns + 250000000;
	clock.model.turn_fabric_ns = clock.model.ref_fabric_ns + 250000000 +
				     clock_scale(250000000, clock.model.line_rate);
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
	edge->fit.estimate = (struct edge_estimate){
		.valid = true, .offset_ns = -1000, .offset_fraction_ns = 0.5, .pairs_kept = 80};
	the_clock.host.consensus.peers[edge->slot].status = CONSENSUS_REFUSED_DRIFT;
	the_clock.host.consensus.peers[edge->slot].drift_ppb = 40;
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
	cr_expect_eq(real_number(peer, "error_ppb"), 40);
	peer = json_array_get(get(object, "peers"), 2);
	cr_expect_str_eq(text(peer, "plane"), "frontend");
	json_decref(object);
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

Test(clock_reply, metrics)
{
	char *metrics;

	synced();
	the_clock.anchor.current =
		(struct anchor_report){.sequence = 1,
				       .ref_fabric_ns = the_clock.host.model.ref_fabric_ns,
				       .ahead_ns = 37,
				       .bound_ns = 40};
	metrics = metrics_of(&clock_capability, &the_clock);
	expect_line(metrics, "escapement_clock_state{state=\"synced\"} 1");
	expect_line(metrics, "escapement_clock_state{state=\"holdover\"} 0");
	expect_line(metrics, "escapement_clock_peers 3");
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
	free(metrics);
}
