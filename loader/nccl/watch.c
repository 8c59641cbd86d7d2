// SPDX-License-Identifier: BSD-2-Clause
/* Each collective is judged once, when all that is known of it here is read; findings. */
#include <string.h>

#include "base/json.h"
#include "internal.h"

const struct event_kind nccl_events[] = {NCCL_EVENTS(EVENT_KIND){}};

#define IDLE_NS 60000000000ull /* a finding ends after this time without a collective */

/* --- groups --- */

static bool is_of(const struct nccl_group *group, const struct nccl_place *place)
{
	return group->hash == place->rank->is.hash && group->uid == ibverbs_uid_of(place->process);
}

const struct nccl_group *nccl_find_group(const struct nccl *nccl, const struct nccl_place *place)
{
	for (size_t i = 0; i < nccl->group_count; i++)
		if (is_of(&nccl->groups[i], place))
			return &nccl->groups[i];
	return NULL;
}

static void note_group(struct nccl *nccl, const struct nccl_place *place)
{
	struct nccl_group *group = (struct nccl_group *)nccl_find_group(nccl, place);

	if (!group) {
		if (nccl->group_count == GROUPS_MAX)
			return;
		group = &nccl->groups[nccl->group_count++];
		*group = (struct nccl_group){.hash = place->rank->is.hash,
					     .uid = ibverbs_uid_of(place->process)};
		memcpy(group->name, place->rank->is.name, sizeof(group->name));
		memcpy(group->job, ibverbs_job_of(place->process)->name, sizeof(group->job));
	}
	group->seen = true;
	group->lives = group->lives ||
		       (place->rank->is.state == NCCL_LIVE && !ibverbs_has_ended(place->process));
}

static void note_ranks(void *context, const struct process *process, void *own)
{
	struct nccl_process *of = own;
	struct nccl *nccl = context;

	nccl->refused += of->refused;
	for (size_t i = 0; i < NCCL_COMMS; i++) {
		struct nccl_place *place = &nccl->places[nccl->place_count];

		/* Until version 3 it has no name before its first collective. */
		if (!of->ranks[i] || of->ranks[i]->is.rank < 0 || nccl->place_count == RANKS_MAX)
			continue;
		*place = (struct nccl_place){process, of, of->ranks[i]};
		nccl->place_count++;
		note_group(nccl, place);
	}
}

/* --- findings --- */

static bool is_same(const struct nccl_verdict *a, const struct nccl_verdict *b)
{
	return a->cause == b->cause && a->rank == b->rank && a->peer == b->peer;
}

const struct nccl_verdict *nccl_group_verdict(const struct nccl_group *group)
{
	for (size_t i = 0; i < VERDICTS; i++)
		for (size_t k = i + 1; group->verdicts[i].cause != CAUSE_NONE && k < VERDICTS; k++)
			if (is_same(&group->verdicts[i], &group->verdicts[k]))
				return &group->verdicts[i];
	return NULL;
}

/* "00c0ffee00c0ffee 3>4" of a link, "00c0ffee00c0ffee 3" of a rank. */
static void write_subject(const struct nccl_group *group, const struct nccl_verdict *verdict,
			  char out[96])
{
	char peer[16] = "";

	if (verdict->cause == CAUSE_LINK)
		snprintf(peer, sizeof(peer), ">%d", verdict->peer);
	snprintf(out, 96, "%016llx %d%s", (unsigned long long)group->hash, verdict->rank, peer);
}

static const struct nccl_place *place_of(const struct nccl *nccl, const struct nccl_group *group,
					 int32_t rank)
{
	for (size_t i = 0; i < nccl->place_count; i++)
		if (nccl->places[i].rank->is.rank == rank && is_of(group, &nccl->places[i]))
			return &nccl->places[i];
	return NULL;
}

static json_t *seen_json(const struct nccl *nccl, const struct nccl_group *group,
			 const struct nccl_verdict *verdict)
{
	const struct nccl_place *place = place_of(nccl, group, verdict->rank);
	json_t *seen = nccl_verdict_json(verdict);
	char text[24];

	snprintf(text, sizeof(text), "%016llx", (unsigned long long)group->hash);
	json_put_text(seen, "communicator", text);
	json_put_name(seen, "communicator_name", group->name);
	if (place)
		ibverbs_put_process(seen, place->process);
	/* Of the environment; the communicator's is what is named. */
	json_put_integer(seen, "rank", verdict->rank);
	return seen;
}

static void report(const struct nccl *nccl, const struct nccl_group *group,
		   const struct nccl_verdict *verdict, bool begins)
{
	unsigned int kind = verdict->cause == CAUSE_LINK ? NCCL_SLOW_LINK : NCCL_SLOW_RANK;
	char subject[96];

	write_subject(group, verdict, subject);
	events_add(nccl->core ? nccl->core->events : NULL,
		   &(struct event){.kind = &nccl_events[begins ? kind : kind + 1],
				   .subject = subject,
				   .job = group->job,
				   .seen = begins ? seen_json(nccl, group, verdict) : NULL});
}

static void update_finding(const struct nccl *nccl, struct nccl_group *group,
			   const struct nccl_verdict *now)
{
	struct nccl_verdict *known = &group->finding;

	if (known->cause != CAUSE_NONE && (!now || !is_same(known, now))) {
		report(nccl, group, known, false);
		known->cause = CAUSE_NONE;
	}
	if (now && known->cause == CAUSE_NONE) {
		*known = *now;
		report(nccl, group, known, true);
	}
}

/* --- what is judged --- */

/* Nothing was added for a while, or two later ones have ended since: channels overlap by one. */
static bool is_complete(const struct nccl_rank *rank, const struct nccl_part *part,
			uint64_t now_local_ns)
{
	unsigned int later = 0;

	/* All its peers are within its host: there is nothing to wait for. */
	if (!rank->has_proxies)
		return true;
	for (size_t i = 0; i < PARTS; i++)
		later += rank->states[i].updated_ns && rank->parts[i].end_ns &&
			 rank->parts[i].begin_ns > part->begin_ns;
	return part->end_ns && (later >= 2 || now_local_ns - part->end_ns >= SETTLED_NS);
}

/* The oldest one that began after @after_ns and is not judged; NULL: none. */
static const struct nccl_part *next_part(const struct nccl *nccl, const struct nccl_group *group,
					 uint64_t after_ns)
{
	const struct nccl_part *oldest = NULL;

	for (size_t i = 0; i < nccl->place_count; i++) {
		const struct nccl_rank *rank = nccl->places[i].rank;

		if (!is_of(group, &nccl->places[i]))
			continue;
		for (size_t p = 0; p < PARTS; p++) {
			const struct nccl_part *part = &rank->parts[p];

			/* Sends and receives of different ranks are not parts of one thing. */
			if (rank->states[p].updated_ns && !rank->states[p].judged &&
			    part->algo[0] && part->begin_ns > after_ns &&
			    (!oldest || part->begin_ns < oldest->begin_ns))
				oldest = part;
		}
	}
	return oldest;
}

/* Where the rank has its part of a collective; PARTS: it has none. */
static size_t find_part(const struct nccl_rank *rank, const struct nccl_part *of)
{
	size_t p = 0;

	while (p < PARTS &&
	       (!rank->states[p].updated_ns || rank->parts[p].sequence != of->sequence ||
		strcmp(rank->parts[p].func, of->func)))
		p++;
	return p;
}

/* False: a rank has no part of it, one that is judged, or one that is not complete. */
static bool collect(const struct nccl *nccl, const struct nccl_group *group,
		    const struct nccl_part *of, uint64_t now_local_ns,
		    const struct nccl_part *parts[RANKS_MAX], size_t *count)
{
	*count = 0;
	for (size_t i = 0; i < nccl->place_count; i++) {
		const struct nccl_place *place = &nccl->places[i];
		size_t p = find_part(place->rank, of);

		if (!is_of(group, place))
			continue;
		if (p == PARTS) {
			/* What another rank did not record says nothing of this one. */
			if (place->rank->has_proxies && place->rank->is.state == NCCL_LIVE)
				return false;
			continue;
		}
		if (place->rank->states[p].judged ||
		    !is_complete(place->rank, &place->rank->parts[p], now_local_ns))
			return false;
		parts[(*count)++] = &place->rank->parts[p];
	}
	return *count;
}

static void mark_judged(const struct nccl *nccl, const struct nccl_group *group,
			const struct nccl_part *of)
{
	for (size_t i = 0; i < nccl->place_count; i++) {
		size_t p = find_part(nccl->places[i].rank, of);

		if (is_of(group, &nccl->places[i]) && p < PARTS)
			nccl->places[i].rank->states[p].judged = true;
	}
}

static void judge_group(const struct nccl *nccl, struct nccl_group *group, uint64_t now_local_ns)
{
	const struct nccl_part *parts[RANKS_MAX], *part = NULL;
	size_t count;

	while ((part = next_part(nccl, group, part ? part->begin_ns : 0))) {
		if (!collect(nccl, group, part, now_local_ns, parts, &count))
			continue;
		mark_judged(nccl, group, part);
		nccl_judge(parts, count, true, &group->verdicts[group->judged++ % VERDICTS]);
		group->judged_ns = now_local_ns;
		update_finding(nccl, group, nccl_group_verdict(group));
	}
	if (!group->lives || (group->judged_ns && now_local_ns - group->judged_ns > IDLE_NS))
		update_finding(nccl, group, NULL);
}

void nccl_poll(struct nccl *nccl, uint64_t now_local_ns)
{
	size_t kept = 0;

	nccl->place_count = nccl->refused = 0;
	for (size_t i = 0; i < nccl->group_count; i++)
		nccl->groups[i].seen = nccl->groups[i].lives = false;
	ibverbs_each_own(nccl->verbs, note_ranks, nccl);
	for (size_t i = 0; i < nccl->group_count; i++) {
		struct nccl_group *group = &nccl->groups[i];

		if (group->seen)
			judge_group(nccl, group, now_local_ns);
		else
			update_finding(nccl, group, NULL);
		if (group->seen)
			nccl->groups[kept++] = *group;
	}
	nccl->group_count = kept;
}
