// SPDX-License-Identifier: BSD-2-Clause
#include "report.h"

#include <stdlib.h>

#include "base/address.h"
#include "config/config.h"
#include "daemon/daemon.h"
#include "api/report.h"
#include "delay/report.h"

#define Q40 1099511627776.0

static void put_number(json_t *object, const char *key, int64_t number)
{
	json_object_set_new(object, key, json_integer((json_int_t)number));
}

static void put_real(json_t *object, const char *key, double number)
{
	json_object_set_new(object, key, json_real(number));
}

const char *report_plane(enum fleet_plane plane)
{
	return config_plane_name(plane);
}

/* --- clock --- */

/* The line that holds now; until the turn, if that is still to come, it is another one than after.
 */
static json_t *model_json(const struct clock_model *model, int64_t local_ns)
{
	bool turned = local_ns >= model->turn_local_ns;
	json_t *object = json_object();

	put_number(object, "ref_local_ns", turned ? model->turn_local_ns : model->ref_local_ns);
	put_number(object, "ref_fabric_ns", turned ? model->turn_fabric_ns : model->ref_fabric_ns);
	put_real(object, "rate_ppb", (turned ? model->rate : model->line_rate) / Q40 * 1e9);
	if (!turned) {
		put_number(object, "turn_local_ns", model->turn_local_ns);
		put_number(object, "turn_fabric_ns", model->turn_fabric_ns);
		put_real(object, "turn_rate_ppb", model->rate / Q40 * 1e9);
	}
	put_number(object, "bound_local_ns", model->bound_local_ns);
	put_number(object, "bound_ns", model->bound_ns);
	put_real(object, "bound_growth_ppb", model->bound_growth / Q40 * 1e9);
	put_real(object, "bound_late_ppb", model->bound_late / Q40 * 1e9);
	return object;
}

static const char *verdict_word(enum consensus_verdict verdict)
{
	static const char *const words[] = {"absent", "used", "refused_offset", "refused_drift",
					    "unsure"};

	return words[verdict];
}

static json_t *clock_peer_json(const struct mesh_peer_facts *peer)
{
	const struct edge_estimate *fit = &peer->fit;
	json_t *object = json_object();

	report_put_text(object, "peer", peer->host);
	report_put_text(object, "plane", report_plane(peer->plane));
	if (peer->fitted) {
		put_real(object, "offset_ns", (double)fit->offset_ns + fit->offset_fraction_ns);
		put_number(object, "offset_local_ns", fit->local_ns);
		put_real(object, "drift_ppb", fit->drift_ppb);
		put_real(object, "residual_ns", fit->residual_ns);
		put_real(object, "floor_ns", fit->floor_ns);
		put_real(object, "noise_ns", fit->noise_ns);
		put_real(object, "window_s", fit->window_s);
		put_number(object, "pairs_kept", fit->pairs_kept);
		put_number(object, "pairs_seen", fit->pairs_seen);
		json_object_set_new(object, "flagged", json_boolean(fit->flagged));
	}
	json_object_set_new(object, "one_sided", json_boolean(peer->one_sided));
	json_object_set_new(object, "used",
			    json_boolean(peer->in_clock && peer->verdict == CONSENSUS_USED));
	if (!peer->in_clock)
		return object;
	report_put_text(object, "verdict", verdict_word(peer->verdict));
	if (peer->verdict != CONSENSUS_ABSENT) {
		put_real(object, "error_ns", peer->word_ns);
		put_real(object, "error_ppb", peer->word_ppb);
	}
	return object;
}

static void put_tai(json_t *object, const struct mesh_clock_facts *clock)
{
	json_t *tai;

	if (clock->tai_note)
		report_put_text(object, "tai_note", clock->tai_note);
	if (!clock->known || !clock->tai_known)
		return;
	tai = json_object();
	put_number(tai, "ns", clock->tai_ns);
	put_number(tai, "bound_ns", clock->tai_bound_ns);
	put_real(tai, "anchor_age_s", (double)clock->tai_age_ns / 1e9);
	put_number(tai, "hops", clock->tai_hops);
	report_put_text(tai, "anchor", clock->tai_anchor);
	json_object_set_new(object, "tai", tai);
}

json_t *report_clock_facts(const struct mesh_clock_facts *clock,
			   const struct mesh_peer_facts *peers, size_t count)
{
	json_t *object = json_object(), *list = json_array();

	report_put_text(object, "state", clock_state_name(clock->state));
	put_number(object, "local_ns", clock->local_ns);
	put_number(object, "monotonic_ns", clock->monotonic_ns);
	if (clock->known) {
		put_number(object, "bound_ns", clock->bound_ns);
		put_number(object, "fabric_ns", clock->fabric_ns);
		json_object_set_new(object, "model", model_json(&clock->model, clock->local_ns));
		put_number(object, "generation", (int64_t)clock->model.generation);
		put_real(object, "residual_ns", clock->residual_ns);
		put_real(object, "reach", clock->reach);
	}
	put_tai(object, clock);
	report_put_text(object, "timestamp_source", "xdp");
	put_number(object, "peers_used", clock->used);
	put_number(object, "peers_heard", clock->heard);
	put_number(object, "peers_wanted", clock->degree);
	if (clock->last_used_age_ns >= 0)
		put_real(object, "last_sync_age_ms", (double)clock->last_used_age_ns / 1e6);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, clock_peer_json(&peers[i]));
	json_object_set_new(object, "peers", list);
	return object;
}

static size_t get_peers(const struct daemon *daemon, struct mesh_peer_facts **out)
{
	*out = calloc(MESH_EDGES_MAX, sizeof(**out));
	return *out ? mesh_get_peers(daemon->mesh, *out, MESH_EDGES_MAX) : 0;
}

json_t *report_clock(const struct daemon *daemon)
{
	struct mesh_clock_facts clock;
	struct mesh_peer_facts *peers;
	size_t count = get_peers(daemon, &peers);
	json_t *object;

	mesh_get_clock(daemon->mesh, &clock);
	object = report_clock_facts(&clock, peers, count);
	free(peers);
	return object;
}

/* --- peers --- */

static void put_quantiles(json_t *object, const char *key, const struct quantiles *delays)
{
	if (!delays->samples)
		return;
	json_object_set_new(
		object, key,
		json_pack("{s:I, s:I, s:I, s:I, s:I}", "min", (json_int_t)delays->min_ns, "p50",
			  (json_int_t)delays->p50_ns, "p99", (json_int_t)delays->p99_ns, "max",
			  (json_int_t)delays->max_ns, "samples", (json_int_t)delays->samples));
}

json_t *report_peer_facts(const struct mesh_peer_facts *peer)
{
	json_t *object = json_object();
	char address[ADDRESS_TEXT_BYTES];

	report_put_text(object, "peer", peer->host);
	report_put_text(object, "address", address_format(&peer->address, address));
	report_put_text(object, "plane", report_plane(peer->plane));
	report_put_text(object, "interface", peer->interface);
	report_put_text(object, "state", peer_state_name(peer->state));
	report_put_text(object, "blame", peer->blame);
	report_put_text(object, "note", peer->note);
	put_quantiles(object, "owd_out_ns", &peer->owd_out);
	put_quantiles(object, "owd_in_ns", &peer->owd_in);
	if (peer->owd_out.samples || peer->owd_in.samples)
		put_number(object, "bound_ns", peer->owd_bound_ns);
	put_quantiles(object, "rtt_ns", &peer->rtt);
	report_put_count(object, "sent", peer->sent);
	report_put_count(object, "answered", peer->answered);
	report_put_count(object, "lost", peer->lost);
	report_put_count(object, "late", peer->late);
	report_put_count(object, "reordered", peer->reordered);
	report_put_count(object, "received", peer->received);
	if (peer->failed)
		report_put_count(object, "failed", peer->failed);
	report_put_count(object, "disconnects", peer->disconnects);
	if (peer->heard)
		put_real(object, "last_heard_ms", (double)peer->silent_ns / 1e6);
	put_number(object, "sport", peer->source_port);
	put_number(object, "pair_interval_ns", peer->pair_interval_ns);
	return object;
}

json_t *report_peers(const struct daemon *daemon)
{
	struct mesh_peer_facts *peers;
	size_t count = get_peers(daemon, &peers);
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, report_peer_facts(&peers[i]));
	free(peers);
	report_put_peer_delays(list, daemon);
	return json_pack("{s:o}", "peers", list);
}

/* --- status --- */

static json_t *plane_json(const struct mesh_plane_facts *plane, enum fleet_plane which)
{
	json_t *object = json_object();

	report_put_text(object, "plane", report_plane(which));
	json_object_set_new(object, "on", json_boolean(plane->on));
	report_put_text(object, "interface", plane->interface);
	report_put_text(object, "note", plane->note);
	if (plane->members)
		report_put_count(object, "members", plane->members);
	return object;
}

static json_t *peer_states_json(const struct daemon *daemon)
{
	unsigned int states[3] = {};
	struct mesh_peer_facts *peers;
	size_t count = get_peers(daemon, &peers);

	for (size_t i = 0; i < count; i++)
		states[peers[i].state]++;
	free(peers);
	return json_pack("{s:i, s:i, s:i}", "up", (int)states[PEER_UP], "suspect",
			 (int)states[PEER_SUSPECT], "down", (int)states[PEER_DOWN]);
}

void report_put_clock(json_t *status, const struct daemon *daemon)
{
	struct mesh_clock_facts clock;
	struct mesh_facts mesh;
	json_t *object = json_object(), *planes = json_array();

	mesh_get(daemon->mesh, &mesh);
	mesh_get_clock(daemon->mesh, &clock);
	report_put_text(object, "state", clock_state_name(clock.state));
	if (clock.known)
		put_number(object, "bound_ns", clock.bound_ns);
	put_number(object, "peers_used", clock.used);
	put_number(object, "peers_wanted", clock.degree);
	report_put_text(object, "timestamp_source", "xdp");
	if (clock.tai_note)
		report_put_text(object, "tai_note", clock.tai_note);
	json_object_set_new(status, "clock", object);
	for (unsigned int i = 0; i < MESH_PLANES; i++)
		if (mesh.planes[i].configured)
			json_array_append_new(planes, plane_json(&mesh.planes[i], i));
	object = json_object();
	json_object_set_new(object, "authority", json_boolean(mesh.authority));
	report_put_text(object, "authority_note",
			mesh.authority
				? mesh.two_keys ? "two keys are taken, for a change of keys" : ""
				: "probes carry no authority: anybody in the network can "
				  "forge them; give every host one `key_file`");
	json_object_set_new(object, "planes", planes);
	json_object_set_new(object, "peers", peer_states_json(daemon));
	json_object_set_new(status, "probing", object);
}
