// SPDX-License-Identifier: BSD-2-Clause
/* TAI beside fabric time: measured here with `clock.anchor`, else by what neighbors report. */
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <time.h>

#include "base/log.h"
#include "internal.h"

#define SECOND_NS 1000000000ll
#define READ_TRIES 5
/* Before the rate is known a report would be wrong soon after it was made. */
#define MEASURE_LEAST 8
/* An anchor that reported nothing new for so long is replaced by any other. */
#define REPORT_FRESH_NS (30 * SECOND_NS)
#define BOUND_MAX_NS SECOND_NS

/* --- reports --- */

static int64_t report_age_ns(const struct anchor_report *report, int64_t fabric_ns)
{
	return llabs(ns_sub(fabric_ns, report->ref_fabric_ns));
}

static bool report_within(const struct anchor_report *report, int64_t fabric_ns, int64_t most_ns)
{
	return report->sequence && report_age_ns(report, fabric_ns) <= most_ns;
}

static uint32_t own_id(const struct clock *clock)
{
	return (uint32_t)clock->fleet->self;
}

static const char *anchor_host(const struct clock *clock, uint32_t anchor)
{
	const struct roster *roster = clock->plan ? &clock->plan->all : NULL;

	for (size_t i = 0; roster && i < roster->count; i++)
		if ((uint32_t)roster->ids[i] == anchor)
			return roster->list[i].host;
	return "";
}

/* By `clock.anchors`. A host that is not a member is not in the list either. */
static bool anchor_is_accepted(const struct clock *clock, uint32_t anchor)
{
	const char *list = clock->core->config->clock.anchors;
	const char *host = anchor_host(clock, anchor);
	static const char between[] = ", \t";
	size_t bytes;

	for (const char *at = list; at && *at; at += bytes) {
		at += strspn(at, between);
		bytes = strcspn(at, between);
		if (*host && bytes == strlen(host) && !memcmp(at, host, bytes))
			return true;
	}
	return !list;
}

/* --- measuring --- */

/* NULL: *@error_ns is how wrong the kernel's TAI may be. */
static const char *tai_missing(const struct clock *clock, int64_t *error_ns)
{
	struct timex timex = {};
	int state;

	*error_ns = 0;
	if (!anchor_is_accepted(clock, own_id(clock)))
		return "this host is not in `clock.anchors`: add it there on all hosts, or take "
		       "`clock.anchor` out";
	if (clock->core->config->lab.tai_offset_ns)
		return NULL;
	state = adjtimex(&timex);
	if (state < 0)
		return "the kernel does not report the error of its clock";
	if (!timex.tai)
		return "the kernel does not know the TAI offset: let the time service set it "
		       "(`leapsectz right/UTC` of chrony, phc2sys)";
	*error_ns = (int64_t)timex.maxerror * 1000;
	if (state == TIME_ERROR || timex.status & STA_UNSYNC || *error_ns > BOUND_MAX_NS)
		return "the kernel's clock is not synchronized: no time service reports its error";
	return NULL;
}

/* TAI and the local clock at one instant, to half of what is returned. */
static int64_t read_both(const struct clock *clock, int64_t *local_ns, int64_t *tai_ns)
{
	int64_t offset_ns = clock->core->config->lab.tai_offset_ns, least_ns = INT64_MAX;
	clockid_t tai = offset_ns ? CLOCK_REALTIME : CLOCK_TAI;

	*local_ns = *tai_ns = 0;
	for (int i = 0; i < READ_TRIES; i++) {
		uint64_t before_ns = time_local_ns(), now_ns = now_clock_ns(tai);
		int64_t width_ns = (int64_t)(time_local_ns() - before_ns);

		if (width_ns >= least_ns)
			continue;
		least_ns = width_ns;
		*local_ns = clock_local_at(clock, before_ns + (uint64_t)width_ns / 2);
		*tai_ns = (int64_t)now_ns + offset_ns;
	}
	return least_ns;
}

static void measure(struct clock *clock)
{
	struct clock_anchor *anchor = &clock->anchor;
	int64_t local_ns, tai_ns, fabric_ns, error_ns, bound_ns;
	const char *note = tai_missing(clock, &error_ns);

	if (note && note != anchor->note)
		log_warning("`clock.anchor` is true, but %s", note);
	anchor->note = note;
	if (note) {
		anchor->meter.count = 0;
		return;
	}
	bound_ns = error_ns + read_both(clock, &local_ns, &tai_ns) / 2 + 1;
	fabric_ns = clock_model_read(&clock->host.model, local_ns);
	bound_ns += clock_model_bound(&clock->host.model, local_ns);
	if (bound_ns > BOUND_MAX_NS)
		return;
	if (!anchor->measured.sequence)
		anchor->measured.sequence = (uint32_t)(clock->epoch / SECOND_NS);
	anchor_measure(&anchor->meter, fabric_ns, tai_ns, (uint32_t)bound_ns, own_id(clock),
		       &anchor->measured);
	/* The report is of the fit; its distance from the newest reading is known. */
	anchor->measured.bound_ns +=
		(uint32_t)llabs(ns_sub(ns_sub(tai_ns, fabric_ns), anchor->measured.ahead_ns));
	if (anchor->meter.count >= MEASURE_LEAST)
		anchor->current = anchor->measured;
}

/* --- reports of neighbors --- */

/*
 * Of several anchors all select the one with the lowest id, so that neighbors show one TAI; a
 * silent one is replaced by one that is not.
 */
static uint32_t selected(const struct anchor_report *mine, const struct anchor_report *theirs,
			 int64_t fabric_ns)
{
	bool mine_fresh = report_within(mine, fabric_ns, REPORT_FRESH_NS);
	bool theirs_fresh = report_within(theirs, fabric_ns, REPORT_FRESH_NS);

	if (!mine->sequence)
		return theirs->anchor;
	if (mine_fresh != theirs_fresh)
		return mine_fresh ? mine->anchor : theirs->anchor;
	return mine->anchor < theirs->anchor ? mine->anchor : theirs->anchor;
}

static void take_reports(struct clock *clock, int64_t local_ns, int64_t fabric_ns)
{
	struct anchor_report *mine = &clock->anchor.current;
	const struct clock_edge *edge;

	for_each_edge (clock, edge) {
		const struct anchor_report *theirs = &edge->anchor;
		bool synced = edge->place != CLOCK_PLACE_NONE && edge->view_known &&
			      local_ns - edge->view_fresh_ns <= CLOCK_VIEW_FRESH_NS &&
			      edge->view.state == CLOCK_SYNCED &&
			      clock->host.consensus.peers[edge->place].status == CONSENSUS_USED;

		if (synced && report_within(theirs, fabric_ns, ANCHOR_STALE_NS) &&
		    anchor_is_accepted(clock, theirs->anchor))
			anchor_receive(mine, theirs, selected(mine, theirs, fabric_ns));
	}
}

void clock_anchor_round(struct clock *clock, int64_t local_ns)
{
	struct clock_anchor *anchor = &clock->anchor;
	const struct anchor_report *current = &anchor->current;
	int64_t fabric_ns = clock_model_read(&clock->host.model, local_ns), tai_ns, bound_ns;
	enum clock_state state = clock->host.state;
	bool known = clock->host.model.generation && state != CLOCK_FREE_RUNNING;
	struct clock_edge *edge;

	/* Reports of another fabric time, or of one that is not kept any more, are dropped. */
	if (!known || anchor->moves != clock->host.consensus.moves) {
		anchor->moves = clock->host.consensus.moves;
		anchor->meter.count = 0;
		memset(&anchor->current, 0, sizeof(anchor->current));
		for_each_edge (clock, edge)
			edge->anchor.sequence = 0;
	} else {
		/* A reload may have changed the list. */
		if (current->sequence && !anchor_is_accepted(clock, current->anchor))
			memset(&anchor->current, 0, sizeof(anchor->current));
		if (!clock->core->config->clock.anchor) {
			anchor->note = NULL;
			anchor->meter.count = 0;
		} else if (local_ns >= anchor->due_local_ns &&
			   (state == CLOCK_SYNCED || state == CLOCK_HOLDOVER)) {
			anchor->due_local_ns = local_ns + SECOND_NS;
			measure(clock);
		}
		/* A host that measures needs no report. */
		if (state == CLOCK_SYNCED &&
		    (anchor->meter.count < MEASURE_LEAST || current->anchor != own_id(clock) ||
		     !report_within(current, fabric_ns, REPORT_FRESH_NS)))
			take_reports(clock, local_ns, fabric_ns);
	}
	known = known && anchor_read(current, fabric_ns, 0, &tai_ns, &bound_ns);
	if (!known)
		memset(&anchor->current, 0, sizeof(anchor->current));
	clock_write_anchor(clock, current);
	if (known && (!anchor->reported || anchor->reported_id != current->anchor))
		clock_report(clock, CLOCK_ANCHOR_ACQUIRED, anchor_host(clock, current->anchor),
			     json_pack("{s:i, s:I}", "hops", current->hops, "bound_ns",
				       (json_int_t)current->bound_ns));
	if (!known && anchor->reported)
		clock_report(clock, CLOCK_ANCHOR_LOST, anchor_host(clock, anchor->reported_id),
			     NULL);
	anchor->reported = known;
	anchor->reported_id = current->anchor;
}

void clock_get_tai(const struct clock *clock, struct clock_facts *out)
{
	const struct anchor_report *current = &clock->anchor.current;

	out->tai_anchors = clock->core->config->clock.anchors;
	out->tai_note = clock->anchor.note;
	out->tai_known = anchor_read(current, out->fabric_ns, out->bound_ns, &out->tai_ns,
				     &out->tai_bound_ns);
	out->tai_age_ns = report_age_ns(current, out->fabric_ns);
	out->tai_hops = current->hops;
	out->tai_anchor = anchor_host(clock, current->anchor);
}
