/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contention policy: which queue pair leaves a contended path, when, and for which one.
 *
 * One struct contend per (source, destination), with a tick every 5-20 ms. A host knows only its
 * own queue pairs and the delays of its own paths, so
 *
 *  - a path is contended when its delay exceeds its floor by more than the clock's bound, the
 *    noise and a threshold, in several consecutive ticks;
 *  - the criterion is the predicted gain of a queue pair: the new path's delay and the queue that
 *    the queue pair causes there (its share of the bytes in the queue, over the maximum rate
 *    observed on a path) against the current delay. A queue on all paths (the host's own link, an
 *    incast) causes no move;
 *  - it moves at a random time, the later the smaller the part of the traffic that has to move,
 *    to a path drawn in proportion to free capacity: of many hosts with the same observations
 *    about as many move as there is capacity for, and the others observe the change and stay. The
 *    last that joined the path moves first, unless those of before lost most of their rate: then
 *    the path has less capacity, none of them waits, nor for the delays of that path, and they
 *    move together, until what is left of it is enough for the rest, as far as other paths have
 *    room for their rates of before; the last one, too;
 *  - otherwise one move at a time per path, and the next one when the paths' delays can reflect
 *    the last one;
 *  - the wait of a queue pair grows with the square of its recent moves: under overload of all
 *    paths further moves gain nothing;
 *  - each move is evaluated: measured against predicted gain. A move without a gain is reverted,
 *    at a random time (of two on one path only one has to move), and its path is not used again
 *    for 1/4, 1/2, 1 .. 60 s. After three moves that took the queue along a queue pair is assumed
 *    to cause the queue itself;
 *  - a queue pair without packets and with an outstanding acknowledgement waits for a timeout: it
 *    has lost a packet in the queue, and the others on the path have no reason to move meanwhile.
 *    So it moves itself, with its next packet, with a decreasing probability, to a path that was
 *    free for some seconds: others may be waiting for a timeout as well.
 *
 * Set the capacity (contend_config.capacity_Bps; the NIC's speed where the fabric is not slower):
 * without it a queue pair's own queue can be distinguished from a shared path only by a move.
 *
 * Times are one local clock in ns. Rates are bytes per second of a queue pair's packets. No
 * allocation; the cost of a tick is at most (queue pairs + paths) x paths.
 */
#ifndef ESC_PACING_CONTEND_H
#define ESC_PACING_CONTEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTEND_PATHS_MAX 64
#define CONTEND_NOWHERE (-1)

struct contend_config {
	double threshold_ns;	 /* ignored excess over the floor: this ... */
	double threshold_part;	 /* ... or this part of the floor, the larger */
	double gain_part;	 /* minimum gain of a move, part of the excess */
	unsigned ticks;		 /* consecutive, above the threshold: contended */
	int64_t react_ns;	 /* mean wait before a move */
	int64_t stale_ns;	 /* maximum age of a path's delay */
	int64_t evaluate_ns;	 /* minimum time from a move to its evaluation */
	int64_t backoff_min_ns;	 /* backoff of a path after a move without gain ... */
	int64_t backoff_max_ns;	 /* ... doubled each time up to this */
	int64_t trigger_wait_ns; /* wait for an idle gap, and again for the start of a message */
	double idle_Bps;	 /* queue pairs below are idle */
	double capacity_Bps;	 /* of a path (the NIC's speed will do); 0: not known */
	double packet_bytes;	 /* the largest on the wire */
	double moves_per_s;	 /* of the host: struct contend_budget */
	double moves_burst;
};

/*
 * Defaults: 10 us, half the floor, 15%, 2 ticks, 50 ms, 200 ms, 50 ms, 250 ms, 60 s, 20 ms, 10
 * kB/s, not known, 4,200 bytes, 20 a second, 10.
 */
void contend_config_default(struct contend_config *config);

/* Token bucket of a host's moves to all destinations; initially zero. */
struct contend_budget {
	double left;
	int64_t filled_ns;
	uint64_t refused; /* for lack of a token */
};

/* A path to the destination. Its index identifies it and must not change between ticks. */
struct contend_path {
	/* Inputs, set by the caller before each tick. */
	bool usable;	     /* up, not in hold-down */
	double floor_ns;     /* one-way delay of the empty path; above -bound_ns, as delays are */
	double delay_ns;     /* mean or median since the last tick, else the last known */
	double worst_ns;     /* maximum of the last ticks; at least delay_ns */
	double noise_ns;     /* standard error of delay_ns without the clock's */
	double bound_ns;     /* the clock's, of these delays */
	int64_t measured_ns; /* departure of the newest packet in delay_ns */
	/* The policy's own; initially all zero. */
	unsigned contended_ticks; /* consecutive ticks above the threshold */
	bool fresh;
	double excess_ns;
	double mean_excess_ns;	  /* mean of excess_ns over the last second */
	double peak_ns;		  /* maximum of excess_ns, decaying in 2 s */
	double unmet_ns;	  /* maximum of what pacing holds back of our queue pairs on it */
	double own_Bps;		  /* of our queue pairs on it */
	unsigned own;		  /* number of them that are not idle */
	double calm_Bps;	  /* of those of them that are resident, while it was uncontended */
	int64_t busy_until_ns;	  /* delays do not reflect our last move yet */
	int64_t backoff_until_ns; /* no moves to it: the last one had no gain */
	int64_t backoff_ns;
};

/* A queue pair (tx) to the destination. */
struct contend_qp {
	/* Inputs, set by the caller before each tick. */
	uint32_t path;	    /* index of its current path */
	bool pinned;	    /* by an operator's rule: counts, is not moved */
	double rate_Bps;    /* smoothed over 3-5 ticks */
	double idle_gap_ns; /* longest gap between packets since the last tick; 0: not known */
	double message_ns;  /* mean time between the starts of messages; 0: not known */
	/* Time since its last packet, while an acknowledgement is outstanding; 0: none is. */
	double unacked_ns;
	/* Of a paced one, smoothed: how long pacing holds a packet, at which rate; 0: not paced. */
	double held_ns, held_Bps;
	/* The policy's own; initially all zero. */
	bool moving;	    /* a move is started and not evaluated yet */
	bool back;	    /* the move reverts an older one */
	bool resident;	    /* its path was uncontended while it was on it */
	uint32_t last_path; /* path of the last tick + 1 */
	uint32_t from, to;
	int64_t move_ns, expire_ns;
	int64_t arrived_ns; /* on the new path; 0: not yet */
	int64_t evaluate_ns;
	int64_t calm_ns;	/* its path is uncontended since; 0: it is contended */
	double resident_Bps;	/* its rate while its path was uncontended */
	int64_t busy_ns;	/* sending since; 0: idle */
	double queue_before_ns; /* recent maximum of the path's queue, decaying until a silence */
	bool silence_evaluated; /* the move in this silence was decided */
	double silent_moves;	/* moves in a silence, decaying in 30 s */
	double recent_moves;	/* moves, decaying in 2 s */
	double revert_wait_ns;	/* mean wait before a move without gain is reverted */
	double before_ns, before_Bps, hold_ns, predicted_ns;
	uint64_t moves, reverted;
};

struct contend {
	struct contend_config config;
	int64_t last_tick_ns;
	double max_Bps;	      /* maximum of our queue pairs on one path, decaying in a minute */
	double min_alone_Bps; /* minimum of one alone on its path, likewise */
	/*
	 * Rate of own traffic whose queue moved along with it: from this rate on the queue is its
	 * own.
	 */
	double alone_Bps;
	int64_t alone_until_ns, alone_ns;
	unsigned failed_moves; /* consecutive moves without gain */
	uint64_t moves, helped, useless, reverted;
};

void contend_init(struct contend *contend, const struct contend_config *config);

#define CONTEND_ACTS(X)                                                                            \
	X(MOVE, move, "to a path with free capacity")                                              \
	X(BACK, back, "reverted: it did not help")                                                 \
	X(HELPED, helped, "the move helped")                                                       \
	X(USELESS, useless, "the move did not help")                                               \
	X(UNDONE, undone, "the move did not take effect")

enum contend_act_kind {
#define X(id, name, text) CONTEND_##id,
	CONTEND_ACTS(X)
#undef X
};

/* Result of a tick: a move started (MOVE, BACK) or evaluated; each is an event. */
struct contend_act {
	enum contend_act_kind kind;
	uint32_t qp; /* index */
	uint32_t from, to;
	/* Observed: */
	double from_ns, to_ns; /* current delays of both paths */
	double bound_ns;
	double rate_Bps, before_Bps;
	/* Of a move in a silence: its duration, and the path's queue before it; else 0. */
	double unacked_ns, queue_before_ns;
	/* Predicted and measured reduction of the delay; measured_ns of evaluations only. */
	double predicted_ns, measured_ns;
	/*
	 * Of started moves, as in struct esc_steer: packets take the new path behind a gap of
	 * hold_ns, or after being delayed for as long behind the last one; from start_ns on at
	 * the start of a message, from force_ns on at any packet. hold_ns is the worst delay of
	 * the old path less the floor of the new one, the bound, and the old queue once more: it
	 * may grow until the move takes effect. A move by start_ns or force_ns without a delay of
	 * hold_ns may reorder packets.
	 */
	int64_t hold_ns, start_ns, force_ns;
};

/* Current hold_ns of a move between two paths; changes while a move waits, as queues grow. */
int64_t contend_flowlet_gap_ns(const struct contend_path *from, const struct contend_path *to);

const char *contend_act_name(enum contend_act_kind kind);
const char *contend_act_text(enum contend_act_kind kind);

/*
 * One tick at @now_ns over all queue pairs and paths to the destination. @random: state of the
 * caller's random numbers (pacing/random.h), one per host. Returns the number of @acts written,
 * at most @acts_most; the others follow in the next tick. The caller carries out the moves; their
 * effect is observed by the queue pair's path.
 */
size_t contend_tick(struct contend *contend, struct contend_budget *budget, int64_t now_ns,
		    uint64_t *random, struct contend_path *paths, size_t path_count,
		    struct contend_qp *qps, size_t qp_count, struct contend_act *acts,
		    size_t acts_most);

/*
 * The path with the highest predicted gain for qps[@qp] by the last tick, for `steer plan`, and
 * the gain; or CONTEND_NOWHERE. Independent of random numbers and of the budget.
 */
int contend_best(const struct contend *contend, int64_t now_ns, const struct contend_path *paths,
		 size_t path_count, const struct contend_qp *qp, double *gain_ns);

/* The paths were renumbered (the candidates changed): drops the state by index. */
void contend_reset_paths(struct contend_path *paths, size_t path_count, struct contend_qp *qps,
			 size_t qp_count);

#endif
