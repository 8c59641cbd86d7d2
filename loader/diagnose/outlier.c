// SPDX-License-Identifier: BSD-2-Clause
/*
 * Outliers: queue pairs whose delay stands out from their siblings' and from their own floor.
 * Siblings share source and destination, else the job, else the port. With one destination delays
 * are compared as they are; with several, what they are above their own floors, since paths differ
 * in length.
 *
 * A wrong name costs more than none: only a minority may be named (of fewer than eight one), and
 * between the named and the rest there has to be a gap. All slow alike is for cause.c.
 */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

/* Measured queue pairs that are compared with each other, the slowest first. */
struct siblings {
	const struct scene *scene;
	size_t *members; /* indices into input->qps */
	size_t count;
	bool above_floor; /* compared by what is above their floors */
	const char *of;	  /* what they share */
};

/* What queue pair @i is compared by. */
static int64_t value_at(const struct siblings *s, size_t i)
{
	return s->above_floor ? s->scene->tracks[i].excess_ns
			      : s->scene->input->qps[i].delay.p50_ns;
}

static int64_t value_of(const struct siblings *s, size_t rank)
{
	return value_at(s, s->members[rank]);
}

static int compare_members(const void *a, const void *b, void *siblings)
{
	size_t i = *(const size_t *)a, j = *(const size_t *)b;
	int64_t one = value_at(siblings, i), two = value_at(siblings, j);

	if (one != two)
		return one > two ? -1 : 1;
	return i < j ? -1 : 1;
}

/* What the siblings from @rank on are like. */
struct middle {
	int64_t median_ns, mad_ns, worst_ns, bound_ns;
	int64_t spread_ns; /* from the median to the one furthest from it */
};

static struct middle middle_of(const struct siblings *s, size_t rank)
{
	int64_t *values = s->scene->scratch;
	struct middle out = {.worst_ns = value_of(s, rank)};
	size_t count = s->count - rank;

	for (size_t i = 0; i < count; i++) {
		int64_t bound_ns = s->scene->input->qps[s->members[rank + i]].delay.bound_ns;

		values[i] = value_of(s, rank + i);
		if (bound_ns > out.bound_ns)
			out.bound_ns = bound_ns;
	}
	out.median_ns = diag_median(values, count);
	for (size_t i = 0; i < count; i++)
		values[i] = llabs(values[i] - out.median_ns);
	out.mad_ns = diag_median(values, count);
	out.spread_ns = values[count - 1]; /* they are sorted now */
	return out;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* From where on a delay stands out from @middle. */
static int64_t limit_ns(const struct siblings *s, const struct middle *middle, size_t rest,
			const struct diag_qp *qp, const struct track *track)
{
	double factor = rest > LAW_OUTLIER_FEW ? LAW_OUTLIER_FACTOR : LAW_OUTLIER_FEW_FACTOR;
	/* What its median would be, were it like the others. */
	int64_t like_them_ns = most(middle->median_ns, 0), margin;

	if (s->above_floor) {
		factor = LAW_OUTLIER_LONER_FACTOR;
		like_them_ns += most(track->floor_ns, 0);
	}
	margin = (factor - 1) * like_them_ns;
	margin = most(margin, LAW_OUTLIER_MARGIN_NS);
	/* 1.4826 MADs are one standard deviation of normal noise. */
	margin = most(margin, LAW_OUTLIER_MADS * middle->mad_ns * 3 / 2);
	/* The middle one of few deviations says little: the largest does. */
	margin = most(margin, LAW_OUTLIER_SPREADS * middle->spread_ns);
	return middle->median_ns + margin + middle->bound_ns + qp->delay.bound_ns;
}

/*
 * Slower than itself as well, since a long path is no trouble: than its own best median, or,
 * when it was never seen well, than its floor, which a queue lets through now and then.
 */
static bool is_slower_than_itself(const struct diag_qp *qp, const struct track *track)
{
	int64_t floor_ns = most(track->floor_ns, 0), usual_ns = most(track->usual_ns, 0);

	if (track->excess_ns <= LAW_OUTLIER_MARGIN_NS + 2 * qp->delay.bound_ns)
		return false;
	return qp->delay.p50_ns > LAW_OUTLIER_USUAL * usual_ns + 2 * qp->delay.bound_ns ||
	       track->excess_ns > LAW_OUTLIER_FLOOR * floor_ns;
}

/* How many of the slowest stand out, all with one gap to the rest; 0: none. */
static size_t siblings_judge(const struct siblings *s, struct middle *middle)
{
	size_t may = s->count / LAW_OUTLIER_MINORITY > 1 ? s->count / LAW_OUTLIER_MINORITY : 1;

	for (size_t named = 1; named <= may && named < s->count; named++) {
		size_t last = s->members[named - 1];
		const struct diag_qp *qp = &s->scene->input->qps[last];
		const struct track *track = &s->scene->tracks[last];
		int64_t value_ns = value_of(s, named - 1);

		*middle = middle_of(s, named);
		if (value_ns > limit_ns(s, middle, s->count - named, qp, track) &&
		    is_slower_than_itself(qp, track) &&
		    value_ns > LAW_OUTLIER_GAP * most(middle->worst_ns, 0) &&
		    2 * (value_ns - middle->worst_ns) > value_ns - middle->median_ns)
			return named;
	}
	return 0;
}

/* The likely reason, as far as one queue pair shows it. */
static const char *cause_of(const struct diag_qp *qp, const struct track *track)
{
	if (qp->queue_known && qp->queue_max_ns > LAW_QUEUE_SHARE * track->excess_ns)
		return "queue of this host";
	if (qp->delay.ce >= LAW_CE_RATIO * qp->delay.samples)
		return "congestion on its path";
	return "its path, or the load on it";
}

/* Far off is soon sure, and so is what the siblings are much closer together than to it. */
static enum book_weight weight_of(int64_t value_ns, const struct middle *middle, int64_t limit,
				  const struct diag_qp *qp, const struct track *track)
{
	bool far = value_ns - middle->median_ns > 2 * (limit - middle->median_ns);
	bool clean = value_ns - middle->worst_ns > LAW_OUTLIER_CLEAN * middle->spread_ns;
	bool stands = qp->delay.min_ns - track->floor_ns > LAW_OUTLIER_SURE_NS;

	if (value_ns - middle->median_ns < LAW_OUTLIER_SURE_NS)
		return BOOK_IN_SIX;
	/* A queue that stands lets nothing through at once; a host that stops briefly does. */
	if (far && stands)
		return BOOK_IN_TWO;
	return far || clean ? BOOK_IN_THREE : BOOK_IN_SIX;
}

static void name_one(const struct siblings *s, size_t rank, size_t named,
		     const struct middle *middle, int64_t rate)
{
	size_t i = s->members[rank];
	const struct diag_qp *qp = &s->scene->input->qps[i];
	const struct track *track = &s->scene->tracks[i];
	int64_t limit = limit_ns(s, middle, s->count - named, qp, track);
	struct diag_evidence evidence = {
		.lead = qp->delay.p50_ns, .note = s->of, .cause = cause_of(qp, track)};
	bool above = s->above_floor;

	see_delay(&evidence, s->scene, i);
	diag_see(&evidence, "bytes_per_second", track->bytes_per_second);
	diag_see(&evidence, "ce_ratio", (double)qp->delay.ce / qp->delay.samples);
	diag_see(&evidence, "outliers", named);
	diag_see(&evidence, "siblings", s->count - named);
	diag_see(&evidence, above ? "siblings_above_floor_ns" : "siblings_p50_ns",
		 middle->median_ns);
	diag_see(&evidence, above ? "siblings_above_floor_max_ns" : "siblings_p50_max_ns",
		 middle->worst_ns);
	diag_see(&evidence, "siblings_mad_ns", middle->mad_ns);
	diag_see(&evidence, "siblings_bound_ns", middle->bound_ns);
	diag_see(&evidence, "siblings_bytes_per_second", rate);
	diag_expect(&evidence, above ? "above_floor_max_ns" : "p50_max_ns", limit);
	book_find(s->scene->book, DIAG_OUTLIER, &(struct diag_subject){DIAG_ABOUT_QP, qp->key},
		  weight_of(value_of(s, rank), middle, limit, qp, track), &evidence);
}

/* Names the outliers of @s, whose members are in any order. */
static void judge(struct siblings *s)
{
	struct middle middle;
	size_t named;
	int64_t rate;

	qsort_r(s->members, s->count, sizeof(*s->members), compare_members, s);
	named = siblings_judge(s, &middle);
	if (!named)
		return;
	for (size_t i = named; i < s->count; i++)
		s->scene->scratch[i - named] =
			(int64_t)s->scene->tracks[s->members[i]].bytes_per_second;
	rate = diag_median(s->scene->scratch, s->count - named);
	for (size_t rank = 0; rank < named; rank++)
		name_one(s, rank, named, &middle, rate);
}

void find_outliers(struct scene *scene, const struct pair *pair)
{
	struct siblings s = {.scene = scene,
			     .members = scene->chosen,
			     .of = "siblings: the same source and destination"};

	for (size_t i = pair->first; i < pair->end; i++)
		if (scene->tracks[i].measured)
			s.members[s.count++] = i;
	if (s.count == 1)
		scene->loners[scene->loner_count++] = s.members[0];
	else
		judge(&s);
}

/* --- those that are alone on their pair --- */

static int compare_loners(const void *a, const void *b, void *context)
{
	const struct diag_qp *qps = context;
	const struct diag_qp *one = &qps[*(const size_t *)a], *two = &qps[*(const size_t *)b];

	if (one->key.port != two->key.port)
		return one->key.port < two->key.port ? -1 : 1;
	if (one->job != two->job)
		return one->job < two->job ? -1 : 1;
	return one < two ? -1 : one > two;
}

/* By port and job. Two paths of different length are no measure of each other. */
void find_loners(const struct scene *scene)
{
	const struct diag_qp *qps = scene->input->qps;
	size_t *loners = scene->loners, count = scene->loner_count, end;

	qsort_r(loners, count, sizeof(*loners), compare_loners, (void *)qps);
	for (size_t at = 0; at < count; at = end) {
		const struct diag_qp *qp = &qps[loners[at]];
		struct siblings s = {.scene = scene, .members = loners + at, .above_floor = true};

		for (end = at + 1; end < count && qps[loners[end]].job == qp->job &&
				   qps[loners[end]].key.port == qp->key.port;
		     end++)
			;
		s.count = end - at;
		s.of = qp->job ? "siblings: the same job, other destinations"
			       : "siblings: the same interface, other destinations";
		if (s.count > LAW_OUTLIER_LONERS)
			judge(&s);
	}
}
