// SPDX-License-Identifier: BSD-2-Clause
#include "metrics.h"

#include "base/prom.h"
#include "report.h"

#define Q40 1099511627776.0

static double seconds(double ns)
{
	return ns / 1e9;
}

/* 0 free running, 1 locked, 2 holdover, as the exporter of linuxptp-daemon has it. */
static unsigned int sync_state(enum clock_state state)
{
	return state == CLOCK_SYNCED ? 1 : state == CLOCK_HOLDOVER ? 2 : 0;
}

static void write_clock(FILE *out, const struct mesh_clock_facts *clock)
{
	prom_count(FAMILY("clock_sync_state", GAUGE,
			  "Fabric clock: 0 free running or converging, 1 in step, 2 holdover."),
		   sync_state(clock->state), NULL);
	prom_count(FAMILY("clock_state_info", GAUGE, "State of the fabric clock, always 1."), 1,
		   "state", clock_state_name(clock->state), NULL);
	prom_count(FAMILY("clock_peers", GAUGE, "Neighbours that the clock is agreed with."),
		   clock->used, NULL);
	if (clock->last_used_age_ns >= 0)
		prom_value(FAMILY("clock_last_sync_age_seconds", GAUGE,
				  "Since a neighbour was last followed."),
			   seconds((double)clock->last_used_age_ns), NULL);
	if (!clock->known)
		return;
	prom_value(FAMILY("clock_error_bound_seconds", GAUGE,
			  "Fabric time as read here is true within this."),
		   seconds((double)clock->bound_ns), NULL);
	prom_value(FAMILY("clock_frequency_ppm", GAUGE,
			  "Rate of fabric time against this host's clock, in millionths."),
		   clock->model.rate / Q40 * 1e6, NULL);
	prom_value(FAMILY("clock_loop_residual_seconds", GAUGE,
			  "Spread of what the neighbours say of this host's clock."),
		   seconds(clock->residual_ns), NULL);
}

static void write_tai(FILE *out, const struct mesh_clock_facts *clock)
{
	if (!clock->known || !clock->tai_known)
		return;
	prom_value(FAMILY("clock_tai_offset_seconds", GAUGE,
			  "How far TAI is ahead of fabric time, by an anchor's word."),
		   seconds((double)ns_sub(clock->tai_ns, clock->fabric_ns)), NULL);
	prom_value(FAMILY("clock_tai_error_bound_seconds", GAUGE,
			  "TAI as read here is true within this."),
		   seconds((double)clock->tai_bound_ns), NULL);
}

static void write_delay(struct prom_family *family, const struct mesh_peer_facts *peer,
			const char *direction, const struct quantiles *delays)
{
	struct quantile_stat stats[QUANTILE_STATS];
	size_t count = quantiles_stats(delays, stats);

	for (size_t i = 0; i < count; i++)
		prom_value(family, stats[i].seconds, "netdev", peer->interface, "peer", peer->host,
			   "plane", report_plane(peer->plane), "direction", direction, "stat",
			   stats[i].name, NULL);
}

static void write_delays(FILE *out, const struct metrics_mesh *facts)
{
	struct prom_family *delay =
		FAMILY("owd_seconds", GAUGE, "One-way delay of probes in the last window.");
	struct prom_family *bound = FAMILY("owd_error_bound_seconds", GAUGE,
					   "One-way delays of this peer are true within this.");
	struct prom_family *rtt =
		FAMILY("rtt_seconds", GAUGE,
		       "Round trip of probes in the last window, without the time "
		       "that the peer took to answer.");

	for (size_t i = 0; i < facts->peer_count; i++) {
		write_delay(delay, &facts->peers[i], "out", &facts->peers[i].owd_out);
		write_delay(delay, &facts->peers[i], "in", &facts->peers[i].owd_in);
	}
	for (size_t i = 0; i < facts->peer_count; i++)
		if (facts->peers[i].owd_out.samples || facts->peers[i].owd_in.samples)
			prom_value(bound, seconds((double)facts->peers[i].owd_bound_ns), "netdev",
				   facts->peers[i].interface, "peer", facts->peers[i].host, "plane",
				   report_plane(facts->peers[i].plane), NULL);
	for (size_t i = 0; i < facts->peer_count; i++)
		write_delay(rtt, &facts->peers[i], NULL, &facts->peers[i].rtt);
}

static const struct peer_family {
	const char *name, *help;
	size_t offset; /* in struct mesh_peer_facts */
} peer_families[] = {
	{"probe_sent_total", "Requests sent to a peer.", offsetof(struct mesh_peer_facts, sent)},
	{"probe_answered_total", "Requests that the peer answered.",
	 offsetof(struct mesh_peer_facts, answered)},
	{"probe_received_total", "Requests of the peer that came here.",
	 offsetof(struct mesh_peer_facts, received)},
	{"probe_lost_total", "Requests without an answer after a second.",
	 offsetof(struct mesh_peer_facts, lost)},
	{"probe_late_total", "Answers that came after a second.",
	 offsetof(struct mesh_peer_facts, late)},
	{"probe_reordered_total", "Answers that came behind a later one.",
	 offsetof(struct mesh_peer_facts, reordered)},
	{"probe_failed_total", "Requests that the kernel did not send.",
	 offsetof(struct mesh_peer_facts, failed)},
	{"peer_disconnects_total", "Times that a peer went down.",
	 offsetof(struct mesh_peer_facts, disconnects)},
};

static void write_peer_counts(FILE *out, const struct metrics_mesh *facts)
{
	for (size_t f = 0; f < sizeof(peer_families) / sizeof(peer_families[0]); f++) {
		struct prom_family *family =
			FAMILY(peer_families[f].name, COUNTER, peer_families[f].help);

		for (size_t i = 0; i < facts->peer_count; i++) {
			const struct mesh_peer_facts *peer = &facts->peers[i];

			prom_count(
				family,
				*(const uint64_t *)((const char *)peer + peer_families[f].offset),
				"netdev", peer->interface, "peer", peer->host, "plane",
				report_plane(peer->plane), NULL);
		}
	}
}

static void write_peers(FILE *out, const struct metrics_mesh *facts)
{
	struct prom_family *connected =
		FAMILY("peer_connected", GAUGE, "0 when a peer is down, 1 when it is heard.");
	struct prom_family *age =
		FAMILY("probe_last_received_age_seconds", GAUGE, "Since a peer was last heard.");

	for (size_t i = 0; i < facts->peer_count; i++)
		prom_count(connected, facts->peers[i].state != PEER_DOWN, "netdev",
			   facts->peers[i].interface, "peer", facts->peers[i].host, "plane",
			   report_plane(facts->peers[i].plane), NULL);
	for (size_t i = 0; i < facts->peer_count; i++)
		if (facts->peers[i].heard)
			prom_value(age, seconds((double)facts->peers[i].silent_ns), "netdev",
				   facts->peers[i].interface, "peer", facts->peers[i].host, "plane",
				   report_plane(facts->peers[i].plane), NULL);
	write_peer_counts(out, facts);
	write_delays(out, facts);
}

void metrics_write_mesh(FILE *out, const struct metrics_mesh *facts)
{
	struct prom_family *probing =
		FAMILY("probing", GAUGE, "1 while the mesh of a plane is probed.");

	for (unsigned int i = 0; i < MESH_PLANES; i++)
		if (facts->mesh.planes[i].configured)
			prom_count(probing, facts->mesh.planes[i].on, "plane", report_plane(i),
				   NULL);
	prom_count(FAMILY("probe_authority", GAUGE, "1 when probes are tagged with a fleet key."),
		   facts->mesh.authority, NULL);
	write_clock(out, &facts->clock);
	write_tai(out, &facts->clock);
	write_peers(out, facts);
}
