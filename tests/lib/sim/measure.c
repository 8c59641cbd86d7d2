// SPDX-License-Identifier: BSD-2-Clause
/* What readers would see, against the truth. */
#include "tests/lib/sim/sim.h"

#include <stdlib.h>
#include <time.h>

#define PAIRS_AT_MOST 2000
#define SURE_NS 10000

double sim_cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct reading {
	size_t host;
	int64_t fabric_ns;
	double fraction_ns; /* of the local time, so that rounding it is not held against the clock
			     */
	double bound_ns;
	double lines_ns[4]; /* the newest line, evaluated some time back, against fabric_ns */
};

static bool lying(const struct sim *sim, size_t h)
{
	return sim->hosts[h].falseticker && (double)sim->now_ns * 1e-9 >= sim->config.lie_from_s;
}

static void note_milestones(struct sim *sim, struct sim_host *host)
{
	bool sure = host->clock.state != CLOCK_FREE_RUNNING && host->clock.model.generation &&
		    host->clock.bound.now_ns < SURE_NS;

	if (!host->up)
		return;
	if (sure && !host->sure_at_ns)
		host->sure_at_ns = sim->now_ns;
	if (host->clock.state == CLOCK_SYNCED && !host->synced_at_ns)
		host->synced_at_ns = sim->now_ns;
}

static bool read_host(struct sim *sim, size_t h, struct reading *reading)
{
	struct sim_host *host = &sim->hosts[h];
	int64_t local_ns = oscillator_read(&host->oscillator, sim->now_ns, &reading->fraction_ns);

	sim->result.samples_of_hosts++;
	if (!host->up || host->clock.state == CLOCK_FREE_RUNNING) {
		sim->result.unsynced++;
		return false;
	}
	reading->host = h;
	reading->fabric_ns = clock_model_read(&host->clock.model, local_ns);
	reading->bound_ns = (double)clock_model_bound(&host->clock.model, local_ns);
	stats_add(&sim->result.part[0], host->clock.consensus.residual_ns);
	stats_add(&sim->result.part[1], host->clock.consensus.prediction_error_ns);
	stats_add(&sim->result.part[2], host->clock.consensus.formal_ns);
	stats_add(&sim->result.part[3], host->clock.consensus.step_error_ns);
	if (reading->fabric_ns < sim->last_read[h])
		sim->result.backwards++;
	sim->last_read[h] = reading->fabric_ns;
	for (int i = 0; i < 4; i++) {
		double fraction;
		int64_t back = 250000000LL * (i + 1), at;

		at = clock_line_at(&host->clock.consensus.line, local_ns - back, &fraction);
		/* Where the oscillator really was then is in the line's own local time. */
		reading->lines_ns[i] = (double)(at + back - reading->fabric_ns) + fraction;
	}
	return true;
}

/* Local clocks run apart between a past instant and now: known here, so taken out. */
static double ran_since(const struct sim *sim, size_t h, int back)
{
	const struct sim_host *host = &sim->hosts[h];
	int64_t then = sim->now_ns - 250000000LL * back;

	return host->oscillator.phase_ns -
	       host->past_phase[(size_t)(then / sim->past_step_ns) % SIM_PAST];
}

static void judge_pair(struct sim *sim, const struct reading *a, const struct reading *b)
{
	struct sim_result *result = &sim->result;
	double error = (double)(a->fabric_ns - b->fabric_ns) + a->fraction_ns - b->fraction_ns;
	double bound = a->bound_ns + b->bound_ns;

	stats_add(&result->error, fabs(error));
	stats_add(&result->bound, bound);
	result->readings++;
	if (fabs(error) <= bound)
		return;
	result->outside++;
	if (fabs(error) - bound > result->worst_outside_ns)
		result->worst_outside_ns = fabs(error) - bound;
}

static void judge_settled(struct sim *sim, const struct reading *a, const struct reading *b)
{
	if (sim->now_ns % sim->past_step_ns)
		return;
	for (int i = 0; i < 4; i++) {
		const struct sim_host *ha = &sim->hosts[a->host], *hb = &sim->hosts[b->host];
		double ra = ran_since(sim, a->host, i + 1), rb = ran_since(sim, b->host, i + 1);
		double error = (double)(a->fabric_ns - b->fabric_ns) + a->lines_ns[i] -
			       b->lines_ns[i] + a->fraction_ns - b->fraction_ns;

		/* The line was read at local now - back; the true instant was `ran` later or
		 * earlier. */
		error -= ra * (1 + ha->clock.consensus.line.rate_ppb * 1e-9) -
			 rb * (1 + hb->clock.consensus.line.rate_ppb * 1e-9);
		stats_add(&sim->result.settled[i], fabs(error));
	}
}

void sim_measure(struct sim *sim)
{
	const struct sim_config *config = &sim->config;
	int64_t every = (int64_t)(config->sample_every_s * 1e9);
	struct reading *readings;
	size_t count = 0;

	for (size_t h = 0; h < config->hosts; h++)
		note_milestones(sim, &sim->hosts[h]);
	if (every < sim->tick_ns)
		every = sim->tick_ns;
	if (sim->now_ns % every || (double)sim->now_ns * 1e-9 < config->measure_from_s)
		return;
	readings = malloc(config->hosts * sizeof(*readings));
	for (size_t h = 0; readings && h < config->hosts; h++)
		if (!lying(sim, h))
			count += read_host(sim, h, &readings[count]);
	if (count * (count - 1) / 2 <= PAIRS_AT_MOST) {
		for (size_t a = 0; a < count; a++)
			for (size_t b = a + 1; b < count; b++) {
				judge_pair(sim, &readings[a], &readings[b]);
				judge_settled(sim, &readings[a], &readings[b]);
			}
	} else {
		for (size_t i = 0; i < PAIRS_AT_MOST; i++) {
			size_t a = rng_below(&sim->rng, count), b = rng_below(&sim->rng, count);

			if (a != b) {
				judge_pair(sim, &readings[a], &readings[b]);
				judge_settled(sim, &readings[a], &readings[b]);
			}
		}
	}
	free(readings);
}

/* Refused for two seconds: what the daemon writes an event about. */
static bool named(const struct sim *sim, size_t h, uint32_t slot)
{
	const struct consensus *consensus = &sim->hosts[h].clock.consensus;
	int64_t since = consensus->peers[slot].refused_since_ns;

	return since && consensus->line.local_ns - since > 2000000000LL;
}

void sim_finish(struct sim *sim)
{
	struct sim_result *result = &sim->result;

	result->pairs_per_s = (double)result->probes / 2 / sim->config.seconds /
			      (double)sim->graph.start[sim->config.hosts];
	for (size_t h = 0; h < sim->config.hosts; h++) {
		const struct sim_host *host = &sim->hosts[h];

		if (!host->up)
			continue;
		if (!host->falseticker) {
			stats_add(&result->first_sure_s,
				  host->sure_at_ns
					  ? (double)(host->sure_at_ns - host->booted_ns) * 1e-9
					  : 1e9);
			stats_add(&result->first_synced_s,
				  host->synced_at_ns
					  ? (double)(host->synced_at_ns - host->booted_ns) * 1e-9
					  : 1e9);
		}
		for (uint32_t e = sim->graph.start[h]; e < sim->graph.start[h + 1]; e++) {
			bool falseticker = sim->hosts[sim->ends[e].peer].falseticker;
			bool is_named = named(sim, h, e - sim->graph.start[h]);

			if (host->falseticker)
				continue;
			*(falseticker ? &result->falseticker_edges : &result->correct_edges) += 1;
			*(falseticker ? &result->falsetickers_refused : &result->correct_refused) +=
				is_named;
		}
	}
}
