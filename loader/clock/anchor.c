// SPDX-License-Identifier: BSD-2-Clause
/* TAI beside fabric time: measured here when `clock.anchor` says so, else heard of neighbours. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <time.h>

#include "daemon/daemon.h"
#include "core/events.h"
#include "base/log.h"
#include "mesh/internal.h"

#define SECOND_NS 1000000000ll
#define READ_TRIES 5
/* Before the rate is known a word would be wrong soon after it is said. */
#define MEASURE_LEAST 8
/* An anchor that said nothing new for so long gives way to any other. */
#define WORD_FRESH_NS (30 * SECOND_NS)
#define BOUND_MAX_NS SECOND_NS

/* --- the words --- */

static int64_t word_age_ns(const struct anchor_word *word, int64_t fabric_ns)
{
	return llabs(ns_sub(fabric_ns, word->ref_fabric_ns));
}

static bool word_within(const struct anchor_word *word, int64_t fabric_ns, int64_t most_ns)
{
	return word->sequence && word_age_ns(word, fabric_ns) <= most_ns;
}

static uint32_t own_id(const struct mesh *mesh)
{
	return (uint32_t)mesh->maps.fleet->self;
}

static const char *anchor_host(const struct mesh *mesh, uint32_t anchor)
{
	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		const struct roster *roster = &mesh->planes[i].roster;

		for (size_t at = 0; at < roster->count; at++)
			if ((uint32_t)roster->ids[at] == anchor)
				return roster->list[at].host;
	}
	return "";
}

/* --- measuring --- */

/* NULL: *@error_ns is how wrong the kernel's TAI may be. */
static const char *tai_missing(const struct mesh *mesh, int64_t *error_ns)
{
	struct timex timex = {};
	int state;

	*error_ns = 0;
	if (mesh->daemon->config->lab.tai_offset_ns)
		return NULL;
	state = adjtimex(&timex);
	if (state < 0)
		return "the kernel's clock cannot be asked how wrong it is";
	if (!timex.tai)
		return "the kernel does not know the TAI offset: let the time service set it "
		       "(`leapsectz right/UTC` of chrony, phc2sys)";
	*error_ns = (int64_t)timex.maxerror * 1000;
	if (state == TIME_ERROR || timex.status & STA_UNSYNC || *error_ns > BOUND_MAX_NS)
		return "the kernel's clock is not synchronised: no time service says how wrong it "
		       "is";
	return NULL;
}

static int64_t tai_now(const struct mesh *mesh)
{
	int64_t offset_ns = mesh->daemon->config->lab.tai_offset_ns;
	struct timespec now;

	clock_gettime(offset_ns ? CLOCK_REALTIME : CLOCK_TAI, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec + offset_ns;
}

/* TAI and the local clock at one instant, to half of what is returned. */
static int64_t read_both(const struct mesh *mesh, int64_t *local_ns, int64_t *tai_ns)
{
	int64_t least_ns = INT64_MAX;

	*local_ns = *tai_ns = 0;
	for (int i = 0; i < READ_TRIES; i++) {
		uint64_t before_ns = mesh_monotonic_ns();
		int64_t now_ns = tai_now(mesh);
		int64_t width_ns = (int64_t)(mesh_monotonic_ns() - before_ns);

		if (width_ns >= least_ns)
			continue;
		least_ns = width_ns;
		*local_ns = mesh_local_ns(mesh, before_ns + (uint64_t)width_ns / 2);
		*tai_ns = now_ns;
	}
	return least_ns;
}

static void measure(struct mesh *mesh)
{
	struct mesh_anchor *anchor = &mesh->anchor;
	int64_t local_ns, tai_ns, fabric_ns, error_ns, bound_ns;
	const char *note = tai_missing(mesh, &error_ns);

	if (note && note != anchor->note)
		log_warning("`clock.anchor` is true, but %s", note);
	anchor->note = note;
	if (note) {
		anchor->meter.count = 0;
		return;
	}
	bound_ns = error_ns + read_both(mesh, &local_ns, &tai_ns) / 2 + 1;
	fabric_ns = clock_model_read(&mesh->clock.model, local_ns);
	bound_ns += clock_model_bound(&mesh->clock.model, local_ns);
	if (bound_ns > BOUND_MAX_NS)
		return;
	if (!anchor->measured.sequence)
		anchor->measured.sequence = (uint32_t)(mesh->epoch / SECOND_NS);
	anchor_measure(&anchor->meter, fabric_ns, tai_ns, (uint32_t)bound_ns, own_id(mesh),
		       &anchor->measured);
	/* What is said is the fit's; how far it is from what was just seen is seen. */
	anchor->measured.bound_ns +=
		(uint32_t)llabs(ns_sub(ns_sub(tai_ns, fabric_ns), anchor->measured.ahead_ns));
	if (anchor->meter.count >= MEASURE_LEAST)
		anchor->word = anchor->measured;
}

/* --- hearing --- */

void mesh_take_anchor(struct mesh_edge *edge, const struct esc_probe_event *event)
{
	edge->anchor = (struct anchor_word){
		.ref_fabric_ns = event->anchor_ref_fabric_ns,
		.ahead_ns = event->anchor_ahead_ns,
		.rate_q40 = event->anchor_rate_q40,
		.sequence = event->anchor_sequence,
		.bound_ns = event->anchor_bound_ns,
		.anchor = event->anchor_id,
		.hops = event->anchor_hops,
	};
}

static bool edge_is_in_step(const struct mesh *mesh, size_t slot, int64_t local_ns)
{
	const struct mesh_edge *edge = mesh->edges[slot];

	return edge && edge->view_known && local_ns - edge->view_fresh_ns <= MESH_VIEW_ROUNDS_NS &&
	       edge->view.state == CLOCK_SYNCED &&
	       mesh->clock.consensus.peers[slot].verdict == CONSENSUS_USED;
}

/*
 * Of several anchors the one with the lowest id is believed by all, so that
 * neighbours show one TAI; one that is silent gives way to one that is not.
 */
static uint32_t believed(const struct anchor_word *mine, const struct anchor_word *theirs,
			 int64_t fabric_ns)
{
	bool mine_fresh = word_within(mine, fabric_ns, WORD_FRESH_NS);
	bool theirs_fresh = word_within(theirs, fabric_ns, WORD_FRESH_NS);

	if (!mine->sequence)
		return theirs->anchor;
	if (mine_fresh != theirs_fresh)
		return mine_fresh ? mine->anchor : theirs->anchor;
	return mine->anchor < theirs->anchor ? mine->anchor : theirs->anchor;
}

static void hear(struct mesh *mesh, int64_t local_ns, int64_t fabric_ns)
{
	struct anchor_word *mine = &mesh->anchor.word;

	for (size_t slot = 0; slot < CONSENSUS_PEERS_MAX; slot++) {
		const struct anchor_word *theirs;

		if (!edge_is_in_step(mesh, slot, local_ns))
			continue;
		theirs = &mesh->edges[slot]->anchor;
		if (word_within(theirs, fabric_ns, ANCHOR_STALE_NS))
			anchor_hear(mine, theirs, believed(mine, theirs, fabric_ns));
	}
}

/* --- a round --- */

static void tell(struct mesh *mesh, bool known)
{
	struct mesh_anchor *anchor = &mesh->anchor;
	const struct anchor_word *word = &anchor->word;

	if (known && (!anchor->told || anchor->told_id != word->anchor))
		events_record(mesh->daemon->ledger, "anchor_heard", anchor_host(mesh, word->anchor),
			   json_pack("{s:i, s:I}", "hops", word->hops, "bound_ns",
				     (json_int_t)word->bound_ns),
			   NULL, NULL, NULL);
	if (!known && anchor->told)
		events_record(mesh->daemon->ledger, "anchor_lost", anchor_host(mesh, anchor->told_id),
			   NULL, NULL, NULL, NULL);
	anchor->told = known;
	anchor->told_id = word->anchor;
}

/* What was said of another fabric time, or of one that is not kept any more, is forgotten. */
static void forget(struct mesh *mesh)
{
	struct mesh_anchor *anchor = &mesh->anchor;

	anchor->meter.count = 0;
	memset(&anchor->word, 0, sizeof(anchor->word));
	for (size_t slot = 0; slot < MESH_EDGES_MAX; slot++)
		if (mesh->edges[slot])
			mesh->edges[slot]->anchor.sequence = 0;
}

static void anchor_step(struct mesh *mesh, int64_t local_ns, int64_t fabric_ns)
{
	struct mesh_anchor *anchor = &mesh->anchor;
	const struct anchor_word *word = &anchor->word;
	enum clock_state state = mesh->clock.state;

	if (!mesh->daemon->config->clock.anchor) {
		anchor->note = NULL;
		anchor->meter.count = 0;
	} else if (local_ns >= anchor->due_local_ns &&
		   (state == CLOCK_SYNCED || state == CLOCK_HOLDOVER)) {
		anchor->due_local_ns = local_ns + SECOND_NS;
		measure(mesh);
	}
	if (state != CLOCK_SYNCED)
		return;
	/* Who measures needs nobody's word. */
	if (anchor->meter.count < MEASURE_LEAST || word->anchor != own_id(mesh) ||
	    !word_within(word, fabric_ns, WORD_FRESH_NS))
		hear(mesh, local_ns, fabric_ns);
}

void mesh_anchor_round(struct mesh *mesh, int64_t local_ns)
{
	struct mesh_anchor *anchor = &mesh->anchor;
	int64_t fabric_ns = clock_model_read(&mesh->clock.model, local_ns), tai_ns, bound_ns;
	bool known = mesh->clock.model.generation && mesh->clock.state != CLOCK_FREE_RUNNING;

	if (!known || anchor->moves != mesh->clock.consensus.moves) {
		anchor->moves = mesh->clock.consensus.moves;
		forget(mesh);
	} else {
		anchor_step(mesh, local_ns, fabric_ns);
	}
	known = known && anchor_read(&anchor->word, fabric_ns, 0, &tai_ns, &bound_ns);
	if (!known)
		memset(&anchor->word, 0, sizeof(anchor->word));
	mesh_write_anchor(mesh, &anchor->word);
	tell(mesh, known);
}

/* --- what is known --- */

void mesh_get_tai(const struct mesh *mesh, struct mesh_clock_facts *out)
{
	const struct anchor_word *word = &mesh->anchor.word;

	out->tai_note = mesh->anchor.note;
	if (!out->known)
		return;
	out->tai_known =
		anchor_read(word, out->fabric_ns, out->bound_ns, &out->tai_ns, &out->tai_bound_ns);
	out->tai_age_ns = word_age_ns(word, out->fabric_ns);
	out->tai_hops = word->hops;
	out->tai_anchor = anchor_host(mesh, word->anchor);
}
