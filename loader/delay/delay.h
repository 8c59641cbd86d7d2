/* SPDX-License-Identifier: BSD-2-Clause */
/* One-way delays of queue pairs as user space knows them: the map `qp_owd`, polled in time. */
#ifndef ESC_DELAY_DELAY_H
#define ESC_DELAY_DELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/delayhist.h"
#include "maps/maps.h"
#include "qp/qp.h"

struct capability;
struct delays;

/*
 * needs: dataplane, clock, mesh, qp; self is the struct delays. It polls the maps of queue pairs
 * and of their delays four times a second (once, of many queue pairs).
 */
extern const struct capability delay_capability;

/* Called after each poll that succeeded; one listener, NULL removes it. */
typedef void delays_listener_fn(void *context, uint64_t now_local_ns);
void delays_listen(struct delays *delays, delays_listener_fn *fn, void *context);

/* What was sampled in a span of time. Nothing is known when samples is 0. */
struct delays_span {
	uint64_t samples;
	int64_t min_ns, p50_ns, p99_ns, max_ns;
	double mean_ns, sum_ns;
	uint32_t bound_ns; /* the largest of the samples': each delay is true within it */
	uint64_t over, crossings, ce;
	uint32_t stack_max_ns;	/* of the receiving host, from XDP to tc ingress */
	uint32_t queue_max_ns;	/* of this host, from tc egress to the driver ... */
	uint64_t queue_samples; /* ... of those that have a timestamp there */
	uint64_t messages;	/* timed whole: */
	uint64_t message_bytes, message_delay_sum_ns, message_delay_max_ns, message_spread_sum_ns;
};

/* Of a queue pair, or sums over some. */
struct delays_counts {
	uint64_t samples_sent, receipts, samples, samples_discarded, samples_expired, over,
		crossings;
};

#define DELAYS_WINDOWS 4 /* of 0.27 s each that are `recent` */
#define DELAYS_FLOORS 28 /* of four windows each: 30 s */

/* A queue pair that sends and of which packets were sampled, as of the newest poll. */
struct delays_entry {
	struct esc_qp_owd owd;	   /* as last read from the map; ever, as the programs counted */
	struct delays_span recent; /* the last second */
	struct delays_span poll;   /* since the poll before */
	struct delays_span scrape; /* since delays_written(): nothing is left out */

	/* Of delay/ alone. */
	uint64_t read_local_ns;
	struct delays_counts added;	   /* by the newest reading, */
	struct delayhist poll_histogram;   /* and its delays */
	struct delayhist scrape_histogram; /* the same since delays_written(), */
	struct delays_span scrape_windows; /* and what its windows sum up to */
	uint32_t bound_max_ns;		   /* of what this daemon has read */
	uint64_t sent_at_receipt; /* sampled packets when a reading last had new receipts */
	double feedback_ns;	  /* mean of leaving to receipt, lately; 0: none ever */
	uint64_t feedback_local_ns, feedback_receipts, feedback_sum_ns; /* when that was computed */
	struct {
		uint32_t number; /* of the window in which it was read */
		struct delayhist histogram;
	} windows[DELAYS_WINDOWS];
	struct {
		uint32_t number; /* window >> 2, plus 1; 0: empty */
		int64_t min_ns;
	} floors[DELAYS_FLOORS];
};

/* NULL: nothing of it was sampled, or @delays is NULL. Valid until the next refresh. */
const struct delays_entry *delays_find(const struct delays *delays, const struct esc_qp_key *key);

#endif
