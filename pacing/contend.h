/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contention policy: which queue pair leaves a contended path, when, and for which one.
 *
 * One struct contend per (source, destination), with a tick every 5-20 ms. A host
 * knows its own queue pairs and the delays of its own paths, nothing of other hosts, so
 *
 *  - a path is contended when its delay exceeds its floor by more than the clock's bound,
 *    the noise and a threshold, in several consecutive ticks;
 *  - the criterion is the predicted gain of a queue pair: the new path's delay and the
 *    queue that the queue pair causes there (its share of the bytes in the queue, over the
 *    maximum rate observed on a path) against the current delay. A queue on
 *    all paths (the host's own link, an incast) causes no move;
 *  - it moves at a random time, the later the smaller the part of the traffic that has to
 *    move, to a path drawn in proportion to free capacity: so of many hosts with the same
 *    observations about as many move as there is capacity for, and the others observe the
 *    change and stay. The last that joined the path moves first;
 *  - one move at a time per path, and the next one when the paths' delays can reflect
 *    the last one;
 *  - a queue pair that moved recently waits longer, with the square of its moves: under
 *    overload of all paths further moves gain nothing;
 *  - each move is evaluated: the measured gain against the predicted one. A move without
 *    a gain is reverted, at a random time (of two on one path only one has to
 *    move), and its path is not used again for 1/4, 1/2, 1 .. 60 s. A queue pair whose
 *    queue followed it three times is assumed to cause the queue itself;
 *  - a queue pair without packets and with an outstanding acknowledgement waits for a timeout: it
 *    has lost a packet in the queue. The others on the path have no reason to
 *    move meanwhile; so it moves itself, with its next packet, with a decreasing probability, to
 *    a path that was free for some seconds: others may be waiting for a timeout as well.
 *
 * Set the capacity (contend_config.capacity_Bps; the NIC's speed where the fabric
 * is not slower): without it a queue pair's own queue can be distinguished from a shared path
 * only by a move.
 *
 * Times are one local clock in ns. Rates are bytes per second of a queue pair's packets.
 * No allocation; the cost of a tick is at most (queue pairs + paths) x paths.
 */
#ifndef ESC_PACING_CONTEND_H
#define ESC_PACING_CONTEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTEND_PATHS_MAX 64
#define CONTEND_NOWHERE (-1)

struct contend_config {
	double threshold_ns;	/* excess over the floor that is nothing yet ... */
	double threshold_part;	/* ... nor this part of the floor; the larger counts */
	double gain_part;	/* of the excess: less is not worth a move */
	unsigned ticks;		/* on end that a path has to stand out */
	int64_t react_ns;	/* mean wait of a queue pair that wants to go */
	int64_t stale_ns;	/* a path not measured for so long is not judged */
	int64_t judge_ns;	/* least time from a move to its judgement */
	int64_t retry_least_ns; /* before a path that did not help is tried again ... */
	int64_t retry_most_ns;	/* ... doubled each time up to this */
	int64_t patience_ns;	/* for an idle gap, and again for a message's start */
	double idle_Bps;	/* a queue pair below does not count */
	double capacity_Bps;	/* of a path, if known (the NIC's speed will do); 0: not known */
	double packet_bytes;	/* the largest on the wire */
	double moves_per_s;	/* of the host: struct contend_budget */
	double moves_burst;
};

/*
 * In that order: 10 us, half the floor, 15%, 2 looks, 50 ms, 200 ms, 50 ms, 250 ms, 60 s, 20 ms,
 * 10 kB/s, not known, 4,200 bytes, 20 a second, 10.
 */
void contend_config_default(struct contend_config *config);

/* Moves a host may make, whatever the destination; zero at birth. */
struct contend_budget {
	double left;
	int64_t filled_ns;
	uint64_t refused; /* moves, since there was none left */
};

/* A path to the destination; its index is its name and must not change between looks. */
struct contend_path {
	/* In. The caller fills it before each look. */
	bool usable;	     /* alive, and not held down */
	double floor_ns;     /* one-way delay of the empty path */
	double delay_ns;     /* now: mean or median since the last look, or the last known */
	double worst_ns;     /* largest of the last looks; at least delay_ns */
	double noise_ns;     /* standard error of delay_ns, clock aside */
	double bound_ns;     /* the clock's, of these delays */
	int64_t measured_ns; /* when the newest packet in delay_ns left */
	/* The policy's own; all zero at birth. */
	unsigned stands_out; /* looks on end */
	bool fresh;
	double excess_ns;
	double lately_ns;      /* its mean over the last seconds */
	double own_Bps;	       /* of our queue pairs on it */
	unsigned own;	       /* how many of them are not idle */
	int64_t busy_until_ns; /* a move of ours does not show yet */
	int64_t shut_until_ns; /* a move onto it did not help */
	int64_t shut_ns;
};

/* A queue pair (tx) to the destination. */
struct contend_qp {
	/* In. The caller fills it before each look. */
	uint32_t path;	    /* index of the path its packets take now */
	bool pinned;	    /* by hand: counts, but stays */
	double rate_Bps;    /* now, smoothed over some 3-5 looks */
	double idle_gap_ns; /* longest time between two packets since the last look; 0: not known */
	double message_ns;  /* mean time between the starts of messages; 0: not known */
	/* For how long it has sent nothing while what it sent lacks an acknowledge; 0: not so. */
	double unanswered_ns;
	/* The policy's own; all zero at birth. */
	bool moving;	  /* a move is ordered and not judged yet */
	bool back;	  /* it takes an older one back */
	bool at_home;	  /* its path was calm while it was on it */
	uint32_t seen_on; /* the path of the last look, + 1 */
	uint32_t from, to;
	int64_t move_ns, give_up_ns;
	int64_t arrived_ns; /* on the path it was ordered to; 0: not yet */
	int64_t judge_ns;
	int64_t calm_ns;    /* since when its path has been calm; 0: it is not */
	double home_Bps;    /* its rate while its path was calm */
	int64_t busy_ns;    /* since when it has been sending; 0: it is idle */
	double met_ns;	    /* the queue that it met of late */
	bool asked;	    /* whether it goes in this silence */
	double went_silent; /* moves in a silence, fading in 30 s */
	double restless;    /* moves, fading in 2 s */
	double doubt_ns;    /* mean wait before it is taken back */
	double before_ns, before_Bps, hold_ns, predicted_ns;
	uint64_t moves, taken_back;
};

struct contend {
	struct contend_config config;
	int64_t ticked_ns;
	double most_Bps;     /* that our queue pairs had on one path, fading in a minute */
	double squeezed_Bps; /* the least that one alone on its path had, likewise */
	/* Own traffic that took its queue along: from here on it is alone with itself. */
	double alone_Bps;
	int64_t alone_until_ns, alone_ns;
	unsigned in_vain; /* moves since one helped */
	uint64_t moves, helped, useless, taken_back;
};

void contend_init(struct contend *contend, const struct contend_config *config);

#define CONTEND_ACTS(X)                                                                            \
	X(MOVE, move, "onto a path with room")                                                     \
	X(BACK, back, "taken back: it did not help")                                               \
	X(HELPED, helped, "the move helped")                                                       \
	X(USELESS, useless, "the move did not help")                                               \
	X(UNDONE, undone, "the move did not take effect")

enum contend_act_kind {
#define X(id, name, text) CONTEND_##id,
	CONTEND_ACTS(X)
#undef X
};

/* What a look did: an order (MOVE, BACK) or a judgement; an event of the ledger each. */
struct contend_act {
	enum contend_act_kind kind;
	uint32_t qp; /* index */
	uint32_t from, to;
	/* Seen: */
	double from_ns, to_ns; /* delays of the two paths now */
	double bound_ns;
	double rate_Bps, before_Bps;
	/* Of an order in a silence: for how long it has lasted, and the queue that was met before;
	 * else 0. */
	double unanswered_ns, met_ns;
	/* Expected and come of it; of judgements both, of orders the first: */
	double predicted_ns, measured_ns; /* delay less by so much */
	/*
	 * Of orders, as struct esc_steer has them: packets may go the new way behind a gap of
	 * hold_ns, or being held for so long behind the last one; from start_ns a message's start
	 * is enough, from force_ns any packet. hold_ns is the worst delay of the old path less the
	 * floor of the new one, and the bound, and once more the old queue: it may have grown
	 * by the time at which the order is obeyed. Who goes by start_ns or force_ns without
	 * holding packets for hold_ns lets some be overtaken.
	 */
	int64_t hold_ns, start_ns, force_ns;
};

/* hold_ns of an order, as things are now: queues grow while it waits. */
int64_t contend_flowlet_gap_ns(const struct contend_path *from, const struct contend_path *to);

const char *contend_act_name(enum contend_act_kind kind);
const char *contend_act_text(enum contend_act_kind kind);

/*
 * One look at @now_ns over all queue pairs and paths to the destination. @random is the
 * state of the caller's random numbers (pacing/random.h), one per host. Returns how many @acts it
 * wrote; at most @acts_most, the rest wait for the next look. The caller carries out the orders;
 * that a queue pair has gone is seen by its path.
 */
size_t contend_tick(struct contend *contend, struct contend_budget *budget, int64_t now_ns,
		    uint64_t *random, struct contend_path *paths, size_t path_count,
		    struct contend_qp *qps, size_t qp_count, struct contend_act *acts,
		    size_t acts_most);

/*
 * Where qps[@qp] would be best off by what the last look saw, for `steer plan`: the path and the
 * predicted gain, or CONTEND_NOWHERE. Looks at no dice and no budget.
 */
int contend_best(const struct contend *contend, int64_t now_ns, const struct contend_path *paths,
		 size_t path_count, const struct contend_qp *qp, double *gain_ns);

/* The paths were numbered anew (the candidates changed): what was known by index is dropped. */
void contend_forget(struct contend_path *paths, size_t path_count, struct contend_qp *qps,
		    size_t qp_count);

#endif
