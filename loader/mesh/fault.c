// SPDX-License-Identifier: BSD-2-Clause
/*
 * From lost NIC pairs to the fault that explains them, as one host sees it: its own pairs, and what
 * other hosts report of their NICs. The larger fault goes first: what explains all NICs of a plane
 * leaves nothing for those of a rack. A NIC that its host reports as well is well, so that a pair
 * that is lost then is due to its path.
 */
#include <string.h>

#include "fault.h"

#define PLANE_HOSTS_LEAST 3
#define TOR_HOSTS_LEAST 2
#define LOST_PATHS_LEAST 2
#define TRANSMIT_PAIRS_LEAST 2

/* What a part of the fabric has of NICs that are not explained yet. */
struct tally {
	unsigned int bad, well; /* NICs */
	unsigned int hosts;	/* of the bad ones */
	bool own, racks;	/* one is ours; they are of several racks */
	const char *rack;	/* of the first one */
	unsigned int nic;	/* the first one */
};

typedef bool fault_part_fn(const struct fault_nic *nic, const struct fault_nic *of);

/* --- NICs --- */

struct sight {
	unsigned int edges, peers; /* of NICs that are not ours: by well NICs of ours */
	unsigned int unheard;	   /* that we receive, and that does not receive us */
	bool in, out, heard_by_others, peer_well;
};

/* An edge counts for a NIC of another host only if our end is not bad. */
static struct sight sight_of(const struct fault_view *view, unsigned int nic)
{
	struct sight sight = {};
	unsigned int first = 0;

	for (size_t i = 0; i < view->edge_count; i++) {
		const struct fault_edge *edge = &view->edges[i];
		const struct fault_nic *peer = &view->nics[edge->peer];

		if (edge->own != nic &&
		    (edge->peer != nic || view->nics[edge->own].state == FAULT_NIC_BAD))
			continue;
		if (!sight.edges++)
			first = peer->host;
		sight.peers |= peer->host != first;
		sight.in |= edge->in;
		sight.out |= edge->in && edge->out;
		sight.unheard += edge->in && !edge->out;
		sight.heard_by_others |= edge->heard_by_others;
		sight.peer_well |= peer->reported && peer->receives && peer->sends;
	}
	return sight;
}

static void judge_own(const struct fault_view *view, unsigned int number, struct fault_nic *nic)
{
	struct sight sight = sight_of(view, number);

	nic->state = !sight.edges ? FAULT_NIC_UNKNOWN : FAULT_NIC_WELL;
	if (!sight.edges || (sight.in && (sight.out || sight.unheard < TRANSMIT_PAIRS_LEAST)))
		return;
	/* Of one pair the other end may be the cause. */
	if (!sight.peers && !sight.peer_well) {
		nic->state = FAULT_NIC_UNKNOWN;
		return;
	}
	nic->state = FAULT_NIC_BAD;
	nic->direction = sight.in ? FAULT_TRANSMIT : FAULT_BOTH;
}

static void judge_other(const struct fault_view *view, unsigned int number, struct fault_nic *nic)
{
	struct sight sight = sight_of(view, number);

	if (nic->reported) {
		nic->state = nic->receives && nic->sends ? FAULT_NIC_WELL : FAULT_NIC_BAD;
		nic->direction = nic->receives ? FAULT_TRANSMIT
				 : sight.in    ? FAULT_RECEIVE
					       : FAULT_BOTH;
		return;
	}
	if (!sight.edges)
		nic->state = FAULT_NIC_UNKNOWN;
	else if (sight.in || sight.heard_by_others)
		nic->state = FAULT_NIC_WELL;
	else
		nic->state = FAULT_NIC_BAD;
	nic->direction = FAULT_BOTH;
}

static void judge(struct fault_view *view)
{
	for (unsigned int i = 0; i < view->nic_count; i++)
		view->nics[i].fault = FAULT_NOT_EXPLAINED;
	for (unsigned int i = 0; i < view->nic_count; i++)
		if (!view->nics[i].host)
			judge_own(view, i, &view->nics[i]);
	for (unsigned int i = 0; i < view->nic_count; i++)
		if (view->nics[i].host)
			judge_other(view, i, &view->nics[i]);
}

/* --- parts of the fabric --- */

static bool same_plane(const struct fault_nic *nic, const struct fault_nic *of)
{
	return nic->plane == of->plane;
}

static bool same_rail(const struct fault_nic *nic, const struct fault_nic *of)
{
	return same_plane(nic, of) && nic->rail == of->rail;
}

static bool same_tor(const struct fault_nic *nic, const struct fault_nic *of)
{
	return same_rail(nic, of) && nic->rack && of->rack && !strcmp(nic->rack, of->rack);
}

static bool same_host(const struct fault_nic *nic, const struct fault_nic *of)
{
	return nic->host == of->host;
}

static bool same_nic(const struct fault_nic *nic, const struct fault_nic *of)
{
	return nic == of;
}

/* Within a rack both ways are one path: what is lost there by half is no path. */
static bool is_lost(const struct fault_view *view, const struct fault_edge *edge)
{
	return !(edge->in && edge->out) ||
	       ((edge->unreplied || edge->one_sided) &&
		!same_tor(&view->nics[edge->own], &view->nics[edge->peer]));
}

/* Of NICs that nothing explains yet. */
static struct tally count(const struct fault_view *view, fault_part_fn *part,
			  const struct fault_nic *of)
{
	struct tally tally = {};

	for (unsigned int i = 0; i < view->nic_count; i++) {
		const struct fault_nic *nic = &view->nics[i];
		bool known_host = false;

		if (!part(nic, of) || nic->fault != FAULT_NOT_EXPLAINED)
			continue;
		tally.well += nic->state == FAULT_NIC_WELL;
		if (nic->state != FAULT_NIC_BAD)
			continue;
		if (!tally.bad++) {
			tally.nic = i;
			tally.rack = nic->rack;
		}
		for (unsigned int k = 0; k < i && !known_host; k++)
			known_host = view->nics[k].host == nic->host &&
				     view->nics[k].state == FAULT_NIC_BAD &&
				     view->nics[k].fault == FAULT_NOT_EXPLAINED &&
				     part(&view->nics[k], of);
		tally.hosts += !known_host;
		tally.own |= !nic->host;
		tally.racks |= !nic->rack || !tally.rack || strcmp(nic->rack, tally.rack) != 0;
	}
	return tally;
}

static bool is_alive(const struct fault_view *view, unsigned int host)
{
	for (unsigned int i = 0; i < view->nic_count; i++)
		if (view->nics[i].host == host && ((view->nics[i].reported && !view->partial) ||
						   view->nics[i].state == FAULT_NIC_WELL))
			return true;
	return false;
}

static void add(struct fault_view *view, enum fault_class class, fault_part_fn *part,
		const struct tally *tally)
{
	const struct fault_nic *of = &view->nics[tally->nic];
	struct fault *fault = &view->faults[view->fault_count];

	if (view->fault_count == FAULTS_MAX)
		return;
	*fault = (struct fault){
		.class = class, .nic = tally->nic, .direction = of->direction, .nics = tally->bad};
	for (unsigned int i = 0; i < view->nic_count; i++)
		if (part(&view->nics[i], of) && view->nics[i].state == FAULT_NIC_BAD &&
		    view->nics[i].fault == FAULT_NOT_EXPLAINED)
			view->nics[i].fault = (int)view->fault_count;
	view->fault_count++;
}

/*
 * Pairs between racks that are lost though both of their NICs are well: a switch above the racks,
 * or a link of it, takes the probes of some pairs and not of others, by their hash. A NIC may have
 * all its pairs on it, and looks bad.
 */
static bool has_lost_paths(const struct fault_view *view, const struct fault_nic *of)
{
	unsigned int lost = 0;

	for (size_t i = 0; i < view->edge_count; i++) {
		const struct fault_edge *edge = &view->edges[i];
		const struct fault_nic *own = &view->nics[edge->own];
		const struct fault_nic *peer = &view->nics[edge->peer];

		lost += is_lost(view, edge) && own->plane == of->plane &&
			own->state == FAULT_NIC_WELL && peer->state == FAULT_NIC_WELL &&
			!same_tor(own, peer);
	}
	return lost >= LOST_PATHS_LEAST;
}

/* Whether all bad NICs of a part are of one fault of that class, by what is known. */
static bool is_fault(const struct fault_view *view, enum fault_class class,
		     const struct tally *tally, const struct fault_nic *of)
{
	switch (class) {
	case FAULT_PLANE:
	case FAULT_RAIL:
		/* Without another plane nothing is known of it: our own NIC is as likely. */
		return !tally->well && tally->own && tally->racks &&
		       tally->hosts >= PLANE_HOSTS_LEAST;
	case FAULT_HOST:
		return !tally->well && (!of->host || !is_alive(view, of->host));
	case FAULT_TOR:
		return !tally->well && tally->hosts >= TOR_HOSTS_LEAST && !has_lost_paths(view, of);
	default:
		return !has_lost_paths(view, of);
	}
}

static void explain_nics(struct fault_view *view, enum fault_class class, fault_part_fn *part,
			 unsigned int least)
{
	for (unsigned int i = 0; i < view->nic_count; i++) {
		const struct fault_nic *of = &view->nics[i];
		struct tally tally;

		if (of->state != FAULT_NIC_BAD || of->fault != FAULT_NOT_EXPLAINED)
			continue;
		tally = count(view, part, of);
		if (tally.bad >= least && is_fault(view, class, &tally, of))
			add(view, class, part, &tally);
	}
}

/* --- pairs --- */

static int explained_by(const struct fault_view *view, const struct fault_edge *edge)
{
	int own = view->nics[edge->own].fault, peer = view->nics[edge->peer].fault;

	return own != FAULT_NOT_EXPLAINED ? own : peer;
}

/* As we see it; without a reply it may be either. */
static enum fault_direction direction_of(const struct fault_edge *edge)
{
	if (edge->in && edge->out)
		return edge->one_sided ? FAULT_RECEIVE : FAULT_BOTH;
	return edge->in ? FAULT_TRANSMIT : edge->out ? FAULT_RECEIVE : FAULT_BOTH;
}

/* Between racks the path is the cause, and there are several of one switch or link. */
static int explain_pair(struct fault_view *view, const struct fault_edge *edge)
{
	const struct fault_nic *own = &view->nics[edge->own], *peer = &view->nics[edge->peer];
	bool tor = own->rack && peer->rack && !strcmp(own->rack, peer->rack) &&
		   own->rail == peer->rail;

	for (unsigned int i = 0; i < view->fault_count && !tor; i++)
		if (view->faults[i].class == FAULT_PATHS &&
		    view->nics[view->faults[i].nic].plane == own->plane)
			return (int)i;
	if (view->fault_count == FAULTS_MAX)
		return FAULT_NOT_EXPLAINED;
	view->faults[view->fault_count] = (struct fault){.class = tor ? FAULT_PAIR : FAULT_PATHS,
							 .nic = edge->own,
							 .other = edge->peer,
							 .direction = direction_of(edge)};
	return (int)view->fault_count++;
}

void faults_find(struct fault_view *view)
{
	view->fault_count = 0;
	memset(view->lost_paths, 0, sizeof(view->lost_paths));
	judge(view);
	explain_nics(view, FAULT_PLANE, same_plane, 1);
	explain_nics(view, FAULT_RAIL, same_rail, 1);
	explain_nics(view, FAULT_HOST, same_host, 2);
	explain_nics(view, FAULT_TOR, same_tor, 1);
	explain_nics(view, FAULT_HOST, same_host, 1);
	explain_nics(view, FAULT_NIC, same_nic, 1);
	for (size_t i = 0; i < view->edge_count; i++) {
		struct fault_edge *edge = &view->edges[i];

		edge->fault = FAULT_NOT_EXPLAINED;
		if (!is_lost(view, edge))
			continue;
		edge->fault = explained_by(view, edge);
		if (edge->fault == FAULT_NOT_EXPLAINED)
			edge->fault = explain_pair(view, edge);
		if (edge->fault == FAULT_NOT_EXPLAINED)
			continue;
		view->faults[edge->fault].pairs++;
		/* By the other end's report alone the two would keep each other's. */
		view->lost_paths[view->nics[edge->own].plane] |=
			view->faults[edge->fault].class == FAULT_PATHS && !edge->one_sided;
	}
}

/* --- what a host reports of its NICs --- */

/* As judge_own() has it, of NIC @number of ours. */
bool fault_report_nic(const struct fault_view *view, unsigned int number, struct fault_report *out)
{
	struct sight sight = sight_of(view, number);

	out->plane = (enum fleet_plane)view->nics[number].plane;
	out->rail = view->nics[number].rail;
	out->receives = sight.in;
	out->sends = sight.out || sight.unheard < TRANSMIT_PAIRS_LEAST;
	return sight.edges;
}

#define REPORT_THERE 0x80u
#define REPORT_FRONTEND 0x40u
#define REPORT_RAIL_SHIFT 2
#define REPORT_RECEIVES 0x2u
#define REPORT_SENDS 0x1u
_Static_assert(FLEET_RAILS_MAX <= 16, "a rail has four bits");

uint8_t fault_report_make(const struct fault_report *report)
{
	return (uint8_t)(REPORT_THERE | (report->plane ? REPORT_FRONTEND : 0) |
			 (report->rail & 0xf) << REPORT_RAIL_SHIFT |
			 (report->receives ? REPORT_RECEIVES : 0) |
			 (report->sends ? REPORT_SENDS : 0));
}

bool fault_report_read(uint8_t byte, struct fault_report *out)
{
	out->plane = byte & REPORT_FRONTEND ? FLEET_PLANE_FRONTEND : FLEET_PLANE_BACKEND;
	out->rail = byte >> REPORT_RAIL_SHIFT & 0xf;
	out->receives = byte & REPORT_RECEIVES;
	out->sends = byte & REPORT_SENDS;
	return byte & REPORT_THERE;
}
