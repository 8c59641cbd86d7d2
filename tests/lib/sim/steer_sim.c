// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/steer_sim.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/sim/stats.h"

#define JOB_TIMER 0x80000000u
#define RATE_PART 0.3 /* of the newest tick in a rate */
#define CLOCK_PERIOD_S 7.0
#define ACTS 16

void steer_config_default(struct steer_config *config, uint64_t seed)
{
	*config = (struct steer_config){
		.shape = {.leaves = 2,
			  .hosts_per_leaf = 8,
			  .spines = 2,
			  .fabric_bps = 100e6,
			  .host_bps = 100e6,
			  .hop_ns = 20000,
			  .packet_bytes = 4200},
		.policy = STEER_OURS,
		.seed = seed,
		.seconds = 3.2,
		.onset_s = 0.2,
		.tick_ns = 10000000,
		.samples = 4,
		.noise_ns = 3000,
		.clock_ns = 1000,
		.job_count = 1,
	};
	contend_config_default(&config->contend);
}

/* --- what a host sees --- */

static double by_clock_ns(const struct steer *steer, const struct steer_pair *pair)
{
	double turn = 2 * M_PI * (double)steer->net.now_ns * 1e-9 / CLOCK_PERIOD_S;

	return steer->config.clock_ns * sin(turn + pair->clock_phase);
}

/* One probe of each path at a time; lost where a queue is full, as other packets. */
static void probe(struct steer *steer, struct steer_pair *pair)
{
	const struct steer_config *config = &steer->config;

	for (unsigned s = 0; s < config->shape.spines; s++) {
		struct steer_probes *probes = &pair->probes[s];
		unsigned at = probes->count % STEER_PROBES;

		if (probes->coming_ns && steer->net.now_ns >= probes->coming_ns) {
			probes->recent[at] = probes->coming;
			probes->count++;
			probes->coming_ns = 0;
		}
		if (steer->net.now_ns < probes->next_ns || probes->coming_ns)
			continue;
		probes->next_ns = steer->net.now_ns + config->probe_ns;
		if (net_is_full(&steer->net, pair->from, pair->to, s))
			continue;
		probes->coming.delay_ns =
			(double)net_delay_ns(&steer->net, pair->from, pair->to, s) +
			by_clock_ns(steer, pair) + config->noise_ns * fabs(rng_normal(&steer->rng));
		probes->coming.measured_ns = steer->net.now_ns;
		probes->coming_ns = steer->net.now_ns + (int64_t)probes->coming.delay_ns;
	}
	pair->sampled++;
}

/* The median of the last few, and what their scatter lets it be wrong by: as loader/pathstat. */
static void show_probes(const struct steer *steer, struct steer_pair *pair, unsigned s)
{
	const struct steer_probes *probes = &pair->probes[s];
	struct contend_path *path = &pair->paths[s];
	struct stats recent = {0};
	double off_ns = 0;

	path->usable = probes->count > 0;
	path->floor_ns = (double)net_floor_ns(&steer->net);
	path->bound_ns = steer->config.clock_ns;
	if (!probes->count)
		return;
	path->worst_ns = 0;
	path->measured_ns = probes->recent[(probes->count - 1) % STEER_PROBES].measured_ns;
	for (unsigned i = 0; i < STEER_PROBES && i < probes->count; i++) {
		if (path->measured_ns - probes->recent[i].measured_ns >
		    STEER_PROBES * steer->config.probe_ns)
			continue;
		stats_add(&recent, probes->recent[i].delay_ns);
		path->worst_ns = fmax(path->worst_ns, probes->recent[i].delay_ns);
	}
	stats_percentile(&recent, 0.5); /* sorts */
	path->delay_ns =
		(recent.samples[recent.count / 2] + recent.samples[(recent.count - 1) / 2]) / 2;
	for (size_t i = 0; i < recent.count; i++)
		off_ns += fabs(recent.samples[i] - path->delay_ns) / (double)recent.count;
	path->noise_ns = 1.2533 * off_ns / sqrt((double)recent.count);
	stats_free(&recent);
}

static void sample(struct steer *steer, struct steer_pair *pair)
{
	const struct steer_config *config = &steer->config;
	double clock = by_clock_ns(steer, pair);

	for (unsigned s = 0; s < config->shape.spines; s++) {
		double delay = (double)net_delay_ns(&steer->net, pair->from, pair->to, s) + clock +
			       config->noise_ns * fabs(rng_normal(&steer->rng));

		pair->sum_ns[s] += delay;
		pair->worst_ns[s] = fmax(pair->worst_ns[s], delay);
	}
	pair->sampled++;
}

/* The means of this tick go into the row of now; the policy gets those of `late` ticks ago. */
static void show(struct steer *steer, struct steer_pair *pair)
{
	const struct steer_config *config = &steer->config;
	unsigned now = pair->ticks % (STEER_LATE_MAX + 1);
	unsigned then = (pair->ticks + STEER_LATE_MAX + 1 - config->late) % (STEER_LATE_MAX + 1);
	double mean_ns = config->noise_ns * 0.8; /* of |noise| */

	for (unsigned s = 0; s < config->shape.spines; s++) {
		struct contend_path *path = &pair->paths[s];
		const struct steer_sight *seen;

		pair->sights[now][s] = (struct steer_sight){pair->sum_ns[s] / pair->sampled,
							    pair->worst_ns[s], steer->net.now_ns};
		pair->sum_ns[s] = pair->worst_ns[s] = 0;
		seen = &pair->sights[then][s];
		path->usable = pair->ticks >= config->late;
		path->floor_ns = (double)net_floor_ns(&steer->net) + mean_ns;
		path->delay_ns = seen->delay_ns;
		path->measured_ns = seen->measured_ns;
		path->noise_ns = config->noise_ns / sqrt(config->samples);
		path->bound_ns = config->clock_ns;
		path->worst_ns = 0;
		for (unsigned l = config->late; l <= STEER_LATE_MAX && l <= pair->ticks; l++) {
			unsigned row =
				(pair->ticks + STEER_LATE_MAX + 1 - l) % (STEER_LATE_MAX + 1);

			path->worst_ns = fmax(path->worst_ns, pair->sights[row][s].worst_ns);
		}
	}
	pair->sampled = 0;
	pair->ticks++;
}

/* As loader/steer: the mean wait of the packets since the last tick, and the rate now. */
static void show_held(const struct steer_config *config, struct net_qp *qp, struct contend_qp *seen)
{
	double held = qp->paced ? (double)qp->waited_ns / (double)qp->paced : 0;

	seen->held_Bps = config->shape.rule.threshold_ns ? (double)qp->pace.rate_Bps : 0;
	if (qp->paced || (int64_t)qp->pace.departed_ns <= qp->last_sent_ns)
		seen->held_ns += RATE_PART * (held - seen->held_ns);
	qp->waited_ns = qp->paced = 0;
}

static void show_qps(struct steer *steer, struct steer_pair *pair)
{
	for (size_t q = 0; q < pair->qp_count; q++) {
		struct net_qp *qp = &steer->net.qps[pair->names[q]];
		struct contend_qp *seen = &pair->qps[q];
		uint64_t sent = qp->wire_bytes - pair->seen_bytes[q];
		double rate = (double)sent * 1e9 / (double)steer->config.tick_ns;

		pair->seen_bytes[q] = qp->wire_bytes;
		seen->rate_Bps += RATE_PART * (rate - seen->rate_Bps);
		seen->path = qp->spine;
		show_held(&steer->config, qp, seen);
		seen->unacked_ns = 0;
		if (!sent && steer->config.shape.queue_bytes && qp->gone > qp->acked)
			seen->unacked_ns = fmax((double)(steer->net.now_ns - net_left_ns(qp)), 0);
		seen->idle_gap_ns = (double)qp->largest_gap_ns;
		seen->message_ns =
			seen->rate_Bps > 0 ? (double)qp->message_bytes * 1e9 / seen->rate_Bps : 0;
		qp->largest_gap_ns = 0;
	}
}

static void carry_out(struct steer *steer, struct steer_pair *pair, const struct contend_act *act)
{
	struct net_qp *qp = &steer->net.qps[pair->names[act->qp]];
	bool never = steer->config.shape.queue_bytes > 0;

	if (steer->trace)
		printf("# %.3f s qp %u %s %u -> %u: %.0f, %.0f us, %.0f kB/s (%.0f), gain %.0f us, "
		       "came %.0f us, hold %.0f us\n",
		       (double)steer->net.now_ns * 1e-9, pair->names[act->qp],
		       contend_act_name(act->kind), act->from, act->to, act->from_ns * 1e-3,
		       act->to_ns * 1e-3, act->rate_Bps * 1e-3, act->before_Bps * 1e-3,
		       act->predicted_ns * 1e-3, act->measured_ns * 1e-3,
		       (double)act->hold_ns * 1e-3);
	/* Where retransmissions cost more than waiting, only a gap will do, until a deadline. */
	if (act->kind == CONTEND_UNDONE)
		qp->order.waits = false;
	if (act->kind != CONTEND_MOVE && act->kind != CONTEND_BACK)
		return;
	qp->order = (struct net_order){.waits = true,
				       .spine = act->to,
				       .hold_ns = act->hold_ns,
				       .start_ns = never ? INT64_MAX : act->start_ns,
				       .force_ns = never ? INT64_MAX : act->force_ns};
	steer->figures.moves++;
	steer->figures.late_moves += (double)steer->net.now_ns * 1e-9 > steer->config.onset_s + 1.5;
}

static void tick(struct steer *steer, struct steer_pair *pair)
{
	struct contend_act acts[ACTS];
	size_t count;

	if (steer->config.probe_ns) {
		for (unsigned s = 0; s < steer->config.shape.spines; s++)
			show_probes(steer, pair, s);
		pair->sampled = 0;
	} else {
		show(steer, pair);
	}
	show_qps(steer, pair);
	if (steer->config.policy != STEER_OURS)
		return;
	count = contend_tick(&pair->contend, &steer->budgets[pair->from], steer->net.now_ns,
			     &steer->randoms[pair->from], pair->paths, steer->config.shape.spines,
			     pair->qps, pair->qp_count, acts, ACTS);
	for (size_t a = 0; a < count; a++)
		carry_out(steer, pair, &acts[a]);
}

/* Two queue pairs of one leaf to another one over one spine: preferred are those that end apart. */
static void see_crowd(struct steer *steer)
{
	const struct net *net = &steer->net;

	if (!net->shape.queue_bytes)
		return;
	for (size_t q = 0; q < net->qp_count; q++)
		for (size_t r = 0; r < q; r++) {
			const struct net_qp *one = &net->qps[q], *other = &net->qps[r];

			if (one->spine == other->spine &&
			    net_leaf(net, one->from) == net_leaf(net, other->from) &&
			    net_leaf(net, one->to) == net_leaf(net, other->to))
				steer->figures.crowded_s = (double)net->now_ns * 1e-9;
		}
}

/* The truth, for the figures. */
static void measure(struct steer *steer, const struct steer_pair *pair)
{
	if ((double)steer->net.now_ns * 1e-9 < steer->config.seconds - 0.5)
		return;
	for (size_t q = 0; q < pair->qp_count; q++) {
		const struct net_qp *qp = &steer->net.qps[pair->names[q]];

		if (!qp->started_ns)
			continue;
		steer->queue_ns[pair->names[q]] +=
			(double)net_queue_ns(&steer->net, qp->from, qp->to, qp->spine);
		steer->queue_count[pair->names[q]]++;
	}
}

/* --- jobs --- */

static void start_round(struct steer *steer, struct steer_job *job)
{
	job->done = 0;
	job->began_ns = steer->net.now_ns;
	for (size_t q = job->first; q < job->first + job->count; q++)
		net_send(&steer->net, q,
			 job->pattern == STEER_STREAM ? UINT64_MAX : job->chunk_bytes);
}

static bool has_all(const struct steer *steer, const struct steer_job *job, uint64_t steps)
{
	for (size_t q = job->first; q < job->first + job->count; q++)
		if (steer->net.qps[q].received_bytes < steps * job->chunk_bytes)
			return false;
	return true;
}

static void end_round(struct steer *steer, struct steer_job *job)
{
	if (job->rounds < STEER_ROUNDS_MAX)
		job->took_ns[job->rounds] = steer->net.now_ns - job->began_ns;
	job->rounds++;
	net_timer(&steer->net, steer->net.now_ns + job->pause_ns,
		  JOB_TIMER | (uint32_t)(job - steer->config.jobs));
}

/* Ring: a step needs the own one sent and received, and the one before in the ring received. */
static void ring_step(struct steer *steer, struct steer_job *job, size_t q)
{
	struct net_qp *qp = &steer->net.qps[q], *before;
	size_t rank = q - job->first;
	uint64_t steps = qp->received_bytes / job->chunk_bytes;

	before = &steer->net.qps[job->first + (rank + job->count - 1) % job->count];
	if (qp->asked_bytes > steps * job->chunk_bytes ||
	    before->received_bytes < steps * job->chunk_bytes)
		return;
	if (!rank && !job->steps)
		job->rounds = steps;
	if (job->steps && steps % job->steps == 0) {
		/* The round is over when all have come to this. */
		if (steps > job->rounds * job->steps && has_all(steer, job, steps))
			end_round(steer, job);
		return;
	}
	net_send(&steer->net, q, job->chunk_bytes);
}

static void on_received(struct net *net, size_t q)
{
	struct steer *steer = net->context;
	struct steer_job *job = &steer->config.jobs[net->qps[q].job];
	size_t bin = (size_t)(net->now_ns / STEER_BIN_NS);

	if (bin < STEER_BINS_MAX)
		steer->bins[bin] += net->shape.packet_bytes;
	if (job->pattern == STEER_STREAM || net->qps[q].received_bytes % job->chunk_bytes)
		return;
	if (job->pattern == STEER_RING) {
		ring_step(steer, job, q);
		ring_step(steer, job, job->first + (q - job->first + 1) % job->count);
		return;
	}
	if (++job->done < job->count)
		return;
	end_round(steer, job);
}

static void on_timer(struct net *net, uint32_t timer)
{
	struct steer *steer = net->context;
	struct steer_pair *pair;

	if (timer & JOB_TIMER) {
		start_round(steer, &steer->config.jobs[timer & ~JOB_TIMER]);
		return;
	}
	pair = &steer->pairs[timer];
	net_timer(net, net->now_ns + steer->config.tick_ns / steer->config.samples, timer);
	if (steer->config.probe_ns)
		probe(steer, pair);
	else
		sample(steer, pair);
	see_crowd(steer);
	measure(steer, pair);
	if (pair->sampled == steer->config.samples)
		tick(steer, pair);
}

/* --- a run --- */

static struct steer_pair *pair_of(struct steer *steer, unsigned from, unsigned to)
{
	struct steer_pair *pair;

	for (size_t p = 0; p < steer->pair_count; p++)
		if (steer->pairs[p].from == from && steer->pairs[p].to == to)
			return &steer->pairs[p];
	pair = &steer->pairs[steer->pair_count++];
	pair->from = from;
	pair->to = to;
	pair->clock_phase = 2 * M_PI * rng_unit(&steer->rng);
	contend_init(&pair->contend, &steer->config.contend);
	return pair;
}

static int pair_add(struct steer_pair *pair, uint32_t q)
{
	size_t count = pair->qp_count + 1;
	void *qps = realloc(pair->qps, count * sizeof(*pair->qps));
	void *names = realloc(pair->names, count * sizeof(*pair->names));
	void *seen = realloc(pair->seen_bytes, count * sizeof(*pair->seen_bytes));

	pair->qps = qps ? qps : pair->qps;
	pair->names = names ? names : pair->names;
	pair->seen_bytes = seen ? seen : pair->seen_bytes;
	if (!qps || !names || !seen)
		return -ENOMEM;
	memset(&pair->qps[count - 1], 0, sizeof(*pair->qps));
	pair->names[count - 1] = q;
	pair->seen_bytes[count - 1] = 0;
	pair->qp_count = count;
	return 0;
}

static int make_qps(struct steer *steer, const struct best_flow *flows, size_t count,
		    const unsigned *jobs, const unsigned *spines)
{
	for (size_t q = 0; q < count; q++) {
		struct net_qp *qp = &steer->net.qps[q];
		struct steer_job *job = &steer->config.jobs[jobs ? jobs[q] : 0];

		qp->from = flows[q].from;
		qp->to = flows[q].to;
		qp->demand_bps = flows[q].demand_bps;
		qp->spine = spines[q];
		qp->back_spine = (unsigned)rng_below(&steer->rng, steer->config.shape.spines);
		qp->job = jobs ? jobs[q] : 0;
		job->first = job->count ? job->first : q;
		job->count++;
		if (pair_add(pair_of(steer, qp->from, qp->to), (uint32_t)q))
			return -ENOMEM;
	}
	return 0;
}

int steer_init(struct steer *steer, const struct steer_config *config,
	       const struct best_flow *flows, size_t count, const unsigned *jobs,
	       uint64_t window_bytes, uint64_t message_bytes, const unsigned *spines)
{
	memset(steer, 0, sizeof(*steer));
	steer->config = *config;
	rng_seed(&steer->rng, config->seed);
	if (net_init(&steer->net, &config->shape, count))
		return -ENOMEM;
	steer->net.context = steer;
	steer->net.on_received = on_received;
	steer->net.on_timer = on_timer;
	steer->pairs = calloc(count, sizeof(*steer->pairs));
	steer->budgets = calloc(steer->net.hosts, sizeof(*steer->budgets));
	steer->randoms = calloc(steer->net.hosts, sizeof(*steer->randoms));
	steer->queue_ns = calloc(count, sizeof(*steer->queue_ns));
	steer->queue_count = calloc(count, sizeof(*steer->queue_count));
	if (!steer->pairs || !steer->budgets || !steer->randoms || !steer->queue_ns ||
	    !steer->queue_count || make_qps(steer, flows, count, jobs, spines)) {
		steer_free(steer);
		return -ENOMEM;
	}
	for (unsigned h = 0; h < steer->net.hosts; h++)
		steer->randoms[h] = rng_next(&steer->rng);
	for (size_t q = 0; q < count; q++) {
		uint32_t packet = config->shape.packet_bytes;

		/* Whole packets, so that a message ends where one does. */
		steer->net.qps[q].window_bytes = window_bytes;
		steer->net.qps[q].message_bytes = (message_bytes + packet - 1) / packet * packet;
	}
	for (size_t j = 0; j < steer->config.job_count; j++) {
		struct steer_job *job = &steer->config.jobs[j];
		uint32_t packet = config->shape.packet_bytes;

		job->chunk_bytes = (job->chunk_bytes + packet - 1) / packet * packet;
		net_timer(&steer->net, (int64_t)(job->start_s * 1e9), JOB_TIMER | (uint32_t)j);
	}
	for (size_t p = 0; p < steer->pair_count; p++)
		net_timer(&steer->net, (int64_t)rng_below(&steer->rng, (uint64_t)config->tick_ns),
			  (uint32_t)p);
	return 0;
}

void steer_free(struct steer *steer)
{
	for (size_t p = 0; steer->pairs && p < steer->pair_count; p++) {
		free(steer->pairs[p].qps);
		free(steer->pairs[p].names);
		free(steer->pairs[p].seen_bytes);
	}
	free(steer->pairs);
	free(steer->budgets);
	free(steer->randoms);
	free(steer->queue_ns);
	free(steer->queue_count);
	net_free(&steer->net);
}

static double bins_bps(const struct steer *steer, double from_s, double to_s)
{
	size_t from = (size_t)(from_s * 1e9 / STEER_BIN_NS + 0.5);
	size_t to = (size_t)(to_s * 1e9 / STEER_BIN_NS + 0.5);
	double sum = 0;

	for (size_t b = from; b < to && b < STEER_BINS_MAX; b++)
		sum += steer->bins[b];
	return to > from ? sum * 8e9 / (double)((int64_t)(to - from) * STEER_BIN_NS) : 0;
}

double steer_settled_s(const struct steer *steer, double bps)
{
	double end = steer->config.seconds - 0.1, at = end;

	while (at >= steer->config.onset_s && bins_bps(steer, at, at + 0.1) >= bps)
		at -= 0.01;
	return at >= end ? INFINITY : fmax(at + 0.01 - steer->config.onset_s, 0);
}

void steer_run(struct steer *steer)
{
	const struct steer_config *config = &steer->config;
	struct steer_figures *f = &steer->figures;
	double sum = 0, n = 0;

	net_run(&steer->net, (int64_t)(config->seconds * 1e9));
	f->late_bps = bins_bps(steer, config->onset_s + 0.5, config->seconds);
	f->half_second_bps = bins_bps(steer, config->onset_s, config->onset_s + 0.5);
	for (size_t q = 0; q < steer->net.qp_count; q++) {
		const struct net_qp *qp = &steer->net.qps[q];

		f->overtaken += qp->overtaken;
		f->qps_moved += qp->switches > 0;
		f->moves_most = fmax(f->moves_most, (double)qp->switches);
		if (!steer->queue_count[q])
			continue;
		sum += steer->queue_ns[q] / steer->queue_count[q];
		n++;
		f->queue_worst_ns =
			fmax(f->queue_worst_ns, steer->queue_ns[q] / steer->queue_count[q]);
	}
	f->queue_ns = n > 0 ? sum / n : 0;
	for (size_t p = 0; p < steer->pair_count; p++) {
		f->helped += steer->pairs[p].contend.helped;
		f->useless += steer->pairs[p].contend.useless;
		f->back += steer->pairs[p].contend.reverted;
	}
	for (size_t j = 0; j < config->job_count; j++)
		f->rounds[j] = config->jobs[j].rounds;
}
