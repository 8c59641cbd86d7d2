/* SPDX-License-Identifier: BSD-2-Clause */
/* The sending half of one queue pair: RC with go-back-N, or UC. Time is an argument. */
#ifndef ROCEFLOW_REQUESTER_H
#define ROCEFLOW_REQUESTER_H

#include "board.h"
#include "port.h"
#include "roceflow.h"
#include "wire.h"

struct requester {
	const struct options *options;
	const struct board *board; /* NULL: messages do not wait for others */
	struct wire_flow flow;
	uint32_t qpn, dest_qpn, first_psn;
	uint16_t ip_id;
	uint64_t packets_per_message;
	/* Packets are numbered from 0; PSN = first_psn + number. */
	uint64_t total;		 /* all there will be, UINT64_MAX while it is by time */
	uint64_t next;		 /* to be sent next */
	uint64_t unacknowledged; /* the oldest one */
	uint64_t high;		 /* one past the furthest ever sent */
	uint64_t gone;		 /* one past the furthest that left: not held, not lost */
	uint64_t since_request;	 /* packets since the last acknowledge request */
	uint64_t held;		 /* a packet kept back, to be overtaken */
	unsigned int held_left;	 /* by so many; 0: none is held */
	uint64_t progress_ns;	 /* last time `unacknowledged` moved or had to start */
	uint64_t rearm_ns;	 /* last time the retransmission timer started */
	uint64_t rnr_until_ns;
	uint64_t think_until_ns;
	uint64_t sample_number, sample_ns; /* round trip being measured, sample_ns 0: none */
	uint64_t round_trip_ns;
	/* counts */
	struct port_count sent;
	uint64_t retransmitted, payload_bytes, injected_losses, reordered, timeouts;
	uint64_t behind; /* packets that left after one of their PSN or a later one */
	uint64_t responses, response_bytes, acks, naks, rnr_naks, cnps, ce, ignored;
	uint64_t first_ns, last_ns;
};

/* @flow is complete but for nothing; @qpn is ours. */
void requester_init(struct requester *requester, const struct options *options,
		    const struct wire_flow *flow, uint32_t qpn, uint32_t dest_qpn, uint32_t psn);
bool requester_may_send(const struct requester *requester, uint64_t now);
/* Sends one packet. Returns its IP bytes, also of one that an injected loss ate. */
size_t requester_send(struct requester *requester, struct port *port, uint64_t *random,
		      uint64_t now);
/* Lets a held packet go when nothing is left to overtake it. */
void requester_release(struct requester *requester, struct port *port);
void requester_receive(struct requester *requester, const struct wire_packet *packet, uint64_t now);
/* Retransmits when a reply is overdue. */
void requester_timer(struct requester *requester, uint64_t now);
/* The next time at which something is due, UINT64_MAX: never. */
uint64_t requester_wake_ns(const struct requester *requester, uint64_t now);
/* No new messages; the one that has begun is finished. */
void requester_finish(struct requester *requester);
bool requester_done(const struct requester *requester);
/* No reply for longer than the options allow. */
bool requester_gave_up(const struct requester *requester, uint64_t now);
/* Messages acknowledged (RC) or sent (UC). */
uint64_t requester_messages(const struct requester *requester);

#endif
