/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * State of candidate paths. Shared by the kernel programs (the test for every packet) and user
 * space (choice of a backup, hold-down).
 *
 * A candidate path is one of our source ports to one peer, in the direction to the peer. It is
 * declared dead by reports of the peer, never by a lack of replies: every probe or reply of the
 * peer, on any path, has a report for each of our paths: the time since it last received a packet
 * on it. A path is dead when
 *  - at least three packets were sent since the last that the peer is known to have received,
 *  - the peer reports, after all of these, that it has received nothing for the deadline,
 *  - and we have been sending for as long as that.
 * So a stall of either host, a daemon that no longer probes, a path that was idle for an hour, or
 * a dead reverse path do not kill a path. The reverse path is a path of the peer, which evaluates
 * it by our reports.
 *
 * A queue that grows by more than the deadline between two probes looks like a dead path until it
 * is drained; pathlive_deadline() allows for the delays that were observed.
 */
#ifndef ESC_PACING_PATHLIVE_H
#define ESC_PACING_PATHLIVE_H

#include "maps/barrier.h"
#include "maps/path.h"

/* Fewer may be lost by chance. */
#define PATHLIVE_UNCONFIRMED 3u
/* In a report: nothing received on the path since the peer (or we) started. */
#define PATHLIVE_NEVER (~0ull)
/* Ages may be rounded on the wire: a smaller difference is the same packet. */
#define PATHLIVE_GRAIN_NS 2000ull

/*
 * A packet that the peer records (a probe, or sampled data) leaves on @path.
 * Incremented atomically, so as not to overwrite the reset of a concurrent report.
 */
static inline __attribute__((always_inline)) void pathlive_sent(struct pathlive_path *path,
								unsigned long long now_ns)
{
	if (!path->unconfirmed) {
		path->since_ns = now_ns;
		smp_wmb();
	}
	if (path->unconfirmed != ~0u)
		(void)__sync_fetch_and_add(&path->unconfirmed, 1);
}

/*
 * The peer's report on @path, in a packet that it sent at @peer_ns and that was received at
 * @now_ns: last packet received @age_ns before, or PATHLIVE_NEVER. An older report is ignored.
 * Packets in flight when a report arrives are no longer counted, which delays the next death.
 */
static inline __attribute__((always_inline)) void pathlive_report(struct pathlive_path *path,
								  unsigned long long peer_ns,
								  unsigned long long age_ns,
								  unsigned long long now_ns)
{
	unsigned long long heard_ns = age_ns < peer_ns ? peer_ns - age_ns : 0;

	if (peer_ns <= path->report_peer_ns)
		return;
	/* The evidence for the path first: another CPU may be evaluating it. */
	if (heard_ns > path->received_peer_ns + PATHLIVE_GRAIN_NS) {
		path->unconfirmed = 0;
		path->received_peer_ns = heard_ns;
		smp_wmb();
	}
	path->report_peer_ns = peer_ns;
	path->report_ns = now_ns;
}

/* 1: the path is dead. For each packet; reads no clock. */
static inline __attribute__((always_inline)) int pathlive_is_dead(const struct pathlive_path *path,
								  unsigned long long deadline_ns)
{
	const volatile struct pathlive_path *live = path;
	unsigned long long report_peer_ns, report_ns, since_ns;

	if (live->unconfirmed < PATHLIVE_UNCONFIRMED)
		return 0;
	/* The report first: the evidence for the path is stored before it. */
	smp_rmb();
	report_peer_ns = live->report_peer_ns;
	report_ns = live->report_ns;
	smp_rmb();
	since_ns = live->since_ns;
	return report_peer_ns - live->received_peer_ns >= deadline_ns && report_ns > since_ns &&
	       report_ns - since_ns >= deadline_ns;
}

/* As in the command line: up|suspect|down|hold_down. */
enum pathlive_state {
	PATHLIVE_UP = 0,
	PATHLIVE_SUSPECT, /* no report on packets sent for the deadline */
	PATHLIVE_DOWN,
	PATHLIVE_HOLD_DOWN, /* alive, in hold-down */
};

#ifndef __bpf__
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pathlive_config {
	int64_t dead_after_ns;	 /* paths.dead_after */
	int64_t return_after_ns; /* paths.return_after: up for so long before it is used again */
	int64_t hold_least_ns, hold_most_ns; /* of a flapping path */
};

/* 3 ms, 5 s, 1 s, 60 s. */
void pathlive_config_default(struct pathlive_config *config);

/*
 * The deadline of a path with a minimum round trip of @rtt_ns, a spread of @spread_ns
 * (mean deviation), probed every @interval_ns: dead_after, or longer where the path
 * has a large or unsteady delay, or is probed rarely. A constant queue has no influence: the
 * reported age is then as short as the interval. NAN: not known, ignored.
 */
uint64_t pathlive_deadline(const struct pathlive_config *config, double rtt_ns, double spread_ns,
			   double interval_ns);

const char *pathlive_state_name(enum pathlive_state state);

/* State of a path in user space; initially zero (up). Owner: the caller, one per path. */
struct pathlive_damp {
	enum pathlive_state state;
	bool no_carrier;
	unsigned failures;   /* failures that count for the hold-down */
	int64_t failed_ns;   /* last; 0: never */
	int64_t up_since_ns; /* 0: it is down */
	int64_t returned_ns; /* end of the last hold-down; 0: never */
	int64_t hold_ns;     /* current hold-down */
	uint64_t fail_count, return_count;
};

/* State of a path at @now_ns without hold-down: up, suspect or down. */
enum pathlive_state pathlive_evaluate(const struct pathlive_path *path, uint64_t deadline_ns,
				      uint64_t now_ns);

/*
 * One tick at local time @now_ns (monotonic). Returns the state, also in damp->state. Hold-down:
 * doubled by each failure (1, 2, 4 .. 60 s), whose number is halved per hold_most_ns of uptime; a
 * path that failed within hold_most_ns of its return has to stay up for that long: so a flapping
 * path moves traffic at most twice a minute.
 */
enum pathlive_state pathlive_step(struct pathlive_damp *damp, const struct pathlive_config *config,
				  enum pathlive_state seen, int64_t now_ns);

/* Carrier of the egress device, known at once and without reports. */
enum pathlive_state pathlive_carrier(struct pathlive_damp *damp,
				     const struct pathlive_config *config, bool carrier,
				     int64_t now_ns);

#define PATHLIVE_HOPS_MAX 8

/* A candidate for the choice of a backup. */
struct pathlive_choice {
	enum pathlive_state state;
	uint32_t group;			  /* of pathset; 0: not known */
	uint64_t hops[PATHLIVE_HOPS_MAX]; /* as pathset has them; 0: not known */
	double delay_ns;		  /* one-way delay to the peer, current; NAN: not known */
	double spread_ns;		  /* closer delays count as equal: the lower index */
};

/*
 * The backup of @paths[@of]: up, else in hold-down (which is at least alive);
 * then of another group, sharing the fewest switches, and with the least delay.
 * Index, or -ENOENT if none is alive: keep the path.
 */
int pathlive_choose_backup(const struct pathlive_choice *paths, size_t count, size_t of);
#endif

#endif
