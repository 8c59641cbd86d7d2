/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Senders, links with a buffer that drop what does not fit, and receivers, packet by packet. Above
 * the law under test (pacing/pause.h) lies one of three transports. The host is as the kernel is: a
 * packet gets its departure when the transport hands it over, and waits in the host (fq, then
 * the port); a transport hands over so many ahead, and no more until some have left.
 */
#ifndef ESC_TESTS_SIM_PAUSE_NET_H
#define ESC_TESTS_SIM_PAUSE_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pacing/pause.h"
#include "tests/lib/sim/heap.h"
#include "tests/lib/rng.h"
#include "tests/lib/sim/stats.h"

#define PNET_HOPS 4

struct pnet_link {
	double ns_per_byte;
	uint64_t buffer_bytes; /* 0: no end */
	uint64_t mark_bytes;   /* longer queues mark (ECN); 0: never */
	/* Made by the net. */
	int64_t free_ns; /* when what is in it now has left */
	uint64_t busy_ns, dropped, packets;
	uint64_t wasted_ns; /* it was idle, and what came next had been held by its host */
	double peak_ns;
	struct stats waits; /* of packets, from measure_ns on, where `watch` is set */
	bool watch;
};

enum pnet_kind {
	PNET_GOBACK, /* RC: a fixed window, all after a hole is retransmitted, no control of its own
		      */
	PNET_AIMD,   /* TCP: half a window for a loss in a round trip, one packet more without */
};

struct pnet_flow {
	unsigned links[PNET_HOPS], hops; /* of the net; the first is the host's port */
	int64_t way_ns;			 /* propagation, each way */
	enum pnet_kind kind;
	uint64_t window;	    /* packets not acknowledged; of PNET_AIMD the most */
	uint64_t ahead, ahead_less; /* handed to the host: most; more only when fewer are left */
	bool paced;
	bool strawman; /* what was paused already is not subtracted */
	bool started;  /* by pnet_start */
	struct pause_rule rule;
	double clock_ns;   /* error of its delays */
	int64_t floor_ns;  /* what its delays have when nothing waits */
	double demand_Bps; /* 0: all that the window lets through */
	/* Made by the net. */
	struct pause_flow pace;
	uint64_t next, una, limit, high; /* numbers of packets; `limit` may not be sent yet */
	uint64_t in_host, expected, delivered, sent, again;
	double cwnd, ssthresh;
	uint64_t recover, in_flight;
	double marked;
	bool waits, nak, woken;
	int64_t progress_ns, demand_ns;
	uint64_t timeouts, naks;
	uint64_t measured; /* delivered when measuring began */
	uint64_t message;  /* packets; on_done is for each; 0: for ever */
};

enum pnet_event_kind {
	PNET_WAKE,
	PNET_PORT,
	PNET_HOP,
	PNET_BACK,
	PNET_LOSS,
	PNET_TIMEOUT,
	PNET_TIMER
};

struct pnet_packet {
	uint32_t flow;
	uint8_t hop;
	bool again, marked, nak, sampled;
	uint64_t number, cumulative;
	int64_t born_ns; /* when it could have been sent */
	int64_t departure_ns, delay_ns;
	struct pause_mark mark;
	uint32_t next_free;
};

struct pnet_event {
	struct heap_event time;
	uint32_t what; /* packet, flow or timer */
	uint8_t kind;
};

struct pnet {
	uint64_t seed;
	uint32_t packet_bytes;
	unsigned sample_every;
	double feedback_loss; /* part of the receipts */
	double noise_ns;      /* of a delay */
	int64_t timeout_ns;   /* of PNET_GOBACK */
	/* Made by the net. */
	struct rng rng;
	struct pnet_link *links;
	size_t link_count;
	struct pnet_flow *flows;
	size_t flow_count;
	struct pnet_packet *packets;
	uint32_t packet_count, free_packet;
	struct heap heap; /* of struct pnet_event */
	int64_t now_ns, measure_ns;
	void *context;
	/* A message has arrived. */
	void (*on_done)(struct pnet *net, size_t flow);
	void (*on_timer)(struct pnet *net, uint32_t timer);
};

int pnet_init(struct pnet *net, size_t links, size_t flows, uint64_t seed);
void pnet_free(struct pnet *net);
/* @packets more to send; UINT64_MAX: for ever. */
void pnet_start(struct pnet *net, size_t flow, uint64_t packets);
void pnet_timer(struct pnet *net, uint32_t timer, int64_t at_ns);
void pnet_run(struct pnet *net, int64_t until_ns);
/* Figures count from now on. */
void pnet_measure(struct pnet *net);

#endif
