/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP senders under the window of pacing/tcpwindow.h, a port with a short queue, a receiver and a
 * longer way back, segment by segment: the network of tests/lab/test_tcp_pace. The sender is as the
 * kernel's is: bursts of up to a third of the window, paced by the socket's own timer, acknowledged
 * by delayed acknowledgements. What is between law and socket is done as bpf/tcp/wrap.bpf.h does
 * it.
 */
#ifndef ESC_TESTS_SIM_TCP_NET_H
#define ESC_TESTS_SIM_TCP_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "pacing/tcpwindow.h"
#include "tests/lib/sim/heap.h"
#include "tests/lib/rng.h"
#include "tests/lib/sim/stats.h"

#define TNET_FLOWS 128
#define TNET_RING 1024u

struct tnet_flow {
	unsigned int weight;
	int64_t clock_ns; /* error of its delays */
	int64_t start_ns; /* of a flow without end; others ask every `period_ns` */
	bool asks;	  /* requests, together with all others that ask */
	bool free;	  /* no limit: what a transport does whose window is large enough */
	/* Made by the net. */
	struct tcp_window law;
	uint32_t next, una, end;       /* segments: sent, acknowledged, written */
	uint32_t got, told;	       /* by the receiver, and what it has acknowledged of it */
	uint32_t quick;		       /* segments that it still acknowledges one by one */
	uint32_t peak, peak_end;       /* most under way in a window, and where that window ends */
	int64_t pace_ns, timestamp_ns; /* when it may send on */
	int64_t rest_ns, rest_end_ns;  /* as in struct esc_tcp_flow */
	uint64_t rate_Bps;
	uint32_t rtt_us;
	bool woken, slow_ack;
	double delay_ns; /* of the newest segment that came */
	int64_t sent_ns[TNET_RING];
	int64_t asked_ns;
	uint64_t arrived; /* segments, from the warm-up on */
};

struct tnet {
	uint64_t seed;
	double link_bps, queue_bytes, threshold_ns, back_ns;
	double stall_ns,
		stalls_ns; /* the way back stands still: so long and so often, in the mean */
	double warm_s, seconds;
	int64_t period_ns;
	uint32_t least, most; /* segments of a request */
	unsigned int count;
	struct tnet_flow flows[TNET_FLOWS];
	/* Made by the net. */
	struct rng rng;
	struct heap events;
	int64_t now_ns, free_ns, measured_ns, last_back_ns, stall_at_ns;
	double busy_ns;
	uint64_t dropped, cuts, unfinished;
	struct stats delays_us, completions_ms;
};

/* The lab's: 200 Mbit/s, 75 KB, 1 ms back, a threshold of 500 us; no flows. */
void tnet_init(struct tnet *net, uint64_t seed);
struct tnet_flow *tnet_add(struct tnet *net, bool asks);
void tnet_run(struct tnet *net);
/* Jain's index of what the flows without end have had, each by its weight. */
double tnet_jain(const struct tnet *net);
double tnet_load(const struct tnet *net);
void tnet_free(struct tnet *net);

#endif
