// SPDX-License-Identifier: BSD-2-Clause
/*
 * Time per fit beside libsvm and liblinear on the same points, and a host's
 * whole round. The objectives are not the same (theirs have one penalty fixed in
 * advance and another norm); the shape of the problem is.
 */
#include <linear.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clocksync/edge.h"
#include "tests/lib/sim/class_oracle.h"
#include "tests/lib/sim/cloud.h"

#define POINTS_MAX 4000
#define NU 0.03

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

double bench_libsvm(double *const x[2], double *const y[2], size_t count, double penalty);

struct cloud_points {
	double *x[2], *y[2];
	size_t count;
};

static void cloud_make(struct cloud_points *cloud, size_t count, double load, struct rng *rng)
{
	struct cloud_config config = {.count = count,
				      .seconds = 2,
				      .slope_ppb = 100,
				      .floor_ns = 1000,
				      .timestamp_ns = 4,
				      .load = load,
				      .hops = 3,
				      .wait_ns = 8000};

	cloud->count = count;
	for (int s = 0; s < 2; s++) {
		cloud->x[s] = malloc(count * sizeof(double));
		cloud->y[s] = malloc(count * sizeof(double));
	}
	cloud_draw(rng, &config, cloud->x, cloud->y);
}

static void cloud_free(struct cloud_points *cloud)
{
	for (int s = 0; s < 2; s++) {
		free(cloud->x[s]);
		free(cloud->y[s]);
	}
}

static double time_ours(const struct cloud_points *cloud, double start_ppb)
{
	static double scratch[2 * POINTS_MAX];
	struct edgefit_side side[2];
	struct edgefit_hint hint = EDGEFIT_NO_HINT;
	size_t most[2] = {16, 16};
	struct edgefit_line line;
	double began = now_us();
	int runs = 50;

	hint.slope_ppb = start_ppb;
	hint.first_k = start_ppb > 0 ? 16 : 2;
	for (int s = 0; s < 2; s++)
		side[s] = (struct edgefit_side){cloud->x[s], cloud->y[s], cloud->count};
	for (int run = 0; run < runs; run++)
		edgefit_adapt(side, most, 16, &hint, scratch, &line);
	return (now_us() - began) / runs;
}

static void quiet(const char *text)
{
	(void)text;
}

static double time_liblinear(const struct cloud_points *cloud)
{
	size_t count = 2 * cloud->count;
	struct feature_node *nodes = malloc(4 * count * sizeof(*nodes));
	struct feature_node **rows = malloc(count * sizeof(struct feature_node *));
	double *labels = malloc(count * sizeof(*labels)), began;
	struct problem problem = {.l = (int)count, .n = 3, .y = labels, .x = rows, .bias = 1};
	struct parameter parameter = {
		.solver_type = L2R_L2LOSS_SVC, .C = 1 / (NU * (double)count), .eps = 0.01};
	struct model *model;

	for (size_t i = 0; i < count; i++) {
		int s = i >= cloud->count;
		size_t p = i % cloud->count;

		rows[i] = &nodes[4 * i];
		labels[i] = s ? -1 : 1;
		rows[i][0] = (struct feature_node){1, cloud->x[s][p]};
		rows[i][1] = (struct feature_node){2, cloud->y[s][p] * 1e-3};
		rows[i][2] = (struct feature_node){3, 1};
		rows[i][3] = (struct feature_node){-1, 0};
	}
	set_print_string_function(quiet);
	began = now_us();
	model = train(&problem, &parameter);
	began = now_us() - began;
	free_and_destroy_model(&model);
	free(nodes);
	free(rows);
	free(labels);
	return began;
}

/* A host's edge, fed by probes every half millisecond. */
static double time_edge(double load, struct rng *rng)
{
	struct edge *edge = malloc(sizeof(*edge));
	struct edge_scratch *scratch = malloc(sizeof(*scratch));
	double spent = 0;
	int fits = 0;

	edge_init(edge, 2000000000);
	for (int64_t t = 1000000000; edge && scratch && t < 11000000000; t += 250000) {
		for (int s = 0; s < 2; s++) {
			double wait = 1000;
			struct clock_probe probe = {.pair = (uint32_t)(t / 500000)};

			for (int hop = 0; hop < 4; hop++)
				if (rng_unit(rng) < load)
					wait += 8000 * rng_exponential(rng);
			probe.tx_ns = t + (int64_t)(4 * rng_normal(rng));
			probe.rx_ns = t + (int64_t)(wait + 4 * rng_normal(rng));
			edge_add(edge, (enum clock_side)s, &probe, t + 1000000);
		}
		if (t % 250000000)
			continue;
		double began = now_us();

		edge_fit(edge, t, NULL, scratch);
		spent += now_us() - began;
		fits++;
	}
	free(edge);
	free(scratch);
	return spent / fits;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	static const size_t counts[] = {100, 500, 2000};
	static const double loads[] = {0, 0.8};
	struct rng rng;

	rng_seed(&rng, seed);
	printf("# seed %lu; us of CPU a fit, points are of both sides\n", (unsigned long)seed);
	for (size_t c = 0; c < 3; c++)
		for (size_t l = 0; l < 2; l++) {
			struct cloud_points cloud;
			double ours, svm, linear;

			cloud_make(&cloud, counts[c], loads[l], &rng);
			ours = time_ours(&cloud, 0);
			svm = bench_libsvm(cloud.x, cloud.y, cloud.count,
					   1 / (NU * 2 * (double)counts[c]));
			linear = time_liblinear(&cloud);
			printf("%5zu points, load %.0f%%: adaptive fit cold %7.1f warm %7.1f  "
			       "libsvm %8.1f "
			       "(%.1f x)  liblinear %8.1f (%.1f x)\n",
			       2 * counts[c], 100 * loads[l], ours, time_ours(&cloud, 100), svm,
			       svm / ours, linear, linear / ours);
			cloud_free(&cloud);
		}
	for (double load = 0; load < 1; load += 0.4) {
		double us = time_edge(load, &rng);

		printf("whole edge fit, 8000 points a window seen, load %.0f%%: %.1f us; ten edges "
		       "every "
		       "250 ms: %.2f%% of a core\n",
		       100 * load, us, us * 10 / 2500);
	}
	for (int i = 0; i < 2; i++) {
		struct class_oracle oracle = class_oracle_run(i ? 10e9 : 100e9, 200, seed);

		printf("probes in a priority class at 90%% of %s Gb/s, an edge across four hops, "
		       "2 s: offset off by "
		       "%.1f ns rms, by the best estimator possible %.1f (%.2f of that)\n",
		       i ? "10" : "100", oracle.ours_ns, oracle.best_ns,
		       oracle.best_ns / oracle.ours_ns);
	}
	return 0;
}
