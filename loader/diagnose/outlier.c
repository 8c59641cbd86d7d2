// SPDX-License-Identifier: BSD-2-Clause
/*
 * Outliers: queue pairs with a delay far above their siblings' and their own floor. Siblings share
 * source and destination, else the job, else the port. With one destination delays are compared as
 * they are; with several, above their own floors, since paths differ in length.
 *
 * A wrong name costs more than none: only a minority may be named (of fewer than eight one), with a
 * gap to the rest. All slow alike is for find.c.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Measured queue pairs that are compared with each other, the slowest first. */
struct siblings {
	struct diagnoses *diag;
	size_t *members; /* indices into input->qps */
	size_t count;
	bool above_floor; /* compared by what is above their floors */
	const char *of;	  /* what they share */
};

/* What queue pair @i is compared by. */
static int64_t value_at(const struct siblings *s, size_t i)
{
	return s->above_floor ? s->diag->tracks[i].excess_ns : s->diag->input->qps[i].delay.p50_ns;
}

static int compare_members(const void *a, const void *b, void *siblings)
{
	size_t i = *(const size_t *)a, j = *(const size_t *)b;
	int64_t one = value_at(siblings, i), two = value_at(siblings, j);

	if (one != two)
		return one > two ? -1 : 1;
	return i < j ? -1 : 1;
}

/* Statistics of the siblings from @rank on. */
struct middle {
	int64_t median_ns, mad_ns, worst_ns, bound_ns;
	int64_t spread_ns; /* from the median to the one furthest from it */
};

static struct middle middle_of(const struct siblings *s, size_t rank)
{
	int64_t *values = s->diag->scratch;
	struct middle out = {.worst_ns = value_at(s, s->members[rank])};
	size_t count = s->count - rank;

	for (size_t i = 0; i < count; i++) {
		int64_t bound_ns = s->diag->input->qps[s->members[rank + i]].delay.bound_ns;

		values[i] = value_at(s, s->members[rank + i]);
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

/* A longer delay is an outlier against @middle. */
static int64_t limit_ns(const struct siblings *s, const struct middle *middle, size_t rest,
			const struct diag_qp *qp, const struct track *track)
{
	double factor = rest > LAW_OUTLIER_FEW ? LAW_OUTLIER_FACTOR : LAW_OUTLIER_FEW_FACTOR;
	/* Its median, were it equal to the others. */
	int64_t like_them_ns = most(middle->median_ns, 0), margin;

	if (s->above_floor) {
		factor = LAW_OUTLIER_SINGLE_FACTOR;
		like_them_ns += most(track->floor_ns, 0);
	}
	margin = (factor - 1) * like_them_ns;
	margin = most(margin, LAW_OUTLIER_MARGIN_NS);
	/* 1.4826 MADs are one standard deviation of normal noise. */
	margin = most(margin, LAW_OUTLIER_MADS * middle->mad_ns * 3 / 2);
	/* Of few deviations the median means little: the largest counts. */
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

static void name_one(const struct siblings *s, size_t rank, size_t named,
		     const struct middle *middle, int64_t rate)
{
	size_t i = s->members[rank];
	const struct diag_qp *qp = &s->diag->input->qps[i];
	const struct track *track = &s->diag->tracks[i];
	int64_t limit = limit_ns(s, middle, s->count - named, qp, track), value_ns = value_at(s, i);
	struct diag_evidence evidence = {.lead = qp->delay.p50_ns, .note = s->of};
	/* Far off is soon certain, and so is one that the siblings are much closer to each other.
	 */
	bool far = value_ns - middle->median_ns > 2 * (limit - middle->median_ns);
	bool clean = value_ns - middle->worst_ns > LAW_OUTLIER_CLEAN * middle->spread_ns;
	bool stands = qp->delay.min_ns - track->floor_ns > LAW_OUTLIER_SURE_NS;
	bool above = s->above_floor;
	enum book_weight weight = BOOK_IN_SIX;

	/* A standing queue lets nothing through at once; a host that stops briefly does. */
	if (value_ns - middle->median_ns >= LAW_OUTLIER_SURE_NS)
		weight = far && stands ? BOOK_IN_TWO : far || clean ? BOOK_IN_THREE : BOOK_IN_SIX;
	if (qp->queue_known && qp->queue_max_ns > LAW_QUEUE_SHARE * track->excess_ns)
		evidence.cause = "queue of this host";
	else if (qp->delay.ce >= LAW_CE_RATIO * qp->delay.samples)
		evidence.cause = "congestion on its path";
	else
		evidence.cause = "its path, or the load on it";

	see_delay(&evidence, s->diag, i);
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
	book_find(&s->diag->book, DIAG_OUTLIER, &(struct diag_subject){DIAG_ABOUT_QP, qp->key},
		  weight, &evidence);
}

/* Finds the outliers of @s, with members in any order: some of the slowest, with a gap to the rest.
 */
static void siblings_evaluate(struct siblings *s)
{
	size_t most_named = most(s->count / LAW_OUTLIER_MINORITY, 1), named;
	struct middle middle;
	int64_t rate;

	qsort_r(s->members, s->count, sizeof(*s->members), compare_members, s);
	for (named = 1; named <= most_named && named < s->count; named++) {
		size_t last = s->members[named - 1];
		const struct diag_qp *qp = &s->diag->input->qps[last];
		const struct track *track = &s->diag->tracks[last];
		int64_t value_ns = value_at(s, last);

		middle = middle_of(s, named);
		if (value_ns > limit_ns(s, &middle, s->count - named, qp, track) &&
		    is_slower_than_itself(qp, track) &&
		    value_ns > LAW_OUTLIER_GAP * most(middle.worst_ns, 0) &&
		    2 * (value_ns - middle.worst_ns) > value_ns - middle.median_ns)
			break;
	}
	if (named > most_named || named >= s->count)
		return;
	for (size_t i = named; i < s->count; i++)
		s->diag->scratch[i - named] =
			(int64_t)s->diag->tracks[s->members[i]].bytes_per_second;
	rate = diag_median(s->diag->scratch, s->count - named);
	for (size_t rank = 0; rank < named; rank++)
		name_one(s, rank, named, &middle, rate);
}

void find_outliers(struct diagnoses *diag, const struct pair *pair)
{
	struct siblings s = {.diag = diag,
			     .members = diag->chosen,
			     .of = "siblings: the same source and destination"};

	for (size_t i = pair->first; i < pair->end; i++)
		if (diag->tracks[i].measured)
			s.members[s.count++] = i;
	if (s.count == 1)
		diag->singles[diag->single_count++] = s.members[0];
	else
		siblings_evaluate(&s);
}

/* --- those that are alone on their pair --- */

static int compare_singles(const void *a, const void *b, void *context)
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
void find_singles(struct diagnoses *diag)
{
	const struct diag_qp *qps = diag->input->qps;
	size_t *singles = diag->singles, count = diag->single_count, end;

	qsort_r(singles, count, sizeof(*singles), compare_singles, (void *)qps);
	for (size_t at = 0; at < count; at = end) {
		const struct diag_qp *qp = &qps[singles[at]];
		struct siblings s = {.diag = diag, .members = singles + at, .above_floor = true};

		for (end = at + 1; end < count && qps[singles[end]].job == qp->job &&
				   qps[singles[end]].key.port == qp->key.port;
		     end++)
			;
		s.count = end - at;
		s.of = qp->job ? "siblings: the same job, other destinations"
			       : "siblings: the same interface, other destinations";
		if (s.count > LAW_OUTLIER_SINGLES)
			siblings_evaluate(&s);
	}
}
