/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the figures say of the job: which queue pair is slow, stalled or losing,
 * and what kind of thing it looks like. Pure: a look at all figures goes in, with
 * its time; what began, changed and ended comes out. Thresholds: verdict_law.h.
 */
#ifndef ESC_LOADER_VERDICT_H
#define ESC_LOADER_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "maps/maps.h"

#define VERDICT_LOOK_NS 250000000ull /* what the thresholds expect between two looks */

#define VERDICT_LIST(X)                                                                            \
	X(VERDICT_OUTLIER, "qp_outlier", WARNING,                                                  \
	  "A queue pair's delay is far above that of its peers.")                                  \
	X(VERDICT_MISCONFIGURATION, "misconfiguration_suspected", WARNING,                         \
	  "Packets do not arrive, or use RoCEv1, as with a wrong configuration.")                  \
	X(VERDICT_STALLED, "qp_stalled", WARNING,                                                  \
	  "A queue pair sends again and makes no progress.")                                       \
	X(VERDICT_LOSS, "loss_hardware", WARNING, "Packets are lost where no queue is long.")      \
	X(VERDICT_CONGESTION, "congestion", WARNING, "A queue of the fabric is long.")             \
	X(VERDICT_IMBALANCE, "imbalance", WARNING, "One path is congested while others are free.") \
	X(VERDICT_HOST, "host", WARNING, "The delay arises in a host.")                            \
	X(VERDICT_PATH_SLOW, "path_slow", WARNING,                                                 \
	  "All packets to a destination are slow, and no cause is known.")
enum verdict_kind { VERDICT_LIST(EVENT_ENUM) VERDICT_KINDS };
const char *verdict_kind_name(enum verdict_kind kind);

/* --- what is looked at --- */

/* One-way delays of the last second or less, fabric time. */
struct verdict_delay {
	uint32_t samples; /* 0: nothing below is known */
	uint32_t ce;	  /* of these: came marked */
	int64_t min_ns, p50_ns, p99_ns, max_ns;
	int64_t bound_ns; /* what each may be wrong by */
};

/* A queue pair that this host sends to. Counts are since ever; only their growth counts. */
struct verdict_qp {
	struct esc_qp_key key; /* ESC_DIRECTION_TX */
	uint16_t sport;
	uint8_t transport; /* enum esc_transport */
	uint64_t job;	   /* equal for queue pairs of one job; 0: not known */
	struct verdict_delay delay;
	bool stack_known, queue_known;
	int64_t stack_max_ns; /* the receiver's, recent; behind the delay's end */
	int64_t queue_max_ns; /* our own, recent; part of the delay */
	uint64_t packets, bytes, retransmits;
	uint32_t next_psn; /* of the next new request */
	bool next_known;
	bool alive;	  /* a process is known to hold it; false also when not known */
	bool mid_message; /* a message has begun and not ended */
	/* Of the packets that the peer answers with: */
	bool paired;	   /* they are known to be this connection's */
	bool nothing_back; /* no packet came from there that could be its answer */
	bool answered_known;
	uint32_t answered_psn; /* the first that is not acknowledged */
	uint64_t acks, nak_sequence, naks_other, rnr_naks;
};

/* What the mesh's probes say of an address. */
struct verdict_peer {
	struct esc_address address;
	struct verdict_delay delay; /* to it */
	uint16_t source_port;	    /* the probes' */
	bool up;
};

struct verdict_port {
	uint8_t index;
	char name[16];
	bool hears;		       /* packets that come are counted, so that none means none */
	uint64_t rocev1_rx, rocev1_tx; /* frames, since ever */
	uint32_t rocev1_gids; /* queue pairs here that use a RoCEv1 GID; 0 also when not known */
};

struct verdict_look {
	uint64_t now_ns;	      /* one clock, never back */
	const struct verdict_qp *qps; /* by the bytes of their keys, each once */
	size_t qp_count;
	const struct verdict_peer *peers;
	size_t peer_count;
	const struct verdict_port *ports;
	size_t port_count;
};

/* --- what is said --- */

/* A number with its unit in its name. */
struct verdict_figure {
	const char *name; /* static */
	double value;
};
#define VERDICT_FIGURES 20
#define VERDICT_EXPECTED 6

struct verdict_evidence {
	struct verdict_figure seen[VERDICT_FIGURES];
	size_t seen_count;
	struct verdict_figure expected[VERDICT_EXPECTED];
	size_t expected_count;
	const char *cause; /* static; NULL: nothing to add */
	const char *note;  /* static; NULL */
	double lead;	   /* the figure whose doubling or halving is news */
};
void verdict_see(struct verdict_evidence *evidence, const char *name, double value);
void verdict_expect(struct verdict_evidence *evidence, const char *name, double value);
/* False: there is no such figure. */
bool verdict_seen(const struct verdict_evidence *evidence, const char *name, double *value);

/* Whom it is about. */
enum verdict_about { VERDICT_ABOUT_QP, VERDICT_ABOUT_PAIR, VERDICT_ABOUT_PORT };
struct verdict_subject {
	enum verdict_about about;
	struct esc_qp_key key; /* of a pair src and dst, of a port port; the rest zero */
};

enum verdict_phase { VERDICT_BEGIN, VERDICT_CHANGE, VERDICT_CLEAR, VERDICT_MORE };

struct verdict_event {
	enum verdict_phase phase;
	enum verdict_kind kind;
	struct verdict_subject subject;	  /* not of VERDICT_MORE */
	struct verdict_evidence evidence; /* of VERDICT_CLEAR: the last; not of VERDICT_MORE */
	uint64_t first_ns;		  /* the first look that showed it */
	uint64_t now_ns;
	const char *because; /* VERDICT_CLEAR: "well", "idle", "gone" */
	uint64_t left_out;   /* VERDICT_MORE: that began and are not told one by one */
};

/* An active verdict, told or left out. */
struct verdict_active {
	enum verdict_kind kind;
	struct verdict_subject subject;
	struct verdict_evidence evidence;
	uint64_t first_ns, found_ns;
};

struct verdicts;
int verdicts_new(struct verdicts **out);
void verdicts_free(struct verdicts *verdicts);

/* One look. Events are valid until the next; returns 0 or -ENOMEM (then this look is lost). */
int verdicts_look(struct verdicts *verdicts, const struct verdict_look *look,
		  const struct verdict_event **events, size_t *count);

/* Active ones, at most @max into @out; returns how many there are. */
size_t verdicts_active(const struct verdicts *verdicts, struct verdict_active *out, size_t max);
/* The active ones, one each call; *@at begins at 0. False: no more. */
bool verdicts_next(const struct verdicts *verdicts, size_t *at, enum verdict_kind *kind,
		   const struct verdict_subject **subject);
size_t verdicts_active_count(const struct verdicts *verdicts, enum verdict_kind kind);
/* That ever began, those left out of the events included. */
uint64_t verdicts_total(const struct verdicts *verdicts, enum verdict_kind kind);

#endif
