/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which queue pair is slow, stalled or losing, and the likely cause. Pure: the figures of
 * a poll go in, with their time; what began, changed and ended comes out. Thresholds: law.h.
 */
#ifndef ESC_DIAGNOSE_H
#define ESC_DIAGNOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "maps/maps.h"

#define DIAG_POLL_NS 250000000ull /* what the thresholds expect between two polls */

#define DIAG_LIST(X)                                                                               \
	X(DIAG_OUTLIER, "qp_outlier", WARNING,                                                     \
	  "A queue pair's delay is far above that of its peers.")                                  \
	X(DIAG_MISCONFIGURATION, "misconfiguration_suspected", WARNING,                            \
	  "Packets do not arrive, or use RoCEv1, as with a wrong configuration.")                  \
	X(DIAG_STALLED, "qp_stalled", WARNING, "A queue pair sends again and makes no progress.")  \
	X(DIAG_LOSS, "loss_hardware", WARNING, "Packets are lost where no queue is long.")         \
	X(DIAG_CONGESTION, "congestion", WARNING, "A queue of the fabric is long.")                \
	X(DIAG_IMBALANCE, "imbalance", WARNING, "One path is congested while others are free.")    \
	X(DIAG_HOST, "host", WARNING, "The delay arises in a host.")                               \
	X(DIAG_PATH_SLOW, "path_slow", WARNING,                                                    \
	  "All packets to a destination are slow, and no cause is known.")
enum diag_kind { DIAG_LIST(EVENT_ENUM) DIAG_KINDS };
const char *diag_kind_name(enum diag_kind kind);

/* --- what goes in --- */

/* One-way delays of the last second or less, fabric time. */
struct diag_delay {
	uint32_t samples; /* 0: nothing below is known */
	uint32_t ce;	  /* of these: came marked */
	int64_t min_ns, p50_ns, p99_ns, max_ns;
	int64_t bound_ns; /* what each may be wrong by */
};

/* A queue pair that this host sends to. Counts are since ever; only their growth counts. */
struct diag_qp {
	struct esc_qp_key key; /* ESC_DIRECTION_TX */
	uint16_t sport;
	uint8_t transport; /* enum esc_transport */
	uint64_t job;	   /* equal for queue pairs of one job; 0: not known */
	struct diag_delay delay;
	bool stack_known, queue_known;
	int64_t stack_max_ns; /* the receiver's, recent; behind the delay's end */
	int64_t queue_max_ns; /* our own, recent; part of the delay */
	uint64_t packets, bytes, retransmits;
	uint32_t next_psn; /* of the next new request */
	bool next_known;
	bool alive;	  /* a process is known to hold it; false also when not known */
	bool mid_message; /* a message has begun and not ended */
	/* Of the packets that the peer replies with: */
	bool paired;	   /* they are known to be this connection's */
	bool nothing_back; /* no packet came from there that could be its answer */
	bool answered_known;
	uint32_t answered_psn; /* the first that is not acknowledged */
	uint64_t acks, nak_sequence, naks_other, rnr_naks;
};

/* An address by the mesh's probes. */
struct diag_peer {
	struct esc_address address;
	struct diag_delay delay; /* to it */
	uint16_t source_port;	 /* the probes' */
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
	const struct diag_peer *peers;
	size_t peer_count;
	const struct diag_port *ports;
	size_t port_count;
};

/* --- what comes out --- */

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
	const char *cause; /* static; NULL: nothing to add */
	const char *note;  /* static; NULL */
	double lead;	   /* the figure whose doubling or halving is news */
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
size_t diagnoses_active_count(const struct diagnoses *diagnoses, enum diag_kind kind);
/* That ever began, suppressed ones included. */
uint64_t diagnoses_total(const struct diagnoses *diagnoses, enum diag_kind kind);

#endif
