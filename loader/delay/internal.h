/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of delay/ share. */
#ifndef ESC_DELAY_INTERNAL_H
#define ESC_DELAY_INTERNAL_H

#include "base/fields.h"
#include "clock/clock.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "delay.h"
#include "fleet/fleet.h"
#include "mesh/mesh.h"
#include "qp/qp.h"

/* --- entry.c: one queue pair, what of a map's value is new, and of which span. Pure --- */

/*
 * Takes a reading. @baseline: what it holds was before our time. @scratch: any histogram. 0 or
 * -ENOMEM, then these samples are missing in what is shown.
 */
int delays_entry_read(struct delays_entry *entry, const struct esc_qp_owd *owd,
		      uint64_t now_local_ns, bool baseline, struct delayhist *scratch);
/* Nothing was read since nothing moved for longer than `recent`. */
void delays_entry_still(struct delays_entry *entry);
/* The least delay of the last 30 s. False: nothing was sampled in them. */
bool delays_entry_floor(const struct delays_entry *entry, uint64_t now_local_ns, int64_t *floor_ns);
/* Resets the histograms since the last scrape. */
void delays_entry_written(struct delays_entry *entry);
void delays_entry_free(struct delays_entry *entry);
/* Adds the histogram of `recent` at @now_local_ns. 0 or -ENOMEM. */
int delays_entry_add_recent(const struct delays_entry *entry, uint64_t now_local_ns,
			    struct delayhist *histogram);
/*
 * All delays there have been. p50 and p99 are 0 when the histogram has wrapped (after 2^32 samples
 * in a bucket); the bound is of what this daemon saw.
 */
void delays_entry_ever(const struct delays_entry *entry, struct delays_span *out);

/* Adds up all but quantiles and mean, which delays_span_finish() derives. */
void delays_span_add(struct delays_span *span, const struct delays_span *more);
void delays_span_finish(struct delays_span *span, const struct delayhist *histogram);
void delays_counts_add(struct delays_counts *sum, const struct delays_counts *more);

/* --- delay.c: the map, and sums since this daemon reads it, which outlive queue pairs --- */

struct delays_port {
	struct delays_counts counts;
	uint64_t histogram[ESC_OWD_BUCKETS];
	double sum_ns;
};
/* Of what went to an address; it goes when no queue pair to there lives. */
struct delays_destination {
	struct esc_address dst;
	uint8_t port;
	bool lives;
	struct delays_counts counts;
};

/* Read once for all sentences about missing delays in a reply. */
struct delays_facts {
	bool known;
	enum clock_state clock;
	struct mesh_peer_facts *peers; /* neighbours */
	size_t peer_count;
	struct port_facts ports[ESC_PORTS_MAX];
	unsigned int port_count;
};

struct delays {
	struct qptable *table;
	struct mapread reader; /* of qp_owd */
	int sent_fd;
	size_t tracked;
	uint64_t read_local_ns, sweep_local_ns; /* 0: never */
	struct delayhist scratch;
	struct delays_port ports[ESC_PORTS_MAX];
	struct delays_destination *destinations; /* by dst, port */
	size_t destination_count, destination_room;
	/* Of the poll under way. */
	uint64_t now_local_ns;

	/* Of the capability. */
	struct core *core;
	struct dataplane *dataplane;
	struct clock *clock;
	struct mesh *mesh;
	struct core_timer *timer;
	struct host_queue_out *host_queue; /* NULL: off, or host_queue_note has the reason */
	char host_queue_note[160];
	struct delays_facts facts; /* since the newest refresh */
	bool poll_failed;
	delays_listener_fn *listener;
	void *listener_context;
};

/*
 * @owd_fd and @sent_fd are borrowed; less than 0: the maps are not there, and no queue pair has
 * delays. @max: entries they have room for. Times are CLOCK_MONOTONIC, as in the map.
 */
int delays_new(struct delays **out, int owd_fd, int sent_fd, uint32_t max, struct qptable *table);
void delays_free(struct delays *delays);
/*
 * After each refresh of the table. Reads of the map what may have changed, 4,088 bytes a queue
 * pair, in batches when that is most of it; nothing when the last reading is less than 0.1 s old.
 * Deletes what belongs to no queue pair any more. Coming later than each 1.8 s costs exactness:
 * extremes are then as wide as a bucket, 3.1%. 0 or -errno.
 */
int delays_poll(struct delays *delays, uint64_t now_local_ns);
/* How soon to poll again: while many queue pairs are sampled, less often. */
#define DELAYS_FAST_QPS 2048
#define DELAYS_FAST_NS 250000000ull
#define DELAYS_SLOW_NS 1000000000ull
uint64_t delays_interval_ns(const struct delays *delays);
/* The textfile was written: resets the histograms since the last scrape. */
void delays_written(void *delays);

/* Delays of all queue pairs to a peer. */
struct delays_group {
	const char *host;	/* the member's; NULL: none has the address */
	struct esc_address dst; /* when there is no host; else one of its addresses */
	uint8_t port;		/* index into `ports`, or what @fold makes of it */
	size_t qps;		/* that send there */
	struct delays_span recent, scrape;
	struct delays_counts counts;
	struct delayhist recent_histogram, scrape_histogram; /* while they are added up */
};
/*
 * *@out is malloc'd. @members may be NULL, and has to outlive it. @fold: what stands for each port,
 * so that several are one group (ESC_PORTS_MAX of them); NULL: itself. 0 or -ENOMEM.
 */
int delays_group(const struct delays *delays, const struct members *members, const uint8_t *fold,
		 struct delays_group **out, size_t *count);

/* --- report.c: replies and metrics --- */

/* Adds all that is known of the delay of @qp, or `owd_note`; @delays: a struct delays. */
void delays_put_qp(void *delays, const struct qp_entry *qp, json_t *object);
/* `qp_owd_out_ns` into the peers of `peers`. */
void delays_put_peers(void *delays, json_t *peers);
/* `receipts` into `status`. */
void delays_put_receipts(void *delays, json_t *status);
/* The next reply rereads its facts. */
void delays_forget_facts(struct delays *delays);
extern const struct metric delay_metrics[];
void delay_write_metrics(void *self, FILE *out);

/*
 * --- hostqueue.c: the program behind the qdisc ---
 * It separates the sending host's own queue from the fabric's delay, and runs for every packet that
 * any interface sends: off unless it is configured.
 */

struct host_queue_out;
/*
 * Loads and attaches, and lets tc egress fill the table. The descriptors of the pinned maps
 * `host_queue` and `qp_sent` are borrowed. Returns 0 or -errno with one sentence in @why.
 * Nothing is pinned: it ends with the process.
 */
int hostqueue_open(struct host_queue_out **out, int queue_fd, int sent_fd, char *why,
		   size_t why_bytes);
void hostqueue_close(struct host_queue_out *queue); /* detaches; NULL is fine */
/* The kernel feature that it uses, for `features`. */
void hostqueue_features(json_t *list);

#endif
