/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Diagnosis, between its own files. diagnosis.c, book.c and the finders are pure: the figures of a
 * poll are arguments, with their time; what began, changed and ended is the result.
 */
#ifndef ESC_DIAGNOSE_INTERNAL_H
#define ESC_DIAGNOSE_INTERNAL_H

#include "base/hash.h"
#include "core/core.h"
#include "qp/qp.h"

/* --- diagnosis.c --- */

#define DIAG_POLL_NS 250000000ull /* what the thresholds expect between two polls */

#define DIAG_LIST(X)                                                                               \
	X(DIAG_OUTLIER, "qp_outlier", WARNING,                                                     \
	  "A queue pair's delay is far above that of its peers.",                                  \
	  .remedy = "`escapement paths` shows whether another path is free; `escapement steer "    \
		    "plan` what would be moved.")                                                  \
	X(DIAG_MISCONFIGURATION, "misconfiguration_suspected", WARNING,                            \
	  "Packets do not arrive, or use RoCEv1, as with a wrong configuration.",                  \
	  .remedy = "Compare MTU, GID index and traffic class at both ends.")                      \
	X(DIAG_STALLED, "qp_stalled", WARNING, "A queue pair sends again and makes no progress.",  \
	  .remedy = "`escapement qp` on the peer shows what it received.")                         \
	X(DIAG_LOSS, "loss_hardware", WARNING, "Packets are lost where no queue is long.",         \
	  .remedy = "See the error counters of the links on its path; `escapement paths` has the " \
		    "switches.")                                                                   \
	X(DIAG_CONGESTION, "congestion", WARNING, "A queue of the fabric is long.",                \
	  .remedy =                                                                                \
		  "`escapement paths` shows which path; `escapement pace on` keeps queues short.") \
	X(DIAG_IMBALANCE, "imbalance", WARNING, "One path is congested while others are free.",    \
	  .remedy = "`escapement steer auto on` moves queue pairs to the free ones.")              \
	X(DIAG_HOST, "host", WARNING, "The delay arises in a host.",                               \
	  .remedy = "See the CPU, PCIe and memory of the host in `seen.cause`.")                   \
	X(DIAG_PATH_SLOW, "path_slow", WARNING,                                                    \
	  "All packets to a destination are slow, and no cause is known.",                         \
	  .remedy = "Compare `escapement peers` and `escapement paths` at both ends.")
enum diag_kind { DIAG_LIST(EVENT_ENUM) DIAG_KINDS };
const char *diag_kind_name(enum diag_kind kind);

/* --- arguments --- */

/* One-way delays of the last second or less, fabric time. */
struct diag_delay {
	uint32_t samples; /* 0: nothing below is known */
	uint32_t ce;	  /* of these: received with a mark */
	int64_t min_ns, p50_ns, p99_ns, max_ns;
	int64_t bound_ns; /* what each may be wrong by */
};

/* A queue pair that this host sends to. Counts are since ever; only their growth counts. */
struct diag_qp {
	struct esc_qp_key key; /* ESC_DIRECTION_TX */
	uint16_t sport;
	uint8_t transport; /* enum esc_transport */
	uint64_t job;	   /* equal within a job; 0: not known */
	struct diag_delay delay;
	bool stack_known, queue_known;
	int64_t stack_max_ns; /* the receiver's, recent; behind the delay's end */
	int64_t queue_max_ns; /* our own, recent; part of the delay */
	uint64_t bytes, retransmits;
	uint32_t next_psn; /* of the next new request */
	bool next_known;
	bool alive;	  /* a process is known to hold it; false also when not known */
	bool mid_message; /* a message has begun and not ended */
	bool asked;	  /* the newest request has to be acknowledged, or replied to */
	/* No RDMA device of this host sent it, and their queue pairs are known: perhaps forged. */
	bool foreign;
	/* Of the peer's replies: */
	bool paired;	   /* they are known to be this connection's */
	bool nothing_back; /* no packet was received that could be its reply */
	bool acked_known;
	uint32_t acked_psn; /* the first that is not acknowledged */
	uint64_t acks, nak_sequence, rnr_naks;
};

/* Which probes measure an address; the first that there is. */
#define DIAG_SOURCES(X)                                                                            \
	X(MESH, "mesh")		/* of a neighbor, on one source port */                            \
	X(PATH, "path")		/* of candidate paths, on the ports of the queue pairs */          \
	X(ROTATION, "rotation") /* of addresses in turn, on several ports */
enum diag_source {
#define X(id, name) DIAG_BY_##id,
	DIAG_SOURCES(X)
#undef X
};
const char *diag_source_name(enum diag_source source);

/* An address by probes out of band. */
struct diag_peer {
	struct esc_address src, address; /* ours, and the destination */
	enum diag_source source;
	struct diag_delay delay; /* to it */
	uint64_t age_ns;	 /* of its newest sample */
	uint16_t source_port;	 /* the probes', the newest */
	bool up;
};

struct diag_port {
	uint8_t index;
	char name[16];
	bool counts_rx;		       /* received packets are counted, so that none means none */
	uint64_t rocev1_rx, rocev1_tx; /* frames, since ever */
	uint32_t rocev1_gids; /* queue pairs here that use a RoCEv1 GID; 0 also when not known */
};

struct diag_input {
	uint64_t now_ns;	   /* one clock, never back */
	const struct diag_qp *qps; /* by the bytes of their keys, each once */
	size_t qp_count;
	const struct diag_peer *peers; /* by the bytes of src and address, each pair once */
	size_t peer_count;
	const struct diag_port *ports;
	size_t port_count;
};

/* --- results --- */

/* A number with its unit in its name. */
struct diag_figure {
	const char *name; /* static */
	double value;
};
#define DIAG_FIGURES 20
#define DIAG_EXPECTED 6

struct diag_evidence {
	struct diag_figure seen[DIAG_FIGURES];
	size_t seen_count;
	struct diag_figure expected[DIAG_EXPECTED];
	size_t expected_count;
	const char *cause;  /* static; NULL: nothing to add */
	const char *note;   /* static; NULL */
	const char *probes; /* diag_source_name() of those it is compared with; NULL: none */
	double lead;	    /* its doubling or halving is reported as a change */
};
void diag_see(struct diag_evidence *evidence, const char *name, double value);
void diag_expect(struct diag_evidence *evidence, const char *name, double value);

enum diag_about { DIAG_ABOUT_QP, DIAG_ABOUT_PAIR, DIAG_ABOUT_PORT };
struct diag_subject {
	enum diag_about about;
	struct esc_qp_key key; /* of a pair src and dst, of a port port; the rest zero */
};

/* An active diagnosis, reported or suppressed. */
struct diag_active {
	enum diag_kind kind;
	struct diag_subject subject;
	struct diag_evidence evidence; /* the newest */
	uint64_t first_ns;	       /* the first poll that showed it */
};

enum diag_phase { DIAG_BEGIN, DIAG_CHANGE, DIAG_CLEAR, DIAG_MORE };

struct diag_event {
	enum diag_phase phase;
	struct diag_active of; /* of DIAG_MORE only the kind */
	uint64_t now_ns;
	const char *because; /* DIAG_CLEAR: "well", "idle", "gone" */
	uint64_t left_out;   /* DIAG_MORE: that began and are not reported one by one */
};

struct diagnoses;
int diagnoses_new(struct diagnoses **out);
void diagnoses_free(struct diagnoses *diagnoses);

/* One poll. Events are valid until the next. 0 or -ENOMEM: then this poll is lost. */
int diagnoses_update(struct diagnoses *diagnoses, const struct diag_input *input,
		     const struct diag_event **events, size_t *count);

/* The active ones, one each call; *@at begins at 0. NULL: no more. */
const struct diag_active *diagnoses_next(const struct diagnoses *diagnoses, size_t *at);

/* --- thresholds --- */

/*
 * No public standard gives any for one-way delay; cases in print are 94 against 4 us and 250
 * against 10 us, and a slow path is commonly taken as three times its usual delay and 20 us more.
 * A poll is a quarter of a second. Where a delay is compared, both clock bounds are added to the
 * margin first.
 */
#define LAW_SAMPLES_MIN 5 /* of a queue pair's recent delays, to be evaluated */

/* Slow: the median against the queue pair's own floor. */
#define LAW_FLOOR_NS 30000000000ull	  /* the floor is the least of so long */
#define LAW_FLOOR_KEEP_NS 600000000000ull /* and stays while slow, at most so long */
#define LAW_SLOW_FACTOR 3
#define LAW_SLOW_MARGIN_NS 20000

/* Outlier: against the siblings' median. */
#define LAW_OUTLIER_FACTOR 1.6
#define LAW_OUTLIER_MADS 5
#define LAW_OUTLIER_MARGIN_NS 10000
#define LAW_OUTLIER_USUAL 1.7 /* times its own best median, or ... */
#define LAW_OUTLIER_FLOOR 1.5 /* ... so many floors above its floor */
#define LAW_OUTLIER_FEW 2     /* with no more siblings than this ... */
#define LAW_OUTLIER_FEW_FACTOR 3
#define LAW_OUTLIER_SINGLE_FACTOR 2.2
#define LAW_OUTLIER_SINGLES 3	  /* to different destinations: only more than this are compared */
#define LAW_OUTLIER_SPREADS 1.5	  /* times what the furthest of the others is from their median */
#define LAW_OUTLIER_GAP 1.4	  /* the least bad of those named against the worst of the others */
#define LAW_OUTLIER_CLEAN 3	  /* spreads of the others, between them and the named */
#define LAW_OUTLIER_SURE_NS 50000 /* less above the others than this takes longer to be sure of */
#define LAW_OUTLIER_MINORITY 4	  /* one in so many may be named, and always one */

/* In-band against out-of-band. */
#define LAW_INBAND_FACTOR 5
#define LAW_INBAND_MARGIN_NS 50000
#define LAW_MESH_SAMPLES_MIN 10
#define LAW_PROBES_AGE_NS 15000000000ull /* older probes are of another load */
#define LAW_OWN_LOAD 1.15 /* more than the load that was carried well: it may be its own queue */

/* Stalled. */
#define LAW_STALL_NS 500000000ull	 /* with a retransmission since, or a reply is due */
#define LAW_STALL_QUIET_NS 1500000000ull /* on unacknowledged packets alone */
#define LAW_STALL_NEVER_NS 1000000000ull /* nothing was ever received */
#define LAW_WINDOW_PSNS 0x10000		 /* more unacknowledged: these are not one connection */

/* Loss, marks, hosts. */
#define LAW_HISTORY 8 /* polls that losses are summed over */
#define LAW_LOSS_POLLS 2
#define LAW_LOSS_MIN 3
#define LAW_CE_RATIO 0.01
#define LAW_RNR_MIN 3
#define LAW_STACK_NS 1000000
#define LAW_QUEUE_SHARE 0.5
#define LAW_IMBALANCE_GAP 2
#define LAW_ALL_SLOW 0.75 /* of a destination's queue pairs */

/* The list of diagnoses. */
#define LAW_BOOK_MAX 512	     /* active, or over and kept */
#define LAW_BURST 10		     /* events of a kind at once ... */
#define LAW_REFILL_NS 2000000000ull  /* ... and one more each */
#define LAW_CHANGE_NS 10000000000ull /* between two changes of one diagnosis */
#define LAW_MORE_NS 10000000000ull   /* between two sums of what was left out */
#define LAW_REMEMBER_NS 300000000000ull
#define LAW_HOLD_DOUBLINGS 5 /* one that repeats is cleared 2^n times as late */

static inline int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* --- memory of one queue pair, and of one pair of addresses --- */

struct track_counts {
	uint64_t retransmits, nak_sequence, rnr_naks;
};

struct track {
	struct esc_qp_key key;
	uint64_t polled_ns; /* of the poll before */
	struct track_counts before;
	struct track_counts grown[LAW_HISTORY]; /* in each of the last polls */
	struct track_counts sum;		/* of these */
	unsigned int polls;			/* that there have been */
	unsigned int losing;			/* of the last ones: those with a loss */
	uint64_t bytes;
	double bytes_per_second; /* over the last polls, smoothed */

	/* The least delay, and the least median: of the current half and of the previous one. */
	bool floor_known;
	int64_t floor_ns, floor_half_ns[2];
	int64_t usual_ns, usual_half_ns[2];
	uint64_t half_ns; /* start of the current half */

	/* Of the newest poll. */
	bool measured; /* there are samples enough */
	bool slow;
	int64_t excess_ns; /* median above the floor */

	/* Progress. */
	bool progress_known;
	uint32_t next_psn, acked_psn;
	uint64_t acks;
	uint64_t moved_ns;	    /* of the last progress, or of having nothing to wait for */
	uint64_t moved_retransmits; /* retransmits then */
	bool settles;		    /* it was idle with all acknowledged */
	bool leaves_tail; /* it waited long without a stall: it does not request each ACK */
};

/* How far the median of a queue pair may be above its floor before it is slow. */
int64_t track_slow_ns(const struct track *track, const struct diag_delay *delay);

struct pair_track {
	struct esc_address src, dst;
	uint64_t polled_ns;
	bool fine_known;
	double fine_bytes_per_second; /* highest recent rate with a delay below the threshold */
	uint64_t fine_ns;
};
#define PAIR_TRACKS 4096

/* --- book.c: the list of diagnoses, with hysteresis and the rate limit of events --- */

enum book_state {
	BOOK_FREE,
	BOOK_CANDIDATE, /* found, not often enough */
	BOOK_ACTIVE,
	BOOK_REMEMBERED, /* over; when it returns it is held longer */
};

struct book_entry {
	struct diag_active is;
	enum book_state state;
	unsigned int score;
	bool found;    /* in this poll */
	bool reported; /* its begin was an event */
	double reported_lead;
	unsigned int returns;
	uint64_t found_ns, reported_ns, over_ns;
};

struct book_kind {
	unsigned int tokens;
	uint64_t refilled_ns, more_ns;
	uint64_t left_out, total;
	size_t active;
};

struct book {
	struct book_entry entries[LAW_BOOK_MAX];
	size_t used; /* entries from here on are free */
	struct book_kind kinds[DIAG_KINDS];
	uint64_t now_ns;
	struct diag_event *events;
	size_t event_count, event_room;
};

/* What a finding weighs: found so in so many polls in a row it is a diagnosis. */
enum book_weight {
	BOOK_IN_ONE = 6,
	BOOK_IN_TWO = 3,
	BOOK_IN_THREE = 2,
	BOOK_IN_SIX = 1,
};

/* Before the finders. */
void book_open(struct book *book, uint64_t now_ns);
/* A finding of this poll. When one is found twice in a poll the first is kept. */
void book_find(struct book *book, enum diag_kind kind, const struct diag_subject *subject,
	       enum book_weight weight, const struct diag_evidence *evidence);
bool book_is_active(const struct book *book, enum diag_kind kind,
		    const struct diag_subject *subject);
/* Why a diagnosis is over: NULL, "idle" or "gone". */
typedef const char *book_why_fn(const struct diag_subject *subject, const void *context);
/* After the finders: what began, changed and ended is in book->events. 0 or -ENOMEM. */
int book_close(struct book *book, book_why_fn *why, const void *context);

/* --- diagnosis.c: one poll --- */

struct diagnoses {
	struct book book;
	struct track *tracks; /* of input->qps in the newest poll, one each */
	size_t track_count;
	struct pair_track pairs[PAIR_TRACKS];  /* a hash */
	struct diag_port ports[ESC_PORTS_MAX]; /* of the previous poll */
	size_t port_count;

	/* Of the current poll. */
	const struct diag_input *input;
	int64_t *scratch;	  /* room for 2 * qp_count */
	size_t *chosen, *singles; /* room for qp_count each */
	size_t single_count;	  /* queue pairs that are alone on their pair */
};

/* Queue pairs of one source and destination: input->qps[first .. end - 1]. */
struct pair {
	struct diag_subject subject;
	size_t first, end;
	size_t measured, slow;
	size_t ports, ports_slow; /* source ports of those that are measured */
	int64_t slow_least_ns;	  /* of the medians of those that are slow ... */
	int64_t fine_most_ns;	  /* ... and that are not */
	int64_t floor_ns;	  /* the least of those that are measured, */
	int64_t bound_ns;	  /* and their largest */
	double bytes_per_second;
	struct track_counts sum;
	uint64_t samples, ce;
	size_t worst; /* the measured one with the largest excess; end: none */
	size_t best;  /* the one with the least median */
};

bool diag_is_same_pair(const struct esc_qp_key *a, const struct esc_qp_key *b);
/* The port of that index; NULL: none. */
const struct diag_port *port_find(const struct diag_port *ports, size_t count, uint8_t index);
/* What probes report of the pair of @key; NULL: nothing. */
const struct diag_peer *peer_find(struct diagnoses *diag, const struct esc_qp_key *key);
/* "p50_ns" and so on of queue pair @i, with its bound and its floor. */
void see_delay(struct diag_evidence *evidence, struct diagnoses *diag, size_t i);
/* Sorts @values. The median, of an even number the lower of the two. */
int64_t diag_median(int64_t *values, size_t count);

/* --- find.c and outlier.c: findings, into the book --- */

void find_stalls(struct diagnoses *diag);
void find_rocev1(struct diagnoses *diag);
/* Of a pair of which something is measured. The singles of all are found at the end. */
void find_outliers(struct diagnoses *diag, const struct pair *pair);
void find_inband(struct diagnoses *diag, const struct pair *pair);
void find_causes(struct diagnoses *diag, const struct pair *pair);
void find_singles(struct diagnoses *diag);

/* --- replies.c --- */

/*
 * Which packets reply to a queue pair's. No packet contains both QPNs of a connection; but a NIC
 * replies with the source port of the request, so the replies are what is received on the same
 * addresses and port, when only one queue pair each way uses these, or has for five seconds. A peer
 * that steers its replies sends them from another port: then no queue pair is taken to get none
 * while some are received on ports that they do not belong to.
 */
struct replies;
/* *@out is freed with free(). */
int replies_new(struct replies **out, const struct qp_entry *entries, size_t count);
/* NULL: none, or several candidates; *@nothing_back then distinguishes them. */
const struct qp_entry *replies_of(const struct replies *replies, const struct qp_entry *tx,
				  bool *nothing_back);

/* --- diagnose.c --- */

/* @interface: of the subject's port, "" unknown. */
void diagnose_emit(struct events *events, const struct diag_event *event, const char *interface);

#endif
