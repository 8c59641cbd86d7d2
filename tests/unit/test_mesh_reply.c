// SPDX-License-Identifier: BSD-2-Clause
/* The capability `mesh` as it shows itself: `peers`, `status` and the metrics. */
#include <criterion/criterion.h>
#include <math.h>

#include "base/address.h"
#include "core/core.h"
#include "mesh/internal.h"
#include "shown.h"

#define S 1000000000ll

extern const struct capability mesh_capability;

/* The clock below, as the mesh calls it. */
struct clock {
	struct hostclock host;
} the_clock;

const struct hostclock *clock_host(const struct clock *clock)
{
	return &clock->host;
}

int64_t clock_local_at(const struct clock *clock, uint64_t monotonic_ns)
{
	(void)clock;
	return (int64_t)monotonic_ns;
}

uint64_t clock_epoch(const struct clock *clock)
{
	(void)clock;
	return 1;
}

uint64_t clock_rounds(const struct clock *clock)
{
	(void)clock;
	return 0;
}

struct esc_fleet *clock_fleet(const struct clock *clock)
{
	(void)clock;
	return NULL;
}

struct clock_edge *clock_add_edge(struct clock *clock, const struct clock_edge_config *edge)
{
	(void)clock;
	(void)edge;
	return NULL;
}

bool clock_edge_is_last_refused(const struct clock *clock, const struct clock_edge *edge)
{
	(void)clock;
	(void)edge;
	return false;
}

/* Of the NIC in slot 2. */
bool clock_nic_offset(const struct clock *clock, unsigned int port, double *offset_ns,
		      bool *differs)
{
	(void)clock;
	*offset_ns = 2100;
	*differs = true;
	return port == 2;
}

int64_t clock_edge_excess_ns(const struct clock_edge *edge)
{
	return edge->use == CLOCK_USE ? 0 : 2000;
}

void clock_remove_edge(struct clock *clock, struct clock_edge *edge)
{
	(void)clock;
	free(edge);
}

void clock_configure(struct clock *clock, const struct fleet_plan *plan, bool on,
		     unsigned int pairs)
{
	(void)plan;
	(void)clock;
	(void)on;
	(void)pairs;
}

void clock_listen(struct clock *clock, const struct clock_listener *listener, void *context)
{
	(void)clock;
	(void)listener;
	(void)context;
}

void clock_read_records(struct clock *clock)
{
	(void)clock;
}

void clock_set_report(struct clock *clock, uint8_t report)
{
	(void)clock;
	(void)report;
}

void clock_tick(struct clock *clock, uint64_t now_ns)
{
	(void)clock;
	(void)now_ns;
}

static struct config config = {.clock = {.window_ns = 2 * S}, .mesh = {.down_after_ns = S}};
static struct core core = {.config = &config};
static struct mesh mesh;
static const struct roster no_roster = {.self = ROSTER_NONE};
static const struct fleet_mesh no_mesh;

static void begin(void)
{
	the_clock.host = (struct hostclock){.state = CLOCK_FREE_RUNNING};
	mesh = (struct mesh){.core = &core, .clock = &the_clock, .peers_fd = -1};
	for (int i = 0; i < MESH_PLANES; i++)
		mesh.planes[i] =
			(struct mesh_plane){.plane = i, .roster = &no_roster, .mesh = &no_mesh};
}

static struct mesh_peer *add(size_t slot, const char *host)
{
	struct mesh_peer *peer = calloc(1, sizeof(*peer));

	peer->edge = calloc(1, sizeof(*peer->edge));
	peer->edge->slot = slot;
	snprintf(peer->edge->host, sizeof(peer->edge->host), "%s", host);
	address_parse("10.0.0.2", &peer->facts.address);
	snprintf(peer->facts.interface, sizeof(peer->facts.interface), "eth1");
	peer->facts.state = PEER_UP;
	peer->received_ns = time_local_ns();
	mesh.peers[slot] = peer;
	return peer;
}

static void end(void)
{
	for (size_t i = 0; i < MESH_PEERS_MAX; i++) {
		if (mesh.peers[i])
			free(mesh.peers[i]->edge);
		free(mesh.peers[i]);
	}
}

TestSuite(mesh_reply, .init = begin, .fini = end);

/* Both clocks are true: fabric time is local time. */
static void give_time(struct mesh_peer *peer)
{
	int64_t now_ns = (int64_t)time_local_ns();

	the_clock.host.state = CLOCK_SYNCED;
	the_clock.host.consensus.line =
		(struct clock_line){.local_ns = now_ns, .fabric_ns = now_ns};
	the_clock.host.model = (struct clock_model){.generation = 1,
						    .ref_local_ns = now_ns,
						    .ref_fabric_ns = now_ns,
						    .slew_end_local_ns = now_ns,
						    .slew_end_fabric_ns = now_ns,
						    .bound_local_ns = now_ns,
						    .bound_ns = 200};
	peer->edge->view_known = true;
	peer->edge->view_fresh_ns = now_ns;
	peer->edge->view = (struct clock_view){.ref_local_ns = now_ns,
					       .ref_fabric_ns = now_ns,
					       .bound_ns = 300,
					       .generation = 1,
					       .state = CLOCK_SYNCED};
}

static void probe(struct mesh_peer *peer, int64_t there_ns, int64_t back_ns)
{
	int64_t now_ns = (int64_t)time_local_ns();

	passages_add(&peer->edge->out, now_ns, now_ns + there_ns);
	passages_add(&peer->edge->back, now_ns + there_ns + 50, now_ns + there_ns + 50 + back_ns);
}

Test(mesh_reply, a_peer)
{
	struct mesh_peer_facts peer = {
		.host = "h2",
		.interface = "eth1",
		.state = PEER_DOWN,
		.blame = "nic",
		.seen = true,
		.silent_ns = 1500000000,
		.sent = 100,
		.lost = 3,
		.source_port = 50000,
		.rtt = {4, 1, 2, 3, 4},
	};
	json_t *object;

	address_parse("10.0.0.2", &peer.address);
	object = mesh_peer_json(&peer);
	cr_expect_str_eq(text(object, "peer"), "h2");
	cr_expect_str_eq(text(object, "address"), "10.0.0.2");
	cr_expect_str_eq(text(object, "plane"), "backend");
	cr_expect_str_eq(text(object, "state"), "down");
	cr_expect_str_eq(text(object, "blame"), "nic");
	cr_expect_eq(number(object, "sport"), 50000);
	cr_expect_eq(number(object, "sent"), 100);
	cr_expect_eq(number(object, "lost"), 3);
	cr_expect_eq(number(get(object, "rtt_ns"), "p99"), 3);
	cr_expect_eq(real_number(object, "last_heard_ms"), 1500);
	for (const char *const *key = (const char *const[]){"owd_out_ns", "owd_in_ns", "bound_ns",
							    "note", "failed", NULL};
	     *key; key++)
		cr_expect_null(get(object, *key), "%s is not known", *key);
	json_decref(object);
	peer.owd_in = (struct quantiles){2, -5, 6, 7, 8};
	peer.owd_bound_ns = 300;
	peer.seen = false;
	peer.failed = 2;
	object = mesh_peer_json(&peer);
	cr_expect_eq(number(get(object, "owd_in_ns"), "min"), -5);
	cr_expect_eq(number(object, "bound_ns"), 300);
	cr_expect_eq(number(object, "failed"), 2);
	cr_expect_null(get(object, "owd_out_ns"));
	cr_expect_null(get(object, "last_heard_ms"), "nothing was ever received");
	json_decref(object);
}

static void add_qps(void *context, json_t *peers)
{
	json_object_set_new(json_array_get(peers, 0), "qps", json_integer(*(int *)context));
}

Test(mesh_reply, peers_with_what_another_module_adds)
{
	struct mesh_peer *peer;
	json_t *object, *first;
	int qps = 5;

	add(0, "h10");
	peer = add(1, "h2");
	peer->edge->requests = 7;
	peer->edge->losses.replied = 9;
	peer->no_replies = true;
	probe(peer, 1000, 2000);
	mesh_on_reply(&mesh, add_qps, &qps);
	object = reply_of(&mesh_capability, &mesh);
	cr_assert_eq(json_array_size(get(object, "peers")), 2);
	first = json_array_get(get(object, "peers"), 0);
	cr_expect_str_eq(text(first, "peer"), "h2", "by host, as numbers are read");
	cr_expect_eq(number(first, "received"), 7);
	cr_expect_eq(number(first, "replied"), 9);
	cr_expect_eq(json_is_true(get(first, "no_replies")), peer->facts.state != PEER_DOWN);
	cr_expect_null(get(json_array_get(get(object, "peers"), 1), "no_replies"));
	cr_expect_eq(number(get(first, "rtt_ns"), "p50"), 3000);
	cr_expect_null(get(first, "owd_out_ns"), "without fabric time");
	cr_expect_eq(number(first, "qps"), 5);
	cr_expect_str_neq(text(first, "note"), "(absent)");
	json_decref(object);
}

Test(mesh_reply, delays_by_fabric_time)
{
	struct mesh_peer *peer = add(0, "h2");
	struct mesh_out_facts out;
	json_t *object, *first;

	give_time(peer);
	probe(peer, 1000, 2000);
	peer->edge->one_sided = true; /* the replies stand for the peer's probes */
	object = reply_of(&mesh_capability, &mesh);
	first = json_array_get(get(object, "peers"), 0);
	cr_expect_eq(number(get(first, "owd_out_ns"), "p50"), 1000);
	cr_expect_eq(number(get(first, "owd_in_ns"), "p50"), 2000);
	cr_expect_geq(number(first, "bound_ns"), 500);
	json_decref(object);
	cr_assert(mesh_get_out(&mesh, &peer->facts.address, S, &out));
	cr_expect_eq(out.owd.p50_ns, 1000);
	cr_expect(isnan(mesh_get_floor(&mesh, &peer->facts.address)));
	peer->edge->fit.floor_known = true;
	peer->edge->fit.floor_ns = 900;
	cr_expect_eq(mesh_get_floor(&mesh, &peer->facts.address), 900);
	peer->edge->view_fresh_ns -= CLOCK_VIEW_FRESH_NS + S;
	cr_assert(mesh_get_out(&mesh, &peer->facts.address, S, &out));
	cr_expect_eq(out.owd.samples, 0, "the view of a daemon that has ended");
	peer->facts.address.bytes[15]++;
	cr_expect(mesh_get_out(&mesh, &peer->facts.address, S, &out));
	peer->facts.address.bytes[15]--;
	cr_expect(!mesh_get_out(&mesh, &(struct esc_address){}, S, &out), "it is not probed");
}

Test(mesh_reply, status)
{
	json_t *status = status_of(&mesh_capability, &mesh);
	const json_t *probing = get(status, "probing");

	cr_expect_null(get(status, "members"), "there is no file");
	cr_expect(json_is_false(get(probing, "authority")));
	cr_expect(strstr(text(probing, "authority_note"), "key_file"));
	cr_expect_eq(json_array_size(get(probing, "planes")), 0, "none is configured");
	cr_expect_null(get(probing, "insecure"));
	json_decref(status);
	config.insecure = true;
	status = status_of(&mesh_capability, &mesh);
	cr_expect(json_is_true(get(get(status, "probing"), "insecure")));
	json_decref(status);
	add(0, "h2");
	add(1, "h3")->facts.state = PEER_SUSPECT;
	config.keys.have[0] = true;
	mesh.planes[0].configured = mesh.planes[0].on = true;
	mesh.paused = true;
	status = status_of(&mesh_capability, &mesh);
	probing = get(status, "probing");
	cr_expect(json_is_true(get(probing, "authority")));
	cr_expect_eq(number(get(probing, "peers"), "up"), 1);
	cr_expect_eq(number(get(probing, "peers"), "suspect"), 1);
	probing = json_array_get(get(probing, "planes"), 0);
	cr_expect(json_is_false(get(probing, "on")));
	cr_expect(strstr(text(probing, "note"), "kill switch"));
	json_decref(status);
}

static unsigned int events_of(const char *kind)
{
	const struct event_count *counts;
	size_t count = events_counts(core.events, &counts);

	for (size_t i = 0; i < count; i++)
		if (!strcmp(counts[i].kind, kind))
			return counts[i].count;
	return 0;
}

Test(mesh_reply, a_lost_key_is_an_event)
{
	struct config open = {.path = "e.yaml", .members = "m.json"}, keyed = open;
	struct config alone = {.path = "e.yaml"};

	keyed.keys.have[1] = true;
	cr_assert_eq(events_new(&core.events, 8, NULL), 0);
	mesh_report_authentication(&mesh, NULL, &alone);
	mesh_report_authentication(&mesh, NULL, &keyed);
	mesh_report_authentication(&mesh, &keyed, &keyed);
	cr_expect_eq(events_of("authentication_none"), 0);
	mesh_report_authentication(&mesh, NULL, &open);
	cr_expect_eq(events_of("authentication_none"), 1, "at the start");
	mesh_report_authentication(&mesh, &keyed, &open);
	cr_expect_eq(events_of("authentication_none"), 2, "by a reload");
	mesh_report_authentication(&mesh, &open, &open);
	cr_expect_eq(events_of("authentication_none"), 2, "once");
	cr_expect_eq(events_of("authentication_restored"), 0);
	mesh_report_authentication(&mesh, &open, &keyed);
	cr_expect_eq(events_of("authentication_restored"), 1);
	alone.insecure = keyed.insecure = true;
	mesh_report_authentication(&mesh, NULL, &keyed);
	cr_expect_eq(events_of("control_insecure"), 0, "there is a key");
	mesh_report_authentication(&mesh, &keyed, &alone);
	mesh_report_authentication(&mesh, &alone, &alone);
	cr_expect_eq(events_of("control_insecure"), 1);
	events_free(core.events);
	core.events = NULL;
}

Test(mesh_reply, metrics)
{
	struct mesh_peer *peer = add(0, "h2");
	char *metrics;

	config.keys.have[0] = true;
	mesh.planes[0].configured = mesh.planes[0].on = true;
	peer->facts.lost = 1;
	peer->facts.sent = 10;
	give_time(peer);
	probe(peer, 1000, 2000);
	peer->facts.failed = 2;
	peer->edge->losses.late = peer->edge->losses.reordered = 1;
	passages_add(&peer->edge->in, 1000, 4000);
	mesh_count_delays(&mesh, time_local_ns());
	metrics = metrics_of(&mesh_capability, &mesh);
	expect_line(metrics, "escapement_probing{plane=\"backend\"} 1");
	expect_line(metrics, "escapement_probe_authority 1");
#define PEER "{netdev=\"eth1\",peer=\"h2\",plane=\"backend\""
	expect_line(metrics, "escapement_peer_up" PEER "} 1");
	expect_line(metrics, "escapement_probe_lost_total" PEER "} 1");
	expect_line(metrics, "escapement_probe_sent_total" PEER "} 10");
	expect_line(metrics, "escapement_probe_failed_total" PEER "} 2");
	expect_line(metrics, "escapement_probe_owd_seconds_count" PEER ",direction=\"out\"} 1");
	expect_line(metrics, "escapement_plane_probe_owd_seconds_bucket{plane=\"backend\","
			     "direction=\"in\",le=\"5e-06\"} 1");
	expect_line(metrics, "escapement_probe_rtt_min_seconds" PEER "} 3e-06");
	expect_families(metrics, mesh_capability.metrics);
	free(metrics);
	the_clock.host.state = CLOCK_FREE_RUNNING;
	passages_clear(&peer->edge->out);
	metrics = metrics_of(&mesh_capability, &mesh);
	expect_no_family(metrics, "escapement_probe_owd_floor_");
	expect_no_family(metrics, "escapement_probe_rtt_");
	free(metrics);
}

/* Longer than the window of `peers`: queues of two seconds do not move it, a longer path does. */
Test(mesh_reply, the_floor_of_a_round_trip_is_of_the_last_intervals)
{
	struct mesh_peer *peer = add(0, "h2");
	struct mesh_floor *floor = &peer->history.floor;
	uint64_t now_ns = time_local_ns();
	int64_t index = clock_local_at(&the_clock, now_ns) / MESH_FLOOR_NS;
	struct mesh_peer_facts *facts;
	size_t count;

	probe(peer, 1000, 2000);
	mesh_count_delays(&mesh, now_ns);
	probe(peer, 5000, 6000);
	mesh_count_delays(&mesh, now_ns);
	cr_expect_eq(floor->index, index);
	facts = mesh_get_peers(&mesh, &count);
	cr_assert_eq(count, 1);
	cr_expect_eq(facts->rtt_floor_ns, 3000, "the least, though a longer one came later");
	free(facts);
	for (int64_t later = 0; later < MESH_FLOOR_INTERVALS + 2; later++)
		cr_expect_eq(mesh_floor_at(floor, (index + later) * MESH_FLOOR_NS),
			     later < MESH_FLOOR_INTERVALS ? 3000 : INT64_MAX, "%d intervals later",
			     (int)later);
	probe(peer, 5000, 6000);
	mesh_count_delays(&mesh, now_ns + 3 * MESH_FLOOR_NS);
	cr_expect_eq(mesh_floor_at(floor, (index + 3) * MESH_FLOOR_NS), 3000);
	cr_expect_eq(mesh_floor_at(floor, (index + 4) * MESH_FLOOR_NS), 11000,
		     "the path is longer since");
	passages_clear(&peer->edge->out);
	passages_clear(&peer->edge->back);
	mesh_count_delays(&mesh, now_ns + 40 * MESH_FLOOR_NS);
	probe(peer, 1500, 2500);
	mesh_count_delays(&mesh, now_ns + 40 * MESH_FLOOR_NS);
	cr_expect_eq(mesh_floor_at(floor, (index + 40) * MESH_FLOOR_NS), 4000, "it began again");
}

/* A burst that is over before the next scrape, and long before the one after it, stays counted. */
Test(mesh_reply, every_delay_is_counted_once)
{
	struct mesh_peer *peer = add(0, "h2");
	struct delayhist *plane = &mesh.planes[0].owd_out;

	mesh_count_delays(&mesh, time_local_ns());
	cr_expect_eq(delayhist_samples(plane), 0, "there is no fabric time");
	give_time(peer);
	for (unsigned int i = 0; i < PASSAGES_KEPT; i++)
		probe(peer, i == 7 ? 3000000 : 1000, 2000);
	mesh_count_delays(&mesh, time_local_ns());
	mesh_count_delays(&mesh, time_local_ns());
	cr_expect_eq(delayhist_samples(plane), PASSAGES_KEPT);
	for (unsigned int i = 0; i < PASSAGES_KEPT; i++)
		probe(peer, 1000, 2000);
	mesh_count_delays(&mesh, time_local_ns());
	cr_expect_eq(delayhist_samples(&peer->history.out), 2 * PASSAGES_KEPT);
	cr_expect(delayhist_quantile(plane, 1) > 2900000, "the burst has left the window");
	passages_clear(&peer->edge->out); /* the peer's daemon was started again */
	probe(peer, 1000, 2000);
	mesh_count_delays(&mesh, time_local_ns());
	cr_expect_eq(delayhist_samples(plane), 2 * PASSAGES_KEPT + 1);
	the_clock.host.state = CLOCK_FREE_RUNNING;
	probe(peer, 1000, 2000);
	mesh_count_delays(&mesh, time_local_ns());
	the_clock.host.state = CLOCK_SYNCED;
	mesh_count_delays(&mesh, time_local_ns());
	cr_expect_eq(delayhist_samples(plane), 2 * PASSAGES_KEPT + 1,
		     "without fabric time a delay is not known");
	mesh_free_history(&peer->history);
	delayhist_free(plane);
	delayhist_free(&mesh.planes[0].owd_in);
	delayhist_free(&mesh.scratch);
}

/* --- restarts, as observed --- */

static void evaluate_at(uint64_t now_ns)
{
	mesh_evaluate_peers(&mesh, now_ns);
}

Test(mesh_reply, the_silence_of_a_daemon_that_restarts_is_no_fault)
{
	struct mesh_peer *peer = add(0, "h2"), *pair = add(1, "h2");
	uint64_t now_ns = peer->received_ns;

	core.events = NULL;
	peer->edge->id = pair->edge->id = 7;
	peer->since_ns = pair->since_ns = now_ns - 60 * S;
	pair->received_ns = now_ns;
	mesh_take_report(&mesh, peer->edge, FAULT_REPORT_RESTARTS, (int64_t)now_ns);
	cr_expect(pair->restart_local_ns && pair->edge->restarts, "all pairs of that host");
	evaluate_at(now_ns + 5 * S);
	cr_expect_eq(peer->facts.state, PEER_SUSPECT);
	cr_expect_str_eq(peer->facts.blame, "restart");
	mesh_take_report(&mesh, pair->edge, 0, (int64_t)now_ns + 6 * S);
	cr_expect(!peer->restart_local_ns && !peer->edge->restarts, "it runs again");
	mesh_take_report(&mesh, peer->edge, FAULT_REPORT_RESTARTS, (int64_t)now_ns + 6 * S);
	evaluate_at(now_ns + 6 * S + MESH_RESTART_NS - 1);
	cr_expect_eq(peer->facts.state, PEER_SUSPECT);
	evaluate_at(now_ns + 6 * S + MESH_RESTART_NS);
	cr_expect_eq(peer->facts.state, PEER_DOWN, "it did not come back");
	cr_expect_eq(peer->facts.disconnects, 1);
}

/* On a busy host probes may be late, or the sender without CPU time. */
Test(mesh_reply, requests_that_were_not_sent_are_not_without_a_reply)
{
	struct mesh_peer *peer = add(0, "h2");
	uint64_t now_ns = peer->received_ns;

	core.events = NULL;
	peer->since_ns = now_ns - 60 * S;
	peer->replied_ns = now_ns - 2 * S;
	evaluate_at(now_ns);
	cr_expect(!peer->no_replies && peer->facts.state == PEER_UP, "none is awaited");
	peer->unreplied = true;
	evaluate_at(now_ns);
	cr_expect(peer->no_replies && peer->facts.state == PEER_SUSPECT, "five are");
	peer->replied_ns = now_ns - S + 1;
	evaluate_at(now_ns);
	cr_expect(!peer->no_replies && peer->facts.state == PEER_UP, "one came");
}

Test(mesh_reply, reports_of_before_a_restart_stay_until_there_are_others)
{
	struct mesh_peer *peer = add(0, "h2");
	struct fault_report report = {.receives = false, .sends = true};
	int64_t now_ns = (int64_t)peer->received_ns;

	mesh_take_report(&mesh, peer->edge, fault_report_make(&report), now_ns);
	mesh_take_report(&mesh, peer->edge, FAULT_REPORT_RESTARTS, now_ns + S);
	cr_expect_eq(peer->reports[0][0].at_local_ns, now_ns);
	mesh_take_report(&mesh, peer->edge, 0, now_ns + 9 * S);
	cr_expect_eq(peer->reports[0][0].at_local_ns, now_ns + 9 * S);
	cr_expect_eq(peer->reports[0][1].at_local_ns, 0, "of a NIC without one");
}

Test(mesh_reply, lost_paths_are_reported_by_plane)
{
	struct mesh_peer *peer = add(0, "h2");
	int64_t now_ns = (int64_t)peer->received_ns;
	struct fault_report report;

	cr_expect_not(fault_report_read(FAULT_REPORT_PATHS | FLEET_PLANE_FRONTEND, &report),
		      "no report of a NIC, as older releases read it");
	mesh_take_report(&mesh, peer->edge, FAULT_REPORT_PATHS | FLEET_PLANE_FRONTEND, now_ns);
	cr_expect_eq(peer->paths_local_ns[FLEET_PLANE_FRONTEND], now_ns);
	cr_expect_eq(peer->paths_local_ns[FLEET_PLANE_BACKEND], 0);
}

/* Of a pair that this daemon has never received, and the one before has. */
Test(mesh_reply, a_pair_that_was_received_before_the_start_is_down)
{
	struct mesh_peer *peer = add(0, "h2"), *other = add(1, "h2");
	uint64_t now_ns = other->received_ns;

	peer->since_ns = other->since_ns = now_ns - 1;
	peer->received_ns = 0;
	peer->before_ns = now_ns - 60 * S;
	mesh_set_state(peer, PEER_SUSPECT);
	other->received_ns = now_ns + 2 * S - 2;
	evaluate_at(now_ns + 2 * S - 2);
	cr_expect_eq(peer->received_ns, 0, "what arrives has two seconds");
	cr_expect_eq(peer->facts.disconnects, 0);
	evaluate_at(now_ns + 2 * S);
	cr_expect_eq(peer->facts.state, PEER_DOWN);
	cr_expect_eq(peer->facts.disconnects, 1, "as an event");
	cr_expect_eq(peer->received_ns, peer->before_ns, "silent since then");
}

Test(mesh_reply, a_host_that_is_silent_since_the_start_may_be_starting_too)
{
	struct mesh_peer *peer = add(0, "h2");
	uint64_t now_ns = peer->received_ns;

	peer->since_ns = now_ns;
	peer->received_ns = 0;
	peer->before_ns = now_ns - 60 * S;
	mesh_set_state(peer, PEER_SUSPECT);
	evaluate_at(now_ns + 10 * S - 1);
	cr_expect_eq(peer->received_ns, 0);
	evaluate_at(now_ns + 10 * S);
	cr_expect_eq(peer->received_ns, peer->before_ns);
	cr_expect_eq(peer->facts.state, PEER_DOWN);
}

/* As when a tenth of mesh.loss_after is over: the pair has lost 1 of 100 of its probes since. */
static void end_tenth(struct mesh_peer *peer, uint64_t now_ns)
{
	peer->edge->losses.replied += 990;
	peer->facts.lost += 10;
	mesh.faults.loss_number = 0;
	mesh_observe(&mesh, now_ns);
}

Test(mesh_reply, a_time_in_which_a_pair_was_lost_whole_is_no_loss_of_a_part)
{
	static const struct fleet_mesh one = {.own_count = 1, .rail_count = 1};
	struct mesh_peer *peer = add(0, "h2");
	uint64_t now_ns = peer->received_ns;

	core.events = NULL;
	config.mesh.loss_after_ns = 600 * S;
	mesh.planes[0].mesh = &one;
	mesh.planes[0].nics[0].on = true;
	peer->replied_ns = now_ns;
	end_tenth(peer, now_ns);
	end_tenth(peer, now_ns);
	cr_expect_eq(peer->loss.count, 2);
	mesh_observe(&mesh, now_ns + 2 * S);
	peer->received_ns = peer->replied_ns = now_ns + 3 * S;
	mesh_observe(&mesh, now_ns + 3 * S);
	end_tenth(peer, now_ns + 3 * S);
	cr_expect_eq(peer->loss.count, 2, "nothing was received for a time");
	end_tenth(peer, now_ns + 3 * S);
	cr_expect_eq(peer->loss.count, 3, "all the time of the next one");
	peer->received_ns = now_ns + 5 * S;
	peer->unreplied = true;
	mesh_observe(&mesh, now_ns + 5 * S);
	end_tenth(peer, now_ns + 5 * S);
	cr_expect_eq(peer->loss.count, 3, "nothing was replied to for a time");
}

Test(mesh_reply, names_of_racks_are_forgotten_with_their_member_list)
{
	struct mesh_peer *peer = add(3, "h2");
	const struct members *list = (const struct members *)&the_clock;

	peer->rack = mesh.faults.rack = "rack1";
	peer->rack_of = mesh.faults.rack_of = list;
	mesh_forget_racks(&mesh);
	cr_expect(!peer->rack && !peer->rack_of, "of a peer, in a slot behind holes");
	cr_expect(!mesh.faults.rack && !mesh.faults.rack_of, "of this host");
}
