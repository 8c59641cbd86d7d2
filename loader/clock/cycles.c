// SPDX-License-Identifier: BSD-2-Clause
/*
 * The CPU's counter against fabric time, read in each round, for `escapement colocation`: points of
 * two seconds (clocksync/cycles.h), in the reply to the verb `cycles`.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/readfile.h"
#include "clocksync/local.h"
#include "internal.h"

#define SECOND_NS 1000000000ull
#define CHECK_NS (60 * SECOND_NS)
#define READ_TRIES 5
#define CLOCKSOURCES "/sys/devices/system/clocksource/clocksource0/available_clocksource"
#define FILE_BYTES_MOST 4096

#if defined(__x86_64__)
#define COUNTER "tsc"
#define COUNTER_CLOCKSOURCE "tsc"

static uint64_t read_counter(void)
{
	/* Neither the reading before nor the one after may pass it. */
	uint64_t counter;

	__builtin_ia32_lfence();
	counter = __builtin_ia32_rdtsc();
	__builtin_ia32_lfence();
	return counter;
}
#elif defined(__aarch64__)
#define COUNTER "cntvct"
#define COUNTER_CLOCKSOURCE "arch_sys_counter"

static uint64_t read_counter(void)
{
	uint64_t counter;

	__asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(counter)::"memory");
	return counter;
}
#else
#define COUNTER ""
#define COUNTER_CLOCKSOURCE ""

static uint64_t read_counter(void)
{
	return 0;
}
#endif

/* NULL: the kernel trusts the counter. */
static const char *counter_note(void)
{
	char *text = NULL, *error = NULL, *rest, *name;
	bool found = false;
	size_t bytes;

	if (!COUNTER[0])
		return "this CPU has no counter that is known here";
	if (readfile(CLOCKSOURCES, FILE_BYTES_MOST, &text, &bytes, NULL, &error)) {
		free(error);
		return "the kernel's list of clock sources cannot be read, so that it is not known "
		       "whether the CPU's counter is stable";
	}
	for (name = strtok_r(text, " \n", &rest); name; name = strtok_r(NULL, " \n", &rest))
		found = found || !strcmp(name, COUNTER_CLOCKSOURCE);
	free(text);
	return found ? NULL
		     : "the kernel does not list the CPU's counter as a clock source: it is "
		       "emulated or not stable, and shows nothing of the machine";
}

/* The counter and the local clock at one instant, to half of what is returned. */
static int64_t read_both(const struct clock *clock, int64_t *local_ns, uint64_t *counter)
{
	int64_t least_ns = INT64_MAX;

	for (int i = 0; i < READ_TRIES; i++) {
		uint64_t before_ns = time_local_ns(), now = read_counter();
		int64_t width_ns = (int64_t)(time_local_ns() - before_ns);

		if (width_ns >= least_ns)
			continue;
		least_ns = width_ns;
		*local_ns = clock_local_at(clock, before_ns + (uint64_t)width_ns / 2);
		/* In the lab it drifts as the local clock does: one oscillator. */
		*counter = (uint64_t)clock_local_ns(now, 0, clock->lab_drift_ppb);
	}
	return least_ns;
}

static void report_step(struct clock *clock, const struct cycles_step *step)
{
	struct clock_cycles *own = &clock->cycles;

	own->steps++;
	log_warning("the CPU's counter changed its rate by %.3f ppm, and was set by %.0f ns: this "
		    "machine was moved to another host, or its counter was set",
		    (step->after_ppb - step->before_ppb) / 1e3, step->jump_ns);
	clock_report(clock, CLOCK_COUNTER_STEP, "",
		     json_pack("{s:f, s:f}", "rate_step_ppb", step->after_ppb - step->before_ppb,
			       "jump_ns", step->jump_ns));
}

void clock_cycles_round(struct clock *clock, int64_t local_ns)
{
	const struct hostclock *host = &clock->host;
	struct clock_cycles *own = &clock->cycles;
	struct cycles_step step;
	int64_t width_ns;
	uint64_t counter = 0;

	if (own->moves != host->consensus.moves) {
		own->moves = host->consensus.moves;
		cycles_restart(&own->series);
	}
	if (!own->checked_ns || local_ns - own->checked_ns > (int64_t)CHECK_NS) {
		const char *note = counter_note();

		if (note)
			cycles_restart(&own->series);
		own->checked_ns = local_ns;
		own->note = note;
	}
	if (own->note || host->state != CLOCK_SYNCED)
		return;
	width_ns = read_both(clock, &local_ns, &counter);
	if (cycles_add(&own->series, clock_model_read(&host->model, local_ns), counter,
		       (double)(clock_model_bound(&host->model, local_ns) + width_ns / 2), &step))
		report_step(clock, &step);
}

/* --- what is shown --- */

static void put_points(json_t *object, const struct cycles *series)
{
	json_t *ahead = json_array(), *bound = json_array();
	int64_t first = series->last - series->count + 1;

	for (int64_t at = first; at <= series->last; at++) {
		struct cycles_point point = cycles_at(series, at);
		bool known = isfinite(point.ahead_ns);

		json_array_append_new(ahead,
				      known ? json_integer(llrint(point.ahead_ns)) : json_null());
		json_array_append_new(bound, known ? json_integer((json_int_t)point.bound_ns)
						   : json_null());
	}
	json_put_integer(object, "first_fabric_ns", first * CYCLES_STEP_NS);
	json_put_integer(object, "step_ns", CYCLES_STEP_NS);
	json_put(object, "ahead_ns", ahead);
	json_put(object, "bound_ns", bound);
}

json_t *clock_reply_cycles(void *self, struct request *request)
{
	const struct clock *clock = self;
	const struct clock_cycles *own = &clock->cycles;
	struct cycles_rate rate;
	json_t *object = json_object();

	(void)request;
	json_put_text(object, "counter", COUNTER);
	json_put_count(object, "steps", own->steps);
	json_put_text(object, "note", own->note);
	if (!own->series.reference_hz)
		return object;
	json_put_count(object, "reference_hz", own->series.reference_hz);
	if (cycles_rate(&own->series, &rate)) {
		json_put_real(object, "rate_hz", rate.hz);
		json_put_real(object, "rate_bound_ppb", rate.bound_ppb);
		if (isfinite(rate.noise_ns))
			json_put_real(object, "noise_ns", rate.noise_ns);
	}
	if (own->series.count)
		put_points(object, &own->series);
	return object;
}
