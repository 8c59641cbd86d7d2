// SPDX-License-Identifier: BSD-2-Clause
#include "pacing/contend.h"

#include <math.h>
#include <string.h>

#include "pacing/contend_parts.h"
#include "pacing/random.h"

#define RECENT_MOVES_FREE 4  /* two recent moves double the wait */
#define RESIDENT_FACTOR 8    /* of the wait, for a resident */
#define TOGETHER_MOST 16     /* moves from such a path at once */
#define FULL_RATE_FACTOR 60  /* of the wait, for a queue pair with a path's capacity */
#define LAGS 3		     /* minimum mean wait, in feedback delays */
#define HELPED_PART 0.25     /* of the predicted gain: the move helped ... */
#define HELPED_RATE 1.1	     /* ... or the rate rose by this factor */
#define REVERT_LAGS 2	     /* mean wait before a move is reverted, in feedback delays */
#define GROWTH_PART 1	     /* of the excess: growth of the queue until the move takes effect */
#define ALONE_TRIES 3	     /* moves without gain before a queue counts as our own ... */
#define ALONE_LEAST 40	     /* ... for this many times backoff_min */
#define EXPIRE_NS (500 * MS) /* after force_ns: the move was not carried out */
#define STALE_NS SECOND	     /* age of a move whose cause may be gone */
#define EFFECT_MOST_NS 1e9   /* counted of the wait for the end of a message */
#define SILENT_CHANCE 0.7    /* probability that a silent queue pair moves ... */
#define SILENT_FREE 2	     /* ... halved by each of its recent moves from the third on */

void contend_config_default(struct contend_config *config)
{
	*config = (struct contend_config){
		.threshold_ns = 10000,
		.threshold_part = 0.5,
		.gain_part = 0.15,
		.ticks = 2,
		.react_ns = 50 * MS,
		.stale_ns = 200 * MS,
		.evaluate_ns = 50 * MS,
		.backoff_min_ns = 250 * MS,
		.backoff_max_ns = 60 * SECOND,
		.trigger_wait_ns = 20 * MS,
		.idle_Bps = 10e3,
		.packet_bytes = 4200,
		.moves_per_s = 20,
		.moves_burst = 10,
	};
}

void contend_init(struct contend *contend, const struct contend_config *config)
{
	memset(contend, 0, sizeof(*contend));
	contend->config = *config;
}

void contend_reset_paths(struct contend_path *paths, size_t path_count, struct contend_qp *qps,
			 size_t qp_count)
{
	for (size_t p = 0; p < path_count; p++) {
		struct contend_path *path = &paths[p];

		path->contended_ticks = 0;
		path->fresh = false;
		path->mean_excess_ns = path->peak_ns = 0;
		path->busy_until_ns = path->backoff_until_ns = path->backoff_ns = 0;
	}
	for (size_t q = 0; q < qp_count; q++) {
		qps[q].moving = qps[q].resident = false;
		qps[q].last_path = 0;
		qps[q].calm_ns = 0;
		qps[q].queue_before_ns = 0;
	}
}

const char *contend_act_name(enum contend_act_kind kind)
{
	static const char *const names[] = {
#define X(id, name, text) #name,
		CONTEND_ACTS(X)
#undef X
	};

	return (unsigned)kind < sizeof(names) / sizeof(*names) ? names[kind] : "unknown";
}

const char *contend_act_text(enum contend_act_kind kind)
{
	static const char *const texts[] = {
#define X(id, name, text) text,
		CONTEND_ACTS(X)
#undef X
	};

	return (unsigned)kind < sizeof(texts) / sizeof(*texts) ? texts[kind] : "unknown";
}

/* --- gain of a move --- */

/* Whether all traffic of the path is ours, as far as rates show. */
static bool is_ours(const struct contend *contend, int64_t now_ns, const struct contend_path *path)
{
	if (now_ns < contend->alone_until_ns && path->own_Bps >= NEARLY * contend->alone_Bps)
		return true;
	return contend->config.capacity_Bps > 0 &&
	       path->own_Bps >= NEARLY * contend->config.capacity_Bps;
}

/*
 * The queue that @qp takes along from @path: its bytes in the queue (rate times excess, Little's
 * law) over the capacity of a path. If the maximum rate observed is its current one, it may be
 * alone with its own queue or share the path with an equal one: half is assumed, a move decides.
 */
static double share_ns(const struct contend *contend, int64_t now_ns,
		       const struct contend_path *path, const struct contend_qp *qp)
{
	double carried = fmax(carried_Bps(contend), path->own_Bps);

	if (is_ours(contend, now_ns, path))
		carried = path->own_Bps;
	else if (path->own <= 1 && path->own_Bps >= NEARLY * carried)
		carried = 2 * path->own_Bps;
	return carried > 0 ? path->excess_ns * fmin(qp->rate_Bps / carried, 1) : 0;
}

static bool has_room(const struct contend *contend, const struct contend_path *path,
		     const struct contend_qp *qp)
{
	return path->own_Bps + demand_Bps(qp) <= NEARLY * carried_Bps(contend);
}

/* Predicted reduction of the delay on @to; below 0: no capacity there. @unmet: by pacing. */
static double gain_ns(const struct contend *contend, const struct contend_path *from,
		      const struct contend_path *to, const struct contend_qp *qp, double share,
		      double unmet)
{
	double carried = fmax(carried_Bps(contend), from->own_Bps), own = 0;

	/* Own traffic on @to causes a queue together with ours; a slow path's is its own. */
	if (carried > 0 && !(has_lost_capacity(from) && has_room(contend, to, qp)))
		own = from->excess_ns * fmin(to->own_Bps / carried, 1);
	return from->delay_ns - fmax(to->delay_ns, to->floor_ns + own) - share +
	       unmet_of_path_ns(contend, from, unmet, to->mean_excess_ns);
}

static bool is_worth(const struct contend_config *config, const struct contend_path *from,
		     const struct contend_path *to, double gain)
{
	double least = fmax(config->threshold_ns, config->gain_part * from->excess_ns);

	/* The clock's error is common to both paths: only noise counts. */
	return gain > least + NOISES * hypot(from->noise_ns, to->noise_ns);
}

static bool is_target(int64_t now_ns, const struct contend_path *path)
{
	return path->fresh && now_ns >= path->busy_until_ns && now_ns >= path->backoff_until_ns;
}

int contend_best(const struct contend *contend, int64_t now_ns, const struct contend_path *paths,
		 size_t path_count, const struct contend_qp *qp, double *gain)
{
	const struct contend_path *from;
	int best = CONTEND_NOWHERE;
	double share;

	*gain = 0;
	if (qp->path >= path_count)
		return best;
	from = &paths[qp->path];
	if (!is_contended(contend, from))
		return best;
	share = share_ns(contend, now_ns, from, qp);
	for (size_t p = 0; p < path_count; p++) {
		double more = gain_ns(contend, from, &paths[p], qp, share, unmet_ns(contend, qp));

		if (p == qp->path || !is_target(now_ns, &paths[p]) || more <= *gain ||
		    !is_worth(&contend->config, from, &paths[p], more))
			continue;
		*gain = more;
		best = (int)p;
	}
	return best;
}

/* The queue that is common to all paths: that of the host's own link. */
static double common_ns(const struct tick *tick)
{
	double least = INFINITY;

	for (size_t p = 0; p < tick->path_count; p++)
		if (tick->paths[p].fresh)
			least = fmin(least, tick->paths[p].excess_ns);
	return isfinite(least) ? least : 0;
}

/* The path of @qp; for a silent one, with the queue before the silence. */
static struct contend_path path_of(const struct tick *tick, const struct contend_qp *qp)
{
	struct contend_path path = tick->paths[qp->path];

	if (!is_silent(qp) || qp->queue_before_ns <= path.excess_ns)
		return path;
	path.excess_ns = qp->queue_before_ns;
	path.delay_ns = path.floor_ns + path.excess_ns;
	path.noise_ns = 0; /* an observed value, possibly drained since */
	return path;
}

/*
 * The peak of a path when @qp fell silent. What lost its packets may be a queue of all paths (the
 * receiver's port), which drains in a timeout: then another path has had most of it, too.
 */
static double peak_before_ns(const struct contend_path *path, const struct contend_qp *qp)
{
	return path->peak_ns * exp(qp->unacked_ns / PEAK_NS);
}

/*
 * Draws one of the paths with sufficient gain by free capacity: the weight falls with the square
 * of the queue there, as little else distinguishes a used path (a packet now and then) from an
 * unused one.
 */
static int draw_target(struct tick *tick, const struct contend_qp *qp, double *gain)
{
	const struct contend_path was = path_of(tick, qp), *from = &was;
	double share = is_silent(qp) ? 0 : share_ns(tick->contend, tick->now_ns, from, qp);
	double unmet = is_silent(qp) ? 0 : unmet_ns(tick->contend, qp);
	double weights[CONTEND_PATHS_MAX], gains[CONTEND_PATHS_MAX], sum = 0, drawn;
	double common = common_ns(tick);
	int last = CONTEND_NOWHERE;

	for (size_t p = 0; p < tick->path_count; p++) {
		struct contend_path onto = tick->paths[p], *to = &onto;
		double blur = fmax(NOISES * to->noise_ns, 0.001 * from->excess_ns), expected;

		if (is_silent(qp))
			to->delay_ns = fmax(to->delay_ns, to->floor_ns + peak_before_ns(to, qp));
		gains[p] = gain_ns(tick->contend, from, to, qp, share, unmet);
		weights[p] = 0;
		if (p == qp->path || !is_target(tick->now_ns, to) ||
		    !is_worth(&tick->contend->config, from, to, gains[p]) ||
		    (is_silent(qp) && 2 * peak_before_ns(to, qp) >= from->excess_ns))
			continue;
		expected = from->delay_ns - gains[p] - share - to->floor_ns - common;
		weights[p] = 1 / ((expected + blur) * (expected + blur));
		sum += weights[p];
		last = (int)p;
	}
	drawn = sum * pacing_random_unit(tick->random);
	for (size_t p = 0; p < tick->path_count && last >= 0; p++) {
		drawn -= weights[p];
		if (weights[p] > 0 && (drawn < 0 || (int)p == last)) {
			*gain = gains[p];
			return (int)p;
		}
	}
	return CONTEND_NOWHERE;
}

/* --- start of a move --- */

static struct contend_act *act(struct tick *tick, enum contend_act_kind kind, size_t q,
			       uint32_t from, uint32_t to)
{
	const struct contend_qp *qp = &tick->qps[q];
	struct contend_act *a = &tick->acts[tick->act_count++];

	*a = (struct contend_act){
		.kind = kind,
		.qp = (uint32_t)q,
		.from = from,
		.to = to,
		.from_ns = tick->paths[from].delay_ns,
		.to_ns = tick->paths[to].delay_ns,
		.bound_ns = fmax(tick->paths[from].bound_ns, tick->paths[to].bound_ns),
		.rate_Bps = qp->rate_Bps,
		.before_Bps = qp->before_Bps,
		.predicted_ns = qp->predicted_ns,
	};
	return a;
}

static bool has_room_for_act(const struct tick *tick)
{
	return tick->act_count < tick->acts_most;
}

static bool has_budget(struct tick *tick)
{
	struct contend_budget *budget = tick->budget;
	const struct contend_config *config = &tick->contend->config;
	double filled = (double)(tick->now_ns - budget->filled_ns) * 1e-9 * config->moves_per_s;

	if (!budget->filled_ns)
		filled = config->moves_burst;
	if (tick->now_ns > budget->filled_ns) {
		budget->left = fmin(budget->left + filled, config->moves_burst);
		budget->filled_ns = tick->now_ns;
	}
	if (budget->left >= 1)
		return true;
	budget->refused++;
	return false;
}

/* Feedback delay: a tick, the age of the delays, and the path's delay. */
static double lag_ns(const struct tick *tick, const struct contend_path *path)
{
	return tick->since_ns + (double)(tick->now_ns - path->measured_ns) + path->delay_ns;
}

int64_t contend_flowlet_gap_ns(const struct contend_path *from, const struct contend_path *to)
{
	double hold =
		fmax(from->worst_ns, from->delay_ns) + GROWTH_PART * from->excess_ns - to->floor_ns;

	return (int64_t)(fmax(hold, 0) + fmax(from->bound_ns, to->bound_ns));
}

static void start_move(struct tick *tick, enum contend_act_kind kind, size_t q, uint32_t to,
		       double predicted)
{
	const struct contend_config *config = &tick->contend->config;
	struct contend_qp *qp = &tick->qps[q];
	struct contend_path *from = &tick->paths[qp->path], *onto = &tick->paths[to];
	struct contend_act *a;

	qp->predicted_ns = predicted;
	qp->before_ns = path_of(tick, qp).delay_ns + unmet_ns(tick->contend, qp);
	/* A silent one has no rate to compare with. */
	qp->before_Bps = is_silent(qp) ? 0 : qp->rate_Bps;
	qp->hold_ns = (double)contend_flowlet_gap_ns(from, onto);
	a = act(tick, kind, q, qp->path, to);
	a->hold_ns = (int64_t)qp->hold_ns;
	if (is_silent(qp)) {
		a->unacked_ns = qp->unacked_ns;
		a->queue_before_ns = qp->queue_before_ns;
	}
	/* An idle gap costs nothing: wait for one if there were some. */
	a->start_ns = tick->now_ns + (qp->idle_gap_ns >= qp->hold_ns ? config->trigger_wait_ns : 0);
	a->force_ns = a->start_ns + config->trigger_wait_ns;
	if (qp->message_ns > 0)
		a->force_ns += (int64_t)fmin(2 * qp->message_ns, 1e9);
	qp->moving = true;
	qp->from = qp->path;
	qp->to = to;
	qp->move_ns = tick->now_ns;
	qp->expire_ns = a->force_ns + EXPIRE_NS;
	if (is_silent(qp))
		qp->expire_ns = tick->now_ns + SILENT_NS;
	qp->arrived_ns = 0;
	qp->back = kind == CONTEND_BACK;
	qp->moves++;
	qp->recent_moves++;
	/* Until the move is observed. A silent one may be for seconds, and adds to no path
	 * meanwhile. */
	if (!is_silent(qp))
		from->busy_until_ns = onto->busy_until_ns = qp->expire_ns;
	tick->budget->left -= 1;
	tick->contend->moves++;
}

/* --- evaluation of a move --- */

/* Another queue pair is on its way from or to the path. */
static bool is_awaited(const struct tick *tick, uint32_t p, const struct contend_qp *except)
{
	for (size_t q = 0; q < tick->qp_count; q++) {
		const struct contend_qp *qp = &tick->qps[q];

		if (qp != except && qp->moving && !qp->arrived_ns && !is_silent(qp) &&
		    (qp->from == p || qp->to == p))
			return true;
	}
	return false;
}

static void release(struct tick *tick, struct contend_qp *qp, int64_t at_ns)
{
	qp->moving = qp->arrived_ns != 0;
	if (!is_awaited(tick, qp->from, qp))
		tick->paths[qp->from].busy_until_ns = at_ns;
	if (!is_awaited(tick, qp->to, qp))
		tick->paths[qp->to].busy_until_ns = at_ns;
}

/* The queue pair is on its new path: computes when the delays reflect that. */
static void arrive(struct tick *tick, struct contend_qp *qp)
{
	const struct contend_path *from = &tick->paths[qp->from], *to = &tick->paths[qp->to];
	double lag = qp->hold_ns + fmax(lag_ns(tick, from), lag_ns(tick, to)) + tick->since_ns;

	qp->arrived_ns = tick->now_ns;
	release(tick, qp, tick->now_ns + (int64_t)lag);
	qp->evaluate_ns = tick->now_ns + (int64_t)(2 * lag);
	qp->revert_wait_ns = REVERT_LAGS * lag;
	if (qp->evaluate_ns < tick->now_ns + tick->contend->config.evaluate_ns)
		qp->evaluate_ns = tick->now_ns + tick->contend->config.evaluate_ns;
}

static int64_t next_backoff(const struct contend_config *config, int64_t last_ns)
{
	int64_t next_ns = last_ns ? 2 * last_ns : config->backoff_min_ns;

	return next_ns < config->backoff_max_ns ? next_ns : config->backoff_max_ns;
}

static void back_off(struct tick *tick, struct contend_path *path)
{
	/* The last backoff is long ago: start again. */
	if (tick->now_ns - path->backoff_until_ns > tick->contend->config.backoff_max_ns)
		path->backoff_ns = 0;
	path->backoff_ns = next_backoff(&tick->contend->config, path->backoff_ns);
	/* Randomized: hosts that failed together must not retry together. */
	path->backoff_until_ns = tick->now_ns + (int64_t)((0.5 + pacing_random_unit(tick->random)) *
							  (double)path->backoff_ns);
}

/*
 * The queue moved along, and the old path is empty: the queue is our own. Or an equal one is on
 * either path, so that takes several moves and expires. Not used where the capacity is known.
 */
static void learn_alone(struct tick *tick, const struct contend_qp *qp)
{
	struct contend *contend = tick->contend;
	const struct contend_path *from = &tick->paths[qp->from], *to = &tick->paths[qp->to];

	contend->failed_moves++;
	if (!from->fresh || from->contended_ticks || !to->contended_ticks || to->own > 1 ||
	    contend->failed_moves < ALONE_TRIES || contend->config.capacity_Bps > 0)
		return;
	contend->alone_Bps = to->own_Bps;
	if (!contend->alone_ns)
		contend->alone_ns = ALONE_LEAST * contend->config.backoff_min_ns / 2;
	contend->alone_ns = next_backoff(&contend->config, contend->alone_ns);
	contend->alone_until_ns = tick->now_ns + contend->alone_ns;
}

/* Reduction of the delay of its packets, from their handing over on. */
static double measured_ns(const struct tick *tick, const struct contend_qp *qp)
{
	return qp->before_ns - tick->paths[qp->to].delay_ns - unmet_ns(tick->contend, qp);
}

static void finish_move(struct tick *tick, size_t q, enum contend_act_kind kind)
{
	struct contend_qp *qp = &tick->qps[q];
	struct contend_act *a = act(tick, kind, q, qp->from, qp->to);

	if (kind != CONTEND_UNDONE)
		a->measured_ns = measured_ns(tick, qp);
	qp->moving = false;
}

static bool has_helped(const struct tick *tick, const struct contend_qp *qp)
{
	const struct contend_path *to = &tick->paths[qp->to];

	if (!to->contended_ticks || measured_ns(tick, qp) >= HELPED_PART * qp->predicted_ns)
		return true;
	return qp->before_Bps > 0 && qp->rate_Bps >= HELPED_RATE * qp->before_Bps;
}

/* Two that moved to one path observe the same: one that reverts helps the other. */
static void evaluate_useless(struct tick *tick, size_t q)
{
	struct contend_qp *qp = &tick->qps[q];
	const struct contend_path *from = &tick->paths[qp->from], *to = &tick->paths[qp->to];
	bool back = from->usable && from->fresh && from->delay_ns < to->delay_ns &&
		    tick->now_ns >= from->busy_until_ns && tick->now_ns >= to->busy_until_ns;

	if (back && pacing_random_unit(tick->random) >= tick->since_ns / qp->revert_wait_ns)
		return;
	learn_alone(tick, qp);
	back_off(tick, &tick->paths[qp->to]);
	finish_move(tick, q, CONTEND_USELESS);
	tick->contend->useless++;
	if (!back || !has_budget(tick))
		return;
	start_move(tick, CONTEND_BACK, q, qp->from, to->delay_ns - from->delay_ns);
	qp->reverted++;
	tick->contend->reverted++;
}

static void evaluate_move(struct tick *tick, size_t q)
{
	struct contend_qp *qp = &tick->qps[q];
	struct contend_path *to = &tick->paths[qp->to];

	if (tick->now_ns < qp->evaluate_ns)
		return;
	if (!to->fresh || to->measured_ns <= qp->arrived_ns || is_idle(tick->contend, qp)) {
		/* Without data the move is not evaluated. */
		if (tick->now_ns > qp->evaluate_ns + EXPIRE_NS)
			qp->moving = false;
		return;
	}
	if (qp->back) {
		qp->moving = false;
		return;
	}
	if (!has_helped(tick, qp)) {
		evaluate_useless(tick, q);
		return;
	}
	to->backoff_ns = 0;
	tick->contend->failed_moves = 0;
	tick->contend->alone_ns = tick->contend->alone_until_ns = 0;
	tick->contend->helped++;
	finish_move(tick, q, CONTEND_HELPED);
}

/*
 * The other queue pair left, or is silent, before this one moved; if this one moved as well, at
 * the end of its message, they would share the new path. Not at the start of a wait: it is alone
 * also between two losses.
 */
static bool is_left_alone(const struct tick *tick, const struct contend_qp *qp)
{
	const struct contend_path *path = &tick->paths[qp->path];

	return tick->now_ns - qp->move_ns > STALE_NS && path->own == 1 &&
	       !is_idle(tick->contend, qp) && is_ours(tick->contend, tick->now_ns, path);
}

/* Tracks a started move. */
static void track_move(struct tick *tick, size_t q)
{
	struct contend_qp *qp = &tick->qps[q];

	if (!qp->moving)
		return;
	if (qp->from >= tick->path_count || qp->to >= tick->path_count) {
		qp->moving = false;
	} else if (qp->arrived_ns && qp->path == qp->to) {
		evaluate_move(tick, q);
	} else if (qp->path == qp->to) {
		arrive(tick, qp);
	} else if (qp->path != qp->from || qp->arrived_ns) {
		/* A failover or an operator's rule moved it elsewhere. */
		release(tick, qp, tick->now_ns);
		qp->moving = false;
	} else if (!is_silent(qp) && (tick->now_ns > qp->expire_ns || is_left_alone(tick, qp))) {
		release(tick, qp, tick->now_ns + tick->contend->config.backoff_min_ns);
		finish_move(tick, q, CONTEND_UNDONE);
	}
}

/* --- choice of a queue pair --- */

/* The largest queue pair that would gain, most on path *@onto; *@willing: number that would. */
static int choose_qp(const struct tick *tick, size_t p, unsigned *willing, int *onto)
{
	int chosen = CONTEND_NOWHERE, best;

	*willing = 0;
	for (size_t q = 0; q < tick->qp_count; q++) {
		const struct contend_qp *qp = &tick->qps[q];
		double gain;

		if (qp->path != p || qp->pinned || qp->moving || is_idle(tick->contend, qp))
			continue;
		best = contend_best(tick->contend, tick->now_ns, tick->paths, tick->path_count, qp,
				    &gain);
		if (best < 0)
			continue;
		++*willing;
		if (chosen >= 0 && qp->rate_Bps <= tick->qps[chosen].rate_Bps)
			continue;
		chosen = (int)q;
		*onto = best;
	}
	return chosen;
}

/* Part of a path's traffic that has to move for all paths to be equal. */
static double surplus(const struct tick *tick, const struct contend_path *path)
{
	double sum = 0, n = 0;

	for (size_t p = 0; p < tick->path_count; p++) {
		if (!tick->paths[p].fresh)
			continue;
		sum += tick->paths[p].excess_ns;
		n++;
	}
	return n > 0 && path->excess_ns > 0 ? fmax(1 - sum / n / path->excess_ns, 0) : 0;
}

/*
 * It has the maximum rate observed on a path, well above an earlier one: most likely the queue is
 * its own. Not used where the capacity is known.
 */
static bool has_all_capacity(const struct contend *contend, const struct contend_path *path)
{
	return contend->config.capacity_Bps <= 0 && contend->min_alone_Bps > 0 &&
	       contend->max_Bps >= GROWN * contend->min_alone_Bps &&
	       path->own_Bps >= NEARLY * contend->max_Bps;
}

/*
 * Until a move takes effect: a paced sender hands its packets over early and waits for them, so
 * gaps are rare and most moves wait for the end of a message. Meanwhile others see no change.
 */
static double effect_ns(const struct contend_path *path, const struct contend_qp *qp)
{
	if (qp->held_Bps <= 0 || qp->idle_gap_ns >= path->excess_ns)
		return 0;
	return fmin(qp->message_ns, EFFECT_MOST_NS);
}

/*
 * Random time of the move, as if each of the @willing had an exponential wait of its own. That the
 * path has less capacity is seen at once; how @onto fills is what others have to see first.
 */
static bool is_due(struct tick *tick, const struct contend_path *path,
		   const struct contend_path *onto, const struct contend_qp *qp, unsigned willing)
{
	bool lost = has_lost_capacity(path);
	double lag = lag_ns(tick, lost ? onto : path) + effect_ns(path, qp);
	double wait = fmax((double)tick->contend->config.react_ns, LAGS * lag);

	/* All traffic here is ours: no other host moves at the same time. */
	if (path->own > 1 && is_ours(tick->contend, tick->now_ns, path))
		return true;
	wait *= 1 + qp->recent_moves * qp->recent_moves / RECENT_MOVES_FREE;
	if (qp->resident && !lost)
		wait *= RESIDENT_FACTOR;
	if (has_all_capacity(tick->contend, path))
		wait *= FULL_RATE_FACTOR;
	return pacing_random_unit(tick->random) <
	       1 - exp(-(double)willing * surplus(tick, path) * tick->since_ns / wait);
}

struct move {
	uint32_t q, to;
	double gain_ns;
};

/* As if the move were made and observed. */
static void assume_moved(struct tick *tick, const struct move *move)
{
	struct contend_qp *qp = &tick->qps[move->q];
	struct contend_path *from = &tick->paths[qp->path], *to = &tick->paths[move->to];
	double share = share_ns(tick->contend, tick->now_ns, from, qp);

	from->excess_ns -= share;
	from->delay_ns -= share;
	from->own_Bps -= qp->rate_Bps;
	from->own--;
	to->own_Bps += demand_Bps(qp);
	to->own++;
	qp->path = move->to;
}

/* Whether @left_Bps are enough for the rates of before of those that are on the path. */
static bool is_enough(const struct tick *tick, size_t p, double left_Bps)
{
	double wanted = 0;

	for (const struct contend_qp *qp = tick->qps; qp < tick->qps + tick->qp_count; qp++)
		wanted += qp->path == p && !is_idle(tick->contend, qp) ? demand_Bps(qp) : 0;
	return wanted * NEARLY <= left_Bps;
}

/*
 * From a path that lost capacity the others go with the first, until it is enough for the rest, as
 * far as others have room for their rates of before: one after the other, each would wait for its
 * delays. Returns the number of @moves, of which the first is given.
 */
static size_t plan_together(struct tick *tick, size_t p, struct move moves[TOGETHER_MOST])
{
	struct contend_path before[CONTEND_PATHS_MAX];
	size_t count = 1, room = tick->acts_most - tick->act_count;
	double gain = 0, left_Bps = tick->paths[p].own_Bps;
	unsigned willing;
	int q, to;

	if (room > TOGETHER_MOST)
		room = TOGETHER_MOST;
	memcpy(before, tick->paths, tick->path_count * sizeof(before[0]));
	while (count < room && tick->budget->left >= (double)count + 1) {
		assume_moved(tick, &moves[count - 1]);
		if (is_enough(tick, p, left_Bps))
			break;
		q = choose_qp(tick, p, &willing, &to);
		if (q < 0)
			break;
		to = draw_target(tick, &tick->qps[q], &gain);
		if (to < 0 || !has_room(tick->contend, &tick->paths[to], &tick->qps[q]))
			break;
		moves[count++] = (struct move){(uint32_t)q, (uint32_t)to, gain};
	}
	memcpy(tick->paths, before, tick->path_count * sizeof(before[0]));
	for (size_t i = 0; i < count; i++)
		tick->qps[moves[i].q].path = (uint32_t)p;
	return count;
}

static void evaluate_path(struct tick *tick, size_t p)
{
	const struct contend_path *path = &tick->paths[p];
	struct move moves[TOGETHER_MOST];
	size_t count = 1;
	unsigned willing;
	double gain = 0;
	int q, to;

	if (!path->own || !is_contended(tick->contend, path) ||
	    tick->now_ns < path->busy_until_ns || !has_room_for_act(tick))
		return;
	q = choose_qp(tick, p, &willing, &to);
	if (q < 0 || !is_due(tick, path, &tick->paths[to], &tick->qps[q], willing) ||
	    !has_budget(tick))
		return;
	to = draw_target(tick, &tick->qps[q], &gain);
	if (to < 0)
		return;
	moves[0] = (struct move){(uint32_t)q, (uint32_t)to, gain};
	if (has_lost_capacity(path))
		count = plan_together(tick, p, moves);
	for (size_t i = 0; i < count; i++)
		start_move(tick, CONTEND_MOVE, moves[i].q, moves[i].to, moves[i].gain_ns);
}

/*
 * The other may be silent too, and both should not move; and moves that do not end the losses
 * must become rare.
 */
static double move_chance(const struct contend_qp *qp)
{
	return SILENT_CHANCE * exp2(fmin(SILENT_FREE - qp->silent_moves, 0));
}

/*
 * It waits for the timeout of a lost packet. The others have all of the path meanwhile, so their
 * rates and the queue show nothing; but the path was overloaded, and a move now neither reorders
 * nor delays packets. Decided once in each silence.
 */
static void evaluate_silent(struct tick *tick, size_t q)
{
	struct contend_qp *qp = &tick->qps[q];
	const struct contend_path *path;
	double gain;
	int to;

	if (qp->path >= tick->path_count || qp->pinned || qp->moving || qp->silence_evaluated ||
	    !is_silent(qp) || !has_room_for_act(tick))
		return;
	path = &tick->paths[qp->path];
	/*
	 * A probe sent after its last packet was reported, an acknowledgement of that packet was
	 * not.
	 */
	if (!path->fresh || (double)(tick->now_ns - path->measured_ns) > qp->unacked_ns ||
	    qp->unacked_ns < 2 * fmax(path->worst_ns, path->floor_ns + qp->queue_before_ns) +
				     SILENT_LEAST_NS ||
	    tick->now_ns < path->busy_until_ns || tick->now_ns < tick->contend->alone_until_ns)
		return;
	qp->silence_evaluated = true;
	if (pacing_random_unit(tick->random) >= move_chance(qp))
		return;
	to = draw_target(tick, qp, &gain);
	if (to < 0 || !has_budget(tick))
		return;
	qp->silent_moves++;
	start_move(tick, CONTEND_MOVE, q, (uint32_t)to, gain);
}

size_t contend_tick(struct contend *contend, struct contend_budget *budget, int64_t now_ns,
		    uint64_t *random, struct contend_path *paths, size_t path_count,
		    struct contend_qp *qps, size_t qp_count, struct contend_act *acts,
		    size_t acts_most)
{
	struct tick tick = {
		.contend = contend,
		.budget = budget,
		.now_ns = now_ns,
		.random = random,
		.paths = paths,
		.path_count = path_count < CONTEND_PATHS_MAX ? path_count : CONTEND_PATHS_MAX,
		.qps = qps,
		.qp_count = qp_count,
		.acts = acts,
		.acts_most = acts_most,
	};

	/* After a pause of the daemon the wait does not count in full. */
	if (contend->last_tick_ns && now_ns > contend->last_tick_ns)
		tick.since_ns = fmin((double)(now_ns - contend->last_tick_ns),
				     (double)contend->config.stale_ns);
	contend->last_tick_ns = now_ns;
	contend_observe(&tick);
	/* An evaluation may write two acts. */
	for (size_t q = 0; q < qp_count && tick.act_count + 2 <= acts_most; q++)
		track_move(&tick, q);
	for (size_t i = 0, first = tick.path_count ? now_ns / MS % tick.path_count : 0;
	     i < tick.path_count; i++)
		evaluate_path(&tick, (first + i) % tick.path_count);
	for (size_t q = 0; q < qp_count; q++)
		evaluate_silent(&tick, q);
	return tick.act_count;
}
