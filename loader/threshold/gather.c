// SPDX-License-Identifier: BSD-2-Clause
/* What each quantity is, of which things: read from the modules that measure it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/hash.h"
#include "clock/clock.h"
#include "dataplane/dataplane.h"
#include "delay/delay.h"
#include "internal.h"
#include "job/job.h"
#include "link/link.h"
#include "mesh/mesh.h"
#include "paths/paths.h"
#include "qp/qp.h"

static const struct threshold_sample nothing = {
	.value = NAN,
	.least = NAN,
	.plane = -1,
};

static void set_delay(struct threshold_sample *sample, const struct quantiles *owd, double bound_ns)
{
	if (!owd->samples || !isfinite(bound_ns))
		return;
	sample->value = (double)owd->p99_ns;
	sample->least = (double)owd->min_ns;
	sample->bound = bound_ns;
}

/* -1: it is not configured. */
static int plane_of(const struct thresholds *thresholds, const char *interface)
{
	const struct config *config = thresholds->core->config;

	for (size_t i = 0; interface && i < config->interface_count; i++)
		if (!strcmp(config->interfaces[i].name, interface))
			return (int)config->interfaces[i].plane;
	return -1;
}

static const char *rail_of(const struct thresholds *thresholds, const struct esc_address *address)
{
	const struct member *member = members_find(fleet_members(thresholds->core->fleet), address);

	return member ? member->rail : NULL;
}

/* --- peers --- */

static int read_peers(struct thresholds *thresholds)
{
	if (!thresholds->peers)
		thresholds->peers = mesh_get_peers(thresholds->mesh, &thresholds->peer_count);
	return thresholds->peers ? 0 : -ENOMEM;
}

/* One that is down has an event of its own; what its probes then are says nothing more. */
static int gather_peers(struct thresholds *thresholds, enum config_of of)
{
	int err = read_peers(thresholds);

	for (size_t i = 0; !err && i < thresholds->peer_count; i++) {
		const struct mesh_peer_facts *peer = &thresholds->peers[i];
		struct threshold_sample sample = nothing;

		sample.id = hash_add(HASH_FIRST, &peer->address, sizeof(peer->address));
		sample.id = hash_add(sample.id, peer->interface, strlen(peer->interface));
		sample.id = hash_add(sample.id, &peer->plane, sizeof(peer->plane));
		sample.plane = (int)peer->plane;
		sample.rail = peer->rail;
		sample.peer = peer->host;
		sample.of = peer;
		if (peer->state != PEER_DOWN) {
			set_delay(&sample, &peer->owd_out, (double)peer->owd_bound_ns);
			sample.part = peer->lost;
			sample.whole = peer->sent;
			sample.counted = true;
		}
		thresholds_take(thresholds, of, &sample);
	}
	return err;
}

static void name_peer(const struct thresholds *thresholds, const struct threshold_sample *sample,
		      char *subject, char *part)
{
	const struct mesh_peer_facts *peer = sample->of;
	char address[ADDRESS_TEXT_BYTES];

	snprintf(subject, THRESHOLD_SUBJECT_BYTES, "%s", peer->host);
	snprintf(part, THRESHOLD_PART_BYTES, "%s/%s>%s", thresholds->core->config->host,
		 peer->interface, address_format(&peer->address, address));
}

/* --- candidate paths --- */

struct path_of {
	const struct path_pair_facts *pair;
	const struct path_facts *path;
};

static int gather_paths(struct thresholds *thresholds, enum config_of of)
{
	struct path_facts list[ESC_PATHS_MAX];

	for (unsigned int slot = 0; slot < ESC_PATH_SLOTS_MAX; slot++) {
		const struct path_pair_facts *pair = paths_pair(thresholds->paths, slot);
		size_t count = pair ? paths_candidates(thresholds->paths, slot, list) : 0;

		for (size_t i = 0; i < count; i++) {
			struct threshold_sample sample = nothing;
			struct path_of path = {pair, &list[i]};
			struct quantiles owd;

			sample.id = hash_add(HASH_FIRST, &pair->key, sizeof(pair->key));
			sample.id = hash_add(sample.id, &list[i].sport, sizeof(list[i].sport));
			sample.plane = plane_of(
				thresholds, dataplane_port_name(thresholds->dataplane, pair->port));
			sample.rail = rail_of(thresholds, &pair->key.src);
			sample.peer = pair->peer;
			sample.of = &path;
			paths_owd_out(thresholds->paths, slot, list[i].id, &owd);
			if (list[i].state == PATHLIVE_UP)
				set_delay(&sample, &owd, list[i].out.bound_ns);
			thresholds_take(thresholds, of, &sample);
		}
	}
	return 0;
}

static void name_path(const struct thresholds *thresholds, const struct threshold_sample *sample,
		      char *subject, char *part)
{
	const struct path_of *path = sample->of;
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES];

	(void)thresholds;
	snprintf(subject, THRESHOLD_SUBJECT_BYTES, "%s", path->pair->peer);
	snprintf(part, THRESHOLD_PART_BYTES, "%s>%s/%u", address_format(&path->pair->key.src, src),
		 address_format(&path->pair->key.dst, dst), path->path->sport);
}

/* --- queue pairs --- */

static enum esc_direction direction_of(enum config_of of)
{
	return of == CONFIG_OF_QP_OWD || of == CONFIG_OF_QP_RETRANSMITS ? ESC_DIRECTION_TX
									: ESC_DIRECTION_RX;
}

static void read_qp(const struct qp_entry *entry, enum config_of of,
		    struct threshold_sample *sample)
{
	const struct esc_qp *qp = &entry->qp;
	const struct delays_span *recent;

	sample->whole = qp->packets;
	sample->counted = true;
	switch (of) {
	case CONFIG_OF_QP_RETRANSMITS:
		sample->part = qp->retransmits;
		return;
	case CONFIG_OF_QP_CE:
		sample->part = qp->ce;
		return;
	case CONFIG_OF_QP_PSN_MISSING:
		sample->part = qp->psn_missing;
		sample->whole += qp->psn_missing;
		return;
	default:
		break;
	}
	if (!entry->delays || !entry->delays->recent.samples)
		return;
	recent = &entry->delays->recent;
	sample->value = (double)recent->p99_ns;
	sample->least = (double)recent->min_ns;
	sample->bound = recent->bound_ns;
}

static int gather_qps(struct thresholds *thresholds, enum config_of of)
{
	const struct members *members = fleet_members(thresholds->core->fleet);
	enum esc_direction direction = direction_of(of);
	size_t count;
	const struct qp_entry *entries = qptable_entries(thresholds->qps, &count);

	for (size_t i = 0; i < count; i++) {
		const struct esc_qp_key *key = &entries[i].key;
		bool tx = direction == ESC_DIRECTION_TX;
		struct threshold_sample sample = nothing;

		if (key->direction != direction)
			continue;
		sample.id = hash_add(HASH_FIRST, key, sizeof(*key));
		sample.plane =
			plane_of(thresholds, dataplane_port_name(thresholds->dataplane, key->port));
		sample.rail = rail_of(thresholds, tx ? &key->src : &key->dst);
		sample.peer = members_host(members, tx ? &key->dst : &key->src);
		sample.job = job_of_qp(&entries[i]);
		sample.qp = key;
		sample.of = key;
		read_qp(&entries[i], of, &sample);
		thresholds_take(thresholds, of, &sample);
	}
	return 0;
}

static void name_qp(const struct thresholds *thresholds, const struct threshold_sample *sample,
		    char *subject, char *part)
{
	const struct esc_qp_key *key = sample->of;
	const char *port = dataplane_port_name(thresholds->dataplane, key->port);
	char text[ADDRESS_QP_BYTES];

	snprintf(subject, THRESHOLD_SUBJECT_BYTES, "%s",
		 address_format_qp(&key->src, &key->dst, key->dest_qpn, text));
	snprintf(part, THRESHOLD_PART_BYTES, "%s", port ? port : "");
}

/* --- this host --- */

static int gather_clock(struct thresholds *thresholds, enum config_of of)
{
	struct threshold_sample sample = nothing;
	struct clock_facts facts;

	clock_get(thresholds->clock, &facts);
	if (facts.known)
		sample.value = (double)facts.bound_ns;
	thresholds_take(thresholds, of, &sample);
	return 0;
}

static void name_host(const struct thresholds *thresholds, const struct threshold_sample *sample,
		      char *subject, char *part)
{
	(void)sample;
	(void)part;
	snprintf(subject, THRESHOLD_SUBJECT_BYTES, "%s", thresholds->core->config->host);
}

/* As the mesh has it; NULL: it probes nothing from there. */
static const char *rail_of_interface(const struct thresholds *thresholds, const char *interface)
{
	for (size_t i = 0; i < thresholds->peer_count; i++)
		if (!strcmp(thresholds->peers[i].interface, interface))
			return thresholds->peers[i].rail;
	return NULL;
}

static int gather_links(struct thresholds *thresholds, enum config_of of)
{
	int err = read_peers(thresholds);
	struct links_facts link;
	size_t at = 0;

	while (!err && links_next(thresholds->links, &at, &link)) {
		const char *port = link.upper[0] ? link.upper : link.name;
		struct threshold_sample sample = nothing;

		sample.id = hash_add(HASH_FIRST, link.name, strlen(link.name));
		sample.value = (double)link.flaps_1h;
		sample.plane = plane_of(thresholds, port);
		sample.rail = rail_of_interface(thresholds, port);
		sample.of = &link;
		thresholds_take(thresholds, of, &sample);
	}
	return err;
}

static void name_link(const struct thresholds *thresholds, const struct threshold_sample *sample,
		      char *subject, char *part)
{
	const struct links_facts *link = sample->of;

	(void)thresholds;
	(void)part;
	snprintf(subject, THRESHOLD_SUBJECT_BYTES, "%s", link->name);
}

/* --- the table --- */

static const struct source {
	int (*gather)(struct thresholds *thresholds, enum config_of of);
	void (*name)(const struct thresholds *thresholds, const struct threshold_sample *sample,
		     char *subject, char *part);
	enum event_about about;
	const char *remedy;
} sources[CONFIG_OFS] = {
	[CONFIG_OF_PROBE_OWD] = {gather_peers, name_peer, EVENT_PEER,
				 "`escapement peers` shows whether others are slow, too; "
				 "`escapement paths` by which path."},
	[CONFIG_OF_PATH_OWD] = {gather_paths, name_path, EVENT_PATH,
				"`escapement paths` shows the switches that it passes."},
	[CONFIG_OF_QP_OWD] = {gather_qps, name_qp, EVENT_QP,
			      "`escapement qp` shows its path; `escapement steer plan` whether "
			      "another one is free."},
	[CONFIG_OF_PROBE_LOST] = {gather_peers, name_peer, EVENT_PEER,
				  "`escapement links` and `escapement paths` show where packets "
				  "may be lost."},
	[CONFIG_OF_QP_PSN_MISSING] = {gather_qps, name_qp, EVENT_QP,
				      "Packets are lost before they arrive here: see queues and "
				      "links on its path."},
	[CONFIG_OF_QP_RETRANSMITS] = {gather_qps, name_qp, EVENT_QP,
				      "Packets or acknowledgements are lost: see queues and links "
				      "on its path."},
	[CONFIG_OF_QP_CE] = {gather_qps, name_qp, EVENT_QP,
			     "A queue on its path is above its ECN threshold: `escapement top`."},
	[CONFIG_OF_CLOCK_BOUND] = {gather_clock, name_host, EVENT_HOST,
				   "`escapement clock` shows which peers are used."},
	[CONFIG_OF_LINK_FLAPS] = {gather_links, name_link, EVENT_NIC,
				  "See its cable, module and port of the switch; `escapement "
				  "links`."},
};

int thresholds_gather(struct thresholds *thresholds, enum config_of of)
{
	return sources[of].gather(thresholds, of);
}

enum event_about threshold_about(enum config_of of)
{
	return sources[of].about;
}

const char *threshold_remedy(enum config_of of)
{
	return sources[of].remedy;
}

void threshold_name(const struct thresholds *thresholds, enum config_of of,
		    const struct threshold_sample *sample, char subject[THRESHOLD_SUBJECT_BYTES],
		    char part[THRESHOLD_PART_BYTES])
{
	sources[of].name(thresholds, sample, subject, part);
}
