/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which paths are alive. One text for the kernel programs (the test that every
 * packet makes) and user space (who stands in, and when a path is trusted again).
 *
 * A lane is one of our source ports to one peer: the way there. Its death is what
 * the peer says, never what silence says: every packet of the peer's that reaches us, by
 * whatever way (a reply on another lane, or a probe of its own), carries a word about
 * each of our lanes: how long ago it last heard it. Dead is a lane of which
 *  - three packets or more were sent since the last that the peer is known to have heard,
 *  - the peer, heard after all that, says that its silence is as long as the deadline,
 *  - and that is as long as we have been sending into it.
 * So a peer that stalls, a host of ours that stalls, a daemon that no longer probes, a
 * lane that was not used for an hour and a return path that died kill no lane. The way
 * back is the peer's lane, and the peer judges it by our words.
 *
 * A queue that jumps by more than the deadline between two probes looks like a death
 * until it has passed; pathlive_deadline() leaves room for the delays that were seen.
 */
#ifndef ESC_PACING_PATHLIVE_H
#define ESC_PACING_PATHLIVE_H

#include "maps/path.h"

/* Fewer may be lost by chance. */
#define PATHLIVE_UNCONFIRMED 3u
/* In a word: the peer has not heard this lane since it (or we) came up. */
#define PATHLIVE_NEVER (~0ull)
/* Ages may be rounded on the wire: what differs by less is the same packet. */
#define PATHLIVE_GRAIN_NS 2000ull

/* What is stored before is seen before, on machines that keep stores in order (x86). */
#define pathlive_barrier() asm volatile("" ::: "memory")

/*
 * A packet that the peer notes (a probe, or data of which receipts come) leaves on @lane.
 * Added atomically, so that the zero of a word that comes at once is not overwritten.
 */
static inline __attribute__((always_inline)) void pathlive_sent(struct pathlive_path *path,
								unsigned long long now_ns)
{
	if (!path->unconfirmed)
		path->since_ns = now_ns;
	if (path->unconfirmed != ~0u)
		(void)__sync_fetch_and_add(&path->unconfirmed, 1);
}

/*
 * The peer's word about @lane, in a packet that it sent at @peer_ns and that came at
 * @now_ns: heard @age_ns before, or PATHLIVE_NEVER. A word older than one known is left out. What
 * is on its way when a word comes is no longer counted: the next death is later by that.
 */
static inline __attribute__((always_inline)) void pathlive_report(struct pathlive_path *path,
								  unsigned long long peer_ns,
								  unsigned long long age_ns,
								  unsigned long long now_ns)
{
	unsigned long long heard_ns = age_ns < peer_ns ? peer_ns - age_ns : 0;

	if (peer_ns <= path->report_peer_ns)
		return;
	/* First what speaks for the lane: another CPU may be judging it. */
	if (heard_ns > path->received_peer_ns + PATHLIVE_GRAIN_NS) {
		path->unconfirmed = 0;
		path->received_peer_ns = heard_ns;
		pathlive_barrier();
	}
	path->report_peer_ns = peer_ns;
	path->report_ns = now_ns;
}

/* 1: the way there is dead. For each packet; reads no clock. */
static inline __attribute__((always_inline)) int pathlive_is_dead(const struct pathlive_path *path,
								  unsigned long long deadline_ns)
{
	return path->unconfirmed >= PATHLIVE_UNCONFIRMED &&
	       path->report_peer_ns - path->received_peer_ns >= deadline_ns &&
	       path->report_ns > path->since_ns && path->report_ns - path->since_ns >= deadline_ns;
}

#ifndef __bpf__
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pathlive_config {
	int64_t dead_after_ns;	 /* paths.dead_after */
	int64_t return_after_ns; /* paths.return_after: up for so long before it is used again */
	int64_t hold_least_ns, hold_most_ns; /* of a path that flaps */
};

/* 3 ms, 5 s, 1 s, 60 s. */
void pathlive_config_default(struct pathlive_config *config);

/*
 * The deadline for a lane whose round trips take @rtt_ns at least, with a spread of @spread_ns
 * (mean deviation), and that is probed every @interval_ns: dead_after, or longer where the path
 * is slow, unsteady or probed rarely. A queue that stands still does not matter: the peer's
 * silence is then as short as the interval. NAN: not known, and says nothing.
 */
uint64_t pathlive_deadline(const struct pathlive_config *config, double rtt_ns, double spread_ns,
			   double interval_ns);

/* As the command line names them: up|suspect|down|held. */
enum pathlive_state {
	PATHLIVE_UP = 0,
	PATHLIVE_SUSPECT, /* packets unanswered for the deadline, and no word about them */
	PATHLIVE_DOWN,
	PATHLIVE_HOLD_DOWN, /* alive, but not trusted yet */
};

const char *pathlive_state_name(enum pathlive_state state);

/* A path as user space judges it; zero at birth (up). Owner: the caller, one per path. */
struct pathlive_damp {
	enum pathlive_state state;
	bool no_carrier;
	unsigned deaths;	/* that count for the hold-down */
	int64_t died_ns;	/* last; 0: never */
	int64_t alive_since_ns; /* 0: it is dead */
	int64_t returned_ns;	/* when it was trusted again; 0: never */
	int64_t hold_ns;	/* how long it has to stay up now */
	uint64_t times_died, times_returned;
};

/* How a lane looks at @now_ns, damping aside: up, suspect or down. */
enum pathlive_state pathlive_judge(const struct pathlive_path *path, uint64_t deadline_ns,
				   uint64_t now_ns);

/*
 * One look at local time @now_ns (of one clock, not going back). Returns the state, also in
 * damp->state. Hold-down: each death doubles it (1, 2, 4 .. 60 s), half of them are
 * forgotten per hold_most_ns of life, and a path that died within hold_most_ns of its return has to
 * stay up for that long: so a flapping path takes traffic away at most twice a minute.
 */
enum pathlive_state pathlive_step(struct pathlive_damp *damp, const struct pathlive_config *config,
				  enum pathlive_state seen, int64_t now_ns);

/* Carrier of the device it leaves by, known at once and without words. */
enum pathlive_state pathlive_carrier(struct pathlive_damp *damp,
				     const struct pathlive_config *config, bool carrier,
				     int64_t now_ns);

#define PATHLIVE_HOPS_MAX 8

/* A path to the peer when a standby is looked for. */
struct pathlive_choice {
	enum pathlive_state state;
	uint32_t group;			  /* of pathset; 0: not known */
	uint64_t hops[PATHLIVE_HOPS_MAX]; /* as pathset has them; 0: not known */
	double delay_ns;		  /* there, current; NAN: not known */
	double spread_ns; /* delays closer than that are taken for equal: the lower index */
};

/*
 * The path that takes over from @paths[@of]: up, else held (it answers, which is more than a
 * dead one does); then of another group, sharing fewest of its switches, and of least delay.
 * Index, or -ENOENT where nothing answers: keep the path, it is as good as any.
 */
int pathlive_choose_backup(const struct pathlive_choice *paths, size_t count, size_t of);
#endif

#endif
