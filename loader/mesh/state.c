// SPDX-License-Identifier: BSD-2-Clause
/*
 * Up, suspect, down: by the time since a peer was last received from, ten times a second; and what
 * a silence is due to. Up to five other neighbors of the silent peer are queried how long ago they
 * received from it, and the peer itself on the other plane; their kernel programs reply, by what
 * they receive themselves.
 */
#include <endian.h>
#include <jansson.h>
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "base/log.h"
#include "core/core.h"
#include "internal.h"

/* Never received from for so long: reported once, as a host not installed yet is no failure. */
#define ABSENT_AFTER_NS 10000000000ull
#define QUERY_AGAIN_NS 1000000000ull
/*
 * Timeout after a start for a pair that the previous daemon received, if another pair of that host
 * is received; else it is ABSENT_AFTER_NS, since that host may be starting as well.
 */
#define START_NS 2000000000ull

void mesh_set_state(struct mesh_peer *peer, enum peer_state state)
{
	peer->facts.state = state;
	peer->edge->down = state == PEER_DOWN;
}

bool mesh_restarts(const struct mesh *mesh, const struct mesh_peer *peer, uint64_t now_ns)
{
	return peer->restart_local_ns &&
	       clock_local_at(mesh->clock, now_ns) - peer->restart_local_ns < MESH_RESTART_NS;
}

/* --- what a silence is due to --- */

/* To the member @id by @route: how long ago it received from NIC @nic of @about. */
static int query(struct mesh *mesh, const struct mesh_plane *plane, unsigned int own, uint64_t id,
		 const struct probe_route *route, uint64_t about, uint32_t nic)
{
	const struct mesh_peer *peer = mesh_find_peer(mesh, plane->plane, id, plane->nics[own].port,
						      mesh_nic_number(&route->to));
	struct probe_datagram datagram;
	int err, fd;

	if (peer && peer->edge->sending)
		return sender_query(mesh->sender, peer->edge->sending, about, nic);
	/* It is no neighbor of ours. */
	fd = probesock_open(route);
	if (fd < 0)
		return fd;
	probe_datagram_init(&datagram, plane->roster->ids[plane->roster->self], id,
			    clock_epoch(mesh->clock),
			    plane->plane == FLEET_PLANE_FRONTEND ? ESC_PROBE_PLANE : 0);
	mesh->sequence++;
	probe_datagram_number(&datagram, ESC_PROBE_OPCODE_REQUEST, mesh->sequence, mesh->sequence,
			      ESC_PROBE_QUERY);
	datagram.probe.about = htobe64(about);
	datagram.probe.about_age_us = htobe32(nic);
	err = probe_datagram_send(fd, &datagram);
	probesock_close(fd);
	return err;
}

/* Our NIC on @rail; the one of @port where there is none. -1: neither is on. */
static int own_on_rail(const struct mesh_plane *plane, unsigned int rail, unsigned int port)
{
	int found = -1;

	for (unsigned int i = 0; i < plane->mesh->own_count; i++) {
		if (!plane->nics[i].on)
			continue;
		if (plane->mesh->own[i].number == rail)
			return (int)i;
		if (plane->nics[i].port == port)
			found = (int)i;
	}
	return found;
}

/* Of NIC @peer: its neighbors on its rail, by the graph, which is the same on every host. */
static void inquire_neighbors(struct mesh *mesh, struct mesh_peer *peer)
{
	const struct members *members = fleet_members(mesh->core->fleet);
	const struct mesh_plane *plane = &mesh->planes[peer->edge->plane];
	const struct fleet_rail *rail = &plane->mesh->rails[peer->rail];
	int own = own_on_rail(plane, peer->rail, peer->edge->port);
	struct mesh_inquiry *inquiry = &peer->inquiry;
	const uint32_t *list = NULL;
	struct probe_route route;
	struct fleet_nic nic;
	size_t count = own < 0 || !members ? 0 : fleet_rail_neighbors(rail, peer->edge->id, &list);

	for (size_t i = 0; i < count && inquiry->queried < MESH_QUERIES_MAX; i++) {
		const struct member_host *host = &members->hosts[rail->hosts[list[i]]];
		uint64_t id = rail->ids[list[i]];

		if (id == plane->roster->ids[plane->roster->self] ||
		    !fleet_mesh_nic(plane->mesh, members, plane->plane, host, peer->rail, &nic) ||
		    mesh_route(plane, (unsigned int)own, &nic, id, &route) ||
		    query(mesh, plane, (unsigned int)own, id, &route, peer->edge->id,
			  peer->edge->nic))
			continue;
		inquiry->ids[inquiry->queried] = id;
		inquiry->nics[inquiry->queried++] = mesh_nic_number(&route.to);
	}
}

/* The host itself, from another NIC of ours to another one of it. */
static bool inquire_elsewhere(struct mesh *mesh, const struct mesh_peer *peer,
			      const struct mesh_plane *plane)
{
	const struct members *members = fleet_members(mesh->core->fleet);
	const struct member_host *host =
		members ? fleet_mesh_host(plane->mesh, members, peer->edge->id) : NULL;
	struct probe_route route;
	struct fleet_nic nic;

	for (unsigned int own = 0; host && own < plane->mesh->own_count; own++)
		if (plane->nics[own].on && plane->nics[own].port != peer->edge->port &&
		    fleet_mesh_nic(plane->mesh, members, plane->plane, host,
				   plane->mesh->own[own].number, &nic) &&
		    !mesh_route(plane, own, &nic, peer->edge->id, &route) &&
		    mesh_nic_number(&route.to) != peer->edge->nic &&
		    !query(mesh, plane, own, peer->edge->id, &route, peer->edge->id, 0))
			return true;
	return false;
}

static void inquire(struct mesh *mesh, struct mesh_peer *peer, uint64_t now_ns)
{
	struct mesh_inquiry *inquiry = &peer->inquiry;

	if (inquiry->open && now_ns - inquiry->begun_ns < QUERY_AGAIN_NS)
		return;
	*inquiry = (struct mesh_inquiry){.open = true, .begun_ns = now_ns};
	inquire_neighbors(mesh, peer);
	for (unsigned int i = 0; i < MESH_PLANES; i++)
		inquiry->queried_elsewhere |= inquire_elsewhere(mesh, peer, &mesh->planes[i]);
}

void mesh_take_query_reply(void *context, const struct esc_probe_event *event)
{
	struct mesh *mesh = context;
	bool reachable = event->about_age_us != ESC_PROBE_NEVER &&
			 event->about_age_us * 1000ull < mesh->core->config->mesh.down_after_ns / 3;
	struct mesh_peer *peer;

	for_each_peer (mesh, peer) {
		struct mesh_inquiry *inquiry = &peer->inquiry;

		if (!inquiry->open || peer->edge->id != event->about)
			continue;
		if (event->peer == peer->edge->id) {
			inquiry->received_elsewhere |= event->nic != peer->edge->nic;
			continue;
		}
		for (unsigned int i = 0; i < inquiry->queried; i++) {
			if (inquiry->ids[i] != event->peer || inquiry->nics[i] != event->nic ||
			    inquiry->has_replied[i])
				continue;
			inquiry->has_replied[i] = true;
			inquiry->replied++;
			inquiry->reachable += reachable;
		}
	}
}

/* Peers of a NIC of ours; with @silent those that have been silent for half of down_after. */
static unsigned int count_of_nic(const struct mesh *mesh, const struct clock_edge *of,
				 uint64_t now_ns, bool silent)
{
	uint64_t silence_ns = mesh->core->config->mesh.down_after_ns / 2;
	const struct mesh_peer *peer;
	unsigned int count = 0;

	for_each_peer (mesh, peer)
		count += peer->edge->port == of->port && peer->edge->plane == of->plane &&
			 (!silent || (peer->received_ns && now_ns > peer->received_ns &&
				      now_ns - peer->received_ns >= silence_ns));
	return count;
}

const char *mesh_blame(const struct mesh *mesh, const struct mesh_peer *peer, uint64_t now_ns)
{
	const struct mesh_inquiry *inquiry = &peer->inquiry;
	unsigned int peers = count_of_nic(mesh, peer->edge, now_ns, false);

	if (!peer->received_ns)
		return NULL;
	if (peers > 1 && 2 * count_of_nic(mesh, peer->edge, now_ns, true) > peers)
		return "own_nic";
	if (!inquiry->open)
		return NULL;
	if (inquiry->replied)
		return 2 * inquiry->reachable >= inquiry->replied && inquiry->reachable ? "pair"
		       : inquiry->received_elsewhere					? "nic"
											: "peer";
	return inquiry->received_elsewhere ? "nic" : peer->facts.blame;
}

/* --- up, suspect, down --- */

/* The NIC pair. */
static json_t *mesh_peer_seen(const struct mesh_peer *peer)
{
	json_t *seen = json_object();
	char text[ADDRESS_TEXT_BYTES];

	json_put_text(seen, "plane", config_plane_name(peer->edge->plane));
	json_put_text(seen, "interface", peer->facts.interface);
	json_put_text(seen, "address", address_format(&peer->facts.address, text));
	json_put_text(seen, "rail", peer->facts.rail);
	if (strcmp(peer->facts.rail, peer->facts.peer_rail) != 0)
		json_put_text(seen, "peer_rail", peer->facts.peer_rail);
	return seen;
}

static void go_down(struct mesh *mesh, struct mesh_peer *peer, uint64_t now_ns)
{
	const struct mesh_inquiry *inquiry = &peer->inquiry;
	const char *blame = mesh_blame(mesh, peer, now_ns);
	uint64_t silent_ms = (now_ns - peer->received_ns) / 1000000;
	json_t *seen;

	mesh_set_state(peer, PEER_DOWN);
	peer->down_ns = now_ns;
	peer->facts.blame = blame;
	if (!peer->received_ns)
		return; /* it has not come yet */
	peer->facts.disconnects++;
	log_warning("peer %s (%s) is down: nothing received for %llu ms%s%s", peer->edge->host,
		    peer->edge->part, (unsigned long long)silent_ms, blame ? ", to blame: " : "",
		    blame ? blame : "");
	seen = mesh_peer_seen(peer);
	json_put_count(seen, "silent_ms", silent_ms);
	json_put_count(seen, "own_peers", count_of_nic(mesh, peer->edge, now_ns, false));
	json_put_count(seen, "own_peers_silent", count_of_nic(mesh, peer->edge, now_ns, true));
	if (inquiry->open) {
		json_put_count(seen, "queried", inquiry->queried);
		json_put_count(seen, "replied", inquiry->replied);
		json_put_count(seen, "reachable_from", inquiry->reachable);
	}
	if (inquiry->queried_elsewhere)
		json_put_bool(seen, "received_by_other_nic", inquiry->received_elsewhere);
	events_add(mesh->core->events,
		   &(struct event){
			   .kind = &mesh_events[MESH_PEER_DOWN],
			   .subject = peer->edge->host,
			   .part = peer->edge->part,
			   .seen = seen,
			   .result = blame ? json_pack("{s:s}", "blame", blame) : NULL,
		   });
}

static void go_up(struct mesh *mesh, struct mesh_peer *peer, uint64_t now_ns)
{
	/* Of one that came late nothing was reported, unless it was absent. */
	bool was_down = peer->facts.state == PEER_DOWN &&
			(peer->facts.disconnects || peer->absent_reported);
	json_t *seen;

	mesh_set_state(peer, PEER_UP);
	peer->facts.blame = NULL;
	memset(&peer->inquiry, 0, sizeof(peer->inquiry));
	peer->absent_reported = false;
	if (!was_down)
		return;
	log_info("peer %s (%s) is up again", peer->edge->host, peer->edge->part);
	seen = mesh_peer_seen(peer);
	json_put_count(seen, "down_ms", (now_ns - peer->down_ns) / 1000000);
	mesh_report_peer(mesh, peer, MESH_PEER_UP, seen);
}

/*
 * A third of down_after: silence that is not yet a failure. Rails need not be connected: that an
 * edge between two was never received is none either.
 */
static void evaluate(struct mesh *mesh, struct mesh_peer *peer, uint64_t now_ns)
{
	bool restarts = mesh_restarts(mesh, peer, now_ns);
	uint64_t down_after_ns = mesh->core->config->mesh.down_after_ns;
	uint64_t begun_ns = peer->received_ns ? peer->received_ns : peer->since_ns;
	uint64_t silent_ns = now_ns > begun_ns ? now_ns - begun_ns : 0;
	uint64_t replied_ns = peer->replied_ns > peer->since_ns ? peer->replied_ns : peer->since_ns;

	peer->no_replies = peer->received_ns && peer->unreplied && now_ns > replied_ns &&
			   now_ns - replied_ns >= down_after_ns;
	if (silent_ns >= down_after_ns && !(restarts && peer->facts.state != PEER_DOWN)) {
		if (peer->facts.state != PEER_DOWN)
			go_down(mesh, peer, now_ns);
		else if (peer->received_ns)
			peer->facts.blame = mesh_blame(mesh, peer, now_ns);
		if (!peer->received_ns && !peer->absent_reported &&
		    peer->kind != FLEET_EDGE_CROSS && now_ns - peer->since_ns >= ABSENT_AFTER_NS) {
			peer->absent_reported = true;
			mesh_report_peer(mesh, peer, MESH_PEER_ABSENT, mesh_peer_seen(peer));
		}
	} else if (silent_ns >= down_after_ns / 3 || peer->no_replies || !peer->received_ns) {
		if (peer->facts.state == PEER_DOWN)
			go_up(mesh, peer, now_ns);
		mesh_set_state(peer, PEER_SUSPECT);
		peer->facts.blame = restarts ? "restart" : NULL;
	} else if (peer->facts.state != PEER_UP) {
		go_up(mesh, peer, now_ns);
	}
	/* In time, so that the event of its loss has the replies. */
	if (peer->received_ns && !restarts && silent_ns >= down_after_ns * 2 / 3)
		inquire(mesh, peer, now_ns);
}

/* Requests that were not sent, on a busy host, are not unreplied. */
#define UNREPLIED_LEAST 5
#define UNREPLIED_AFTER 3 /* evaluations */

static void count_unreplied(struct mesh_peer *peer, uint32_t sequence)
{
	unsigned int before = (peer->horizon_next + MESH_HORIZON - UNREPLIED_AFTER) % MESH_HORIZON;

	if (peer->replied_ns != peer->replied_seen_ns) {
		peer->replied_seen_ns = peer->replied_ns;
		peer->replied_sequence = sequence;
	}
	peer->unreplied =
		(int32_t)(peer->horizon[before] - peer->replied_sequence) >= UNREPLIED_LEAST;
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
	if (!peer->received_ns) {
		losses_skip(&edge->losses, counts.next_sequence);
		for (unsigned int i = 0; i < MESH_HORIZON; i++)
			peer->horizon[i] = counts.next_sequence;
		peer->replied_sequence = counts.next_sequence;
		return;
	}
	count_unreplied(peer, counts.next_sequence);
	losses_expire(&edge->losses, peer->horizon[peer->horizon_next]);
	peer->horizon[peer->horizon_next] = counts.next_sequence;
	peer->horizon_next = (peer->horizon_next + 1) % MESH_HORIZON;
	/* A reply that XDP received without room for its record in the ring is not lost. */
	received = peer->replies_map - peer->replies_base;
	unrecorded = received > edge->replies ? received - edge->replies : 0;
	if (edge->losses.lost > unrecorded && edge->losses.lost - unrecorded > peer->facts.lost)
		peer->facts.lost = edge->losses.lost - unrecorded;
}

static void read_map(const struct mesh *mesh, struct mesh_peer *peer)
{
	const struct clock_edge *edge = peer->edge;
	struct esc_peer now;

	if (mesh_read_peer(mesh, edge, &now))
		return;
	/* What the daemon before received is not current, but shows that there was a peer. */
	if (now.received_local_ns >= peer->since_ns)
		peer->received_ns = now.received_local_ns;
	else
		peer->before_ns = now.received_local_ns;
	if (now.replied_local_ns >= peer->since_ns)
		peer->replied_ns = now.replied_local_ns;
	peer->replies_map = now.replies_received;
	/* The count goes on over a restart of the daemon, and is reset with a new entry. */
	if (!peer->replies_known || peer->replies_map < peer->replies_base)
		peer->replies_base = peer->replies_map - edge->replies;
	peer->replies_known = true;
}

/* Whether another pair of its host is received, by this daemon. */
static bool is_heard(const struct mesh *mesh, const struct mesh_peer *of, uint64_t now_ns)
{
	uint64_t down_after_ns = mesh->core->config->mesh.down_after_ns;
	const struct mesh_peer *peer;

	for_each_peer (mesh, peer)
		if (peer->edge->id == of->edge->id && peer->received_ns >= peer->since_ns &&
		    now_ns < peer->received_ns + down_after_ns)
			return true;
	return false;
}

/* A pair of the daemon before that this one does not receive has been silent since then. */
static void take_before(const struct mesh *mesh, struct mesh_peer *peer, uint64_t now_ns)
{
	uint64_t down_after_ns = mesh->core->config->mesh.down_after_ns, wait_ns = ABSENT_AFTER_NS;

	if (peer->received_ns || !peer->before_ns || mesh_restarts(mesh, peer, now_ns))
		return;
	if (is_heard(mesh, peer, now_ns))
		wait_ns = down_after_ns > START_NS ? down_after_ns : START_NS;
	if (now_ns < peer->since_ns + wait_ns)
		return;
	peer->received_ns = peer->before_ns;
	mesh_set_state(peer, PEER_SUSPECT); /* that it is down has not been reported */
}

void mesh_evaluate_peers(struct mesh *mesh, uint64_t now_ns)
{
	struct mesh_peer *peer;

	/* Of all first: a silence is blamed by how many others are silent. */
	for_each_peer (mesh, peer)
		read_map(mesh, peer);
	for_each_peer (mesh, peer) {
		expire_requests(peer);
		if (mesh->paused)
			continue;
		take_before(mesh, peer, now_ns);
		evaluate(mesh, peer, now_ns);
	}
}
