/* SPDX-License-Identifier: BSD-2-Clause */
/* One-way delays of queue pairs as user space knows them: the map `qp_owd`, looked at in time. */
#ifndef ESC_LOADER_DELAYS_H
#define ESC_LOADER_DELAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "delayhist.h"
#include "maps.h"
#include "qptable.h"

struct delays;

/* What was sampled in a span of time. Nothing is known when samples is 0. */
struct delays_span {
	uint64_t samples;
	int64_t min_ns, p50_ns, p99_ns, max_ns;
	double mean_ns;
	uint32_t bound_ns; /* the largest of the samples': each delay is true within it */
	uint64_t over, crossings, ce;
	uint32_t stack_max_ns; /* of the receiving host, from XDP to tc ingress */
	uint32_t queue_max_ns; /* of this host, from tc egress to the driver ... */
	uint64_t queue_samples; /* ... of those that could be stamped there */
	uint64_t messages;     /* timed whole: */
	uint64_t message_bytes, message_delay_sum_ns, message_delay_max_ns, message_spread_sum_ns;
};

struct delays_state;

/* A queue pair's direction tx, as of the newest look; the same order as qptable_entries(). */
struct delays_entry {
	struct esc_qp_key key;
	const struct qp_entry *qp; /* counters, bytes_per_second; sport and transport in qp->qp */

	/* By the programs' counters in the map; `known` false: it has no entry there, all below is 0. */
	bool known;
	uint64_t noted, receipts, samples, spoiled, overwritten; /* ever */
	uint64_t over, crossings;	  /* ever */
	int64_t last_ns;		  /* newest delay */
	uint64_t receipt_age_ns;	  /* since the newest receipt; UINT64_MAX: none ever */
	uint64_t noted_since_receipt;	  /* sampled packets that left since receipts last came */
	uint64_t feedback_ns;		  /* mean of leaving to receipt, over the last half a second or
					     more in which some came; 0: none */

	struct delays_span recent;  /* the last second: windows of 0.27 s, four of them */
	struct delays_span look;    /* since the look before; quantiles and extremes only */
	struct delays_span scrape;  /* since delays_written(): no window is left out */
	struct delays_span ever;    /* p50 and p99 absent (0) when `ever_wrapped` */
	bool ever_wrapped;
	bool floor_known;
	int64_t floor_ns; /* least delay of the last 30 s */

	/* Over the last half a second or more, as qp->packets_per_second is. */
	double noted_per_second, receipts_per_second;
	double gaps_per_second, missing_per_second, retransmits_per_second, naks_per_second,
		rnr_per_second;
	double ce_per_second;  /* of our packets marked as they left here: a sender's are rarely */
	double ce_receipts_share; /* part of the recent samples that arrived marked CE, 0..1 */

	/*
	 * Progress. ACKs of this queue pair come to another QPN, which packets do
	 * not name together; so ACKs are those from its destination to its source
	 * on its port, of `pair_qps` queue pairs together.
	 */
	uint64_t packet_age_ns;	   /* since a look saw it send */
	uint64_t pair_acks;	   /* ever, of those that live */
	double pair_acks_per_second;
	uint64_t pair_ack_age_ns;  /* since a look saw one; UINT64_MAX: never */
	uint32_t pair_qps;

	struct delays_state *state; /* delays.c's own; NULL: never sampled */
};

/*
 * @owd_fd and @sent_fd are borrowed; less than 0: the maps are not there, and
 * no queue pair has delays. @qps is the table that the entries follow. Times are
 * CLOCK_MONOTONIC, as in the map.
 */
int delays_new(struct delays **out, int owd_fd, int sent_fd, uint32_t max,
	       const struct qptable *qps);
void delays_free(struct delays *delays);

/*
 * Right after each qptable_refresh(): entries point into the table. Reads the
 * map in batches (4,128 bytes of each queue pair that was ever sampled), but
 * not when it was read less than 0.1 s ago; deletes what belongs to no queue
 * pair any more. To miss no window it wants to come every 1.8 s at least.
 */
int delays_look(struct delays *delays, uint64_t now_local_ns);

/* Those with direction tx; valid until the next refresh. */
const struct delays_entry *delays_entries(const struct delays *delays, size_t *count);
/* NULL: none of that key, or not tx. */
const struct delays_entry *delays_find(const struct delays *delays, const struct esc_qp_key *key);

/* Entries of qp_owd, as of the newest reading. */
size_t delays_live(const struct delays *delays);
/* How soon to look again: 250 ms while at most DELAYS_FAST_QPS live, else 1 s. */
#define DELAYS_FAST_QPS 2048
#define DELAYS_FAST_NS 250000000ull
#define DELAYS_SLOW_NS 1000000000ull
uint64_t delays_interval_ns(const struct delays *delays);

/* The textfile was written: spans `scrape` begin anew. */
void delays_written(struct delays *delays);

#endif
