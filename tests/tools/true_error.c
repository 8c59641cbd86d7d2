// SPDX-License-Identifier: BSD-2-Clause
/*
 * The true errors of a lab's clocks. All hosts run on one kernel, so one
 * instant of CLOCK_MONOTONIC is each host's local time by the skew that the lab
 * gave it, and fabric time by the page that its applications map. What two
 * hosts differ by at one instant is their error, to the nanosecond.
 *
 * true_error --seconds N [--interval-ms 10] [--series-ms N] NAME:OFFSET_NS:DRIFT_PPB:PAGE...
 *
 * A page that is not there yet is tried again: it may be started before the
 * daemons. Prints one JSON object.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "loader/libescapement/escapement.h"
#include "loader/libescapement/page.h"

#define HOSTS_MAX 64
#define TRIES_MAX 1000

struct host {
	char name[32];
	const char *path;
	long long offset_ns, drift_ppb; /* the truth */
	const struct clockpage_layout *page;
	struct escapement_clock *clock;
	unsigned long long opened_ns;
	struct clock_model model; /* of this sample */
	bool known;
	bool settled; /* synced, or in holdover since */
	long long fabric_ns, bound_ns;
	double *bounds; /* of each sample that had a time */
	size_t count;
	unsigned long states[4];
};

struct pair {
	double sum, squares;
	unsigned long count, inside;
	long long worst;
};

struct run {
	struct host hosts[HOSTS_MAX];
	size_t count;
	double seconds, interval_ms, series_ms;
	double *errors, *bounds; /* of each reading of a pair */
	size_t readings, readings_max;
	double *settled_errors; /* of those of which both hosts are settled */
	size_t settled, settled_inside;
	struct pair pairs[HOSTS_MAX][HOSTS_MAX];
	unsigned long samples, inside, apart;
	unsigned long long begun_ns, series_due_ns;
	size_t series_count;
};

static volatile sig_atomic_t ends;

static void on_signal(int number)
{
	(void)number;
	ends = 1;
}

static unsigned long long monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec;
}

/* --- the pages --- */

static void host_open(struct host *host)
{
	struct stat status;
	void *memory;
	int fd = open(host->path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (fstat(fd, &status) || status.st_size < CLOCKPAGE_BYTES ||
	    escapement_clock_open(&host->clock, host->path)) {
		close(fd);
		return;
	}
	memory = mmap(NULL, CLOCKPAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (memory == MAP_FAILED)
		return;
	host->page = memory;
	host->opened_ns = monotonic_ns();
	if (host->page->lab_offset_ns != host->offset_ns ||
	    host->page->lab_drift_ppb != host->drift_ppb) {
		fprintf(stderr, "%s: its daemon has another skew than the lab\n", host->name);
		exit(1);
	}
}

static bool host_take_model(struct host *host)
{
	unsigned int before;

	for (int i = 0; i < TRIES_MAX; i++) {
		before = __atomic_load_n(&host->page->sequence, __ATOMIC_ACQUIRE);
		if (before & 1)
			continue;
		host->model = host->page->model;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&host->page->sequence, __ATOMIC_RELAXED) == before)
			return host->model.generation && host->model.state != CLOCK_FREE_RUNNING;
	}
	return false;
}

static void host_read(struct host *host, unsigned long long now_ns)
{
	long long local_ns = clock_local_ns(now_ns, host->offset_ns, host->drift_ppb);

	host->fabric_ns = clock_model_read(&host->model, local_ns);
	host->bound_ns = clock_model_bound(&host->model, local_ns);
	host->bounds[host->count++] = (double)host->bound_ns;
	host->states[host->model.state & 3]++;
	host->settled = host->model.state == CLOCK_SYNCED ||
			(host->settled && host->model.state == CLOCK_HOLDOVER);
}

/* The library's interval has to contain the model's reading just before it and after. */
static bool library_agrees(struct host *host)
{
	long long before_ns, after_ns, slack_ns;
	struct escapement_time time;
	unsigned long long generation = host->model.generation;

	before_ns = clock_model_read(
		&host->model, clock_local_ns(monotonic_ns(), host->offset_ns, host->drift_ppb));
	if (escapement_now(host->clock, &time))
		return true;
	after_ns = clock_model_read(
		&host->model, clock_local_ns(monotonic_ns(), host->offset_ns, host->drift_ppb));
	if (!host_take_model(host) || host->model.generation != generation)
		return true; /* a new model came in between */
	slack_ns = (time.latest_ns - time.earliest_ns) / 2;
	return time.earliest_ns + slack_ns >= before_ns - 1 &&
	       time.earliest_ns + slack_ns <= after_ns + 1;
}

/* --- a sample --- */

static void take_pair(struct run *run, size_t i, size_t j)
{
	const struct host *a = &run->hosts[i], *b = &run->hosts[j];
	long long error = a->fabric_ns - b->fabric_ns, size = llabs(error);
	struct pair *pair = &run->pairs[i][j];
	bool inside = size <= a->bound_ns + b->bound_ns;

	if (run->readings < run->readings_max) {
		run->errors[run->readings] = (double)size;
		run->bounds[run->readings++] = (double)(a->bound_ns + b->bound_ns);
		run->inside += inside;
		if (a->settled && b->settled) {
			run->settled_errors[run->settled++] = (double)size;
			run->settled_inside += inside;
		}
	}
	pair->count++;
	pair->inside += inside;
	pair->sum += (double)error;
	pair->squares += (double)error * (double)error;
	if (size > llabs(pair->worst))
		pair->worst = error;
}

static void print_series(struct run *run, unsigned long long now_ns)
{
	long long bound = 0, error = 0;
	size_t with = 0, synced = 0;

	for (size_t i = 0; i < run->count; i++) {
		const struct host *a = &run->hosts[i];

		if (!a->known)
			continue;
		with++;
		synced += a->model.state == CLOCK_SYNCED;
		if (a->bound_ns > bound)
			bound = a->bound_ns;
		for (size_t j = 0; j < i; j++)
			if (run->hosts[j].known &&
			    llabs(a->fabric_ns - run->hosts[j].fabric_ns) > error)
				error = llabs(a->fabric_ns - run->hosts[j].fabric_ns);
	}
	printf("%s\n  {\"at_ms\":%.1f,\"with_time\":%zu,\"synced\":%zu,\"bound_max_ns\":%lld,"
	       "\"error_max_ns\":%lld}",
	       run->series_count++ ? "," : "", (double)(now_ns - run->begun_ns) / 1e6, with, synced,
	       bound, error);
}

static void sample(struct run *run)
{
	unsigned long long now_ns;

	for (size_t i = 0; i < run->count; i++) {
		struct host *host = &run->hosts[i];

		if (!host->page)
			host_open(host);
		host->known = host->page && host_take_model(host);
		if (host->page && !host->known)
			host->states[CLOCK_FREE_RUNNING]++;
	}
	now_ns = monotonic_ns();
	for (size_t i = 0; i < run->count; i++)
		if (run->hosts[i].known)
			host_read(&run->hosts[i], now_ns);
	for (size_t i = 0; i < run->count; i++)
		for (size_t j = 0; j < i; j++)
			if (run->hosts[i].known && run->hosts[j].known)
				take_pair(run, j, i);
	if (run->series_ms > 0 && now_ns >= run->series_due_ns) {
		run->series_due_ns += (unsigned long long)(run->series_ms * 1e6);
		print_series(run, now_ns);
	}
	if (run->hosts[run->samples % run->count].known &&
	    !library_agrees(&run->hosts[run->samples % run->count]))
		run->apart++;
	run->samples++;
}

static void sleep_until(unsigned long long at_ns)
{
	struct timespec at = {(time_t)(at_ns / 1000000000), (long)(at_ns % 1000000000)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void watch(struct run *run)
{
	unsigned long long interval_ns = (unsigned long long)(run->interval_ms * 1e6);
	unsigned long long due_ns, end_ns;

	run->begun_ns = run->series_due_ns = due_ns = monotonic_ns();
	end_ns = run->begun_ns + (unsigned long long)(run->seconds * 1e9);
	printf("{\"begun_monotonic_ns\":%llu,\"series\":[", run->begun_ns);
	while (!ends && due_ns < end_ns) {
		sample(run);
		due_ns += interval_ns;
		if (due_ns < monotonic_ns())
			due_ns = monotonic_ns();
		sleep_until(due_ns);
	}
}

/* --- the result --- */

static int compare(const void *a, const void *b)
{
	double one = *(const double *)a, other = *(const double *)b;

	return (one > other) - (one < other);
}

/* Sorts @values. */
static void print_quantiles(const char *name, double *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare);
	printf(",\"%s\":{\"p50\":%.0f,\"p99\":%.0f,\"max\":%.0f}", name, values[count / 2],
	       values[(size_t)((double)(count - 1) * 0.99)], values[count - 1]);
}

static void print_host(struct host *host)
{
	printf("{\"name\":\"%s\",\"opened_monotonic_ns\":%llu,\"free_running\":%lu,"
	       "\"converging\":%lu,\"synced\":%lu,\"holdover\":%lu",
	       host->name, host->opened_ns, host->states[CLOCK_FREE_RUNNING],
	       host->states[CLOCK_CONVERGING], host->states[CLOCK_SYNCED],
	       host->states[CLOCK_HOLDOVER]);
	if (host->count)
		print_quantiles("bound_ns", host->bounds, host->count);
	printf("}");
}

static void print_pairs(const struct run *run)
{
	const char *comma = "";

	for (size_t i = 0; i < run->count; i++)
		for (size_t j = i + 1; j < run->count; j++) {
			const struct pair *pair = &run->pairs[i][j];
			double mean = pair->sum / (double)pair->count;
			double variance = pair->squares / (double)pair->count - mean * mean;

			if (!pair->count)
				continue;
			printf("%s\n  {\"a\":\"%s\",\"b\":\"%s\",\"mean_ns\":%.1f,"
			       "\"variance_ns2\":%.1f,\"worst_ns\":%lld,\"readings\":%lu,"
			       "\"inside\":%lu}",
			       comma, run->hosts[i].name, run->hosts[j].name, mean,
			       variance > 0 ? variance : 0, pair->worst, pair->count, pair->inside);
			comma = ",";
		}
}

static void print_result(struct run *run)
{
	printf("],\"samples\":%lu,\"readings\":%zu,\"inside\":%lu,\"library_apart\":%lu",
	       run->samples, run->readings, run->inside, run->apart);
	printf(",\"settled\":%zu,\"settled_inside\":%zu", run->settled, run->settled_inside);
	if (run->settled)
		print_quantiles("settled_error_ns", run->settled_errors, run->settled);
	if (run->readings) {
		print_quantiles("error_ns", run->errors, run->readings);
		print_quantiles("pair_bound_ns", run->bounds, run->readings);
	}
	printf(",\"pairs\":[");
	print_pairs(run);
	printf("],\"hosts\":[");
	for (size_t i = 0; i < run->count; i++) {
		printf("%s\n  ", i ? "," : "");
		print_host(&run->hosts[i]);
	}
	printf("]}\n");
}

/* --- arguments --- */

static int usage(void)
{
	fprintf(stderr, "usage: true_error --seconds N [--interval-ms 10] [--series-ms N] "
			"NAME:OFFSET_NS:DRIFT_PPB:PAGE...\n");
	return 2;
}

static bool host_parse(struct host *host, char *word)
{
	int used = 0;

	if (sscanf(word, "%31[^:]:%lld:%lld:%n", host->name, &host->offset_ns, &host->drift_ppb,
		   &used) != 3 ||
	    !used || !word[used])
		return false;
	host->path = word + used;
	return true;
}

static bool parse(struct run *run, int argc, char **argv)
{
	int at = 1;

	run->interval_ms = 10;
	for (; at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2) {
		double value = atof(argv[at + 1]);

		if (!strcmp(argv[at], "--seconds"))
			run->seconds = value;
		else if (!strcmp(argv[at], "--interval-ms"))
			run->interval_ms = value;
		else if (!strcmp(argv[at], "--series-ms"))
			run->series_ms = value;
		else
			return false;
	}
	for (; at < argc && run->count < HOSTS_MAX; at++)
		if (!host_parse(&run->hosts[run->count++], argv[at]))
			return false;
	return at == argc && run->count >= 2 && run->seconds > 0 && run->interval_ms >= 0.1;
}

static bool make_room(struct run *run)
{
	size_t samples = (size_t)(run->seconds * 1000 / run->interval_ms) + 2;

	run->readings_max = samples * run->count * (run->count - 1) / 2;
	run->errors = calloc(run->readings_max, sizeof(*run->errors));
	run->bounds = calloc(run->readings_max, sizeof(*run->bounds));
	run->settled_errors = calloc(run->readings_max, sizeof(*run->settled_errors));
	for (size_t i = 0; i < run->count; i++) {
		run->hosts[i].bounds = calloc(samples, sizeof(*run->hosts[i].bounds));
		if (!run->hosts[i].bounds)
			return false;
	}
	return run->errors && run->bounds && run->settled_errors;
}

int main(int argc, char **argv)
{
	static struct run run;

	if (!parse(&run, argc, argv))
		return usage();
	if (!make_room(&run)) {
		fprintf(stderr, "true_error: no memory for so many samples\n");
		return 1;
	}
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	watch(&run);
	print_result(&run);
	return 0;
}
