/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fleet under simulation: the hosts run clocksync/ itself; oscillators, the
 * network between them and the falsetickers are made here, and so the truth is known.
 * Edges are made of packets through queues (tens of hosts) or drawn from a
 * noise model (up to 100,000 hosts).
 */
#ifndef ESC_TESTS_SIM_SIM_H
#define ESC_TESTS_SIM_SIM_H

#include "clocksync/cycles.h"
#include "clocksync/edge.h"
#include "clocksync/graph.h"
#include "clocksync/hostclock.h"
#include "clocksync/slew.h"
#include "tests/lib/sim/fabric.h"
#include "tests/lib/sim/oscillator.h"
#include "tests/lib/sim/stats.h"

#define SIM_PAST 128

enum sim_lie { SIM_HONEST, SIM_CONSTANT, SIM_RAMP, SIM_NOISY, SIM_COLLUDING, SIM_MIXED };

struct sim_config {
	uint64_t seed;
	size_t hosts;
	unsigned degree;
	double seconds;	       /* simulated */
	double measure_from_s; /* samples count from here */
	double sample_every_s;
	struct oscillator_config oscillator;

	bool packets;
	struct fabric_config fabric;
	int64_t pair_interval_ns, pair_spacing_ns;
	bool adaptive_interval;	  /* edge_pair_interval() decides, within the host's budget */
	double timestamp_ns;	  /* Gaussian, each timestamp */
	double late_ns;		  /* mean of an exponential lateness of each timestamp (software) */
	double late_spike_part;	  /* of timestamps, late by 20 us more in the mean */
	double edge_asymmetry_ns; /* deviation of forward minus backward floor, halved */
	double host_asymmetry_ns;
	double path_change_s;  /* mean time between changes of an edge's path; 0: none */
	double path_change_ns; /* what the new path's floor differs by, each way on its own */

	double edge_noise_ns; /* without packets: of the offset, correlated over the window */
	double edge_noise_ppb;
	double bad_part; /* of edges, ten times worse */
	double window_s;

	enum sim_lie lie;
	double falseticker_part;
	double lie_from_s;
	double lie_ns;

	double churn_s; /* mean time between a host's going; 0: none */
	double churn_down_s;
	double join_at_s;  /* when the last host starts; 0: at once */
	double part_share; /* of hosts that a partition cuts off; 0: none */
	double part_from_s, part_to_s;
	double alone_part; /* of hosts that are cut off permanently, each alone */
	double alone_from_s, alone_to_s;
	double busy_lead_s;  /* the machine is busy from up to that long before the first of them */
	double busy_late_ns; /* then every passage takes longer, by a heavy tail of this size */
	double busy_stall_s; /* and mean time between stalls of a host, in which nothing is sent */
	double speed_ns;     /* a packet is this much earlier while the sender's CPU is fast */
	double speed_part;   /* of the time, in spells of some milliseconds */
	double gap_part;     /* of packets that a gap of the sender's or receiver's CPU delays */
	double gap_ns;	     /* mean of an exponential */
	/*
	 * Spells in which every packet that a host sends or receives takes longer, by an amount
	 * that stays the same: a neighbor of the virtual machine on the same core, cold caches.
	 */
	double spell_ns;       /* mean of the amounts, uniform to half and one and a half of it */
	double spell_s;	       /* mean duration, exponential, at most three times that */
	double spell_every_s;  /* mean time from one to the next of a host; 0: none */
	double spell_one_part; /* of spells in one direction only */
	double spell_from_s;   /* true time of the first */
	bool no_prior;
	/* NTP slews the local clocks of the first so many hosts by this, on and off in turn. */
	size_t slew_hosts;
	double slew_ppb, slew_every_s, slew_from_s;
	/*
	 * NTP changes the rate of each local clock at times of its own, to anything within
	 * +-ntp_ppb, or back to none.
	 */
	double ntp_ppb, ntp_every_s;
	/* Hosts are VMs: as many as that, or fewer, read the counter of one machine; 0: none do. */
	unsigned machine_most;
	/* All VMs of a machine stand still for a while: they get no CPU, their clocks continue. */
	double stop_every_s, stop_s;
	bool cycles;	   /* each host takes the points of cycles.h */
	double counter_ns; /* noise of a reading of the counter, beside the least */
};

struct sim_host {
	struct oscillator oscillator;
	struct hostclock clock;
	struct clock_view view;	      /* as published, also by falsetickers */
	struct clock_line settled[8]; /* lines of the last rounds, newest at lines - 1 */
	unsigned lines;
	bool up, falseticker;
	bool cut;	     /* on the small side of the partition */
	int64_t alone_at_ns; /* true time from which it is isolated; 0: never */
	int64_t stalls_to_ns;
	int64_t speed_to_ns; /* true time up to which its CPU has this speed */
	bool fast;
	int64_t spell_to_ns;  /* true time at which its spell ends */
	double spell_late[2]; /* what it sends, and what it receives, then takes longer by */
	int64_t boots_at_ns;  /* true time at which it comes (back) */
	size_t rank;	      /* order of bootstrap */
	unsigned phase;	      /* tick of the round in which it acts */
	double asymmetry_ns;
	double lie_ns;
	double slew_ppb, slewed_ns; /* of its local clock, now and so far */
	int64_t slew_next_ns;	    /* true time of NTP's next change */
	struct slew slew;
	double stretch; /* of its edges' pair intervals: together no more than its budget */
	size_t machine; /* the first host that reads the same counter */
	int64_t stops_to_ns;
	struct cycles *cycles;
	unsigned cycles_steps;
	double past_phase[SIM_PAST]; /* of the oscillator, by tick */
	float past_rate[SIM_PAST];
	int64_t synced_at_ns, sure_at_ns; /* true times of first synced, first bound < 10 us */
	int64_t booted_ns;
};

/* One direction of seeing an edge: what a host knows of one neighbour. */
struct sim_end {
	uint32_t peer;
	uint32_t link;	   /* index of the undirected edge */
	uint32_t back;	   /* the neighbour's end of the same edge */
	struct edge *edge; /* with packets */
	struct edge_estimate estimate;
	struct clock_view view;
	int64_t view_at_local_ns;
	bool view_known;
	int64_t next_pair_ns; /* true time */
	uint32_t pairs;
};

struct sim_link {
	double asymmetry_ns, base_ns[2];
	unsigned path[2];
	double noise_ns, noise_ppb, size; /* of the model without packets */
	int64_t drawn_ns;
};

struct sim_result {
	struct stats error;	 /* of pairs of readings, |ns|, live */
	struct stats settled[4]; /* the clock lines 0.25, 0.5, 0.75, 1 s back */
	struct stats bound;	 /* of pairs */
	struct stats part[4];	 /* of hosts' bounds: residual, surprise, formal, jolt */
	struct stats edge_error; /* of fits against the truth, at their middle */
	struct stats edge_ratio; /* the same over the fit's own sigma */
	struct stats first_sure_s, first_synced_s;
	uint64_t readings, outside, unsynced, samples_of_hosts;
	uint64_t fits, flagged;
	double worst_outside_ns;
	uint64_t backwards;	/* readings that went back */
	double largest_step_ns; /* of a correct majority host's reading against its rate */
	uint64_t falsetickers_refused, falseticker_edges, correct_refused, correct_edges;
	double round_seconds, fit_seconds; /* CPU of rounds and fits */
	uint64_t rounds, probes;
	double pairs_per_s; /* of an end */
};

struct sim {
	struct sim_config config;
	struct sim_host *hosts;
	struct sim_end *ends; /* by graph.start */
	struct sim_link *links;
	size_t link_count;
	struct graph graph;
	struct fabric fabric;
	struct rng rng;
	int64_t now_ns, tick_ns, past_step_ns;
	uint64_t tick;
	int64_t busy_at_ns; /* true time; 0: never */
	struct edge_scratch scratch;
	struct sim_result result;
	int64_t *last_read;
};

void sim_config_default(struct sim_config *config, uint64_t seed);
int sim_init(struct sim *sim, const struct sim_config *config);
void sim_free(struct sim *sim);
void sim_tick(struct sim *sim);
/* Runs to the end and fills sim->result. */
void sim_run(struct sim *sim);

/* net.c: what happens on the edges during a tick. */
void sim_probe_tick(struct sim *sim);
void sim_fit(struct sim *sim, size_t host, int64_t local_ns);
bool sim_reachable(const struct sim *sim, size_t a, size_t b);
/* measure.c */
void sim_measure(struct sim *sim);
void sim_finish(struct sim *sim);
double sim_cpu_seconds(void);

#endif
