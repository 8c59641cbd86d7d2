// SPDX-License-Identifier: BSD-2-Clause
/* When what is sent, what it costs, and what is wrong with the result. Pure. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "internal.h"

/* On Ethernet with preamble, CRC and gap. */
#define FRAME_BYTES 38
#define PROBE_BYTES (FRAME_BYTES + 20 + 8 + ESC_PATH_DATAGRAM_BYTES)
#define MAD_TO_DEVIATION 1.4826 /* of a normal distribution */

/* --- time --- */

uint64_t pairs_run_id(uint64_t fabric_ns)
{
	return (fabric_ns + PAIRS_LEAD_NS + PAIRS_GRID_NS - 1) / PAIRS_GRID_NS * PAIRS_GRID_NS;
}

#define REPLIES_NS 200000000ull

/* The part of a round in which requests are sent. */
static uint64_t sending_ns_of(uint64_t round_ns)
{
	return round_ns * 4 / 10 < REPLIES_NS ? round_ns * 6 / 10 : round_ns - REPLIES_NS;
}

/*
 * Path requests are due at 0, 1, ... 99 intervals and echo requests at 16.5, 33, ... of the first
 * end; a quarter of an interval later, so that the replies do not meet them, those of the second.
 */
#define QUARTERS (4 * PAIRS_PROBES)
#define ECHO_QUARTERS (4 * (PAIRS_PROBES / PAIRS_ECHOES))

enum pairs_phase pairs_at(const struct pairs_plan *plan, uint64_t fabric_ns, bool second,
			  uint64_t *round, unsigned int *probes, unsigned int *echoes)
{
	uint64_t at_ns, sending_ns = sending_ns_of(plan->round_ns), at;

	*round = *probes = *echoes = 0;
	if (fabric_ns < plan->run_ns)
		return PAIRS_WAITING;
	*round = (fabric_ns - plan->run_ns) / plan->round_ns;
	if (*round >= plan->rounds)
		return PAIRS_OVER;
	at_ns = (fabric_ns - plan->run_ns) % plan->round_ns;
	at = at_ns * QUARTERS / sending_ns;
	at = at > second ? at - second : 0;
	*probes = at / 4 < PAIRS_PROBES ? (unsigned int)at / 4 : PAIRS_PROBES;
	at = at > 2 ? (at - 2) / ECHO_QUARTERS : 0;
	*echoes = at < PAIRS_ECHOES ? (unsigned int)at : PAIRS_ECHOES;
	return PAIRS_RUNNING;
}

/* Both ends send requests, and reply to those of the other. */
static uint64_t bytes_of_round(unsigned int mtu)
{
	return 2ull * (PAIRS_PROBES * PROBE_BYTES +
		       PAIRS_ECHOES / 2 * (2 * FRAME_BYTES + mtu + PAIRS_ECHO_SMALL_BYTES));
}

struct pairs_load pairs_load(const struct pairs_plan *plan, unsigned int mtu)
{
	uint64_t packets = 2 * (PAIRS_PROBES + PAIRS_ECHOES);
	uint64_t bytes = bytes_of_round(mtu);
	double per_second = 1e9 / (double)plan->round_ns;

	return (struct pairs_load){.packets_per_second = (double)packets * per_second,
				   .bytes_per_second = (double)bytes * per_second,
				   .bytes = bytes * plan->rounds};
}

#define ROUND_STEP_NS 100000000.0

uint64_t pairs_round_least(unsigned int mtu, double bps)
{
	double sending_ns, round_ns;

	if (!(bps > 0))
		return 0;
	sending_ns = 8e9 * (double)bytes_of_round(mtu) / (bps * PAIRS_SHARE);
	round_ns = fmin(sending_ns / 0.6, sending_ns + REPLIES_NS);
	return (uint64_t)fmin(ceil(round_ns / ROUND_STEP_NS) * ROUND_STEP_NS, 1e18);
}

/* --- what is wrong --- */

static int by_value(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

/* Sorts them. */
static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), by_value);
	return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* How far above the median @values (which are changed) are usual. */
static double spread(double *values, size_t count, double middle)
{
	for (size_t i = 0; i < count; i++)
		values[i] = fabs(values[i] - middle);
	return 3 * MAD_TO_DEVIATION * median(values, count);
}

bool pairs_is_measured(const struct pairs_pair *result)
{
	return result->sent >= PAIRS_PROBES_LEAST;
}

static bool has_delays(const struct pairs_pair *result)
{
	return pairs_is_measured(result) && !result->used && result->out_ns > 0 &&
	       result->in_ns > 0;
}

static void limit_of(const struct pairs_pair *results, size_t count, unsigned int class,
		     double *delays, double *differences, struct pairs_limit *out)
{
	double middle;

	*out = (struct pairs_limit){};
	for (size_t i = 0; i < count; i++) {
		if (results[i].class != class || !has_delays(&results[i]))
			continue;
		delays[2 * out->pairs] = (double)results[i].out_ns;
		delays[2 * out->pairs + 1] = (double)results[i].in_ns;
		differences[out->pairs++] = fabs((double)(results[i].out_ns - results[i].in_ns));
	}
	if (!out->pairs)
		return;
	out->median_ns = median(delays, 2 * out->pairs);
	out->limit_ns = out->median_ns +
			fmax(spread(delays, 2 * out->pairs, out->median_ns), out->median_ns / 4);
	middle = median(differences, out->pairs);
	out->asymmetry_ns =
		middle + fmax(spread(differences, out->pairs, middle), out->median_ns / 4);
}

int pairs_limits(const struct pairs_pair *results, size_t count,
		 struct pairs_limit out[PAIRS_CLASSES])
{
	double *values = calloc(3 * count + 1, sizeof(*values));

	if (!values)
		return -ENOMEM;
	for (unsigned int class = 0; class < PAIRS_CLASSES; class ++)
		limit_of(results, count, class, values, values + 2 * count, &out[class]);
	free(values);
	return 0;
}

/* The clock may be wrong by the bound; a difference of both directions by twice that. */
static unsigned int judge_delays(const struct pairs_pair *result, const struct pairs_limit *limit)
{
	double most = (double)(result->out_ns > result->in_ns ? result->out_ns : result->in_ns);
	double difference = fabs((double)(result->out_ns - result->in_ns));

	if (!has_delays(result) || limit->pairs < PAIRS_JUDGED_LEAST)
		return 0;
	if (most > limit->limit_ns + result->bound_ns)
		return 1u << PAIRS_LATENCY;
	return difference > limit->asymmetry_ns + 2.0 * result->bound_ns ? 1u << PAIRS_ASYMMETRY
									 : 0;
}

/* Where no ICMP is replied to, nothing is known. */
static unsigned int judge_size(const struct pairs_pair *result)
{
	return result->full_sent >= PAIRS_ECHOES / 2 && !result->full_replied &&
			       2 * result->small_replied > result->small_sent
		       ? 1u << PAIRS_MTU
		       : 0;
}

unsigned int pairs_judge(const struct pairs_pair *result,
			 const struct pairs_limit limits[PAIRS_CLASSES])
{
	if (!pairs_is_measured(result))
		return 0;
	if (!result->replied)
		return 1u << PAIRS_SILENT;
	return (result->replied < result->sent ? 1u << PAIRS_LOSS : 0) | judge_size(result) |
	       judge_delays(result, &limits[result->class]);
}
