// SPDX-License-Identifier: BSD-2-Clause
/* libsvm alone: it and liblinear use one set of names for different things. */
#include <stdlib.h>
#include <libsvm/svm.h>
#include <time.h>

double bench_libsvm(double *const x[2], double *const y[2], size_t count, double penalty);

static void quiet(const char *text)
{
	(void)text;
}

double bench_libsvm(double *const x[2], double *const y[2], size_t count, double penalty)
{
	struct svm_node *nodes = malloc(6 * count * sizeof(*nodes));
	struct svm_node **rows = malloc(2 * count * sizeof(struct svm_node *));
	double *labels = malloc(2 * count * sizeof(*labels));
	struct svm_problem problem = {.l = (int)(2 * count), .y = labels, .x = rows};
	struct svm_parameter parameter = {.svm_type = C_SVC,
					  .kernel_type = LINEAR,
					  .cache_size = 64,
					  .C = penalty,
					  .eps = 0.001,
					  .shrinking = 1};
	struct timespec from, to;
	struct svm_model *model;

	for (size_t i = 0; i < 2 * count; i++) {
		int s = i >= count;

		rows[i] = &nodes[3 * i];
		labels[i] = s ? -1 : 1;
		rows[i][0] = (struct svm_node){1, x[s][i % count]};
		rows[i][1] = (struct svm_node){2, y[s][i % count] * 1e-3};
		rows[i][2] = (struct svm_node){-1, 0};
	}
	svm_set_print_string_function(quiet);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	model = svm_train(&problem, &parameter);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	svm_free_and_destroy_model(&model);
	free(nodes);
	free(rows);
	free(labels);
	return (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) * 1e-3;
}
