// SPDX-License-Identifier: BSD-2-Clause
#include "pacing/contend.h"

#include <math.h>
#include <string.h>

#include "pacing/contend_parts.h"
#include "pacing/random.h"

#define NEARLY 0.9	      /* of a rate: the same, as rates go */
#define RESTLESS_FREE 4	      /* two moves of late double its wait */
#define HOME_PATIENCE 8	      /* who is at home waits so much longer */
#define CONTENT_PATIENCE 60   /* and who seems to have all there is */
#define LAGS 3		      /* a mean wait is at least so many times what feedback takes */
#define HELPED_PART 0.25      /* of the predicted gain; less is no help ... */
#define HELPED_RATE 1.1	      /* ... unless the rate rose by so much */
#define DOUBT_LAGS 2	      /* mean wait, in lags, before a useless move is taken back */
#define HOLD_PART 1	      /* of the excess: what a queue may grow until the order is obeyed */
#define ALONE_TRIES 3	      /* in vain, before a queue is known to be our own ... */
#define ALONE_LEAST 40	      /* ... for so many times retry_least */
#define GIVE_UP_NS (500 * MS) /* after force_ns: nobody carried it out */
#define STALE_NS SECOND	      /* an order that nobody could carry out */
#define GOES_PART 0.7	      /* chance that a silent one goes ... */
#define GOES_FREE 2	      /* ... halved by each of its moves of late from the third on */

void contend_config_default(struct contend_config *config)
{
	*config = (struct contend_config){
		.threshold_ns = 10000,
		.threshold_part = 0.5,
		.gain_part = 0.15,
		.ticks = 2,
		.react_ns = 50 * MS,
		.stale_ns = 200 * MS,
		.judge_ns = 50 * MS,
		.retry_least_ns = 250 * MS,
		.retry_most_ns = 60 * SECOND,
		.patience_ns = 20 * MS,
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

void contend_forget(struct contend_path *paths, size_t path_count, struct contend_qp *qps,
		    size_t qp_count)
{
	for (size_t p = 0; p < path_count; p++) {
		struct contend_path *path = &paths[p];

		path->stands_out = 0;
		path->fresh = false;
		path->lately_ns = 0;
		path->busy_until_ns = path->shut_until_ns = path->shut_ns = 0;
	}
	for (size_t q = 0; q < qp_count; q++) {
		qps[q].moving = qps[q].at_home = false;
		qps[q].seen_on = 0;
		qps[q].calm_ns = 0;
		qps[q].met_ns = 0;
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

/* --- where a queue pair would be better off --- */

/* Nobody but us is on this path, as far as rates show it. */
static bool is_ours(const struct contend *contend, int64_t now_ns, const struct contend_path *path)
{
	if (now_ns < contend->alone_until_ns && path->own_Bps >= NEARLY * contend->alone_Bps)
		return true;
	return contend->config.capacity_Bps > 0 &&
	       path->own_Bps >= NEARLY * contend->config.capacity_Bps;
}

/*
 * The queue that @qp takes along from @path: its bytes in the queue (rate times
 * excess, Little's law) over what a path carries. One that never saw more than it has now may be
 * alone with its own queue or share the path with one like it: half is hoped for,
 * and a try will tell.
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

/* How much less delay on @to; below 0 where there is no room. */
static double gain_ns(const struct contend *contend, const struct contend_path *from,
		      const struct contend_path *to, double share)
{
	double carried = fmax(carried_Bps(contend), from->own_Bps), own = 0;

	/* Own traffic that makes no queue there yet will make one with ours. */
	if (carried > 0)
		own = from->excess_ns * fmin(to->own_Bps / carried, 1);
	return from->delay_ns - fmax(to->delay_ns, to->floor_ns + own) - share;
}

static bool is_worth(const struct contend_config *config, const struct contend_path *from,
		     const struct contend_path *to, double gain)
{
	double least = fmax(config->threshold_ns, config->gain_part * from->excess_ns);

	/* The clock's error is the same on both paths: only noise can mislead here. */
	return gain > least + NOISES * hypot(from->noise_ns, to->noise_ns);
}

static bool may_go_to(int64_t now_ns, const struct contend_path *path)
{
	return path->fresh && now_ns >= path->busy_until_ns && now_ns >= path->shut_until_ns;
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
		double more = gain_ns(contend, from, &paths[p], share);

		if (p == qp->path || !may_go_to(now_ns, &paths[p]) || more <= *gain ||
		    !is_worth(&contend->config, from, &paths[p], more))
			continue;
		*gain = more;
		best = (int)p;
	}
	return best;
}

/* What every packet of ours meets, whatever its path: the queue of the host's own link. */
static double common_ns(const struct tick *tick)
{
	double least = INFINITY;

	for (size_t p = 0; p < tick->path_count; p++)
		if (tick->paths[p].fresh)
			least = fmin(least, tick->paths[p].excess_ns);
	return isfinite(least) ? least : 0;
}

/* The path of @qp; of one that is silent, with the queue that it met and is going to meet. */
static struct contend_path path_of(const struct tick *tick, const struct contend_qp *qp)
{
	struct contend_path path = tick->paths[qp->path];

	if (!is_silent(qp) || qp->met_ns <= path.excess_ns)
		return path;
	path.excess_ns = qp->met_ns;
	path.delay_ns = path.floor_ns + path.excess_ns;
	path.noise_ns = 0; /* it was seen, whatever has become of it */
	return path;
}

/*
 * One of the paths that are worth it, by room: a path that is used meets a packet now and then,
 * one that nobody uses none, and little else tells the two apart. So the weight falls with the
 * square of what is met.
 */
static int draw_target(struct tick *tick, const struct contend_qp *qp, double *gain)
{
	const struct contend_path was = path_of(tick, qp), *from = &was;
	double share = is_silent(qp) ? 0 : share_ns(tick->contend, tick->now_ns, from, qp);
	double weights[CONTEND_PATHS_MAX], gains[CONTEND_PATHS_MAX], sum = 0, drawn;
	double common = common_ns(tick);
	int last = CONTEND_NOWHERE;

	for (size_t p = 0; p < tick->path_count; p++) {
		struct contend_path onto = tick->paths[p], *to = &onto;
		double blur = fmax(NOISES * to->noise_ns, 0.001 * from->excess_ns), meets;

		/* Others may be silent as well at this moment. */
		if (is_silent(qp))
			to->delay_ns = fmax(to->delay_ns, to->floor_ns + to->lately_ns);
		gains[p] = gain_ns(tick->contend, from, to, share);
		weights[p] = 0;
		if (p == qp->path || !may_go_to(tick->now_ns, to) ||
		    !is_worth(&tick->contend->config, from, to, gains[p]))
			continue;
		meets = from->delay_ns - gains[p] - share - to->floor_ns - common;
		weights[p] = 1 / ((meets + blur) * (meets + blur));
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

/* --- orders --- */

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

/* What feedback takes: a look, the age of what it saw, and the way there. */
static double lag_ns(const struct tick *tick, const struct contend_path *path)
{
	return tick->since_ns + (double)(tick->now_ns - path->measured_ns) + path->delay_ns;
}

int64_t contend_flowlet_gap_ns(const struct contend_path *from, const struct contend_path *to)
{
	double hold =
		fmax(from->worst_ns, from->delay_ns) + HOLD_PART * from->excess_ns - to->floor_ns;

	return (int64_t)(fmax(hold, 0) + fmax(from->bound_ns, to->bound_ns));
}

static void order(struct tick *tick, enum contend_act_kind kind, size_t q, uint32_t to,
		  double predicted)
{
	const struct contend_config *config = &tick->contend->config;
	struct contend_qp *qp = &tick->qps[q];
	struct contend_path *from = &tick->paths[qp->path], *onto = &tick->paths[to];
	struct contend_act *a;

	qp->predicted_ns = predicted;
	qp->before_ns = path_of(tick, qp).delay_ns;
	/* Of one that is silent no rate would be less. */
	qp->before_Bps = is_silent(qp) ? 0 : qp->rate_Bps;
	qp->hold_ns = (double)contend_flowlet_gap_ns(from, onto);
	a = act(tick, kind, q, qp->path, to);
	a->hold_ns = (int64_t)qp->hold_ns;
	if (is_silent(qp)) {
		a->unanswered_ns = qp->unanswered_ns;
		a->met_ns = qp->met_ns;
	}
	/* An idle gap costs nothing: worth waiting for where such gaps were seen. */
	a->start_ns = tick->now_ns + (qp->idle_gap_ns >= qp->hold_ns ? config->patience_ns : 0);
	a->force_ns = a->start_ns + config->patience_ns;
	if (qp->message_ns > 0)
		a->force_ns += (int64_t)fmin(2 * qp->message_ns, 1e9);
	qp->moving = true;
	qp->from = qp->path;
	qp->to = to;
	qp->move_ns = tick->now_ns;
	qp->give_up_ns = a->force_ns + GIVE_UP_NS;
	if (is_silent(qp))
		qp->give_up_ns = tick->now_ns + SILENT_NS;
	qp->arrived_ns = 0;
	qp->back = kind == CONTEND_BACK;
	qp->moves++;
	qp->restless++;
	/* Until it is seen to have gone. */
	from->busy_until_ns = onto->busy_until_ns = qp->give_up_ns;
	tick->budget->left -= 1;
	tick->contend->moves++;
}

/* --- judgement --- */

static void release(struct tick *tick, struct contend_qp *qp, int64_t at_ns)
{
	qp->moving = qp->arrived_ns != 0;
	tick->paths[qp->from].busy_until_ns = tick->paths[qp->to].busy_until_ns = at_ns;
}

/* It has gone: when will the delays tell? */
static void arrive(struct tick *tick, struct contend_qp *qp)
{
	const struct contend_path *from = &tick->paths[qp->from], *to = &tick->paths[qp->to];
	double lag = qp->hold_ns + fmax(lag_ns(tick, from), lag_ns(tick, to)) + tick->since_ns;

	qp->arrived_ns = tick->now_ns;
	release(tick, qp, tick->now_ns + (int64_t)lag);
	qp->judge_ns = tick->now_ns + (int64_t)(2 * lag);
	qp->doubt_ns = DOUBT_LAGS * lag;
	if (qp->judge_ns < tick->now_ns + tick->contend->config.judge_ns)
		qp->judge_ns = tick->now_ns + tick->contend->config.judge_ns;
}

static int64_t longer(const struct contend_config *config, int64_t last_ns)
{
	int64_t next_ns = last_ns ? 2 * last_ns : config->retry_least_ns;

	return next_ns < config->retry_most_ns ? next_ns : config->retry_most_ns;
}

static void shut(struct tick *tick, struct contend_path *path)
{
	/* Long ago: another story. */
	if (tick->now_ns - path->shut_until_ns > tick->contend->config.retry_most_ns)
		path->shut_ns = 0;
	path->shut_ns = longer(&tick->contend->config, path->shut_ns);
	/* Those who failed together do not try again together. */
	path->shut_until_ns = tick->now_ns + (int64_t)((0.5 + pacing_random_unit(tick->random)) *
						       (double)path->shut_ns);
}

/*
 * The queue came along, and the path that was left is empty: we had made it ourselves. Or
 * somebody like us was on either path, so some more are tried before that is believed, and
 * it is not believed for ever. Where the capacity is known, it is asked instead.
 */
static void learn_alone(struct tick *tick, const struct contend_qp *qp)
{
	struct contend *contend = tick->contend;
	const struct contend_path *from = &tick->paths[qp->from], *to = &tick->paths[qp->to];

	contend->in_vain++;
	if (!from->fresh || from->stands_out || !to->stands_out || to->own > 1 ||
	    contend->in_vain < ALONE_TRIES || contend->config.capacity_Bps > 0)
		return;
	contend->alone_Bps = to->own_Bps;
	if (!contend->alone_ns)
		contend->alone_ns = ALONE_LEAST * contend->config.retry_least_ns / 2;
	contend->alone_ns = longer(&contend->config, contend->alone_ns);
	contend->alone_until_ns = tick->now_ns + contend->alone_ns;
}

static void end_judgement(struct tick *tick, size_t q, enum contend_act_kind kind)
{
	struct contend_qp *qp = &tick->qps[q];
	struct contend_act *a = act(tick, kind, q, qp->from, qp->to);

	if (kind != CONTEND_UNDONE)
		a->measured_ns = qp->before_ns - tick->paths[qp->to].delay_ns;
	qp->moving = false;
}

static bool has_helped(const struct tick *tick, const struct contend_qp *qp)
{
	const struct contend_path *to = &tick->paths[qp->to];

	if (!to->stands_out || qp->before_ns - to->delay_ns >= HELPED_PART * qp->predicted_ns)
		return true;
	return qp->before_Bps > 0 && qp->rate_Bps >= HELPED_RATE * qp->before_Bps;
}

/* Both who met on a new path see the same: who goes back first helps the other. */
static void judge_useless(struct tick *tick, size_t q)
{
	struct contend_qp *qp = &tick->qps[q];
	const struct contend_path *from = &tick->paths[qp->from], *to = &tick->paths[qp->to];
	bool back = from->usable && from->fresh && from->delay_ns < to->delay_ns &&
		    tick->now_ns >= from->busy_until_ns && tick->now_ns >= to->busy_until_ns;

	if (back && pacing_random_unit(tick->random) >= tick->since_ns / qp->doubt_ns)
		return;
	learn_alone(tick, qp);
	shut(tick, &tick->paths[qp->to]);
	end_judgement(tick, q, CONTEND_USELESS);
	tick->contend->useless++;
	if (!back || !has_budget(tick))
		return;
	order(tick, CONTEND_BACK, q, qp->from, to->delay_ns - from->delay_ns);
	qp->taken_back++;
	tick->contend->taken_back++;
}

static void judge(struct tick *tick, size_t q)
{
	struct contend_qp *qp = &tick->qps[q];
	struct contend_path *to = &tick->paths[qp->to];

	if (tick->now_ns < qp->judge_ns)
		return;
	if (!to->fresh || to->measured_ns <= qp->arrived_ns || is_idle(tick->contend, qp)) {
		/* Nothing to judge by, and none is made up. */
		if (tick->now_ns > qp->judge_ns + GIVE_UP_NS)
			qp->moving = false;
		return;
	}
	if (qp->back) {
		qp->moving = false;
		return;
	}
	if (!has_helped(tick, qp)) {
		judge_useless(tick, q);
		return;
	}
	to->shut_ns = 0;
	tick->contend->in_vain = 0;
	tick->contend->alone_ns = tick->contend->alone_until_ns = 0;
	tick->contend->helped++;
	end_judgement(tick, q, CONTEND_HELPED);
}

/*
 * The other went, or is silent, before it did. Were it to go as well, at its message's end, they
 * would meet on the new path. In the first moment that means little: it is alone between two
 * losses too.
 */
static bool is_left_alone(const struct tick *tick, const struct contend_qp *qp)
{
	const struct contend_path *path = &tick->paths[qp->path];

	return tick->now_ns - qp->move_ns > STALE_NS && path->own == 1 &&
	       !is_idle(tick->contend, qp) && is_ours(tick->contend, tick->now_ns, path);
}

/* How an ordered move gets on. */
static void follow(struct tick *tick, size_t q)
{
	struct contend_qp *qp = &tick->qps[q];

	if (!qp->moving)
		return;
	if (qp->from >= tick->path_count || qp->to >= tick->path_count) {
		qp->moving = false;
	} else if (qp->arrived_ns && qp->path == qp->to) {
		judge(tick, q);
	} else if (qp->path == qp->to) {
		arrive(tick, qp);
	} else if (qp->path != qp->from || qp->arrived_ns) {
		/* A failover or a hand was there first. */
		release(tick, qp, tick->now_ns);
		qp->moving = false;
	} else if (!is_silent(qp) && (tick->now_ns > qp->give_up_ns || is_left_alone(tick, qp))) {
		release(tick, qp, tick->now_ns + tick->contend->config.retry_least_ns);
		end_judgement(tick, q, CONTEND_UNDONE);
	}
}

/* --- who goes --- */

/* The largest that would gain; how many would. */
static int choose_qp(const struct tick *tick, size_t p, unsigned *willing)
{
	int chosen = CONTEND_NOWHERE;

	*willing = 0;
	for (size_t q = 0; q < tick->qp_count; q++) {
		const struct contend_qp *qp = &tick->qps[q];
		double gain;

		if (qp->path != p || qp->pinned || qp->moving || is_idle(tick->contend, qp) ||
		    contend_best(tick->contend, tick->now_ns, tick->paths, tick->path_count, qp,
				 &gain) < 0)
			continue;
		++*willing;
		if (chosen < 0 || qp->rate_Bps > tick->qps[chosen].rate_Bps)
			chosen = (int)q;
	}
	return chosen;
}

/* The part of a path's traffic that has to go for all paths to be alike. */
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
 * It has all that a path was ever seen to carry, after having had much less: most likely
 * the queue is its own. The capacity, where it is known, knows better.
 */
static bool is_content(const struct contend *contend, const struct contend_path *path)
{
	return contend->config.capacity_Bps <= 0 && contend->squeezed_Bps > 0 &&
	       contend->most_Bps >= GROWN * contend->squeezed_Bps &&
	       path->own_Bps >= NEARLY * contend->most_Bps;
}

/* As if each of the willing went at a moment of its own. */
static bool is_time(struct tick *tick, const struct contend_path *path, const struct contend_qp *qp,
		    unsigned willing)
{
	double wait = fmax((double)tick->contend->config.react_ns, LAGS * lag_ns(tick, path));

	/* All that is here is ours: there is no herd. */
	if (path->own > 1 && is_ours(tick->contend, tick->now_ns, path))
		return true;
	wait *= 1 + qp->restless * qp->restless / RESTLESS_FREE;
	if (qp->at_home)
		wait *= HOME_PATIENCE;
	if (is_content(tick->contend, path))
		wait *= CONTENT_PATIENCE;
	return pacing_random_unit(tick->random) <
	       1 - exp(-(double)willing * surplus(tick, path) * tick->since_ns / wait);
}

static void consider(struct tick *tick, size_t p)
{
	const struct contend_path *path = &tick->paths[p];
	unsigned willing;
	double gain = 0;
	int q, to;

	if (!path->own || !is_contended(tick->contend, path) ||
	    tick->now_ns < path->busy_until_ns || !has_room_for_act(tick))
		return;
	q = choose_qp(tick, p, &willing);
	if (q < 0 || !is_time(tick, path, &tick->qps[q], willing) || !has_budget(tick))
		return;
	to = draw_target(tick, &tick->qps[q], &gain);
	if (to >= 0)
		order(tick, CONTEND_MOVE, (size_t)q, (uint32_t)to, gain);
}

/*
 * The other may be silent too, and both are not to go together; and one whose losses come along is
 * not to go for ever.
 */
static double chance_to_go(const struct contend_qp *qp)
{
	return GOES_PART * exp2(fmin(GOES_FREE - qp->went_silent, 0));
}

/*
 * It waits for the answer to what was lost. The others are left with all of the path meanwhile, so
 * their rates and its queue say nothing; but it was too full for both, and who goes now
 * overtakes nothing and holds nothing. It is asked once in each silence.
 */
static void consider_silent(struct tick *tick, size_t q)
{
	struct contend_qp *qp = &tick->qps[q];
	const struct contend_path *path;
	double gain;
	int to;

	if (qp->path >= tick->path_count || qp->pinned || qp->moving || qp->asked ||
	    !is_silent(qp) || !has_room_for_act(tick))
		return;
	path = &tick->paths[qp->path];
	/* A probe behind its last packet has been heard of, and an answer to that one has not. */
	if (!path->fresh || (double)(tick->now_ns - path->measured_ns) > qp->unanswered_ns ||
	    qp->unanswered_ns <
		    2 * fmax(path->worst_ns, path->floor_ns + qp->met_ns) + SILENT_LEAST_NS ||
	    tick->now_ns < path->busy_until_ns || tick->now_ns < tick->contend->alone_until_ns)
		return;
	qp->asked = true;
	if (pacing_random_unit(tick->random) >= chance_to_go(qp))
		return;
	to = draw_target(tick, qp, &gain);
	if (to < 0 || !has_budget(tick))
		return;
	qp->went_silent++;
	order(tick, CONTEND_MOVE, q, (uint32_t)to, gain);
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

	/* A daemon that was away did not wait all that time. */
	if (contend->ticked_ns && now_ns > contend->ticked_ns)
		tick.since_ns = fmin((double)(now_ns - contend->ticked_ns),
				     (double)contend->config.stale_ns);
	contend->ticked_ns = now_ns;
	contend_observe(&tick);
	/* A judgement may write two acts. */
	for (size_t q = 0; q < qp_count && tick.act_count + 2 <= acts_most; q++)
		follow(&tick, q);
	for (size_t i = 0, first = tick.path_count ? now_ns / MS % tick.path_count : 0;
	     i < tick.path_count; i++)
		consider(&tick, (first + i) % tick.path_count);
	for (size_t q = 0; q < qp_count; q++)
		consider_silent(&tick, q);
	return tick.act_count;
}
