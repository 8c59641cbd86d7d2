// SPDX-License-Identifier: BSD-2-Clause
/*
 * How much the machine keeps programs from running: a loop on each CPU at once reads the clock, and
 * two readings that are more than 5 us apart are a gap. A CPU that nothing else wants has few.
 *
 * noise [-j] [SECONDS]   one line of text, or JSON; default 2 s
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GAP_NS 5000
#define GAPS_MAX (1 << 20) /* of a CPU */
#define CPUS_MAX 256

static struct cpu {
	pthread_t thread;
	int number;
	uint64_t length_ns;
	uint32_t *gaps; /* ns */
	size_t count;
} cpus[CPUS_MAX];

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void *spin(void *argument)
{
	struct cpu *cpu = argument;
	uint64_t start, last, now;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu->number, &set);
	sched_setaffinity(0, sizeof(set), &set);
	start = last = now_ns();
	do {
		now = now_ns();
		if (now - last > GAP_NS && cpu->count < GAPS_MAX)
			cpu->gaps[cpu->count++] =
				now - last < UINT32_MAX ? (uint32_t)(now - last) : UINT32_MAX;
		last = now;
	} while (now - start < cpu->length_ns);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The gaps of all CPUs in order; their number. */
static size_t merge(int n, uint32_t **all)
{
	size_t count = 0, at = 0;

	for (int i = 0; i < n; i++)
		count += cpus[i].count;
	*all = calloc(count + 1, sizeof(**all));
	for (int i = 0; *all && i < n; i++) {
		memcpy(*all + at, cpus[i].gaps, cpus[i].count * sizeof(**all));
		at += cpus[i].count;
	}
	if (*all)
		qsort(*all, count, sizeof(**all), compare);
	return count;
}

static int report(int n, double seconds, bool json)
{
	uint32_t *gaps;
	size_t count = merge(n, &gaps);
	double lost = 0, rate = (double)count / seconds / n;

	if (!gaps)
		return 1;
	for (size_t i = 0; i < count; i++)
		lost += gaps[i];
	lost /= 1e9 * seconds * n;
	printf(json ? "{\"cpus\": %d, \"seconds\": %g, \"gaps_per_second\": %.1f, \"median_us\": "
		      "%.1f, "
		      "\"p99_us\": %.1f, \"max_us\": %.1f, \"share\": %.5f}\n"
		    : "Scheduling noise on %d CPUs in %g s: %.1f gaps above 5 us a second and CPU, "
		      "median %.1f us, 99%% %.1f us, longest %.1f us; %.5f of the time\n",
	       n, seconds, rate, count ? gaps[count / 2] / 1e3 : 0,
	       count ? gaps[count * 99 / 100] / 1e3 : 0, count ? gaps[count - 1] / 1e3 : 0, lost);
	free(gaps);
	return 0;
}

int main(int argc, char **argv)
{
	bool json = argc > 1 && !strcmp(argv[1], "-j");
	double seconds = argc > 1 + json ? atof(argv[1 + json]) : 2;
	cpu_set_t allowed;
	int n = 0;

	if (seconds <= 0 || seconds > 3600 || sched_getaffinity(0, sizeof(allowed), &allowed)) {
		fprintf(stderr, "usage: noise [-j] [SECONDS]\n");
		return 2;
	}
	for (int number = 0; number < CPU_SETSIZE && n < CPUS_MAX; number++) {
		if (!CPU_ISSET(number, &allowed))
			continue;
		cpus[n] = (struct cpu){.number = number, .length_ns = (uint64_t)(seconds * 1e9)};
		cpus[n].gaps = calloc(GAPS_MAX, sizeof(*cpus[n].gaps));
		if (!cpus[n].gaps || pthread_create(&cpus[n].thread, NULL, spin, &cpus[n]))
			return 1;
		n++;
	}
	for (int i = 0; i < n; i++)
		pthread_join(cpus[i].thread, NULL);
	return report(n, seconds, json);
}
