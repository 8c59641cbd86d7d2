/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A leaf-spine fabric packet by packet: FIFO links of a fixed rate that lose nothing,
 * senders with a window in bytes that acknowledgements move on, and rules to take another spine.
 * What the policy under test knows of it goes through steer_sim.h.
 */
#ifndef ESC_TESTS_SIM_STEER_NET_H
#define ESC_TESTS_SIM_STEER_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pacing/pause.h"
#include "tests/lib/sim/heap.h"
#include "tests/lib/rng.h"

#define NET_HOPS 4

struct net_shape {
	unsigned leaves, hosts_per_leaf, spines;
	double fabric_bps, host_bps;
	int64_t hop_ns; /* propagation of a link */
	uint32_t packet_bytes;
	/*
	 * Of a link behind the first, which the host's own pace keeps short; 0: nothing is ever
	 * lost. Then senders go back to what was lost: when the receiver reports it, once for each
	 * gap, or after timeout_ns without progress, silent till then. All packets are whole.
	 */
	uint64_t queue_bytes;
	int64_t timeout_ns;
	bool one_line; /* the demand is the host's: its queue pairs share it by turns */
	/* Paced by pacing/pause.h, as the kernel's programs and fq do it; threshold 0: not. */
	struct pause_rule rule;
};

struct net_link {
	double ns_per_byte;
	int64_t free_ns; /* when what is in it now has left */
};

/* A rule as the kernel's programs carry it out (struct esc_steer). */
struct net_order {
	bool waits;
	unsigned spine;
	int64_t hold_ns, start_ns, force_ns;
};

struct net_qp {
	unsigned from, to; /* hosts */
	unsigned spine, back_spine;
	uint64_t window_bytes;
	uint64_t message_bytes;
	double demand_bps; /* 0: as fast as the window lets it */
	/* Made by the net. */
	uint64_t left_bytes; /* may be sent now; UINT64_MAX: for ever */
	uint64_t sent_bytes, acked_bytes, received_bytes;
	uint64_t sent, received;	      /* packets */
	uint64_t overtaken;		      /* packets that came before one sent earlier */
	uint64_t asked_bytes;		      /* to be sent, by now; of a stream without meaning */
	uint64_t wire_bytes;		      /* that left the host, those retransmitted too */
	uint64_t gone, acked, lost, timeouts; /* gone: sent once or more */
	int64_t progress_ns;		      /* or when it went back */
	bool refused, timed;
	int64_t started_ns, last_sent_ns, held_until_ns, next_ns;
	int64_t largest_gap_ns; /* since the last tick; whoever ticks sets it to 0 */
	bool wakes;
	struct net_order order;
	uint64_t switches;
	unsigned job, rank; /* of steer_jobs */
	struct pause_flow pace;
	uint64_t waited_ns, paced; /* from a packet's handing over to its departure; packets */
};

enum net_event_kind { NET_HOP, NET_ACK, NET_NAK, NET_WAKE, NET_TIMEOUT, NET_SAMPLE, NET_TIMER };

struct net_event {
	struct heap_event time;
	uint32_t qp; /* or the timer's number */
	uint32_t bytes;
	uint64_t number; /* of the packet in its queue pair */
	uint16_t spine;
	uint8_t kind, hop;
	bool sampled; /* paced, and not sent before */
	int64_t departure_ns, delay_ns;
	struct pause_mark mark;
};

struct net {
	struct net_shape shape;
	unsigned hosts;
	struct net_link *host_up, *host_down; /* by host */
	int64_t *line_ns;		      /* by host, with one_line: when it may send */
	struct net_link *up, *down;	      /* by leaf * spines + spine */
	struct net_qp *qps;
	size_t qp_count;
	struct heap heap; /* of struct net_event */
	int64_t now_ns;
	void *context;
	/* A packet was received in full; may start more traffic. */
	void (*on_received)(struct net *net, size_t qp);
	void (*on_timer)(struct net *net, uint32_t timer);
};

int net_init(struct net *net, const struct net_shape *shape, size_t qps);
void net_free(struct net *net);
/* Sets the queue pair going at the time it is called: @bytes more, UINT64_MAX: for ever. */
void net_send(struct net *net, size_t qp, uint64_t bytes);
void net_stop(struct net *net, size_t qp);
void net_timer(struct net *net, int64_t at_ns, uint32_t timer);
void net_run(struct net *net, int64_t until_ns);

/* When the newest packet left, or will: pacing may hold it. */
int64_t net_left_ns(const struct net_qp *qp);
unsigned net_leaf(const struct net *net, unsigned host);
/* Of a packet that is sent now; the floor: of one in an empty fabric. */
int64_t net_delay_ns(const struct net *net, unsigned from, unsigned to, unsigned spine);
int64_t net_floor_ns(const struct net *net);
/* One of the fabric's links on this way would lose a probe now. */
bool net_is_full(const struct net *net, unsigned from, unsigned to, unsigned spine);
/* The part of the delay that the fabric's own links make, hosts' links aside. */
int64_t net_queue_ns(const struct net *net, unsigned from, unsigned to, unsigned spine);

#endif
