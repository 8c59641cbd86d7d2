/* SPDX-License-Identifier: BSD-2-Clause */
/* One-way delays of queue pairs as user space knows them: the map `qp_owd`, looked at in time. */
#ifndef ESC_LOADER_DELAYS_H
#define ESC_LOADER_DELAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/delayhist.h"
#include "maps/maps.h"
#include "qp/qp.h"

struct capability;
struct delays;

/*
 * needs: dataplane, clock, mesh, qp; self is the struct delays. It polls the maps of queue pairs and of
 * their delays four times a second (once, of many queue pairs).
 */
extern const struct capability delay_capability;

/* Called after each poll that succeeded; one listener, NULL removes it. */
typedef void delays_listener_fn(void *context, uint64_t now_local_ns);
void delays_listen(struct delays *delays, delays_listener_fn *fn, void *context);

/* What was sampled in a span of time. Nothing is known when samples is 0. */
struct delays_span {
	uint64_t samples;
	int64_t min_ns, p50_ns, p99_ns, max_ns;
	double mean_ns;
	uint32_t bound_ns; /* the largest of the samples': each delay is true within it */
	uint64_t over, crossings, ce;
	uint32_t stack_max_ns;	/* of the receiving host, from XDP to tc ingress */
	uint32_t queue_max_ns;	/* of this host, from tc egress to the driver ... */
	uint64_t queue_samples; /* ... of those that could be stamped there */
	uint64_t messages;	/* timed whole: */
	uint64_t message_bytes, message_delay_sum_ns, message_delay_max_ns, message_spread_sum_ns;
};

/* Over the last half a second or more, each second. */
struct delays_rates {
	double samples_sent, receipts;
	double gaps, missing, retransmits, naks, rnr_naks;
	double ce;	  /* of what left here; few stacks mark their own */
	double pair_acks; /* see below */
};

/* The counters that these rates are of, as they were then. */
struct delays_rate_base {
	uint64_t local_ns, samples_sent, receipts, feedback_sum_ns;
	uint64_t gaps, missing, retransmits, naks, rnr_naks, ce, pair_acks;
};

struct delays_state;

/* A queue pair's direction tx, as of the newest look; the same order as qptable_entries(). */
struct delays_entry {
	struct esc_qp_key key;
	const struct qp_entry *qp; /* counters, bytes_per_second; sport and transport in qp->qp */

	/* Ever, as the programs counted in the map. False: no entry there, all of it is 0. */
	bool known;
	uint64_t samples_sent, receipts, samples, samples_discarded, samples_expired;
	uint64_t over, crossings;
	int64_t last_ns; /* newest delay, with samples */
	uint32_t last_bound_ns;
	uint64_t receipt_age_ns;      /* since the newest; UINT64_MAX: none ever */
	uint64_t noted_since_receipt; /* sampled packets that left since a look last saw receipts */
	double feedback_ns; /* mean of leaving to receipt, when some last came; 0: none ever */

	struct delays_span recent; /* the last second: four windows of 0.27 s */
	struct delays_span look; /* since the look before; without what `recent` has of messages */
	struct delays_span scrape; /* since delays_written(): nothing is left out */
	bool floor_known;
	int64_t floor_ns; /* least delay of the last 30 s */

	struct delays_rates rates;

	/*
	 * Progress. The ACKs of this queue pair come to another QPN, and no packet
	 * names both: so ACKs are all that came from its destination to its source
	 * on its port, for `pair_qps` queue pairs together. READ responses get none.
	 */
	uint64_t packet_age_ns;	  /* since a look saw it send */
	uint64_t pair_acks;	  /* ever, to those that live */
	uint64_t pair_ack_age_ns; /* since a look saw some; UINT64_MAX: none */
	uint32_t pair_qps;

	/* Of delays.c alone. */
	uint64_t pair_ack_local_ns;
	struct delays_rate_base before;
	struct delays_state *state; /* NULL: never sampled */
};

/*
 * @owd_fd and @sent_fd are borrowed; less than 0: the maps are not there, and
 * no queue pair has delays. @max: entries they have room for. @qps is the
 * table that the entries follow. Times are CLOCK_MONOTONIC, as in the map.
 */
int delays_new(struct delays **out, int owd_fd, int sent_fd, uint32_t max,
	       const struct qptable *qps);
void delays_free(struct delays *delays);

/*
 * Right after each qptable_refresh(), since entries point into the table. Reads
 * of the map what may have changed, 4,088 bytes a queue pair, in batches when
 * that is most of it; nothing when the last reading is less than 0.1 s old.
 * Deletes what belongs to no queue pair any more. Coming later than each 1.8 s
 * costs exactness: extremes are then as wide as a bucket, 3.1%.
 */
int delays_poll(struct delays *delays, uint64_t now_local_ns);

/* In all that follows @delays may be NULL: there are none. */

/* Those with direction tx; valid until the next refresh. */
const struct delays_entry *delays_entries(const struct delays *delays, size_t *count);
/* NULL: none of that key, or not tx. */
const struct delays_entry *delays_find(const struct delays *delays, const struct esc_qp_key *key);

/*
 * All delays there have been. p50 and p99 are 0 when the histogram has wrapped
 * (after 2^32 samples in a bucket); the bound is of what this daemon saw.
 */
void delays_ever(const struct delays_entry *entry, struct delays_span *out);
/* Adds the delays of `recent`, or of `scrape`, to @hist. 0 or -ENOMEM. */
int delays_add_recent(const struct delays *delays, const struct delays_entry *entry,
		      struct delayhist *hist);
int delays_add_scrape(const struct delays_entry *entry, struct delayhist *hist);

/* Sums since this daemon reads the maps: they outlive queue pairs, and never go back. */
struct delays_counts {
	uint64_t samples_sent, receipts, samples, samples_discarded, samples_expired, over,
		crossings;
};
struct delays_port {
	struct delays_counts counts;
	uint64_t histogram[ESC_OWD_BUCKETS];
	double sum_ns;
};
/* @port: index into `ports`. */
const struct delays_port *delays_port(const struct delays *delays, unsigned int port);
/* The same of what went to an address; it goes when no queue pair to there lives. */
struct delays_destination {
	struct esc_address dst;
	uint8_t port;
	bool lives;
	struct delays_counts counts;
};
const struct delays_destination *delays_destinations(const struct delays *delays, size_t *count);

/* The order of `qp --sort delay`: the 99th percentile of the last second. */
double delays_order(const void *delays, const struct qp_entry *entry);

/* How soon to look again: while many queue pairs are sampled, less often. */
#define DELAYS_FAST_QPS 2048
#define DELAYS_FAST_NS 250000000ull
#define DELAYS_SLOW_NS 1000000000ull
uint64_t delays_interval_ns(const struct delays *delays);
/* Entries of `qp_owd` that this daemon follows. */
size_t delays_tracked(const struct delays *delays);

/* The textfile was written: spans `scrape` begin anew. */
void delays_written(struct delays *delays);

#endif
