// SPDX-License-Identifier: BSD-2-Clause
/* What is known of peers; the verb `peers`, the mesh in `status`, the metrics. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "base/log.h"
#include "internal.h"

#define MESH_METRICS(X)                                                                            \
	X(MESH_PROBING, "probing", GAUGE, "1 while the mesh of a plane is probed.")                \
	X(MESH_AUTHORITY, "probe_authority", GAUGE, "1 when probes are tagged with a fleet key.")  \
	X(MESH_HELD, "members_held", GAUGE,                                                        \
	  "1 while a member list that loses most of the fleet is held back.")                      \
	X(MESH_UP, "peer_up", GAUGE, "0 when a peer is down, else 1.")                             \
	X(MESH_LAST_RECEIVED, "peer_last_received_timestamp_seconds", GAUGE,                       \
	  "When a probe or reply of a peer was last received.")                                    \
	X(MESH_SENT, "probe_sent_total", COUNTER, "Requests sent to a peer.")                      \
	X(MESH_REPLIED, "probe_replied_total", COUNTER, "Requests that the peer replied to.")      \
	X(MESH_RECEIVED, "probe_received_total", COUNTER, "Requests of the peer that arrived.")    \
	X(MESH_LOST, "probe_lost_total", COUNTER, "Requests without a reply after a second.")      \
	X(MESH_LATE, "probe_late_total", COUNTER, "Replies that came after a second.")             \
	X(MESH_REORDERED, "probe_reordered_total", COUNTER, "Replies received after a later one.") \
	X(MESH_FAILED, "probe_failed_total", COUNTER, "Requests that the kernel did not send.")    \
	X(MESH_DOWN_TRANSITIONS, "peer_down_transitions_total", COUNTER,                           \
	  "Times that a peer went down.")                                                          \
	X(MESH_OWD_FLOOR, "probe_owd_floor_seconds", GAUGE,                                        \
	  "Minimum one-way delay of probes to a peer in the last window.")                         \
	X(MESH_OWD, "probe_owd_seconds", HISTOGRAM,                                                \
	  "One-way delays of all probes to a peer since it is one, in fabric time.")               \
	X(MESH_PLANE_OWD, "plane_probe_owd_seconds", HISTOGRAM,                                    \
	  "The same to and from all peers of a plane since the daemon started.")                   \
	X(MESH_OWD_BOUND, "probe_owd_error_bound_seconds", GAUGE,                                  \
	  "Error bound of one-way delays of this peer.")                                           \
	X(MESH_RTT_MIN, "probe_rtt_min_seconds", GAUGE,                                            \
	  "Minimum round-trip time of probes in the last window, without the time that the peer "  \
	  "took to reply.")
enum { MESH_METRICS(METRIC_ENUM) };
const struct metric mesh_metrics[] = {MESH_METRICS(METRIC){}};

const char *peer_state_name(enum peer_state state)
{
	static const char *const names[] = {"down", "suspect", "up"};

	return names[state];
}

/* --- facts --- */

int64_t mesh_delay_bound(const struct mesh *mesh, const struct clock_edge *edge, int64_t now_ns,
			 struct clock_line *theirs)
{
	const struct hostclock *host = clock_host(mesh->clock);

	if (host->state == CLOCK_FREE_RUNNING || !edge->view_known ||
	    now_ns - edge->view_fresh_ns > CLOCK_VIEW_FRESH_NS ||
	    !clock_view_get(&edge->view, theirs))
		return -1;
	return bound_pair(clock_model_bound(&host->model, now_ns), edge->view.bound_ns) +
	       clock_edge_excess_ns(edge);
}

static const struct mesh_peer *peer_at(const struct mesh *mesh, const struct esc_address *address)
{
	const struct mesh_peer *peer;

	const struct mesh_peer *found = NULL;

	/* The edge within its rail, where there is one across rails as well. */
	for_each_peer (mesh, peer)
		if (!memcmp(&peer->facts.address, address, sizeof(*address)) &&
		    (!found || peer->kind < found->kind))
			found = peer;
	return found;
}

bool mesh_get_out(const struct mesh *mesh, const struct esc_address *address, int64_t window_ns,
		  struct mesh_out_facts *out)
{
	const struct mesh_peer *peer = peer_at(mesh, address);
	int64_t now_ns = clock_local_at(mesh->clock, time_local_ns());
	struct clock_line theirs;
	int64_t bound_ns;

	*out = (struct mesh_out_facts){};
	if (!peer)
		return false;
	out->state = peer->facts.state;
	out->source_port = peer->facts.source_port;
	if (peer->edge->reply_local_ns && now_ns > peer->edge->reply_local_ns)
		out->age_ns = (uint64_t)(now_ns - peer->edge->reply_local_ns);
	bound_ns = mesh_delay_bound(mesh, peer->edge, now_ns, &theirs);
	if (bound_ns < 0)
		return true;
	passages_delays(&peer->edge->out, true, now_ns - window_ns,
			&clock_host(mesh->clock)->consensus.line, &theirs, &out->owd);
	out->bound_ns = bound_ns;
	return true;
}

double mesh_get_floor(const struct mesh *mesh, const struct esc_address *address)
{
	const struct mesh_peer *peer = mesh ? peer_at(mesh, address) : NULL;

	return peer && peer->edge->fit.floor_known ? peer->edge->fit.floor_ns : NAN;
}

static void get_peer(const struct mesh *mesh, const struct mesh_peer *peer, uint64_t monotonic_ns,
		     struct mesh_peer_facts *out)
{
	const struct clock_edge *edge = peer->edge;
	const struct clock_line *ours = &clock_host(mesh->clock)->consensus.line;
	int64_t now_ns = clock_local_at(mesh->clock, monotonic_ns);
	int64_t since_ns = now_ns - (int64_t)mesh->core->config->clock.window_ns;
	uint64_t received_ns = peer->received_ns;
	struct sender_counts counts = {};
	struct clock_line theirs;
	int64_t bound_ns;
	struct esc_peer read;

	if (edge->sending)
		sender_counts(edge->sending, &counts);
	/* From the map itself: what the daemon knows is up to 100 ms old. */
	if (!mesh_read_peer(mesh, edge, &read) && read.received_local_ns > received_ns &&
	    read.received_local_ns >= peer->since_ns)
		received_ns = read.received_local_ns;
	*out = peer->facts;
	out->plane = edge->plane;
	memcpy(out->host, edge->host, sizeof(out->host));
	out->edge = peer->kind;
	out->no_replies = peer->no_replies && out->state != PEER_DOWN;
	if (out->state == PEER_UP)
		out->blame = NULL;
	out->seen = received_ns;
	if (received_ns && monotonic_ns > received_ns)
		out->silent_ns = monotonic_ns - received_ns;
	out->sent += counts.requests;
	out->failed += counts.failed;
	out->replied = edge->losses.replied;
	out->late = edge->losses.late;
	out->reordered = edge->losses.reordered;
	out->received = edge->requests;
	out->pair_interval_ns = edge->pair_interval_ns;
	if (peer->open_error)
		snprintf(out->note, sizeof(out->note), "cannot be probed: %s",
			 strerror(-peer->open_error));
	else if (counts.failed && !counts.requests)
		snprintf(out->note, sizeof(out->note), "the kernel sends no probe to it: %s",
			 strerror(-counts.last_error));
	else if (out->no_replies)
		snprintf(out->note, sizeof(out->note),
			 "its probes arrive, but it does not reply to ours");
	else if (edge->one_sided && out->state != PEER_DOWN)
		snprintf(out->note, sizeof(out->note),
			 "it replies, but does not probe: the delay from it is of its replies, "
			 "which leave sooner than probes");
	passages_round_trips(&edge->out, &edge->back, since_ns, &out->rtt);
	out->rtt_floor_ns = out->rtt.samples ? mesh_floor_at(&peer->history.floor, now_ns) : 0;
	bound_ns = mesh_delay_bound(mesh, edge, now_ns, &theirs);
	if (bound_ns < 0)
		return;
	passages_delays(&edge->out, true, since_ns, ours, &theirs, &out->owd_out);
	passages_delays(edge->one_sided ? &edge->back : &edge->in, false, since_ns, ours, &theirs,
			&out->owd_in);
	if (out->owd_out.samples || out->owd_in.samples)
		out->owd_bound_ns = bound_ns;
}

static int peer_compare(const void *a, const void *b)
{
	const struct mesh_peer_facts *one = a, *two = b;

	if (one->plane != two->plane)
		return one->plane < two->plane ? -1 : 1;
	if (strcmp(one->host, two->host) != 0)
		return strverscmp(one->host, two->host);
	if (strcmp(one->interface, two->interface) != 0)
		return strverscmp(one->interface, two->interface);
	return memcmp(&one->address, &two->address, sizeof(one->address));
}

struct mesh_peer_facts *mesh_get_peers(const struct mesh *mesh, size_t *count)
{
	struct mesh_peer_facts *list = calloc(MESH_PEERS_MAX, sizeof(*list));
	uint64_t now_ns = time_local_ns();
	const struct mesh_peer *peer;

	*count = 0;
	if (!list)
		return NULL;
	for_each_peer (mesh, peer)
		get_peer(mesh, peer, now_ns, &list[(*count)++]);
	qsort(list, *count, sizeof(*list), peer_compare);
	return list;
}

/* --- the verb `peers` --- */

#define PEER(member, type, key) FIELD(struct mesh_peer_facts, member, type, key)
static const struct field peer_fields[] = {
	{PEER(host, TEXT, "peer")},
	{PEER(interface, TEXT, "interface")},
	{PEER(note, TEXT, "note")},
	{PEER(source_port, U16, "sport")},
	{PEER(pair_interval_ns, I64, "pair_interval_ns")},
	{PEER(sent, U64, "sent"), .metric = &mesh_metrics[MESH_SENT]},
	{PEER(replied, U64, "replied"), .metric = &mesh_metrics[MESH_REPLIED]},
	{PEER(received, U64, "received"), .metric = &mesh_metrics[MESH_RECEIVED]},
	{PEER(lost, U64, "lost"), .metric = &mesh_metrics[MESH_LOST]},
	{PEER(late, U64, "late")},
	{PEER(reordered, U64, "reordered")},
	{PEER(failed, U64, "failed"), .metric = &mesh_metrics[MESH_FAILED], .nonzero = true},
	/* Series of their own once there was one. */
	{PEER(late, U64, NULL), .metric = &mesh_metrics[MESH_LATE], .nonzero = true},
	{PEER(reordered, U64, NULL), .metric = &mesh_metrics[MESH_REORDERED], .nonzero = true},
	{PEER(disconnects, U64, "down_transitions"),
	 .metric = &mesh_metrics[MESH_DOWN_TRANSITIONS]},
	{PEER(owd_bound_ns, I64, "bound_ns"), .metric = &mesh_metrics[MESH_OWD_BOUND],
	 .divisor = 1e9, .nonzero = true},
	{},
};

static void put_quantiles(json_t *object, const char *key, const struct quantiles *delays)
{
	if (delays->samples)
		json_put(object, key,
			 json_pack("{s:I, s:I, s:I, s:I, s:I}", "min", (json_int_t)delays->min_ns,
				   "p50", (json_int_t)delays->p50_ns, "p99",
				   (json_int_t)delays->p99_ns, "max", (json_int_t)delays->max_ns,
				   "samples", (json_int_t)delays->samples));
}

static const char *edge_name(enum fleet_edge_kind kind)
{
	static const char *const names[] = {"rail", "rack", "cross"};

	return names[kind];
}

json_t *mesh_peer_json(const struct mesh_peer_facts *peer)
{
	json_t *object = json_object();
	char address[ADDRESS_TEXT_BYTES];

	json_put_text(object, "address", address_format(&peer->address, address));
	json_put_text(object, "plane", config_plane_name(peer->plane));
	json_put_text(object, "edge", edge_name(peer->edge));
	json_put_text(object, "rail", peer->rail);
	json_put_text(object, "peer_rail", peer->peer_rail);
	json_put_text(object, "state", peer_state_name(peer->state));
	json_put_text(object, "blame", peer->blame);
	if (peer->no_replies)
		json_put_bool(object, "no_replies", true);
	put_quantiles(object, "owd_out_ns", &peer->owd_out);
	put_quantiles(object, "owd_in_ns", &peer->owd_in);
	put_quantiles(object, "rtt_ns", &peer->rtt);
	if (peer->rtt_floor_ns > 0 && peer->rtt_floor_ns < INT64_MAX)
		json_put_integer(json_object_get(object, "rtt_ns"), "floor", peer->rtt_floor_ns);
	if (peer->seen)
		json_put_real(object, "last_heard_ms", (double)peer->silent_ns / 1e6);
	fields_put(object, peer_fields, peer);
	return object;
}

static json_t *reply_peers(void *self, struct request *request)
{
	const struct mesh *mesh = self;
	size_t count;
	struct mesh_peer_facts *peers = mesh_get_peers(mesh, &count);
	json_t *list;

	if (!peers)
		return request_fail(request, REQUEST_FAILED, NULL);
	list = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, mesh_peer_json(&peers[i]));
	free(peers);
	if (mesh->add)
		mesh->add(mesh->add_context, list);
	return json_pack("{s:o}", "peers", list);
}

const struct verb_handler mesh_verb_handlers[] = {{"peers", reply_peers}, {}};

/* --- status --- */

/* Without a members file there are no probes to forge. */
static bool lacks_key(const struct config *config)
{
	return config->members && !config_has_key(config);
}

static bool is_insecure(const struct config *config)
{
	return config->insecure && !config_has_key(config);
}

void mesh_report_authentication(const struct mesh *mesh, const struct config *old,
				const struct config *now)
{
	bool lacked = old && lacks_key(old), was_insecure = old && is_insecure(old);

	if (is_insecure(now) && !was_insecure) {
		log_warning("steering, pacing and NIC failover are allowed without a key: "
			    "`insecure: true` in %s",
			    now->path);
		mesh_report(mesh, MESH_CONTROL_INSECURE, now->path, NULL);
	}
	if (lacks_key(now) == lacked)
		return;
	if (lacked && now->members)
		mesh_report(mesh, MESH_AUTHENTICATION_RESTORED, now->path, NULL);
	if (lacked)
		return;
	log_warning("probes are not authenticated: %s has `members`, but no `key_file`; any host "
		    "in the network can forge them",
		    now->path);
	mesh_report(mesh, MESH_AUTHENTICATION_NONE, now->path,
		    json_pack("{s:b}", "had_key", old && config_has_key(old)));
}

/* The interfaces that are probed from, and what each NIC of ours is. */
static void put_nics(const struct mesh *mesh, const struct mesh_plane *plane, json_t *shown)
{
	json_t *list = json_array();
	char names[FLEET_RAILS_MAX * 18] = "", address[ADDRESS_TEXT_BYTES];
	double offset_ns;
	bool differs;

	for (unsigned int i = 0; i < plane->mesh->own_count; i++) {
		const struct mesh_nic *nic = &plane->nics[i];
		json_t *object = json_object();

		json_put_text(object, "interface", nic->interface);
		json_put_text(object, "rail", plane->mesh->own[i].rail);
		json_put_text(
			object, "address",
			address_format(&plane->mesh->own[i].address[!nic->has_address[ROSTER_IPV4]],
				       address));
		json_put_bool(object, "on", nic->on);
		json_put_text(object, "note", nic->note);
		if (nic->on && clock_nic_offset(mesh->clock, nic->port, &offset_ns, &differs)) {
			json_put_real(object, "timestamps_offset_ns", offset_ns);
			json_put_bool(object, "timestamps_differ", differs);
		}
		json_array_append_new(list, object);
		if (nic->on)
			snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
				 names[0] ? ", " : "", nic->interface);
	}
	json_put_text(shown, "interface", names);
	json_put(shown, "nics", list);
}

void mesh_put_status(void *self, json_t *status)
{
	const struct mesh *mesh = self;
	const struct members *members = fleet_members(mesh->core->fleet);
	const struct fleet_keys *keys = &mesh->core->config->keys;
	const bool *have = keys->have;
	json_t *object = json_object(), *planes = json_array();
	const struct fleet_held *held;
	const struct mesh_peer *peer;
	uint64_t left_ns = 0;
	size_t without_key = 0;
	int states[3] = {};

	if (members)
		json_put_count(status, "members", members->targets);
	held = fleet_held(mesh->core->fleet, time_local_ns(), &left_ns);
	if (held) {
		json_t *shown = json_pack("{s:s, s:s}", "file", mesh->core->config->members,
					  "reason", held->reason);

		json_put_count(shown, "hosts", held->hosts);
		json_put_count(shown, "lost", held->lost);
		json_put_real(shown, "left_s", (double)left_ns / 1e9);
		json_put(status, "members_held", shown);
	}
	json_put_bool(object, "authority", config_has_key(mesh->core->config));
	if (is_insecure(mesh->core->config))
		json_put_bool(object, "insecure", true);
	json_put_text(object, "authority_note",
		      !have[0] && !have[1]
			      ? "any host in the network can forge probes; give every host one "
				"`key_file`"
		      : have[0] && have[1] ? "two keys are accepted, for a change of keys"
					   : "");
	json_put_text(object, "keys",
		      !config_has_key(mesh->core->config)  ? NULL
		      : fleet_keys_shared(keys, keys->use) ? "fleet"
							   : "pairs");
	for (unsigned int i = 0; i < MESH_PLANES; i++)
		without_key += mesh->planes[i].without_key;
	if (without_key)
		json_put_count(object, "members_without_key", without_key);
	if (mesh->peers_refused)
		json_put_count(object, "members_without_room", mesh->peers_refused);
	if (mesh->addresses_refused)
		json_put_count(object, "addresses_without_room", mesh->addresses_refused);
	if (mesh->edges_left_out)
		json_put_count(object, "edges_without_room", mesh->edges_left_out);
	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		const struct mesh_plane *plane = &mesh->planes[i];
		bool paused = plane->on && mesh->paused;
		json_t *shown;

		if (!plane->configured)
			continue;
		shown = json_pack("{s:s, s:b}", "plane", config_plane_name(i), "on",
				  plane->on && !paused);
		put_nics(mesh, plane, shown);
		json_put_text(shown, "note", paused ? "the kill switch is on" : plane->note);
		if (plane->roster->count)
			json_put_count(shown, "members", plane->roster->count);
		json_array_append_new(planes, shown);
	}
	json_put(object, "planes", planes);
	for_each_peer (mesh, peer)
		states[peer->facts.state]++;
	json_put(object, "peers",
		 json_pack("{s:i, s:i, s:i}", "up", states[PEER_UP], "suspect",
			   states[PEER_SUSPECT], "down", states[PEER_DOWN]));
	json_put(status, "probing", object);
}

/* --- metrics --- */

/* @context: struct prom_label[MESH_PEER_LABELS]. */
static const struct prom_label *peer_labels(const void *row, void *context)
{
	const struct mesh_peer_facts *peer = row;
	struct prom_label *labels = context;

	labels[0] = (struct prom_label){"netdev", peer->interface};
	labels[1] = (struct prom_label){"peer", peer->host};
	labels[2] = (struct prom_label){"plane", config_plane_name(peer->plane)};
	labels[3] = (struct prom_label){};
	if (peer->peer_rail[0])
		labels[3] = (struct prom_label){"peer_rail", peer->peer_rail};
	return labels;
}

const struct prom_label *mesh_labels_out(const struct mesh_peer_facts *peer,
					 struct prom_label labels[MESH_PEER_LABELS])
{
	unsigned int last = peer->peer_rail[0] ? 4 : 3;

	peer_labels(peer, labels);
	labels[last] = (struct prom_label){"direction", "out"};
	labels[last + 1] = (struct prom_label){};
	return labels;
}

/*
 * Minima are of the last window; all there was between two scrapes is in the histograms. The
 * direction from a peer is in its own metrics.
 */
static void write_minima(FILE *out, const struct mesh_peer_facts *peers, size_t count)
{
	struct prom_family *floors = FAMILY_OF(&mesh_metrics[MESH_OWD_FLOOR]);
	struct prom_family *rtt = FAMILY_OF(&mesh_metrics[MESH_RTT_MIN]);
	struct prom_label labels[MESH_PEER_LABELS] = {};

	for (size_t i = 0; i < count; i++)
		if (peers[i].owd_out.samples)
			prom_sample(floors, (double)peers[i].owd_out.min_ns / 1e9,
				    mesh_labels_out(&peers[i], labels));
	for (size_t i = 0; i < count; i++)
		if (peers[i].rtt.samples)
			prom_sample(rtt, (double)peers[i].rtt.min_ns / 1e9,
				    peer_labels(&peers[i], labels));
}

void mesh_write_metrics(void *self, FILE *out)
{
	size_t count;
	struct mesh_peer_facts *peers = mesh_get_peers(self, &count);
	struct prom_family *probing = FAMILY_OF(&mesh_metrics[MESH_PROBING]);
	struct prom_family *up = FAMILY_OF(&mesh_metrics[MESH_UP]);
	struct prom_family *received = FAMILY_OF(&mesh_metrics[MESH_LAST_RECEIVED]);
	double now_ns = (double)time_realtime_ns();
	struct prom_label labels[MESH_PEER_LABELS] = {};
	const struct mesh *mesh = self;
	uint64_t left_ns;

	for (unsigned int i = 0; i < MESH_PLANES; i++)
		if (mesh->planes[i].configured)
			prom_count(probing, mesh->planes[i].on && !mesh->paused, "plane",
				   config_plane_name(i), NULL);
	prom_count(FAMILY_OF(&mesh_metrics[MESH_AUTHORITY]), config_has_key(mesh->core->config),
		   NULL);
	prom_count(FAMILY_OF(&mesh_metrics[MESH_HELD]),
		   fleet_held(mesh->core->fleet, time_local_ns(), &left_ns) != NULL, NULL);
	for (size_t i = 0; i < count; i++)
		prom_sample_count(up, peers[i].state != PEER_DOWN, peer_labels(&peers[i], labels));
	fields_write(out, peer_fields, peers, count, sizeof(*peers), peer_labels, labels);
	for (size_t i = 0; i < count; i++)
		if (peers[i].seen)
			prom_sample(received, (now_ns - (double)peers[i].silent_ns) / 1e9,
				    peer_labels(&peers[i], labels));
	write_minima(out, peers, count);
	mesh_write_history(mesh, FAMILY_OF(&mesh_metrics[MESH_PLANE_OWD]),
			   FAMILY_OF(&mesh_metrics[MESH_OWD]));
	free(peers);
}
