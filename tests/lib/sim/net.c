// SPDX-License-Identifier: BSD-2-Clause
/* Probes through queues into edges, or fits drawn from the noise model. */
#include "tests/lib/sim/sim.h"

#include <string.h>

#define SPIKE_NS 20000.0
#define SPELL_NS 5e6
#define SPELL_MOST 3
/* A busy machine: a Pareto tail of this power, and stalls of up to this length. */
#define BUSY_TAIL 1.1
#define BUSY_MOST_NS 20e6
#define STALL_MOST_NS 150e6

static bool is_alone(const struct sim *sim, size_t h)
{
	return sim->hosts[h].alone_at_ns && sim->now_ns >= sim->hosts[h].alone_at_ns;
}

bool sim_reachable(const struct sim *sim, size_t a, size_t b)
{
	const struct sim_config *config = &sim->config;
	double now_s = (double)sim->now_ns * 1e-9;

	if (!sim->hosts[a].up || !sim->hosts[b].up)
		return false;
	if (is_alone(sim, a) || is_alone(sim, b))
		return false;
	if (config->part_share <= 0 || now_s < config->part_from_s || now_s >= config->part_to_s)
		return true;
	return sim->hosts[a].cut == sim->hosts[b].cut;
}

static bool sim_busy(const struct sim *sim)
{
	return sim->busy_at_ns && sim->now_ns >= sim->busy_at_ns;
}

/* Now and then a busy machine lets a host send nothing for a while. */
static bool stalls(struct sim *sim, struct sim_host *host)
{
	double mean_s = sim->config.busy_stall_s;

	if (sim_busy(sim) && mean_s > 0 &&
	    rng_unit(&sim->rng) < (double)sim->tick_ns * 1e-9 / mean_s)
		host->stalls_to_ns = sim->now_ns + (int64_t)(STALL_MOST_NS * rng_unit(&sim->rng));
	return sim->now_ns < host->stalls_to_ns || sim->now_ns < host->stops_to_ns;
}

/* What a busy machine keeps a packet for between the timestamp at one end and that at the other. */
static double busy_wait(struct sim *sim)
{
	double wait = sim->config.busy_late_ns * (pow(rng_unit(&sim->rng), -1 / BUSY_TAIL) - 1);

	return sim_busy(sim) ? fmin(wait, BUSY_MOST_NS) : 0;
}

/* A shared machine's CPU is faster for some milliseconds, or runs something else in between. */
static double cpu_wait(struct sim *sim, struct sim_host *sender, double at_ns)
{
	const struct sim_config *config = &sim->config;
	double wait = 0;

	if (config->speed_part > 0 && at_ns >= (double)sender->speed_to_ns) {
		sender->fast = rng_unit(&sim->rng) < config->speed_part;
		sender->speed_to_ns = (int64_t)(at_ns + SPELL_NS * rng_exponential(&sim->rng));
	}
	if (config->gap_part > 0 && rng_unit(&sim->rng) < 2 * config->gap_part)
		wait = config->gap_ns * rng_exponential(&sim->rng);
	return wait - (sender->fast ? config->speed_ns : 0);
}

static void spell_draw(struct sim *sim, struct sim_host *host)
{
	const struct sim_config *config = &sim->config;
	double amount_ns, length_s;
	bool one;

	if (config->spell_every_s <= 0 || sim->now_ns < host->spell_to_ns ||
	    (double)sim->now_ns * 1e-9 < config->spell_from_s)
		return;
	host->spell_late[0] = host->spell_late[1] = 0;
	if (rng_unit(&sim->rng) >= (double)sim->tick_ns * 1e-9 / config->spell_every_s)
		return;
	amount_ns = config->spell_ns * (0.5 + rng_unit(&sim->rng));
	length_s = fmin(config->spell_s * rng_exponential(&sim->rng), SPELL_MOST * config->spell_s);
	one = rng_unit(&sim->rng) < config->spell_one_part;
	host->spell_to_ns = sim->now_ns + (int64_t)(length_s * 1e9);
	host->spell_late[0] = host->spell_late[1] = amount_ns;
	if (one)
		host->spell_late[rng_next(&sim->rng) & 1] = 0;
}

static double stamp_error(struct sim *sim)
{
	const struct sim_config *config = &sim->config;
	double error = config->timestamp_ns * rng_normal(&sim->rng);

	if (config->late_ns > 0)
		error += config->late_ns * rng_exponential(&sim->rng);
	if (config->late_spike_part > 0 && rng_unit(&sim->rng) < config->late_spike_part)
		error += SPIKE_NS * rng_exponential(&sim->rng);
	return error;
}

static int64_t timestamp(struct sim *sim, const struct sim_host *host, double true_ns)
{
	double fraction, error = stamp_error(sim);
	int64_t local = oscillator_read(&host->oscillator, (int64_t)floor(true_ns), &fraction);

	return local + (int64_t)floor(fraction + true_ns - floor(true_ns) + error + 0.5);
}

/* One probe from the owner of @end; both ends learn it, as the probes carry timestamps back. */
static void probe_cross(struct sim *sim, size_t from, struct sim_end *end, double at_ns)
{
	struct sim_host *sender = &sim->hosts[from], *receiver = &sim->hosts[end->peer];
	struct sim_link *link = &sim->links[end->link];
	int way = from < end->peer ? 0 : 1;
	struct sim_end *back = &sim->ends[end->back];
	struct clock_probe probe = {.pair = end->pairs};
	double cross = link->base_ns[way] + (way ? -1 : 1) * link->asymmetry_ns +
		       sender->asymmetry_ns - receiver->asymmetry_ns + busy_wait(sim) +
		       cpu_wait(sim, sender, at_ns) + sender->spell_late[0] +
		       receiver->spell_late[1] +
		       fabric_cross(&sim->fabric, from, end->peer, link->path[way], at_ns);

	probe.tx_ns = timestamp(sim, sender, at_ns);
	/* A machine that stands still has it when it continues. */
	probe.rx_ns = timestamp(sim, receiver, fmax(at_ns + cross, (double)receiver->stops_to_ns));
	edge_add(end->edge, CLOCK_FORWARD, &probe, probe.tx_ns);
	edge_add(back->edge, CLOCK_BACKWARD, &probe, probe.rx_ns);
	sim->result.probes++;
}

static void path_change(struct sim *sim, struct sim_link *link)
{
	const struct sim_config *config = &sim->config;
	int way = (int)(rng_next(&sim->rng) & 1);

	link->path[way] = (unsigned)rng_next(&sim->rng) >> 1;
	link->base_ns[way] = 1000 + config->path_change_ns * rng_unit(&sim->rng);
}

void sim_probe_tick(struct sim *sim)
{
	const struct sim_config *config = &sim->config;
	int64_t end_ns = sim->now_ns + sim->tick_ns;

	for (size_t h = 0; h < config->hosts; h++)
		spell_draw(sim, &sim->hosts[h]);
	for (size_t h = 0; h < config->hosts; h++) {
		bool stalled = stalls(sim, &sim->hosts[h]);

		for (uint32_t e = sim->graph.start[h]; e < sim->graph.start[h + 1]; e++) {
			struct sim_end *end = &sim->ends[e];
			double mean = (double)config->pair_interval_ns;

			if (stalled || !sim_reachable(sim, h, end->peer)) {
				end->next_pair_ns = end_ns;
				continue;
			}
			if (config->path_change_s > 0 &&
			    rng_unit(&sim->rng) <
				    (double)sim->tick_ns * 1e-9 / config->path_change_s / 2)
				path_change(sim, &sim->links[end->link]);
			for (; end->next_pair_ns < end_ns; end->pairs++) {
				double at = (double)end->next_pair_ns;

				probe_cross(sim, h, end, at);
				probe_cross(sim, h, end, at + (double)config->pair_spacing_ns);
				if (config->adaptive_interval)
					mean = sim->hosts[h].stretch *
					       (double)edge_pair_interval(end->edge,
									  config->pair_interval_ns);
				end->next_pair_ns +=
					(int64_t)(mean * (0.5 + rng_unit(&sim->rng))) + 1;
			}
		}
	}
}

/* The noise of an edge: one for both its ends, new by 1/8 each round as the window slides. */
static void noise_draw(struct sim *sim, struct sim_link *link)
{
	const struct sim_config *config = &sim->config;
	double keep = 1 - 0.25 / config->window_s, fresh = sqrt(1 - keep * keep);

	if (sim->now_ns < link->drawn_ns + HOSTCLOCK_ROUND_NS)
		return;
	link->drawn_ns = sim->now_ns;
	link->noise_ns = keep * link->noise_ns +
			 fresh * link->size * config->edge_noise_ns * rng_normal(&sim->rng);
	link->noise_ppb = keep * link->noise_ppb +
			  fresh * link->size * config->edge_noise_ppb * rng_normal(&sim->rng);
}

static void estimate_draw(struct sim *sim, size_t h, struct sim_end *end)
{
	const struct sim_config *config = &sim->config;
	struct sim_host *own = &sim->hosts[h], *peer = &sim->hosts[end->peer];
	struct sim_link *link = &sim->links[end->link];
	int64_t back = (int64_t)(config->window_s / 2 * 1e9) / sim->tick_ns;
	size_t slot = (uint64_t)(sim->now_ns / sim->tick_ns - back) % SIM_PAST;
	double sign = h < end->peer ? 1 : -1, offset, whole;
	struct edge_estimate *estimate = &end->estimate;

	memset(estimate, 0, sizeof(*estimate));
	if (!sim_reachable(sim, h, end->peer))
		return;
	if (sim->now_ns - own->booted_ns < sim->tick_ns * back ||
	    sim->now_ns - peer->booted_ns < sim->tick_ns * back)
		return;
	noise_draw(sim, link);
	offset = peer->past_phase[slot] - own->past_phase[slot] +
		 sign * (link->noise_ns + link->asymmetry_ns) + own->asymmetry_ns -
		 peer->asymmetry_ns;
	whole = floor(offset);
	estimate->valid = true;
	estimate->local_ns = own->oscillator.start_ns + sim->now_ns - back * sim->tick_ns +
			     (int64_t)floor(own->past_phase[slot]);
	estimate->offset_ns = peer->oscillator.start_ns - own->oscillator.start_ns + (int64_t)whole;
	estimate->offset_fraction_ns = offset - whole;
	estimate->drift_ppb =
		((1 + peer->past_rate[slot] * 1e-9) / (1 + own->past_rate[slot] * 1e-9) - 1) * 1e9 +
		sign * link->noise_ppb;
	estimate->offset_sigma_ns = config->edge_noise_ns * link->size;
	estimate->drift_sigma_ppb = config->edge_noise_ppb * link->size;
	estimate->window_s = config->window_s;
}

/* A host's phase at a true time of the last seconds, between the records of it. */
static double phase_at(const struct sim *sim, const struct sim_host *host, int64_t true_ns)
{
	int64_t index = true_ns / sim->past_step_ns;
	double part = (double)(true_ns % sim->past_step_ns) / (double)sim->past_step_ns;
	double here = host->past_phase[index % SIM_PAST], next;

	if ((index + 1) * sim->past_step_ns > sim->now_ns)
		return here +
		       host->past_rate[index % SIM_PAST] * 1e-9 * part * (double)sim->past_step_ns;
	next = host->past_phase[(index + 1) % SIM_PAST];
	return here + part * (next - here);
}

static void edge_judge(struct sim *sim, size_t h, const struct sim_end *end)
{
	const struct edge_estimate *estimate = &end->estimate;
	const struct sim_host *own = &sim->hosts[h], *peer = &sim->hosts[end->peer];
	int64_t true_ns =
		estimate->local_ns - own->oscillator.start_ns - (int64_t)own->oscillator.phase_ns;
	double truth, found;

	if (true_ns < (int64_t)(sim->config.measure_from_s * 1e9) || true_ns > sim->now_ns)
		return;
	true_ns = estimate->local_ns - own->oscillator.start_ns -
		  (int64_t)phase_at(sim, own, true_ns);
	truth = phase_at(sim, peer, true_ns) - phase_at(sim, own, true_ns);
	found = (double)(estimate->offset_ns -
			 (peer->oscillator.start_ns - own->oscillator.start_ns)) +
		estimate->offset_fraction_ns;
	stats_add(&sim->result.edge_error, fabs(found - truth));
	stats_add(&sim->result.edge_ratio, fabs(found - truth) / estimate->offset_sigma_ns);
}

/* A host sends as many pairs as at the mean interval on each edge, as the daemon does. */
static void budget_pairs(struct sim *sim, size_t h)
{
	int64_t mean_ns = sim->config.pair_interval_ns;
	double pairs = 0, edges = sim->graph.start[h + 1] - sim->graph.start[h];

	for (uint32_t e = sim->graph.start[h]; e < sim->graph.start[h + 1]; e++)
		pairs += (double)mean_ns / (double)edge_pair_interval(sim->ends[e].edge, mean_ns);
	sim->hosts[h].stretch = edge_stretch(pairs, edges);
}

void sim_fit(struct sim *sim, size_t h, int64_t local_ns)
{
	double began = sim_cpu_seconds();

	for (uint32_t e = sim->graph.start[h]; e < sim->graph.start[h + 1]; e++) {
		struct sim_end *end = &sim->ends[e];
		struct edge_prior prior = {.known = false};

		if (!sim->config.packets) {
			estimate_draw(sim, h, end);
			continue;
		}
		slew_peer(end->edge, end->view_known ? &end->view : NULL, local_ns, &sim->scratch);
		if (!sim->config.no_prior)
			prior = consensus_prior(&sim->hosts[h].clock.consensus,
						end->view_known ? &end->view : NULL);
		edge_fit(end->edge, local_ns, &prior, &sim->scratch);
		end->estimate = end->edge->estimate;
		sim->result.fits += end->estimate.valid;
		sim->result.flagged += end->estimate.valid && end->estimate.flagged;
		if (end->estimate.valid)
			edge_judge(sim, h, end);
	}
	sim->result.fit_seconds += sim_cpu_seconds() - began;
	if (sim->config.packets)
		budget_pairs(sim, h);
}
