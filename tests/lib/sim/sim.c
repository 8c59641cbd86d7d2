// SPDX-License-Identifier: BSD-2-Clause
/* The fleet: hosts come, act once a round, send their reports, and leave. */
#include "tests/lib/sim/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000LL

void sim_config_default(struct sim_config *config, uint64_t seed)
{
	*config = (struct sim_config){
		.seed = seed,
		.hosts = 40,
		.degree = 10,
		.seconds = 30,
		.measure_from_s = 15,
		.sample_every_s = 0.05,
		.oscillator = {.offset_max_ns = 1e9,
			       .drift_max_ppb = 15000,
			       .walk_ppb = 3,
			       .sine_ppb = 50,
			       .sine_period_s = {60, 180}},
		.fabric = {.hosts_per_leaf = 4,
			   .spines = 4,
			   .rate_bps = 10e9,
			   .burst_bytes = 12288},
		.pair_interval_ns = 500000,
		.pair_spacing_ns = 5000,
		.timestamp_ns = 4,
		.edge_noise_ns = 5,
		.edge_noise_ppb = 5,
		.bad_part = 0.05,
		.window_s = 2,
		.lie_ns = 20000,
	};
}

static void views_hand_out(struct sim *sim, size_t h)
{
	struct sim_host *host = &sim->hosts[h];

	for (uint32_t e = sim->graph.start[h]; e < sim->graph.start[h + 1]; e++) {
		struct sim_end *back = &sim->ends[sim->ends[e].back];
		double fraction;

		if (!sim_reachable(sim, h, sim->ends[e].peer))
			continue;
		back->view = host->view;
		back->view_known = true;
		back->view_at_local_ns = oscillator_read(&sim->hosts[sim->ends[e].peer].oscillator,
							 sim->now_ns, &fraction);
	}
}

static void host_boot(struct sim *sim, size_t h)
{
	struct sim_host *host = &sim->hosts[h];
	struct hostclock_config config = {.degree = sim->graph.start[h + 1] - sim->graph.start[h],
					  .round_ns = HOSTCLOCK_ROUND_NS,
					  .rank = host->rank,
					  .asymmetry_ns = fabs(host->asymmetry_ns)};
	double fraction;

	host->up = true;
	host->stretch = 1;
	host->lines = 0;
	host->booted_ns = sim->now_ns;
	host->synced_at_ns = host->sure_at_ns = 0;
	sim->last_read[h] = INT64_MIN;
	memset(&host->view, 0, sizeof(host->view));
	hostclock_init(&host->clock, &config,
		       oscillator_read(&host->oscillator, sim->now_ns, &fraction));
	for (uint32_t e = sim->graph.start[h]; e < sim->graph.start[h + 1]; e++) {
		struct sim_end *end = &sim->ends[e];

		end->view_known = false;
		end->next_pair_ns = sim->now_ns + (int64_t)rng_below(&sim->rng, 500000);
		if (end->edge)
			edge_init(end->edge, (int64_t)(sim->config.window_s * 1e9));
		memset(&end->estimate, 0, sizeof(end->estimate));
	}
	views_hand_out(sim, h); /* its probes report that it has no time */
}

static int links_make(struct sim *sim)
{
	uint32_t links = 0;

	for (size_t h = 0; h < sim->config.hosts; h++) {
		for (uint32_t e = sim->graph.start[h]; e < sim->graph.start[h + 1]; e++) {
			struct sim_end *end = &sim->ends[e];

			end->peer = sim->graph.peers[e];
			if (sim->config.packets && !(end->edge = calloc(1, sizeof(*end->edge))))
				return -ENOMEM;
			if (end->peer < h)
				continue;
			end->link = links++;
			for (uint32_t b = sim->graph.start[end->peer];
			     b < sim->graph.start[end->peer + 1]; b++)
				if (sim->graph.peers[b] == h) {
					sim->ends[b].link = end->link;
					sim->ends[b].back = e;
					end->back = b;
				}
		}
	}
	sim->link_count = links;
	sim->links = calloc(links + 1, sizeof(*sim->links));
	return sim->links ? 0 : -ENOMEM;
}

static void links_draw(struct sim *sim)
{
	const struct sim_config *config = &sim->config;

	for (size_t i = 0; i < sim->link_count; i++) {
		struct sim_link *link = &sim->links[i];

		link->asymmetry_ns = config->edge_asymmetry_ns * rng_normal(&sim->rng);
		link->base_ns[0] = link->base_ns[1] = 1000;
		link->path[0] = (unsigned)rng_next(&sim->rng) >> 1;
		link->path[1] = (unsigned)rng_next(&sim->rng) >> 1;
		link->size = rng_unit(&sim->rng) < config->bad_part ? 10 : 1;
		link->noise_ns = link->size * config->edge_noise_ns * rng_normal(&sim->rng);
		link->noise_ppb = link->size * config->edge_noise_ppb * rng_normal(&sim->rng);
	}
}

/* Hosts that are cut off alone, when, and how long before the machine begins to be busy. */
static void alone_draw(struct sim *sim)
{
	const struct sim_config *config = &sim->config;
	size_t count = (size_t)(config->alone_part * (double)config->hosts + 0.5);
	double first_s = config->alone_to_s;

	for (size_t h = 0; h < count; h++) {
		double at_s = config->alone_from_s +
			      (config->alone_to_s - config->alone_from_s) * rng_unit(&sim->rng);

		sim->hosts[h].alone_at_ns = (int64_t)(at_s * 1e9);
		first_s = fmin(first_s, at_s);
	}
	if (config->busy_lead_s > 0)
		sim->busy_at_ns =
			(int64_t)((first_s - config->busy_lead_s * rng_unit(&sim->rng)) * 1e9);
}

/* Hosts in a row read one counter, which begins anywhere. */
static void machines_draw(struct sim *sim)
{
	unsigned most = sim->config.machine_most;
	size_t left = 0;

	for (size_t h = 0; h < sim->config.hosts; h++) {
		struct sim_host *host = &sim->hosts[h];

		host->machine = most && left ? sim->hosts[h - 1].machine : h;
		left = left ? left - 1 : most ? rng_below(&sim->rng, most) : 0;
		if (host->machine != h)
			host->oscillator.rate_ppb = host->oscillator.base_ppb =
				sim->hosts[host->machine].oscillator.base_ppb;
	}
}

static void hosts_draw(struct sim *sim, const uint64_t *ids)
{
	const struct sim_config *config = &sim->config;
	size_t falsetickers = (size_t)(config->falseticker_part * (double)config->hosts + 0.5);

	for (size_t h = 0; h < config->hosts; h++) {
		struct sim_host *host = &sim->hosts[h];

		oscillator_init(&host->oscillator, &config->oscillator, &sim->rng);
		host->asymmetry_ns = config->host_asymmetry_ns * rng_normal(&sim->rng);
		host->phase = (unsigned)rng_below(&sim->rng,
						  (uint64_t)(HOSTCLOCK_ROUND_NS / sim->tick_ns));
		host->rank = config->hosts <= 2000 ? graph_rank(ids, config->hosts, h, 0) : h;
		host->lie_ns = config->lie_ns * (0.05 + rng_unit(&sim->rng)) *
			       (rng_next(&sim->rng) & 1 ? 1 : -1);
		host->cut = (double)h < config->part_share * (double)config->hosts;
		host->boots_at_ns = (int64_t)rng_below(&sim->rng, 100) * MS;
	}
	while (falsetickers) {
		struct sim_host *host = &sim->hosts[rng_below(&sim->rng, config->hosts)];

		falsetickers -= !host->falseticker;
		host->falseticker = true;
	}
	if (config->join_at_s > 0)
		sim->hosts[config->hosts - 1].boots_at_ns = (int64_t)(config->join_at_s * 1e9);
	alone_draw(sim);
	machines_draw(sim);
}

int sim_init(struct sim *sim, const struct sim_config *config)
{
	uint64_t *ids = calloc(config->hosts, sizeof(*ids));
	int err = -ENOMEM;

	memset(sim, 0, sizeof(*sim));
	sim->config = *config;
	sim->config.fabric.hosts = config->hosts;
	sim->tick_ns = config->packets ? MS : 50 * MS;
	sim->past_step_ns = config->packets ? 25 * MS : 50 * MS;
	rng_seed(&sim->rng, config->seed);
	sim->hosts = calloc(config->hosts, sizeof(*sim->hosts));
	sim->last_read = calloc(config->hosts, sizeof(*sim->last_read));
	if (!ids || !sim->hosts || !sim->last_read)
		goto out;
	for (size_t h = 0; h < config->hosts; h++)
		ids[h] = rng_mix(h + 1);
	err = graph_build(&sim->graph, ids, config->hosts, config->degree, 0);
	if (err)
		goto out;
	err = -ENOMEM;
	sim->ends = calloc(sim->graph.start[config->hosts] + 1, sizeof(*sim->ends));
	if (!sim->ends || links_make(sim))
		goto out;
	err = fabric_init(&sim->fabric, &sim->config.fabric, config->seed);
	links_draw(sim);
	hosts_draw(sim, ids);
	for (size_t h = 0; !err && config->cycles && h < config->hosts; h++)
		if (!(sim->hosts[h].cycles = calloc(1, sizeof(*sim->hosts[h].cycles))))
			err = -ENOMEM;
out:
	free(ids);
	return err;
}

void sim_free(struct sim *sim)
{
	struct sim_result *result = &sim->result;

	for (size_t e = 0; sim->ends && e < sim->graph.start[sim->config.hosts]; e++)
		free(sim->ends[e].edge);
	for (size_t h = 0; sim->hosts && h < sim->config.hosts; h++)
		free(sim->hosts[h].cycles);
	stats_free(&result->error);
	for (int i = 0; i < 4; i++)
		stats_free(&result->settled[i]);
	for (int i = 0; i < 4; i++)
		stats_free(&result->part[i]);
	stats_free(&result->bound);
	stats_free(&result->edge_error);
	stats_free(&result->edge_ratio);
	stats_free(&result->first_sure_s);
	stats_free(&result->first_synced_s);
	fabric_free(&sim->fabric);
	graph_free(&sim->graph);
	free(sim->hosts);
	free(sim->ends);
	free(sim->links);
	free(sim->last_read);
}

static void hosts_come_and_go(struct sim *sim)
{
	const struct sim_config *config = &sim->config;

	for (size_t h = 0; h < config->hosts; h++) {
		struct sim_host *host = &sim->hosts[h];

		if (!host->up && sim->now_ns >= host->boots_at_ns)
			host_boot(sim, h);
		if (host->up && config->churn_s > 0 && (double)sim->now_ns * 1e-9 > 5 &&
		    rng_unit(&sim->rng) < (double)sim->tick_ns * 1e-9 / config->churn_s) {
			host->up = false;
			host->boots_at_ns = sim->now_ns + (int64_t)(config->churn_down_s * 1e9);
		}
	}
}

/* What a falseticker reports. */
static void view_bend(struct sim *sim, struct sim_host *host, size_t h)
{
	const struct sim_config *config = &sim->config;
	double since_s = (double)sim->now_ns * 1e-9 - config->lie_from_s, lie = 0;
	enum sim_lie kind = config->lie;

	if (!host->falseticker || since_s < 0 || host->view.state == CLOCK_FREE_RUNNING)
		return;
	if (kind == SIM_MIXED)
		kind = SIM_CONSTANT + (enum sim_lie)(h % 4);
	if (kind == SIM_CONSTANT)
		lie = host->lie_ns;
	else if (kind == SIM_RAMP)
		lie = host->lie_ns * since_s / 10;
	else if (kind == SIM_NOISY)
		lie = host->lie_ns * rng_normal(&sim->rng);
	else if (kind == SIM_COLLUDING)
		lie = config->lie_ns;
	if (kind == SIM_RAMP)
		host->view.rate_q40 += (int64_t)(host->lie_ns * 0.1 * 1099.511627776);
	host->view.ref_fabric_ns += (int64_t)lie;
	host->view.reach = CLOCK_REACH_ONE;
	host->view.state = CLOCK_SYNCED;
}

/* What the daemon does with CLOCK_MONOTONIC_RAW. */
static void follow_slew(struct sim *sim, size_t h, int64_t local_ns)
{
	struct sim_host *host = &sim->hosts[h];
	const struct slew_reading reading = {
		.local_ns = local_ns,
		.raw_ns = local_ns - (int64_t)llrint(host->slewed_ns) +
			  (int64_t)rng_below(&sim->rng, 17) - 8,
		.width_ns = 80,
	};
	struct slew_change change;

	bool changed = slew_add(&host->slew, &reading, &change);

	host->clock.slew_ppb = host->slew.peak_ppb;
	if (!changed)
		return;
	slew_host(&host->clock, &change);
	for (uint32_t e = sim->graph.start[h]; e < sim->graph.start[h + 1]; e++)
		if (sim->ends[e].edge)
			slew_edge(sim->ends[e].edge, &change);
}

/* What the daemon does with the CPU's counter, which NTP does not slew. */
static void take_cycles(struct sim *sim, size_t h, int64_t local_ns)
{
	const struct hostclock *clock = &sim->hosts[h].clock;
	const struct oscillator *oscillator = &sim->hosts[h].oscillator;
	struct cycles *cycles = sim->hosts[h].cycles;
	struct cycles_step step;
	double counter_ns;

	if (!cycles || clock->state != CLOCK_SYNCED)
		return;
	counter_ns = (double)sim->now_ns + oscillator->phase_ns - sim->hosts[h].slewed_ns + 5e12 +
		     (double)rng_below(&sim->rng, 17) - 8 +
		     sim->config.counter_ns * rng_normal(&sim->rng);
	sim->hosts[h].cycles_steps += cycles_add(
		cycles, clock_model_read(&clock->model, local_ns), (uint64_t)(counter_ns * 2.5),
		(double)clock_model_bound(&clock->model, local_ns) + 30, &step);
}

static void host_round(struct sim *sim, size_t h)
{
	struct consensus_input input[CONSENSUS_PEERS_MAX];
	struct sim_host *host = &sim->hosts[h];
	double fraction, began;
	int64_t local_ns = oscillator_read(&host->oscillator, sim->now_ns, &fraction);
	size_t count = 0;

	follow_slew(sim, h, local_ns);
	sim_fit(sim, h, local_ns);
	began = sim_cpu_seconds();
	for (uint32_t e = sim->graph.start[h];
	     e < sim->graph.start[h + 1] && count < CONSENSUS_PEERS_MAX; e++) {
		const struct sim_end *end = &sim->ends[e];

		input[count++] = (struct consensus_input){&end->estimate,
							  end->view_known ? &end->view : NULL,
							  local_ns - end->view_at_local_ns};
	}
	hostclock_round(&host->clock, local_ns, input, count);
	hostclock_view(&host->clock, &host->view);
	take_cycles(sim, h, local_ns);
	sim->result.round_seconds += sim_cpu_seconds() - began;
	sim->result.rounds++;
	host->settled[host->lines++ % 8] = host->clock.consensus.line;
	view_bend(sim, host, h);
	views_hand_out(sim, h);
}

/* A neighbour remains reachable: its view ages from the last probe. */
static void views_keep_fresh(struct sim *sim, size_t h)
{
	for (uint32_t e = sim->graph.start[h]; e < sim->graph.start[h + 1]; e++) {
		struct sim_end *end = &sim->ends[e];
		double fraction;

		if (end->view_known && sim_reachable(sim, h, end->peer))
			end->view_at_local_ns =
				oscillator_read(&sim->hosts[h].oscillator, sim->now_ns, &fraction);
	}
}

/* Before a tick of the oscillators: on at even times, off at odd ones. */
static void slew_clocks(struct sim *sim)
{
	const struct sim_config *config = &sim->config;
	double since_s = (double)sim->now_ns * 1e-9 - config->slew_from_s;
	bool on = config->slew_every_s > 0 && since_s >= 0 &&
		  fmod(since_s, 2 * config->slew_every_s) < config->slew_every_s;

	for (size_t h = 0; h < config->slew_hosts; h++) {
		struct sim_host *host = &sim->hosts[h];
		double ppb = on ? config->slew_ppb : 0;

		host->slewed_ns +=
			host->slew_ppb * 1e-9 * (double)(sim->now_ns - host->oscillator.tick_ns);
		host->oscillator.base_ppb += ppb - host->slew_ppb;
		host->slew_ppb = ppb;
	}
}

/* NTP corrects a frequency, and offsets by a rate that ends after seconds. */
static void run_ntp(struct sim *sim, struct sim_host *host)
{
	const struct sim_config *config = &sim->config;
	double ppb = host->slew_ppb;

	if (config->ntp_ppb <= 0)
		return;
	if (!host->slew_next_ns || sim->now_ns >= host->slew_next_ns) {
		if (host->slew_next_ns)
			ppb = rng_next(&sim->rng) & 1
				      ? 0
				      : config->ntp_ppb * (2 * rng_unit(&sim->rng) - 1);
		host->slew_next_ns = sim->now_ns + (int64_t)(config->ntp_every_s * 1e9 *
							     rng_exponential(&sim->rng));
	}
	host->slewed_ns += host->slew_ppb * 1e-9 * (double)(sim->now_ns - host->oscillator.tick_ns);
	host->oscillator.base_ppb += ppb - host->slew_ppb;
	host->slew_ppb = ppb;
}

static void run_oscillator(struct sim *sim, size_t h)
{
	struct sim_host *host = &sim->hosts[h];
	const struct sim_host *machine = &sim->hosts[host->machine];

	if (!sim->config.slew_hosts)
		run_ntp(sim, host);
	oscillator_tick(&host->oscillator, &sim->config.oscillator, &sim->rng, sim->now_ns,
			sim->tick_ns);
	if (host != machine)
		host->oscillator.rate_ppb =
			machine->oscillator.rate_ppb - machine->slew_ppb + host->slew_ppb;
}

/* Now and then a hypervisor gives no CPU to the VMs of a machine. */
static void stop_machines(struct sim *sim)
{
	const struct sim_config *config = &sim->config;

	for (size_t h = 0; config->stop_every_s > 0 && h < config->hosts; h++) {
		struct sim_host *host = &sim->hosts[h];

		if (host->machine != h)
			host->stops_to_ns = sim->hosts[host->machine].stops_to_ns;
		else if (rng_unit(&sim->rng) < (double)sim->tick_ns * 1e-9 / config->stop_every_s)
			host->stops_to_ns = sim->now_ns + (int64_t)(config->stop_s * 1e9 *
								    rng_exponential(&sim->rng));
	}
}

void sim_tick(struct sim *sim)
{
	unsigned rounds = (unsigned)(HOSTCLOCK_ROUND_NS / sim->tick_ns);

	slew_clocks(sim);
	stop_machines(sim);
	for (size_t h = 0; h < sim->config.hosts; h++)
		run_oscillator(sim, h);
	if (sim->now_ns % sim->past_step_ns == 0) {
		size_t slot = (size_t)(sim->now_ns / sim->past_step_ns) % SIM_PAST;

		for (size_t h = 0; h < sim->config.hosts; h++) {
			sim->hosts[h].past_phase[slot] = sim->hosts[h].oscillator.phase_ns;
			sim->hosts[h].past_rate[slot] = (float)sim->hosts[h].oscillator.rate_ppb;
		}
	}
	hosts_come_and_go(sim);
	for (size_t h = 0; h < sim->config.hosts; h++) {
		if (!sim->hosts[h].up || sim->tick % rounds != sim->hosts[h].phase ||
		    sim->now_ns < sim->hosts[h].stops_to_ns)
			continue;
		views_keep_fresh(sim, h);
		host_round(sim, h);
	}
	sim_measure(sim);
	if (sim->config.packets)
		sim_probe_tick(sim);
	sim->tick++;
	sim->now_ns += sim->tick_ns;
}

void sim_run(struct sim *sim)
{
	while ((double)sim->now_ns * 1e-9 < sim->config.seconds)
		sim_tick(sim);
	sim_finish(sim);
}
