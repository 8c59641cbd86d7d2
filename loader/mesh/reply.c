// SPDX-License-Identifier: BSD-2-Clause
/* The verb `peers`, and the mesh in `status`. What is not known is left out. */
#include <stdlib.h>

#include "base/address.h"
#include "base/json.h"
#include "core/core.h"
#include "internal.h"

/* --- peers --- */

static void put_quantiles(json_t *object, const char *key, const struct quantiles *delays)
{
	if (!delays->samples)
		return;
	json_put(object, key,
		 json_pack("{s:I, s:I, s:I, s:I, s:I}", "min", (json_int_t)delays->min_ns, "p50",
			   (json_int_t)delays->p50_ns, "p99", (json_int_t)delays->p99_ns, "max",
			   (json_int_t)delays->max_ns, "samples", (json_int_t)delays->samples));
}

json_t *mesh_peer_json(const struct mesh_peer_facts *peer)
{
	json_t *object = json_object();
	char address[ADDRESS_TEXT_BYTES];

	json_put_text(object, "address", address_format(&peer->address, address));
	json_put_text(object, "plane", config_plane_name(peer->plane));
	json_put_text(object, "state", peer_state_name(peer->state));
	json_put_text(object, "blame", peer->blame);
	put_quantiles(object, "owd_out_ns", &peer->owd_out);
	put_quantiles(object, "owd_in_ns", &peer->owd_in);
	put_quantiles(object, "rtt_ns", &peer->rtt);
	if (peer->heard)
		json_put_real(object, "last_heard_ms", (double)peer->silent_ns / 1e6);
	fields_put(object, mesh_peer_fields, peer);
	return object;
}

static json_t *reply_peers(void *self, struct request *request)
{
	struct mesh_peer_facts *peers = calloc(MESH_PEERS_MAX, sizeof(*peers));
	const struct mesh *mesh = self;
	json_t *list;
	size_t count;

	if (!peers)
		return request_fail(request, REQUEST_FAILED, NULL);
	list = json_array();
	count = mesh_get_peers(mesh, peers, MESH_PEERS_MAX);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, mesh_peer_json(&peers[i]));
	free(peers);
	if (mesh->add)
		mesh->add(mesh->add_context, list);
	return json_pack("{s:o}", "peers", list);
}

const struct verb_handler mesh_verb_handlers[] = {{"peers", reply_peers}, {}};

/* --- status --- */

void mesh_put_status(void *self, json_t *status)
{
	const struct mesh *mesh = self;
	const struct members *members = fleet_members(mesh->core->fleet);
	const bool *have = mesh->core->config->keys.have;
	json_t *object = json_object(), *planes = json_array();
	const struct mesh_peer *peer;
	int states[3] = {};

	if (members)
		json_put_count(status, "members", members->count);
	json_put_bool(object, "authority", have[0] || have[1]);
	json_put_text(object, "authority_note",
		      !have[0] && !have[1]
			      ? "probes carry no authority: anybody in the network can "
				"forge them; give every host one `key_file`"
		      : have[0] && have[1] ? "two keys are accepted, for a change of keys"
					   : "");
	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		const struct mesh_plane *plane = &mesh->planes[i];
		bool paused = plane->on && mesh->paused;
		json_t *shown;

		if (!plane->configured)
			continue;
		shown = json_pack("{s:s, s:b}", "plane", config_plane_name(i), "on",
				  plane->on && !paused);
		json_put_text(shown, "interface", plane->interface);
		json_put_text(shown, "note", paused ? "the kill switch is on" : plane->note);
		if (plane->roster.count)
			json_put_count(shown, "members", plane->roster.count);
		json_array_append_new(planes, shown);
	}
	json_put(object, "planes", planes);
	for_each_peer (mesh, peer)
		states[peer->state]++;
	json_put(object, "peers",
		 json_pack("{s:i, s:i, s:i}", "up", states[PEER_UP], "suspect",
			   states[PEER_SUSPECT], "down", states[PEER_DOWN]));
	json_put(status, "probing", object);
}
