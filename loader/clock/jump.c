// SPDX-License-Identifier: BSD-2-Clause
/*
 * Local clocks that stopped. A suspension is known by CLOCK_BOOTTIME; after the pause of a
 * virtual machine whose clocks all stopped, only the neighbors' probes show it: they arrive
 * before they were sent, by the offset that was measured and by both ends' fabric time. No queue
 * does that, no wrong fit alone, and no other fabric time alone.
 */
#include <math.h>

#include "base/log.h"
#include "internal.h"

/* What an estimate cannot be wrong by: this, and ten times the delay of the empty path. */
#define EARLY_MIN_NS 1000000
#define EARLY_FLOORS 10
#define EARLY_BOUNDS 4 /* of both ends' fabric time */
/* An older estimate is not extrapolated. */
#define KNOWN_AGE_MAX_NS 60000000000ll

/* There is no fabric time from now on, until the neighbors were measured. Takes @seen over. */
static void reset_time(struct clock *clock, json_t *seen)
{
	struct hostclock *host = &clock->host;
	const struct hostclock_config config = host->config;
	uint64_t generation = host->consensus.generation, moves = host->consensus.moves;
	uint64_t model_generation = host->model.generation;
	int64_t now_ns = clock_local_at(clock, time_local_ns());
	struct clock_edge *edge;

	hostclock_init(host, &config, now_ns);
	host->consensus.generation = generation;
	host->consensus.moves = moves + 1;
	host->model.generation = model_generation + 1;
	clock->model_taken = false;
	clock->slew = (struct slew){.changes = clock->slew.changes};
	for_each_edge (clock, edge)
		clock_restart_edge(clock, edge, edge->epoch, now_ns);
	clock_write_view(clock, &(struct clock_view){.state = CLOCK_FREE_RUNNING});
	clock_write_model(clock);
	clock_report(clock, CLOCK_SUSPENDED, "", seen);
}

/*
 * CLOCK_MONOTONIC did not run meanwhile. Readers see that by themselves (struct esc_clock); here
 * all is reset, before anything of the time before is used.
 */
bool clock_check_suspended(struct clock *clock, uint64_t suspended_ns)
{
	int64_t more_ns = (int64_t)(suspended_ns - clock->suspended_ns);

	if (more_ns <= ESC_SUSPENDED_MIN_NS)
		return false;
	clock->suspended_ns = suspended_ns;
	log_warning("the machine was suspended for %.3f s: fabric time is reset",
		    (double)more_ns / 1e9);
	reset_time(clock, json_pack("{s:I}", "suspended_ms", (json_int_t)(more_ns / 1000000)));
	return true;
}

static bool has_time(const struct clock_edge *edge)
{
	return edge->view_known && edge->view.state != CLOCK_FREE_RUNNING;
}

/*
 * More than half of the neighbors contradict our clock: it is not theirs that jumped. Ahead it
 * takes two of them, since with one it is as likely that the peer's clock stopped.
 */
static bool most_are_early(const struct clock *clock, enum clock_side side)
{
	size_t known = 0, early = 0;
	const struct clock_edge *edge;
	bool others = false;
	uint64_t first = 0;

	for_each_edge (clock, edge) {
		known += (edge->fit.estimate.valid && has_time(edge)) || edge->early_ns[side];
		if (!edge->early_ns[side])
			continue;
		others = others || (early && edge->id != first);
		first = edge->id;
		early++;
	}
	return 2 * early > known && (others || side == CLOCK_BACKWARD);
}

/* By fabric time it arrived so long before it was sent; 0: it did not, or that is not known. */
static int64_t early_by_time(const struct clock *clock, const struct clock_edge *edge,
			     enum clock_side side, const struct clock_probe *probe)
{
	const struct clock_model *model = &clock->host.model;
	bool forward = side == CLOCK_FORWARD;
	int64_t here_ns, there_ns, delay_ns, margin_ns;
	struct clock_line line;
	double fraction_ns;

	if (!model->generation || clock->host.state == CLOCK_FREE_RUNNING || !has_time(edge) ||
	    !clock_view_get(&edge->view, &line))
		return 0;
	here_ns = clock_model_read(model, forward ? probe->tx_ns : probe->rx_ns);
	there_ns = clock_line_at(&line, forward ? probe->rx_ns : probe->tx_ns, &fraction_ns);
	delay_ns = forward ? ns_sub(there_ns, here_ns) : ns_sub(here_ns, there_ns);
	margin_ns = EARLY_MIN_NS +
		    EARLY_BOUNDS * ((int64_t)model->bound_ns + (int64_t)edge->view.bound_ns);
	return delay_ns < -margin_ns ? ns_sub(0, delay_ns) : 0;
}

bool clock_check_passage(struct clock *clock, struct clock_edge *edge, enum clock_side side,
			 const struct clock_probe *probe)
{
	const struct edge_estimate *estimate = &edge->known;
	int64_t local_ns = side == CLOCK_FORWARD ? probe->tx_ns : probe->rx_ns;
	double offset_ns, delay_ns, least_ns;

	/* Of before the clock, or the peer, was reset. */
	if (local_ns < edge->begun_local_ns)
		return false;
	if (!estimate->valid || ns_sub(local_ns, estimate->local_ns) > KNOWN_AGE_MAX_NS)
		return true;
	offset_ns = (double)estimate->offset_ns +
		    (double)ns_sub(local_ns, estimate->local_ns) * estimate->drift_ppb * 1e-9;
	delay_ns = (double)ns_sub(probe->rx_ns, probe->tx_ns) +
		   (side == CLOCK_FORWARD ? -offset_ns : offset_ns);
	least_ns = -EARLY_MIN_NS - EARLY_FLOORS * fabs(estimate->floor_ns);
	edge->early_ns[side] = delay_ns < least_ns ? early_by_time(clock, edge, side, probe) : 0;
	if (!edge->early_ns[side])
		return true;
	if (!most_are_early(clock, side))
		return false;
	/* At least so long: the first probe to arrive may have been sent during the pause. */
	log_warning("by the neighbors' probes the local clock %s, by %.3f s or more: fabric time "
		    "is reset",
		    side == CLOCK_BACKWARD ? "stopped" : "jumped ahead",
		    (double)edge->early_ns[side] / 1e9);
	reset_time(clock, json_pack("{s:s, s:I}", "by", "probes",
				    side == CLOCK_BACKWARD ? "least_behind_us" : "least_ahead_us",
				    (json_int_t)(edge->early_ns[side] / 1000)));
	return false;
}

void clock_restart_early(struct clock *clock, int64_t now_ns)
{
	struct clock_edge *edge;

	for_each_edge (clock, edge) {
		if (!edge->early_ns[CLOCK_FORWARD] && !edge->early_ns[CLOCK_BACKWARD])
			continue;
		log_debug("%s: its clock and ours moved apart by %lld us", edge->host,
			  (long long)(edge->early_ns[CLOCK_FORWARD] +
				      edge->early_ns[CLOCK_BACKWARD]) /
				  1000);
		clock_restart_edge(clock, edge, edge->epoch, now_ns);
	}
}
