// SPDX-License-Identifier: BSD-2-Clause
/*
 * Several NICs, one clock. The edges to a host are one neighbor of the consensus. Timestamps of two
 * NICs may differ: what the edges of each show of this host's clock is compared. A NIC that is an
 * exception is left out and reported; what the others differ by is in the bound.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "internal.h"

/* Beyond that, and so many deviations of what was measured, timestamps differ. */
#define DIFFERS_NS 1000.0
#define DIFFERS_SIGMAS 4.0
#define DIFFERS_ROUNDS 8 /* in a row, for two seconds */
#define SMOOTHED_ROUNDS 8

/* --- the other hosts --- */

size_t clock_place_take(struct clock *clock, const struct clock_edge_config *config)
{
	struct clock_nic *nic = &clock->nics[config->port % ESC_PORTS_MAX];
	size_t at = CLOCK_PLACE_NONE;

	snprintf(nic->interface, sizeof(nic->interface), "%s", config->interface);
	nic->edges++;
	for (size_t i = 0; i < CONSENSUS_PEERS_MAX; i++) {
		struct clock_place *place = &clock->places[i];

		if (place->edges && place->id == config->id) {
			place->edges++;
			return i;
		}
		if (!place->edges && at == CLOCK_PLACE_NONE)
			at = i;
	}
	if (at == CLOCK_PLACE_NONE)
		return at;
	clock->places[at] = (struct clock_place){
		.edges = 1, .id = config->id, .part = config_plane_name(config->plane)};
	snprintf(clock->places[at].host, sizeof(clock->places[at].host), "%s", config->host);
	return at;
}

void clock_place_leave(struct clock *clock, size_t place)
{
	if (--clock->places[place].edges)
		return;
	clock->places[place] = (struct clock_place){};
	consensus_peer_init(&clock->host.consensus, place);
}

void clock_nic_leave(struct clock *clock, struct clock_nic *nic)
{
	if (nic->differs)
		clock_report(clock, CLOCK_NIC_LEFT, nic->interface, NULL);
	*nic = (struct clock_nic){};
}

bool clock_edge_is_last_refused(const struct clock *clock, const struct clock_edge *edge)
{
	const struct clock_place *place =
		edge->place == CLOCK_PLACE_NONE ? NULL : &clock->places[edge->place];

	return place && place->edges == 1 && place->refused_reported;
}

/* --- what each edge shows of our clock --- */

static bool edge_error(const struct clock *clock, const struct clock_edge *edge, int64_t now_ns,
		       double *error_ns)
{
	const struct consensus *consensus = &clock->host.consensus;
	const struct edge_estimate *fit = &edge->fit.estimate;
	struct clock_line theirs;
	double ahead, there, here;
	int64_t remote_ns, fabric_ns;

	if (!consensus->has_line || !fit->valid || !edge->view_known ||
	    now_ns - edge->view_fresh_ns > CLOCK_VIEW_FRESH_NS ||
	    !clock_view_get(&edge->view, &theirs))
		return false;
	ahead = fit->offset_fraction_ns +
		(double)ns_sub(now_ns, fit->local_ns) * fit->drift_ppb * 1e-9;
	remote_ns = ns_add(ns_add(now_ns, fit->offset_ns), (int64_t)floor(ahead));
	fabric_ns = clock_line_at(&theirs, remote_ns, &there);
	*error_ns = (double)ns_sub(fabric_ns, clock_line_at(&consensus->line, now_ns, &here)) +
		    (there - here) + (ahead - floor(ahead));
	return true;
}

static int compare_reals(const void *a, const void *b)
{
	double one = *(const double *)a, two = *(const double *)b;

	return (one > two) - (one < two);
}

static double median(double *list, size_t count)
{
	qsort(list, count, sizeof(*list), compare_reals);
	return count % 2 ? list[count / 2] : (list[count / 2 - 1] + list[count / 2]) / 2;
}

/* Of the edges of a NIC without a queue. Returns how many. */
static size_t nic_median(const struct clock *clock, unsigned int port, double *out_ns,
			 double *sigma_ns)
{
	double errors[CLOCK_EDGES_MAX], sigmas[CLOCK_EDGES_MAX];
	const struct clock_edge *edge;
	size_t count = 0;

	for_each_edge (clock, edge) {
		const struct edge_estimate *fit = &edge->fit.estimate;

		if (edge->port != port || !edge->error_known || fit->flagged || fit->one_side)
			continue;
		errors[count] = edge->error_ns;
		sigmas[count++] = fit->offset_sigma_ns;
	}
	if (count) {
		*out_ns = median(errors, count);
		*sigma_ns = median(sigmas, count);
	}
	return count;
}

/* Of two NICs the first one is what the other differs from: which is right is not known. */
static double reference_of(const double *medians, size_t count)
{
	double copy[ESC_PORTS_MAX];

	if (count < 3)
		return medians[0];
	memcpy(copy, medians, count * sizeof(*copy));
	return count % 2 ? median(copy, count) : (median(copy, count), copy[(count - 1) / 2]);
}

static void report_nic(struct clock *clock, const struct clock_nic *nic, size_t nics)
{
	json_t *seen = json_pack("{s:I, s:I}", "offset_ns", (json_int_t)llrint(nic->now_ns), "nics",
				 (json_int_t)nics);

	if (nic->differs)
		log_warning("the timestamps of %s differ from those of the other NICs by %.0f ns: "
			    "it is not used for the clock",
			    nic->interface, nic->now_ns);
	if (nic->differs && nics < 3)
		json_put_text(seen, "note", "there are two NICs: which one is right is not known");
	clock_report(clock, nic->differs ? CLOCK_NIC_DIFFERS : CLOCK_NIC_AGREES, nic->interface,
		     seen);
}

static void evaluate_nic(struct clock *clock, struct clock_nic *nic, double sigma_ns, size_t nics)
{
	double limit_ns = DIFFERS_NS + DIFFERS_SIGMAS * sigma_ns;
	bool beyond = fabs(nic->now_ns) > (nic->differs ? limit_ns / 2 : limit_ns);

	/* At first the mean, as the fits are of few probes then, and known when it is of enough. */
	if (beyond != nic->differs)
		nic->averaged = 1;
	else if (nic->averaged < SMOOTHED_ROUNDS)
		nic->averaged++;
	nic->offset_ns += (nic->now_ns - nic->offset_ns) / nic->averaged;
	nic->measured = nic->measured || nic->averaged == SMOOTHED_ROUNDS;
	nic->rounds = beyond == nic->differs ? 0 : nic->rounds + 1;
	if (nic->rounds < DIFFERS_ROUNDS)
		return;
	nic->rounds = 0;
	nic->differs = beyond;
	report_nic(clock, nic, nics);
}

void clock_compare_nics(struct clock *clock, int64_t now_ns)
{
	double medians[ESC_PORTS_MAX], sigmas[ESC_PORTS_MAX], reference;
	struct clock_nic *known[ESC_PORTS_MAX];
	struct clock_edge *edge;
	size_t count = 0;

	for_each_edge (clock, edge)
		edge->error_known = edge_error(clock, edge, now_ns, &edge->error_ns);
	for (unsigned int port = 0; port < ESC_PORTS_MAX; port++) {
		struct clock_nic *nic = &clock->nics[port];

		nic->known =
			nic->edges && nic_median(clock, port, &medians[count], &sigmas[count]) > 0;
		if (nic->known)
			known[count++] = nic;
	}
	if (count < 2)
		return;
	reference = reference_of(medians, count);
	for (size_t i = 0; i < count; i++) {
		/* Timestamps that are ahead make the clock seem to be so. */
		known[i]->now_ns = reference - medians[i];
		evaluate_nic(clock, known[i], sigmas[i], count);
	}
}

/* A clock that is made by edges of all NICs is at most so far from the one that is right. */
double clock_nics_spread_ns(const struct clock *clock)
{
	double least = INFINITY, most = -INFINITY;

	for (unsigned int port = 0; port < ESC_PORTS_MAX; port++) {
		const struct clock_nic *nic = &clock->nics[port];

		if (!nic->edges || !nic->averaged || nic->differs)
			continue;
		least = fmin(least, fmin(nic->offset_ns, nic->now_ns));
		most = fmax(most, fmax(nic->offset_ns, nic->now_ns));
	}
	return most > least ? most - least : 0;
}

bool clock_nic_offset(const struct clock *clock, unsigned int port, double *offset_ns,
		      bool *differs)
{
	const struct clock_nic *nic = &clock->nics[port % ESC_PORTS_MAX];

	*offset_ns = nic->offset_ns;
	*differs = nic->differs;
	return nic->measured;
}

int64_t clock_edge_excess_ns(const struct clock_edge *edge)
{
	return edge->use != CLOCK_USE && edge->error_known ? llrint(fabs(edge->error_ns)) : 0;
}

/* --- the edges to a host as one --- */

/* At @at_ns, and what it is wrong by then. */
static double offset_at(const struct edge_estimate *fit, const struct edge_estimate *from,
			int64_t at_ns, double *sigma_ns)
{
	double ahead_s = (double)ns_sub(at_ns, fit->local_ns) * 1e-9;

	*sigma_ns = fmax(1, hypot(fit->offset_sigma_ns, ahead_s * fit->drift_sigma_ppb));
	return (double)ns_sub(fit->offset_ns, from->offset_ns) + fit->offset_fraction_ns +
	       ahead_s * fit->drift_ppb;
}

static bool is_clean(const struct edge_estimate *fit)
{
	return !fit->flagged && !fit->one_side;
}

void clock_combine(const struct edge_estimate *const *list, size_t count, struct edge_estimate *out)
{
	double sum = 0, weights = 0, squares = 0, drift = 0, drift_weights = 0, sigma_ns;
	const struct edge_estimate *best = list[0];
	size_t used = 0;

	for (size_t i = 1; i < count; i++)
		if (is_clean(list[i]) != is_clean(best)
			    ? is_clean(list[i])
			    : list[i]->offset_sigma_ns < best->offset_sigma_ns)
			best = list[i];
	*out = *best;
	/* With a clean one, those that met a queue have no weight. */
	for (size_t i = 0; i < count; i++) {
		double offset = offset_at(list[i], best, best->local_ns, &sigma_ns);
		double weight = 1 / (sigma_ns * sigma_ns);
		double deviation_ppb = fmax(0.1, list[i]->drift_sigma_ppb);

		if (is_clean(list[i]) != is_clean(best))
			continue;
		sum += weight * offset;
		squares += weight * offset * offset;
		weights += weight;
		drift += list[i]->drift_ppb / (deviation_ppb * deviation_ppb);
		drift_weights += 1 / (deviation_ppb * deviation_ppb);
		used++;
	}
	if (used < 2)
		return;
	out->offset_fraction_ns = sum / weights;
	out->drift_ppb = drift / drift_weights;
	out->drift_sigma_ppb = sqrt(1 / drift_weights);
	/* What they state, or what they differ by when that is more. */
	out->offset_sigma_ns =
		sqrt(fmax(1 / weights,
			  fmax(0, squares / weights - pow(sum / weights, 2)) / (double)(used - 1)));
}

/*
 * Of two edges to a host the one that contradicts the clock is left out. Before there is a time,
 * the NIC of the lowest slot is used alone.
 */
static bool is_left_out(const struct clock_edge *edge, const struct clock_edge *other)
{
	if (!edge->error_known || !other->error_known)
		return other->port < edge->port;
	return fabs(edge->error_ns) > DIFFERS_NS && fabs(other->error_ns) <= DIFFERS_NS;
}

static void choose_use(struct clock *clock, struct clock_edge *edge)
{
	const struct clock_edge *other;

	edge->use = clock->nics[edge->port].differs ? CLOCK_USE_NIC_DIFFERS : CLOCK_USE;
	if (edge->use != CLOCK_USE || edge->place == CLOCK_PLACE_NONE || !edge->fit.estimate.valid)
		return;
	for_each_edge (clock, other)
		if (other != edge && other->place == edge->place && other->fit.estimate.valid &&
		    !clock->nics[other->port].differs && is_left_out(edge, other))
			edge->use = CLOCK_USE_EDGE_DIFFERS;
}

void clock_combine_edges(struct clock *clock)
{
	const struct edge_estimate *list[CLOCK_EDGES_MAX];
	struct clock_edge *edge;
	size_t count;

	for_each_edge (clock, edge)
		choose_use(clock, edge);
	for (size_t place = 0; place < CONSENSUS_PEERS_MAX; place++) {
		if (!clock->places[place].edges)
			continue;
		count = 0;
		for_each_edge (clock, edge)
			if (edge->place == place && edge->use == CLOCK_USE &&
			    edge->fit.estimate.valid)
				list[count++] = &edge->fit.estimate;
		clock->places[place].estimate.valid = false;
		if (count)
			clock_combine(list, count, &clock->places[place].estimate);
	}
}
