/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs of one host under made-up delays, for the diagnoses: every draw by a printed seed. */
#ifndef ESC_TESTS_UNIT_VERDICT_FLEET_H
#define ESC_TESTS_UNIT_VERDICT_FLEET_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "diagnose/internal.h"

#define FLEET_QPS 64
#define FLEET_PEERS 16

struct fleet {
	uint64_t state; /* of the random numbers */
	struct diag_qp qps[FLEET_QPS];
	double p50_us[FLEET_QPS]; /* the next poll's median of each */
	bool halted[FLEET_QPS];	  /* when idle, with requests outstanding */
	double noise;		  /* of a median from tick to tick, as a part of it */
	size_t qp_count;
	struct diag_peer peers[FLEET_PEERS];
	size_t peer_count;
	struct diag_port port;
	struct diagnoses *diagnoses;
	uint64_t now_ns;
	unsigned int ticks;
	const struct diag_event *events;
	size_t event_count;
};

static inline uint64_t fleet_random(struct fleet *fleet)
{
	uint64_t z = fleet->state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static inline double fleet_uniform(struct fleet *fleet, double from, double to)
{
	return from + (to - from) * (fleet_random(fleet) >> 11) / 9007199254740992.0;
}

static inline double fleet_normal(struct fleet *fleet)
{
	double u = fleet_uniform(fleet, 1e-12, 1), v = fleet_uniform(fleet, 0, 2 * M_PI);

	return sqrt(-2 * log(u)) * cos(v);
}

static inline uint64_t fleet_seed(void)
{
	const char *given = getenv("SEED");
	struct timespec now;

	if (given)
		return strtoull(given, NULL, 0);
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 20;
}

static inline struct esc_address fleet_address(unsigned int host)
{
	struct esc_address address = {.bytes = {[10] = 0xff, [11] = 0xff, [12] = 10}};

	address.bytes[14] = host >> 8;
	address.bytes[15] = host;
	return address;
}

/* Queue pair @i to host @peer; they have to come in the order of their keys. */
static inline struct diag_qp *fleet_add(struct fleet *fleet, unsigned int peer, double p50_us)
{
	size_t i = fleet->qp_count++;
	struct diag_qp *qp = &fleet->qps[i];

	*qp = (struct diag_qp){.sport = 50000 + i, .transport = ESC_TRANSPORT_RC};
	qp->key.src = fleet_address(1);
	qp->key.dst = fleet_address(peer);
	/* Keys are ordered by their bytes. */
	qp->key.dest_qpn = __builtin_bswap32(0x100 + i);
	qp->next_known = qp->acked_known = qp->paired = true;
	qp->next_psn = qp->acked_psn = fleet_random(fleet) & ESC_PSN_MASK;
	fleet->p50_us[i] = p50_us;
	return qp;
}

static inline void fleet_open(struct fleet *fleet, uint64_t seed)
{
	*fleet = (struct fleet){.state = seed, .noise = 0.1, .now_ns = 1000000000};
	fleet->port = (struct diag_port){.index = 0, .name = "eth1", .counts_rx = true};
	cr_assert_eq(diagnoses_new(&fleet->diagnoses), 0);
}

static inline void fleet_close(struct fleet *fleet)
{
	diagnoses_free(fleet->diagnoses);
}

static inline void fleet_delay(struct fleet *fleet, struct diag_delay *delay, double p50_us,
			       double noise)
{
	double p50_ns = 1000 * p50_us * exp(noise * fleet_normal(fleet));

	delay->samples = 50;
	delay->p50_ns = p50_ns;
	delay->min_ns = p50_ns * fleet_uniform(fleet, 0.6, 0.9);
	delay->p99_ns = p50_ns * fleet_uniform(fleet, 1.2, 2.5);
	delay->max_ns = delay->p99_ns * 1.2;
	delay->bound_ns = 1500;
}

/* A poll later: each sends, has replies, and the delay of p50_us; 0: is idle. */
static inline void fleet_move(struct fleet *fleet)
{
	for (size_t i = 0; i < fleet->qp_count; i++) {
		struct diag_qp *qp = &fleet->qps[i];

		memset(&qp->delay, 0, sizeof(qp->delay));
		if (fleet->p50_us[i] <= 0) {
			qp->acked_psn = fleet->halted[i] ? qp->acked_psn : qp->next_psn;
			continue;
		}
		fleet_delay(fleet, &qp->delay, fleet->p50_us[i], fleet->noise);
		qp->bytes += 1000000;
		qp->acks += 100;
		qp->next_psn = (qp->next_psn + 1000) & ESC_PSN_MASK;
		qp->acked_psn = (qp->next_psn - fleet_random(fleet) % 64) & ESC_PSN_MASK;
	}
}

static inline void fleet_judge(struct fleet *fleet)
{
	struct diag_input input = {.now_ns = fleet->now_ns += DIAG_POLL_NS,
				   .qps = fleet->qps,
				   .qp_count = fleet->qp_count,
				   .peers = fleet->peers,
				   .peer_count = fleet->peer_count,
				   .ports = &fleet->port,
				   .port_count = 1};

	fleet->ticks++;
	cr_assert_eq(
		diagnoses_update(fleet->diagnoses, &input, &fleet->events, &fleet->event_count), 0);
}

static inline void fleet_tick(struct fleet *fleet)
{
	fleet_move(fleet);
	fleet_judge(fleet);
}

static inline const struct diag_event *fleet_event(const struct fleet *fleet, enum diag_phase phase,
						   enum diag_kind kind)
{
	for (size_t i = 0; i < fleet->event_count; i++)
		if (fleet->events[i].phase == phase && fleet->events[i].of.kind == kind)
			return &fleet->events[i];
	return NULL;
}

/* Ticks until the event comes, at most @most; 0: it did not. */
static inline unsigned int fleet_until(struct fleet *fleet, enum diag_phase phase,
				       enum diag_kind kind, unsigned int most)
{
	for (unsigned int i = 1; i <= most; i++) {
		fleet_tick(fleet);
		if (fleet_event(fleet, phase, kind))
			return i;
	}
	return 0;
}

static inline void fleet_run(struct fleet *fleet, unsigned int ticks)
{
	while (ticks--)
		fleet_tick(fleet);
}

static inline size_t fleet_active(const struct fleet *fleet)
{
	size_t count = 0, at = 0;

	while (diagnoses_next(fleet->diagnoses, &at))
		count++;
	return count;
}

#endif
