// SPDX-License-Identifier: BSD-2-Clause
/*
 * Faults as events: the NIC pairs of this host and the reports of its neighbors become a view
 * (fault.c), ten times a second, and each fault of a lost pair of ours an event that has the
 * conditions which it explains as members. What this host's NICs do is reported to its neighbors in
 * the view of its probes, a NIC at a time: those that have a problem, else all in turn.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "base/log.h"
#include "internal.h"

#define END_AFTER_NS 1000000000ull
#define AGAIN_NS 500000000ull
#define MEMBERS_MAX (MESH_PEERS_MAX + 1)

/* The view, and what its numbers stand for. */
struct observation {
	struct fault_view view;
	const struct mesh_peer *peer[FAULT_NICS_MAX];	   /* of an edge to the NIC; NULL: none */
	struct mesh_peer *edges[MESH_PEERS_MAX];	   /* as the view's */
	const struct mesh_peer *hosts[MESH_PEERS_MAX + 1]; /* one of each; [0]: NULL */
	int64_t reported_ns[FAULT_NICS_MAX];		   /* local clock */
	int64_t spoke_ns[MESH_PEERS_MAX + 1];		   /* the same: a host's newest report */
	unsigned int host_count;
	unsigned int kind; /* MESH_FAULT_LOST, MESH_FAULT_LOSSY */
	bool lost; /* a pair is lost for mesh.down_after; or loses a part for mesh.loss_after */
};

/* --- the view --- */

/* Silence and late replies count before they are a failure, so that all pairs of a fault do. */
static uint64_t recent_ns(const struct mesh *mesh)
{
	return mesh->core->config->mesh.down_after_ns * 2 / 3;
}

static const char *own_rack(struct mesh *mesh, const struct members *members)
{
	struct mesh_faults *faults = &mesh->faults;

	if (faults->rack_of == members)
		return faults->rack;
	faults->rack_of = members;
	faults->rack = NULL;
	for (unsigned int i = 0; i < MESH_PLANES && !faults->rack; i++) {
		const struct mesh_plane *plane = &mesh->planes[i];
		const struct member_host *host = NULL;

		if (members && plane->roster->self != ROSTER_NONE)
			host = fleet_mesh_host(plane->mesh, members,
					       plane->roster->ids[plane->roster->self]);
		faults->rack = host ? members_host_rack(members, host) : NULL;
	}
	return faults->rack;
}

static const char *rack_of(struct mesh *mesh, struct mesh_peer *peer, const struct members *members)
{
	const struct member_host *host;

	if (peer->rack_of == members)
		return peer->rack;
	host = members ? fleet_mesh_host(mesh->planes[peer->edge->plane].mesh, members,
					 peer->edge->id)
		       : NULL;
	peer->rack_of = members;
	peer->rack = host ? members_host_rack(members, host) : NULL;
	return peer->rack;
}

/* Names of racks are of a member list, which is freed when another one is in force. */
void mesh_forget_racks(struct mesh *mesh)
{
	struct mesh_peer *peer;

	mesh->faults.rack_of = NULL;
	mesh->faults.rack = NULL;
	for_each_peer (mesh, peer) {
		peer->rack_of = NULL;
		peer->rack = NULL;
	}
}

static unsigned int host_number(struct observation *seen, const struct mesh_peer *peer)
{
	unsigned int i = 1;

	while (i < seen->host_count && seen->hosts[i]->edge->id != peer->edge->id)
		i++;
	if (i == seen->host_count)
		seen->hosts[seen->host_count++] = peer;
	return i;
}

/* FAULT_NICS_MAX: there is no room. */
static unsigned int nic_number(struct observation *seen, unsigned int host, unsigned int plane,
			       unsigned int rail, const char *rack)
{
	struct fault_view *view = &seen->view;
	unsigned int i = 0;

	while (i < view->nic_count && (view->nics[i].host != host || view->nics[i].plane != plane ||
				       view->nics[i].rail != rail))
		i++;
	if (i == view->nic_count && i < FAULT_NICS_MAX)
		view->nics[view->nic_count++] = (struct fault_nic){
			.host = host, .plane = plane, .rail = rail, .rack = rack};
	return i;
}

static void add_own(struct mesh *mesh, struct observation *seen, const struct members *members)
{
	for (unsigned int i = 0; i < MESH_PLANES; i++)
		for (unsigned int own = 0; own < mesh->planes[i].mesh->own_count; own++)
			nic_number(seen, 0, i, mesh->planes[i].mesh->own[own].number,
				   own_rack(mesh, members));
}

/* The rail of our end. */
static unsigned int own_rail(const struct mesh *mesh, const struct mesh_peer *peer)
{
	const struct mesh_plane *plane = &mesh->planes[peer->edge->plane];

	for (unsigned int own = 0; own < plane->mesh->own_count; own++)
		if (plane->nics[own].on && plane->nics[own].port == peer->edge->port)
			return plane->mesh->own[own].number;
	return FLEET_RAILS_MAX;
}

/* The numbers of the NICs of a pair; false: they are too many, or ours is on no rail. */
static bool find_ends(struct mesh *mesh, struct observation *seen, struct mesh_peer *peer,
		      const struct members *members, unsigned int *own, unsigned int *other)
{
	unsigned int rail = own_rail(mesh, peer);

	if (rail == FLEET_RAILS_MAX)
		return false;
	*own = nic_number(seen, 0, peer->edge->plane, rail, own_rack(mesh, members));
	*other = nic_number(seen, host_number(seen, peer), peer->edge->plane, peer->rail,
			    rack_of(mesh, peer, members));
	return *own < FAULT_NICS_MAX && *other < FAULT_NICS_MAX;
}

/* Whether the host of @edge recently reported, by any pair, lost paths of that plane. */
static bool reports_paths(const struct mesh *mesh, const struct clock_edge *edge, int64_t local_ns)
{
	const struct mesh_peer *peer;

	for_each_peer (mesh, peer)
		if (peer->edge->id == edge->id && peer->paths_local_ns[edge->plane] &&
		    local_ns - peer->paths_local_ns[edge->plane] < MESH_REPORT_NS)
			return true;
	return false;
}

static void add_edge(struct mesh *mesh, struct observation *seen, struct mesh_peer *peer,
		     const struct members *members, uint64_t now_ns)
{
	int64_t local_ns = clock_local_at(mesh->clock, now_ns);
	const struct mesh_inquiry *inquiry = &peer->inquiry;
	uint64_t recent = recent_ns(mesh);
	bool replied, confirmed, restarts = mesh_restarts(mesh, peer, now_ns);
	unsigned int own, other;
	struct fault_edge *edge;

	/* What was never received may be somewhere where nothing is. */
	if (!peer->received_ns)
		return;
	if (!find_ends(mesh, seen, peer, members, &own, &other))
		return;
	replied = now_ns < peer->replied_ns + recent;
	confirmed = local_ns < peer->edge->confirmed_local_ns + (int64_t)recent;
	/* While its host restarts a pair stays as it was. */
	peer->in = now_ns < peer->received_ns + recent || (restarts && peer->in);
	peer->out = peer->in && (replied || confirmed || (restarts && peer->out));
	edge = &seen->view.edges[seen->view.edge_count];
	*edge = (struct fault_edge){
		.own = own,
		.peer = other,
		.in = peer->in,
		.out = peer->out,
		.unreplied = peer->out && !replied && !restarts && peer->unreplied,
		.one_sided = peer->out && peer->edge->one_sided &&
			     reports_paths(mesh, peer->edge, local_ns),
		.heard_by_others = inquiry->open && inquiry->reachable &&
				   2 * inquiry->reachable >= inquiry->replied,
	};
	peer->was_lost |= !edge->in || !edge->out || edge->unreplied;
	seen->peer[other] = peer;
	seen->edges[seen->view.edge_count++] = peer;
	seen->lost |= peer->facts.state == PEER_DOWN || edge->one_sided ||
		      (peer->no_replies && (!edge->out || edge->unreplied));
}

static void add_spoken(struct observation *seen, const struct mesh_peer *peer)
{
	int64_t *spoke_ns = &seen->spoke_ns[host_number(seen, peer)];

	for (unsigned int plane = 0; plane < MESH_PLANES; plane++)
		for (unsigned int rail = 0; rail < FLEET_RAILS_MAX; rail++)
			if (peer->reports[plane][rail].at_local_ns > *spoke_ns)
				*spoke_ns = peer->reports[plane][rail].at_local_ns;
}

/*
 * The newest of what came by any pair. What a host that is silent now reported before shows nothing
 * of its silence.
 */
static void add_reports(struct mesh *mesh, struct observation *seen, const struct mesh_peer *peer,
			uint64_t now_ns)
{
	unsigned int host = host_number(seen, peer);
	int64_t local_ns = clock_local_at(mesh->clock, now_ns);
	bool restarts = mesh_restarts(mesh, peer, now_ns);

	if (local_ns - seen->spoke_ns[host] > (int64_t)recent_ns(mesh) && !restarts)
		return;
	for (unsigned int plane = 0; plane < MESH_PLANES; plane++)
		for (unsigned int rail = 0; rail < mesh->planes[plane].mesh->rail_count; rail++) {
			const struct mesh_nic_report *report = &peer->reports[plane][rail];
			unsigned int at;

			if (!report->at_local_ns ||
			    (local_ns - report->at_local_ns > MESH_REPORT_NS && !restarts))
				continue;
			at = nic_number(seen, host, plane, rail, peer->rack);
			if (at == FAULT_NICS_MAX || (seen->view.nics[at].reported &&
						     report->at_local_ns < seen->reported_ns[at]))
				continue;
			seen->reported_ns[at] = report->at_local_ns;
			seen->view.nics[at].reported = true;
			seen->view.nics[at].receives = report->receives;
			seen->view.nics[at].sends = report->sends;
		}
}

static void observe(struct mesh *mesh, struct observation *seen, uint64_t now_ns)
{
	const struct members *members = fleet_members(mesh->core->fleet);
	struct mesh_peer *peer;

	memset(seen, 0, sizeof(*seen));
	seen->host_count = 1;
	add_own(mesh, seen, members);
	for_each_peer (mesh, peer)
		add_edge(mesh, seen, peer, members, now_ns);
	if (!seen->lost)
		return;
	for_each_peer (mesh, peer)
		if (peer->received_ns)
			add_spoken(seen, peer);
	for_each_peer (mesh, peer)
		if (peer->received_ns)
			add_reports(mesh, seen, peer, now_ns);
}

/* --- pairs that lose a part of their probes --- */

/* When a tenth of mesh.loss_after is over, at the same time on all hosts. */
static void count_losses(struct mesh *mesh)
{
	uint64_t tenth_ns = mesh->core->config->mesh.loss_after_ns / MESH_LOSS_TENTHS;
	uint64_t number = time_realtime_ns() / tenth_ns;
	struct mesh_peer *peer;

	if (number == mesh->faults.loss_number)
		return;
	mesh->faults.loss_number = number;
	for_each_peer (mesh, peer) {
		const struct losses *losses = &peer->edge->losses;
		/* One that came late is in both. */
		uint64_t lost =
			peer->facts.lost > losses->late ? peer->facts.lost - losses->late : 0;

		if (peer->facts.state == PEER_DOWN || !peer->received_ns)
			mesh_loss_reset(&peer->loss, lost, losses->replied);
		else
			mesh_loss_take(&peer->loss, lost, losses->replied, peer->was_lost);
		peer->was_lost = false;
	}
}

static void set_reported(struct fault_nic *nic, bool well)
{
	nic->reported = true;
	nic->receives = nic->sends = well;
}

static void add_lossy_reports(struct mesh *mesh, struct observation *seen, struct mesh_peer *peer,
			      const struct members *members, int64_t local_ns)
{
	unsigned int host = host_number(seen, peer);

	for (unsigned int plane = 0; plane < MESH_PLANES; plane++)
		for (unsigned int rail = 0; rail < mesh->planes[plane].mesh->rail_count; rail++) {
			int64_t at_ns = peer->lossy_local_ns[plane][rail];
			unsigned int at = FAULT_NICS_MAX;

			if (at_ns && local_ns - at_ns < MESH_REPORT_NS)
				at = nic_number(seen, host, plane, rail,
						rack_of(mesh, peer, members));
			if (at < FAULT_NICS_MAX)
				set_reported(&seen->view.nics[at], false);
		}
}

/* A NIC of another host is well unless that host reports that most of its pairs lose probes. */
static void add_lossy_edge(struct mesh *mesh, struct observation *seen, struct mesh_peer *peer,
			   const struct members *members)
{
	unsigned int own, other;
	bool lossy = mesh_loss_leans(&peer->loss);

	if (!peer->loss.count)
		return;
	if (!find_ends(mesh, seen, peer, members, &own, &other))
		return;
	if (!seen->view.nics[other].reported)
		set_reported(&seen->view.nics[other], true);
	seen->view.edges[seen->view.edge_count] =
		(struct fault_edge){.own = own, .peer = other, .in = !lossy, .out = !lossy};
	seen->peer[other] = peer;
	seen->edges[seen->view.edge_count++] = peer;
	seen->lost |= peer->loss.lossy;
}

static void observe_losses(struct mesh *mesh, struct observation *seen, uint64_t now_ns)
{
	const struct members *members = fleet_members(mesh->core->fleet);
	int64_t local_ns = clock_local_at(mesh->clock, now_ns);
	struct mesh_peer *peer;

	memset(seen, 0, sizeof(*seen));
	seen->kind = MESH_FAULT_LOSSY;
	seen->view.partial = true;
	seen->host_count = 1;
	add_own(mesh, seen, members);
	for_each_peer (mesh, peer)
		add_lossy_reports(mesh, seen, peer, members, local_ns);
	for_each_peer (mesh, peer)
		add_lossy_edge(mesh, seen, peer, members);
}

/* --- reports --- */

/* Of a host that runs again the reports of before are valid until it has made others. */
static void end_restart(struct mesh_peer *peer, int64_t local_ns)
{
	peer->restart_local_ns = 0;
	for (unsigned int plane = 0; plane < MESH_PLANES; plane++)
		for (unsigned int rail = 0; rail < FLEET_RAILS_MAX; rail++)
			if (peer->reports[plane][rail].at_local_ns)
				peer->reports[plane][rail].at_local_ns = local_ns;
}

/* Of all pairs of the host: few may be probed while its programs still reply. */
static void mark_restart(struct mesh *mesh, uint64_t id, bool restarts, int64_t local_ns)
{
	struct mesh_peer *peer;

	for_each_peer (mesh, peer) {
		if (peer->edge->id != id)
			continue;
		peer->edge->restarts = restarts;
		if (restarts)
			peer->restart_local_ns = local_ns;
		else if (peer->restart_local_ns)
			end_restart(peer, local_ns);
	}
}

void mesh_take_report(void *context, struct clock_edge *edge, uint8_t byte, int64_t local_ns)
{
	struct mesh *mesh = context;
	struct mesh_peer *peer = mesh->peers[edge->slot];
	struct fault_report report;

	if (peer && (byte == FAULT_REPORT_RESTARTS || peer->restart_local_ns))
		mark_restart(mesh, edge->id, byte == FAULT_REPORT_RESTARTS, local_ns);
	if (!peer)
		return;
	for (unsigned int plane = 0; plane < MESH_PLANES; plane++)
		if (byte == (FAULT_REPORT_PATHS | plane))
			peer->paths_local_ns[plane] = local_ns;
	if ((byte & 0xc0) == FAULT_REPORT_LOSSY)
		peer->lossy_local_ns[byte & 1][byte >> FAULT_REPORT_LOSSY_RAIL_SHIFT & 0xf] =
			local_ns;
	if (!fault_report_read(byte, &report))
		return;
	peer->reports[report.plane][report.rail] =
		(struct mesh_nic_report){local_ns, report.receives, report.sends};
}

/* All pairs of our NIC @number lean to a loss. */
static bool is_lossy(const struct mesh *mesh, const struct observation *seen, unsigned int number)
{
	const struct fault_nic *nic = &seen->view.nics[number];
	const struct mesh_peer *peer;
	unsigned int leaning = 0;

	for_each_peer (mesh, peer) {
		if (peer->edge->plane != nic->plane || own_rail(mesh, peer) != nic->rail ||
		    !peer->loss.count)
			continue;
		if (!mesh_loss_leans(&peer->loss))
			return false;
		leaning++;
	}
	return leaning > 1;
}

/* One of our NICs: a bad one in turn, or one of all; and what else there is. */
static void send_report(struct mesh *mesh, const struct observation *seen)
{
	struct fault_report reports[MESH_PLANES * FLEET_RAILS_MAX];
	uint8_t more[MESH_PLANES + MESH_PLANES * FLEET_RAILS_MAX];
	unsigned int count = 0, bad = 0, others = 0, turn;

	for (unsigned int i = 0; i < seen->view.nic_count; i++) {
		struct fault_report *report = &reports[count];

		if (seen->view.nics[i].host || !fault_report_nic(&seen->view, i, report))
			continue;
		count++;
		if (!report->receives || !report->sends) {
			struct fault_report first = reports[bad];

			reports[bad++] = *report;
			*report = first;
		}
	}
	for (uint8_t plane = 0; plane < MESH_PLANES; plane++)
		if (seen->view.lost_paths[plane])
			more[others++] = FAULT_REPORT_PATHS | plane;
	for (unsigned int i = 0; i < seen->view.nic_count; i++)
		if (!seen->view.nics[i].host && is_lossy(mesh, seen, i))
			more[others++] =
				(uint8_t)(FAULT_REPORT_LOSSY | seen->view.nics[i].plane |
					  seen->view.nics[i].rail << FAULT_REPORT_LOSSY_RAIL_SHIFT);
	count = bad ? bad : count;
	turn = count + others ? mesh->faults.turn++ % (count + others) : 0;
	clock_set_report(mesh->clock, turn < count	      ? fault_report_make(&reports[turn])
				      : turn < count + others ? more[turn - count]
							      : 0);
}

/* --- events --- */

static const char *const class_names[FAULT_CLASSES] = {"plane", "rail",	 "tor", "host",
						       "nic",	"paths", "pair"};
static const char *const remedies[FAULT_CLASSES] = {
	"See the switches of that plane and their power.",
	"See the switches of that rail and their power.",
	"See that switch next to the hosts: its power and uplinks.",
	"See whether the host runs, and its daemon.",
	"See that NIC, its cable and its port of the switch.",
	"See the switches above the racks and their links; `escapement paths` shows which are "
	"used.",
	"See the switch between the two: its filters and tables.",
};

/* NULL: it is not probed from. */
static const struct mesh_nic *own_nic(const struct mesh *mesh, const struct fault_nic *nic)
{
	const struct mesh_plane *plane = &mesh->planes[nic->plane];

	for (unsigned int own = 0; own < plane->mesh->own_count; own++)
		if (plane->nics[own].on && plane->mesh->own[own].number == nic->rail)
			return &plane->nics[own];
	return NULL;
}

/* HOST/ADDRESS: both ends know it by the members file. */
static void name_nic(const struct mesh *mesh, const struct observation *seen, unsigned int number,
		     char *out, size_t room)
{
	const struct fault_nic *nic = &seen->view.nics[number];
	const struct mesh_plane *plane = &mesh->planes[nic->plane];
	const struct esc_address *address = NULL;
	char text[ADDRESS_TEXT_BYTES] = "";

	if (nic->host && seen->peer[number])
		address = &seen->peer[number]->facts.address;
	for (unsigned int own = 0; !nic->host && own < plane->mesh->own_count; own++)
		if (plane->mesh->own[own].number == nic->rail)
			address = &plane->mesh->own[own]
					   .address[!plane->mesh->own[own].has[ROSTER_IPV4]];
	snprintf(out, room, "%s/%s",
		 nic->host ? seen->hosts[nic->host]->edge->host : mesh->core->config->host,
		 address ? address_format(address, text) : "");
}

/* The one name of it on all hosts. */
static void name_fault(const struct mesh *mesh, const struct observation *seen,
		       const struct fault *fault, char *out, size_t room)
{
	const struct fault_nic *nic = &seen->view.nics[fault->nic];
	const struct fleet_mesh *of = mesh->planes[nic->plane].mesh;
	const char *plane = config_plane_name(nic->plane), *self = mesh->core->config->host;
	const char *rail = nic->rail < of->rail_count ? of->rails[nic->rail].name : NULL;
	char one[310], other[310];

	switch (fault->class) {
	case FAULT_PLANE:
		snprintf(out, room, "plane:%s", plane);
		break;
	case FAULT_RAIL:
		snprintf(out, room, "rail:%s/%s", plane, rail ? rail : "");
		break;
	case FAULT_TOR:
		snprintf(out, room, "tor:%.128s/%s%s%s", nic->rack ? nic->rack : "", plane,
			 rail ? "/" : "", rail ? rail : "");
		break;
	case FAULT_HOST:
		snprintf(out, room, "host:%s",
			 nic->host ? seen->hosts[nic->host]->edge->host : self);
		break;
	case FAULT_NIC:
		name_nic(mesh, seen, fault->nic, one, sizeof(one));
		snprintf(out, room, "nic:%s", one);
		break;
	case FAULT_PATHS:
		snprintf(out, room, "paths:%s", plane);
		break;
	default:
		name_nic(mesh, seen, fault->nic, one, sizeof(one));
		name_nic(mesh, seen, fault->other, other, sizeof(other));
		snprintf(out, room, "pair:%s-%s", strcmp(one, other) < 0 ? one : other,
			 strcmp(one, other) < 0 ? other : one);
	}
}

/*
 * The conditions that it explains: those of its pairs, some of which are down only tenths later,
 * and that of our NIC's link. What was a member once stays one: a pair may be lost again.
 */
static json_t *members_json(const struct mesh *mesh, const struct observation *seen, int number,
			    uint32_t serial)
{
	const struct fault *fault = &seen->view.faults[number];
	const struct fault_nic *nic = &seen->view.nics[fault->nic];
	json_t *list = json_array();

	for (size_t i = 0; i < seen->view.edge_count && json_array_size(list) < MEMBERS_MAX; i++) {
		const struct mesh_peer *peer = seen->edges[i];

		if (seen->view.edges[i].fault == number || peer->reported_in[seen->kind] == serial)
			json_array_append_new(list, json_sprintf("host:%s/%s", peer->edge->host,
								 peer->edge->part));
	}
	if (!nic->host && fault->class != FAULT_PATHS && fault->class != FAULT_PAIR) {
		const struct mesh_nic *own = own_nic(mesh, nic);

		if (own)
			json_array_append_new(list,
					      json_sprintf("nic:%s/%s", mesh->core->config->host,
							   own->interface));
	}
	return list;
}

/* Of the pairs of a fault. */
static double largest_share(const struct observation *seen, int number)
{
	double largest = 0;

	for (size_t i = 0; i < seen->view.edge_count; i++)
		if (seen->view.edges[i].fault == number)
			largest = fmax(largest, mesh_loss_share(&seen->edges[i]->loss));
	return largest;
}

static json_t *seen_json(const struct mesh *mesh, const struct observation *seen, int number,
			 uint32_t serial)
{
	static const char *const directions[] = {NULL, "receive", "transmit"};
	const struct fault *fault = &seen->view.faults[number];
	const struct fault_nic *nic = &seen->view.nics[fault->nic];
	json_t *object = json_object();

	json_put_text(object, "class", class_names[fault->class]);
	json_put_text(object, "plane", config_plane_name(nic->plane));
	json_put_text(object, "direction", directions[fault->direction]);
	json_put_count(object, "pairs", fault->pairs);
	if (fault->nics)
		json_put_count(object, "nics", fault->nics);
	if (fault->class == FAULT_NIC && nic->host)
		json_put_bool(object, "reported_by_its_host", nic->reported);
	if (seen->kind == MESH_FAULT_LOSSY)
		json_put_real(object, "lost_share", largest_share(seen, number));
	json_put(object, "members", members_json(mesh, seen, number, serial));
	return object;
}

static void report(struct mesh *mesh, const struct observation *seen, int number,
		   struct mesh_open_fault *open, uint64_t now_ns)
{
	json_t *object = seen_json(mesh, seen, number, open->serial);

	for (size_t i = 0; i < seen->view.edge_count; i++)
		if (seen->view.edges[i].fault == number)
			seen->edges[i]->reported_in[seen->kind] = open->serial;
	open->reported_ns = now_ns;
	if (!open->reported)
		log_warning("%s: %u NIC pairs %s", open->id, seen->view.faults[number].pairs,
			    seen->kind == MESH_FAULT_LOST ? "are lost"
							  : "lose a part of their probes");
	open->reported = true;
	events_add(mesh->core->events,
		   &(struct event){
			   .kind = &mesh_events[seen->kind == MESH_FAULT_LOST ? MESH_FAULT
									      : MESH_FABRIC_LOSS],
			   .subject = open->id,
			   .fault = open->id,
			   .seen = object,
			   .remedy = remedies[open->class]});
}

static struct mesh_open_fault *open_fault(struct mesh *mesh, unsigned int kind, const char *id,
					  enum fault_class class, uint64_t now_ns)
{
	struct mesh_open_faults *faults = &mesh->faults.open[kind];
	struct mesh_open_fault *open;

	for (size_t i = 0; i < faults->count; i++)
		if (!strcmp(faults->list[i].id, id))
			return &faults->list[i];
	if (faults->count == FAULTS_MAX)
		return NULL;
	open = &faults->list[faults->count++];
	*open = (struct mesh_open_fault){
		.class = class, .begun_ns = now_ns, .serial = ++mesh->faults.serial};
	snprintf(open->id, sizeof(open->id), "%s", id);
	return open;
}

/*
 * What few pairs show takes longer: the others of a larger fault may follow. What took minutes has
 * time for the reports of all hosts.
 */
static unsigned int evaluations_of(unsigned int kind, enum fault_class class)
{
	return kind == MESH_FAULT_LOSSY ? 30 : class == FAULT_PATHS || class == FAULT_PAIR ? 4 : 2;
}

/* It has a pair that it was not reported with. As many as before may be others. */
static bool has_new_member(const struct observation *seen, int number, uint32_t serial)
{
	for (size_t i = 0; i < seen->view.edge_count; i++)
		if (seen->view.edges[i].fault == number &&
		    seen->edges[i]->reported_in[seen->kind] != serial)
			return true;
	return false;
}

static void take(struct mesh *mesh, const struct observation *seen, int number, uint64_t now_ns)
{
	const struct fault *fault = &seen->view.faults[number];
	struct mesh_open_fault *open;
	char id[sizeof(open->id)];

	if (!fault->pairs)
		return;
	name_fault(mesh, seen, fault, id, sizeof(id));
	open = open_fault(mesh, seen->kind, id, fault->class, now_ns);
	if (!open)
		return;
	open->seen_ns = now_ns;
	if (!open->reported) {
		if (++open->evaluations >= evaluations_of(seen->kind, fault->class))
			report(mesh, seen, number, open, now_ns);
		return;
	}
	if (now_ns - open->reported_ns >= AGAIN_NS && has_new_member(seen, number, open->serial))
		report(mesh, seen, number, open, now_ns);
}

static void end(struct mesh *mesh, unsigned int kind, const struct mesh_open_fault *open,
		uint64_t now_ns)
{
	log_info("%s: over", open->id);
	events_add(mesh->core->events,
		   &(struct event){
			   .kind = &mesh_events[kind == MESH_FAULT_LOST ? MESH_FAULT_ENDED
									: MESH_FABRIC_LOSS_ENDED],
			   .subject = open->id,
			   .fault = open->id,
			   .result = json_pack("{s:I}", "duration_ns",
					       (json_int_t)(now_ns - open->begun_ns))});
}

/* One that is not seen for a second has ended, and one that was not reported is forgotten. */
static void end_others(struct mesh *mesh, unsigned int kind, uint64_t now_ns)
{
	struct mesh_open_faults *faults = &mesh->faults.open[kind];
	size_t kept = 0;

	for (size_t i = 0; i < faults->count; i++) {
		struct mesh_open_fault *open = &faults->list[i];
		bool stays = open->reported ? now_ns - open->seen_ns < END_AFTER_NS
					    : open->seen_ns == now_ns;

		if (!stays && open->reported)
			end(mesh, kind, open, now_ns);
		if (stays)
			faults->list[kept++] = *open;
	}
	faults->count = kept;
}

static void take_all(struct mesh *mesh, struct observation *seen, uint64_t now_ns)
{
	if (seen->lost) {
		faults_find(&seen->view);
		for (unsigned int i = 0; i < seen->view.fault_count; i++)
			take(mesh, seen, (int)i, now_ns);
	}
	end_others(mesh, seen->kind, now_ns);
}

void mesh_observe(struct mesh *mesh, uint64_t now_ns)
{
	static struct observation seen;

	count_losses(mesh);
	observe(mesh, &seen, now_ns);
	take_all(mesh, &seen, now_ns);
	send_report(mesh, &seen);
	observe_losses(mesh, &seen, now_ns);
	take_all(mesh, &seen, now_ns);
}
