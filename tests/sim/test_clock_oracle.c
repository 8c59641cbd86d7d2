// SPDX-License-Identifier: BSD-2-Clause
/*
 * The two solvers against independent ones of the same objective: the edge fit
 * against a linear programme (GLPK), the consensus against least squares on the
 * whole graph (CHOLMOD). TAP; `test_clock_oracle SEED [HOSTS...]`.
 */
#include <cholmod.h>
#include <glpk.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clocksync/consensus.h"
#include "clocksync/edgefit.h"
#include "clocksync/graph.h"
#include "tests/lib/sim/class_oracle.h"
#include "tests/lib/sim/cloud.h"
#include "tests/lib/sim/seeds.h"

#define POINTS 160
#define PROBLEMS 60
#define NOISE_NS 5.0
#define ROUND_NS 250000000LL
#define DEGREE 10
#define ROUNDS_MAX 30
#define SMALL_DRAWS 8

static int tests, failures;

static void report(int good, const char *name)
{
	tests++;
	failures += !good;
	printf("%s %d - %s\n", good ? "ok" : "not ok", tests, name);
	fflush(stdout);
}

/* maximise (u - sum/kappa0) - (l + sum/kappa1) over slope, u, l and the violations. */
static int lp_solve(const struct edgefit_side side[2], const size_t k[2], double *slope,
		    double *offset)
{
	glp_prob *lp = glp_create_prob();
	int points = (int)(side[0].count + side[1].count), row = 1, index[5];
	double value[5];
	glp_smcp options;

	glp_init_smcp(&options);
	options.msg_lev = GLP_MSG_OFF;
	options.tol_bnd = options.tol_dj = 1e-9;
	glp_set_obj_dir(lp, GLP_MAX);
	glp_add_cols(lp, 3 + points);
	glp_add_rows(lp, points);
	for (int c = 1; c <= 3; c++)
		glp_set_col_bnds(lp, c, GLP_FR, 0, 0);
	glp_set_obj_coef(lp, 2, 1);
	glp_set_obj_coef(lp, 3, -1);
	for (int s = 0; s < 2; s++) {
		double sign = s ? -1 : 1;

		for (size_t i = 0; i < side[s].count; i++, row++) {
			index[1] = 1;
			value[1] = sign * side[s].x[i];
			index[2] = 2 + s;
			value[2] = sign;
			index[3] = 3 + row;
			value[3] = -1;
			glp_set_mat_row(lp, row, 3, index, value);
			glp_set_row_bnds(lp, row, GLP_UP, 0, sign * side[s].y[i]);
			glp_set_col_bnds(lp, 3 + row, GLP_LO, 0, 0);
			glp_set_obj_coef(lp, 3 + row, -1 / ((double)k[s] - 0.5));
		}
	}
	int err = glp_simplex(lp, &options);
	*slope = glp_get_col_prim(lp, 1);
	*offset = (glp_get_col_prim(lp, 2) + glp_get_col_prim(lp, 3)) / 2;
	glp_delete_prob(lp);
	return err;
}

static void test_edgefit(uint64_t seed)
{
	static double xs[2][POINTS], ys[2][POINTS], scratch[2 * POINTS];
	double *x[2] = {xs[0], xs[1]}, *y[2] = {ys[0], ys[1]}, worst_ns = 0, worst_ppb = 0;
	int solved = 0;
	struct rng rng;

	rng_seed(&rng, seed);
	for (int p = 0; p < PROBLEMS; p++) {
		struct cloud_config cloud = {.count = POINTS,
					     .seconds = 2,
					     .slope_ppb = 30000 * (2 * rng_unit(&rng) - 1),
					     .offset_ns = 1e6 * (2 * rng_unit(&rng) - 1),
					     .floor_ns = 1000,
					     .timestamp_ns = 4,
					     .load = 0.3 * (double)(p % 4),
					     .hops = 3,
					     .wait_ns = 8000};
		struct edgefit_side side[2];
		struct edgefit_line line;
		size_t k[2] = {1 + rng_below(&rng, 16), 1 + rng_below(&rng, 16)};
		struct edgefit_hint hint = EDGEFIT_NO_HINT;
		double slope, offset;

		cloud_draw(&rng, &cloud, x, y);
		for (int s = 0; s < 2; s++)
			side[s] = (struct edgefit_side){x[s], y[s], POINTS};
		if (edgefit_solve(side, k, &hint, scratch, &line) ||
		    lp_solve(side, k, &slope, &offset))
			continue;
		solved++;
		worst_ppb = fmax(worst_ppb, fabs(slope - line.slope_ppb));
		worst_ns = fmax(worst_ns, fabs(offset - (line.upper_ns + line.lower_ns) / 2));
	}
	printf("# seed %lu: %d problems, worst difference %.6f ns, %.6f ppb\n", (unsigned long)seed,
	       solved, worst_ns, worst_ppb);
	report(solved == PROBLEMS && worst_ns < 1 && worst_ppb < 1,
	       "the edge fit agrees with a linear programme within 1 ns and 1 ppb");
}

/* A fleet whose clocks are all right: the rest is the noise of the edges. */
struct fleet {
	size_t count;
	struct graph graph;
	double *noise; /* by end: error of the edge, antisymmetric */
	double *exact; /* least-squares potentials */
	struct consensus *hosts;
	struct clock_view *views, *before; /* latest, and of the round before */
	uint32_t *back;
	struct rng rng;
};

static void noise_draw(struct fleet *fleet, struct rng *rng)
{
	for (size_t h = 0; h < fleet->count; h++)
		for (uint32_t e = fleet->graph.start[h]; e < fleet->graph.start[h + 1]; e++) {
			if (fleet->graph.peers[e] < h)
				continue;
			fleet->noise[e] = NOISE_NS * rng_normal(rng);
			fleet->noise[fleet->back[e]] = -fleet->noise[e];
		}
}

/* The graph expands, so its factor fills: 10,000 hosts take half a GB and a minute, 100,000 do not
 * fit. */
#define CHOLMOD_MOST 3000

/* y = L x */
static void laplacian(const struct fleet *fleet, const double *x, double *y)
{
	for (size_t h = 0; h < fleet->count; h++) {
		y[h] = 0;
		for (uint32_t e = fleet->graph.start[h]; e < fleet->graph.start[h + 1]; e++)
			y[h] += x[h] - x[fleet->graph.peers[e]];
	}
}

static double dot(const double *a, const double *b, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

/* The same potentials by conjugate gradients, which are checked against CHOLMOD where both can. */
static void solve_gradients(const struct fleet *fleet, double *x)
{
	size_t n = fleet->count;
	double *r = calloc(3 * n, sizeof(*r)), *p = r + n, *q = r + 2 * n, rr, mean = 0;

	for (size_t h = 0; r && h < n; h++) {
		x[h] = 0;
		for (uint32_t e = fleet->graph.start[h]; e < fleet->graph.start[h + 1]; e++)
			r[h] += fleet->noise[e];
		p[h] = r[h];
	}
	rr = dot(r, r, n);
	for (int step = 0; step < 500 && rr > 1e-20 * (double)n; step++) {
		double alpha, before = rr;

		laplacian(fleet, p, q);
		alpha = rr / dot(p, q, n);
		for (size_t h = 0; h < n; h++) {
			x[h] += alpha * p[h];
			r[h] -= alpha * q[h];
		}
		rr = dot(r, r, n);
		for (size_t h = 0; h < n; h++)
			p[h] = r[h] + rr / before * p[h];
	}
	for (size_t h = 0; h < n; h++)
		mean += x[h] / (double)n;
	for (size_t h = 0; h < n; h++)
		x[h] -= mean;
	free(r);
}

static void check_gradients(const struct fleet *fleet)
{
	double *x = calloc(fleet->count, sizeof(*x)), worst = 0;

	solve_gradients(fleet, x);
	for (size_t h = 0; h < fleet->count; h++)
		worst = fmax(worst, fabs(x[h] - fleet->exact[h]));
	free(x);
	printf("# %zu hosts: conjugate gradients and CHOLMOD differ by at most %.1e ns\n",
	       fleet->count, worst);
	if (worst > 1e-3)
		report(0, "two exact solvers agree");
}

/* Potentials p with L p = b: host h's correction is the mean of its neighbours' plus noise. */
static void solve_exact(struct fleet *fleet)
{
	cholmod_common common;
	cholmod_triplet *triplet;
	cholmod_sparse *matrix;
	cholmod_factor *factor;
	cholmod_dense *right, *solution;
	size_t n = fleet->count, ends = fleet->graph.start[n];
	double mean = 0;

	if (n > CHOLMOD_MOST) {
		solve_gradients(fleet, fleet->exact);
		return;
	}
	cholmod_start(&common);
	triplet = cholmod_allocate_triplet(n, n, n + ends, -1, CHOLMOD_REAL, &common);
	right = cholmod_zeros(n, 1, CHOLMOD_REAL, &common);
	for (size_t h = 0; h < n; h++) {
		double diagonal = h ? 0 : 1; /* pins one potential */

		for (uint32_t e = fleet->graph.start[h]; e < fleet->graph.start[h + 1]; e++) {
			diagonal++;
			((double *)right->x)[h] += fleet->noise[e];
			if (fleet->graph.peers[e] > h)
				continue;
			((int *)triplet->i)[triplet->nnz] = (int)h;
			((int *)triplet->j)[triplet->nnz] = (int)fleet->graph.peers[e];
			((double *)triplet->x)[triplet->nnz++] = -1;
		}
		((int *)triplet->i)[triplet->nnz] = ((int *)triplet->j)[triplet->nnz] = (int)h;
		((double *)triplet->x)[triplet->nnz++] = diagonal;
	}
	matrix = cholmod_triplet_to_sparse(triplet, triplet->nnz, &common);
	factor = cholmod_analyze(matrix, &common);
	cholmod_factorize(matrix, factor, &common);
	solution = cholmod_solve(CHOLMOD_A, factor, right, &common);
	for (size_t h = 0; h < n; h++)
		mean += ((double *)solution->x)[h] / (double)n;
	for (size_t h = 0; h < n; h++)
		fleet->exact[h] = ((double *)solution->x)[h] - mean;
	cholmod_free_dense(&solution, &common);
	cholmod_free_dense(&right, &common);
	cholmod_free_factor(&factor, &common);
	cholmod_free_sparse(&matrix, &common);
	cholmod_free_triplet(&triplet, &common);
	cholmod_finish(&common);
}

/* In step, at the potentials of the noise of before. */
static void fleet_warm(struct fleet *fleet)
{
	for (size_t h = 0; h < fleet->count; h++) {
		struct consensus *host = &fleet->hosts[h];
		struct clock_line line = {.local_ns = ROUND_NS, .fabric_ns = ROUND_NS};

		consensus_init(host, DEGREE, 0);
		host->line = clock_line_move(&line, ROUND_NS, fleet->exact[h]);
		host->has_line = host->settled = true;
		host->scale_ns = NOISE_NS;
		host->scale_ppb = 5;
		host->reach = 1;
		fleet->views[h] =
			(struct clock_view){.state = CLOCK_SYNCED, .reach = CLOCK_REACH_ONE};
		clock_view_put(&fleet->views[h], &host->line);
		fleet->before[h] = fleet->views[h];
	}
}

static void host_round(struct fleet *fleet, size_t h, int64_t now_ns)
{
	struct edge_estimate edges[CONSENSUS_PEERS_MAX];
	struct consensus_input input[CONSENSUS_PEERS_MAX];
	size_t count = 0;

	for (uint32_t e = fleet->graph.start[h]; e < fleet->graph.start[h + 1]; e++, count++) {
		double whole = floor(fleet->noise[e]);

		edges[count] = (struct edge_estimate){.valid = true,
						      .local_ns = now_ns,
						      .offset_ns = (int64_t)whole,
						      .offset_fraction_ns = fleet->noise[e] - whole,
						      .offset_sigma_ns = NOISE_NS,
						      .drift_sigma_ppb = 5};
		/* One probe in four was lost: what came is a round old. */
		input[count] = (struct consensus_input){
			&edges[count],
			&(rng_next(&fleet->rng) & 3 ? fleet->views
						    : fleet->before)[fleet->graph.peers[e]],
			ROUND_NS / 2};
	}
	fleet->before[h] = fleet->views[h];
	consensus_round(&fleet->hosts[h], now_ns, input, count);
	clock_view_put(&fleet->views[h], &fleet->hosts[h].line);
}

static double potential(const struct fleet *fleet, size_t h, int64_t now_ns)
{
	double fraction;
	int64_t whole = clock_line_at(&fleet->hosts[h].line, now_ns, &fraction);

	return (double)(whole - now_ns) + fraction;
}

/* rms distance to the exact potentials, in edge noise; the rms of a pair into *@pair. */
static double distance(const struct fleet *fleet, int64_t now_ns, double *pair)
{
	double mean = 0, squares = 0, own = 0;

	for (size_t h = 0; h < fleet->count; h++)
		mean += potential(fleet, h, now_ns) / (double)fleet->count;
	for (size_t h = 0; h < fleet->count; h++) {
		double at = potential(fleet, h, now_ns) - mean, away = at - fleet->exact[h];

		squares += away * away;
		own += at * at;
	}
	*pair = sqrt(2 * own / (double)fleet->count) / NOISE_NS;
	return sqrt(squares / (double)fleet->count) / NOISE_NS;
}

static int fleet_make(struct fleet *fleet, size_t count)
{
	uint64_t *ids = malloc(count * sizeof(*ids));
	size_t ends;

	memset(fleet, 0, sizeof(*fleet));
	fleet->count = count;
	for (size_t i = 0; ids && i < count; i++)
		ids[i] = rng_mix(i + 1);
	if (!ids || graph_build(&fleet->graph, ids, count, DEGREE, 0))
		return -1;
	free(ids);
	ends = fleet->graph.start[count];
	fleet->noise = calloc(ends, sizeof(*fleet->noise));
	fleet->exact = calloc(count, sizeof(*fleet->exact));
	fleet->hosts = calloc(count, sizeof(*fleet->hosts));
	fleet->views = calloc(count, sizeof(*fleet->views));
	fleet->before = calloc(count, sizeof(*fleet->before));
	rng_seed(&fleet->rng, count);
	fleet->back = calloc(ends, sizeof(*fleet->back));
	if (!fleet->noise || !fleet->exact || !fleet->hosts || !fleet->views || !fleet->before ||
	    !fleet->back)
		return -1;
	for (size_t h = 0; h < count; h++)
		for (uint32_t e = fleet->graph.start[h]; e < fleet->graph.start[h + 1]; e++)
			for (uint32_t b = fleet->graph.start[fleet->graph.peers[e]];
			     b < fleet->graph.start[fleet->graph.peers[e] + 1]; b++)
				if (fleet->graph.peers[b] == h)
					fleet->back[e] = b;
	return 0;
}

static void fleet_free(struct fleet *fleet)
{
	graph_free(&fleet->graph);
	free(fleet->noise);
	free(fleet->exact);
	free(fleet->hosts);
	free(fleet->views);
	free(fleet->before);
	free(fleet->back);
}

static void shuffle(struct rng *rng, size_t *order, size_t count)
{
	for (size_t h = 0; h < count; h++)
		order[h] = h;
	for (size_t h = count - 1; h; h--) {
		size_t other = rng_below(rng, h + 1), kept = order[h];

		order[h] = order[other];
		order[other] = kept;
	}
}

/* One fleet with one draw of noise: rounds until it is at least squares (31: never), pair error
 * into *@pair. */
static int consensus_rounds(uint64_t seed, size_t count, double *pair)
{
	size_t *order = malloc(count * sizeof(*order));
	struct fleet fleet;
	struct rng rng;
	double away = 1;
	int rounds = 0;

	rng_seed(&rng, seed);
	if (!order || fleet_make(&fleet, count)) {
		free(order);
		return ROUNDS_MAX + 1;
	}
	noise_draw(&fleet, &rng);
	solve_exact(&fleet);
	fleet_warm(&fleet);
	noise_draw(&fleet, &rng);
	solve_exact(&fleet);
	shuffle(&rng, order, count);
	if (count <= CHOLMOD_MOST)
		check_gradients(&fleet);
	while (away > 0.01 && rounds <= ROUNDS_MAX) {
		rounds++;
		for (size_t i = 0; i < count; i++)
			host_round(&fleet, order[i],
				   ROUND_NS * (rounds + 1) +
					   (int64_t)i * ROUND_NS / (int64_t)count);
		away = distance(&fleet, ROUND_NS * (rounds + 2), pair);
		printf("# %zu hosts, round %d: %.4f of the edge noise from least squares\n", count,
		       rounds, away);
	}
	fleet_free(&fleet);
	free(order);
	return rounds;
}

/* The pair error of a small fleet depends on the draw: 0.38 to 0.52 of an edge's for 100 hosts. */
static void test_consensus(uint64_t seed, size_t count)
{
	unsigned draws = count < 1000 ? SMALL_DRAWS : 1;
	double pairs = 0;
	char name[160];
	int most = 0;

	for (unsigned i = 0; i < draws; i++) {
		double pair = 1;
		int rounds = consensus_rounds(seed + count + i, count, &pair);

		most = rounds > most ? rounds : most;
		pairs += pair / draws;
	}
	snprintf(name, sizeof(name),
		 "%zu hosts reach least squares in %d rounds (at most 10), pair "
		 "error %.2f of an edge's (at most 0.5), %u draws",
		 count, most, pairs, draws);
	report(most <= 10 && pairs <= 0.5, name);
}

/* The fit beside the best possible one, where every packet waits for a lower class. */
static void test_class(uint64_t seed)
{
	struct class_oracle oracle = class_oracle_run(10e9, 40, seed);

	printf("# priority class at 90%% of 10 Gb/s: offset off by %.1f ns rms, at best %.1f, in "
	       "%u "
	       "windows\n",
	       oracle.ours_ns, oracle.best_ns, oracle.windows);
	report(oracle.windows == 40 && oracle.best_ns > 3 && oracle.ours_ns < 4 * oracle.best_ns,
	       "probes in a priority class: a fit within four times of Pitman's");
}

int main(int argc, char **argv)
{
	struct seeds seeds = {.argument = argc > 1 ? argv[1] : NULL, .fixed = 20240607};

	seeds_plan(&seeds, 2 + (argc > 2 ? (unsigned int)argc - 2 : 2));
	while (seeds_next(&seeds)) {
		test_edgefit(seeds.seed);
		test_class(seeds.seed);
		if (argc > 2)
			for (int i = 2; i < argc; i++)
				test_consensus(seeds.seed, strtoull(argv[i], NULL, 0));
		else
			for (size_t count = 100; count <= 1000; count *= 10)
				test_consensus(seeds.seed, count);
	}
	return failures ? 1 : 0;
}
