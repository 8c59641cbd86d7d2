/* SPDX-License-Identifier: BSD-2-Clause */
/* The receiving half of one queue pair: what came, in which order, and what is replied to. */
#ifndef ROCEFLOW_RESPONDER_H
#define ROCEFLOW_RESPONDER_H

#include "port.h"
#include "roceflow.h"
#include "wire.h"

#define RESPONDER_PORTS_MAX 256
#define RESPONDER_SILENCES_MAX 16384
#define RESPONDER_DELAYS_MAX 262144

/* A packet that came in its turn: when, and how long after it was sent. */
struct responder_delay {
	uint64_t at_ns;
	uint32_t delay_ns; /* UINT32_MAX: more */
};

/* Two deliveries, one after the other. */
struct responder_silence {
	uint64_t from_ns, to_ns;
};

/* A source port other than that of the packet before. */
struct responder_port {
	uint64_t at_ns;
	uint16_t sport;
};

struct responder {
	const struct options *options;
	struct wire_flow flow; /* of what goes back */
	uint32_t qpn, peer_qpn, first_psn;
	uint16_t ip_id;
	bool uc, write;
	uint32_t mtu;
	uint64_t size_bytes, packets_per_message;
	uint64_t expected; /* packet number, see requester.h */
	uint64_t rnr_done; /* messages that had their RNR NAK */
	bool nak_sent, rnr_waiting, ack_pending, ack_queued, message_broken;
	uint64_t last_cnp_ns;
	/* counts */
	struct port_count replied;
	uint64_t packets, bytes, delivered_packets, delivered_bytes, messages;
	uint64_t duplicates, gaps, lost, injected_losses, invalid;
	uint64_t acks, naks, rnr_naks, ce, cnps;
	uint64_t first_ns, last_ns;
	uint32_t first_ahead; /* of the first PSN: what came first is not what was sent first */
	struct responder_port ports[RESPONDER_PORTS_MAX];
	uint16_t newest_sport;
	uint16_t delivered_sport; /* of the newest packet in order */
	uint64_t gaps_new_port;	  /* of the gaps: from another port than that */
	unsigned int ports_used;  /* may be more than there is room for */
	uint64_t delivered_ns;	  /* the newest delivery */
	struct responder_silence silences[RESPONDER_SILENCES_MAX];
	struct responder_delay *delays; /* NULL: none are requested */
	unsigned int delays_used;
	unsigned int silences_used; /* may be more than there is room for */
};

/*
 * Takes a packet for this QP; NAKs and CNPs go out at once. True when an ACK
 * became due: responder_acknowledge() sends the newest one, once for a batch.
 */
bool responder_receive(struct responder *responder, const struct wire_packet *packet,
		       struct port *port, uint64_t *random, uint64_t now);
void responder_acknowledge(struct responder *responder, struct port *port);

#endif
