// SPDX-License-Identifier: BSD-2-Clause
/* Up, suspect, down: by the time since a peer was last received from, ten times a second. */
#include <jansson.h>
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "base/log.h"
#include "core/core.h"
#include "internal.h"

/* Never received from for so long: reported once, as a host not installed yet is no failure. */
#define ABSENT_AFTER_NS 10000000000ull

const char *peer_state_name(enum peer_state state)
{
	static const char *const names[] = {"down", "suspect", "up"};

	return names[state];
}

static const char *plane_name(const struct mesh_peer *peer)
{
	return config_plane_name(peer->edge->plane);
}

void mesh_set_state(struct mesh_peer *peer, enum peer_state state)
{
	peer->state = state;
	peer->edge->down = state == PEER_DOWN;
}

static json_t *evidence(const struct mesh *mesh, const struct mesh_peer *peer, uint64_t now_ns)
{
	const struct mesh_inquiry *inquiry = &peer->inquiry;
	enum fleet_plane plane = peer->edge->plane;
	json_t *seen = json_pack("{s:s, s:I, s:i, s:i}", "plane", plane_name(peer), "silent_ms",
				 (json_int_t)((now_ns - peer->heard_ns) / 1000000), "own_peers",
				 (int)mesh_count_peers(mesh, plane), "own_peers_silent",
				 (int)mesh_count_silent(mesh, plane, now_ns));

	if (!inquiry->open)
		return seen;
	json_put_count(seen, "queried", inquiry->asked);
	json_put_count(seen, "replied", inquiry->answered);
	json_put_count(seen, "reachable_from", inquiry->hearing);
	if (inquiry->asked_elsewhere)
		json_put_bool(seen, "received_on_other_plane", inquiry->heard_elsewhere);
	return seen;
}

static void go_down(struct mesh *mesh, struct mesh_peer *peer, uint64_t now_ns)
{
	const char *blame = mesh_blame(mesh, peer, now_ns);

	mesh_set_state(peer, PEER_DOWN);
	peer->down_ns = now_ns;
	peer->blame = blame;
	if (!peer->heard_ns)
		return; /* it has not come yet */
	peer->disconnects++;
	log_warning("peer %s (%s) is down: nothing received for %llu ms%s%s", peer->edge->host,
		    plane_name(peer), (unsigned long long)((now_ns - peer->heard_ns) / 1000000),
		    blame ? ", to blame: " : "", blame ? blame : "");
	events_add(mesh->core->events,
		   &(struct event){
			   .kind = &mesh_events[MESH_PEER_DOWN],
			   .subject = peer->edge->host,
			   .seen = evidence(mesh, peer, now_ns),
			   .result = blame ? json_pack("{s:s}", "blame", blame) : NULL,
		   });
}

static void go_up(struct mesh *mesh, struct mesh_peer *peer, uint64_t now_ns)
{
	bool was_down = peer->state == PEER_DOWN && peer->disconnects;

	mesh_set_state(peer, PEER_UP);
	peer->blame = NULL;
	memset(&peer->inquiry, 0, sizeof(peer->inquiry));
	peer->absent_reported = false;
	if (!was_down)
		return;
	log_info("peer %s (%s) is up again", peer->edge->host, plane_name(peer));
	mesh_report(mesh, MESH_PEER_UP, peer->edge->host,
		    json_pack("{s:s, s:I}", "plane", plane_name(peer), "down_ms",
			      (json_int_t)((now_ns - peer->down_ns) / 1000000)));
}

static void report_absent(struct mesh *mesh, struct mesh_peer *peer, uint64_t now_ns)
{
	char text[ADDRESS_TEXT_BYTES];

	if (peer->heard_ns || peer->absent_reported || now_ns - peer->since_ns < ABSENT_AFTER_NS)
		return;
	peer->absent_reported = true;
	mesh_report(mesh, MESH_PEER_ABSENT, peer->edge->host,
		    json_pack("{s:s, s:s}", "plane", plane_name(peer), "address",
			      address_format(&peer->address, text)));
}

/* A third of down_after: silence that is not yet a failure. */
static void evaluate(struct mesh *mesh, struct mesh_peer *peer, uint64_t now_ns)
{
	uint64_t down_after_ns = mesh->core->config->mesh.down_after_ns;
	uint64_t begun_ns = peer->heard_ns ? peer->heard_ns : peer->since_ns;
	uint64_t silent_ns = now_ns > begun_ns ? now_ns - begun_ns : 0;
	uint64_t replied_ns = peer->replied_ns > peer->since_ns ? peer->replied_ns : peer->since_ns;

	peer->unanswered =
		peer->heard_ns && now_ns > replied_ns && now_ns - replied_ns >= down_after_ns;
	if (silent_ns >= down_after_ns) {
		if (peer->state != PEER_DOWN)
			go_down(mesh, peer, now_ns);
		else if (peer->heard_ns)
			peer->blame = mesh_blame(mesh, peer, now_ns);
		report_absent(mesh, peer, now_ns);
	} else if (silent_ns >= down_after_ns / 3 || peer->unanswered || !peer->heard_ns) {
		if (peer->state == PEER_DOWN)
			go_up(mesh, peer, now_ns);
		mesh_set_state(peer, PEER_SUSPECT);
	} else if (peer->state != PEER_UP) {
		go_up(mesh, peer, now_ns);
	}
	/* In time, so that the event of its loss has the replies. */
	if (peer->heard_ns && silent_ns >= down_after_ns * 2 / 3)
		mesh_inquire(mesh, peer, now_ns);
}

/* A reply is awaited for a second; requests to a host that is not there yet are not lost. */
static void expire_requests(struct mesh_peer *peer)
{
	struct clock_edge *edge = peer->edge;
	struct sender_counts counts;
	uint64_t received, unrecorded;

	if (!edge->sending)
		return;
	sender_counts(edge->sending, &counts);
	if (counts.failed && !peer->failed_reported)
		log_warning("probes to %s are refused by the kernel: %s", edge->host,
			    strerror(-counts.last_error));
	peer->failed_reported = counts.failed;
	if (!peer->heard_ns) {
		losses_skip(&edge->losses, counts.next_sequence);
		for (unsigned int i = 0; i < MESH_HORIZON; i++)
			peer->horizon[i] = counts.next_sequence;
		return;
	}
	losses_expire(&edge->losses, peer->horizon[peer->horizon_next]);
	peer->horizon[peer->horizon_next] = counts.next_sequence;
	peer->horizon_next = (peer->horizon_next + 1) % MESH_HORIZON;
	/* A reply that XDP received and whose record found no room in the ring is not lost. */
	received = peer->replies_map - peer->replies_base;
	unrecorded = received > edge->replies ? received - edge->replies : 0;
	if (edge->losses.lost > unrecorded && edge->losses.lost - unrecorded > peer->lost)
		peer->lost = edge->losses.lost - unrecorded;
}

static void read_map(const struct mesh *mesh, struct mesh_peer *peer)
{
	const struct clock_edge *edge = peer->edge;
	struct esc_peer now;

	if (mesh_read_peer(mesh, edge->plane, edge->id, &now))
		return;
	/* What the daemon before received is not current. */
	if (now.received_local_ns >= peer->since_ns)
		peer->heard_ns = now.received_local_ns;
	if (now.replied_local_ns >= peer->since_ns)
		peer->replied_ns = now.replied_local_ns;
	peer->replies_map = now.replies_received;
	/* The count goes on over a restart of the daemon, and begins anew with a new entry. */
	if (!peer->replies_known || peer->replies_map < peer->replies_base)
		peer->replies_base = peer->replies_map - edge->replies;
	peer->replies_known = true;
}

void mesh_evaluate_peers(struct mesh *mesh, uint64_t now_ns)
{
	struct mesh_peer *peer;

	/* Of all first: a silence is blamed by how many others are silent. */
	for_each_peer (mesh, peer)
		read_map(mesh, peer);
	for_each_peer (mesh, peer) {
		expire_requests(peer);
		if (!mesh->paused)
			evaluate(mesh, peer, now_ns);
	}
}
