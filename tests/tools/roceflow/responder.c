/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <string.h>

#include "responder.h"

/* 0.64 ms, as perftest sets it. */
#define RNR_TIMER 12
/* As NICs bound it: one CNP per QP in this time. */
#define CNP_INTERVAL_NS 50000ull

static void answer(struct responder *responder, struct port *port, struct wire_packet *packet)
{
	packet->flow = responder->flow;
	packet->qpn = responder->peer_qpn;
	if (!++responder->ip_id)
		responder->ip_id++; /* 0 means that the kernel chooses */
	packet->ip_id = responder->ip_id;
	port_queue(port, packet, &responder->replied);
}

static void response_aeth(struct responder *responder, struct port *port, uint8_t syndrome,
			  uint64_t number)
{
	struct wire_packet packet = {
		.opcode = WIRE_ACKNOWLEDGE,
		.psn = responder->first_psn + number,
		.syndrome = syndrome,
		.msn = responder->messages,
	};

	answer(responder, port, &packet);
	responder->ack_pending = false; /* any of them acknowledges what came before */
}

void responder_acknowledge(struct responder *responder, struct port *port)
{
	if (!responder->ack_pending)
		return;
	responder->acks++;
	response_aeth(responder, port, WIRE_AETH_ACK, responder->expected - 1);
}

static void notice_congestion(struct responder *responder, const struct wire_packet *packet,
			      struct port *port, uint64_t now)
{
	struct wire_packet cnp = {.opcode = WIRE_CNP, .backward_congestion = true};

	if ((packet->flow.tos & WIRE_ECN_MASK) != WIRE_ECN_CE)
		return;
	responder->ce++;
	if (!responder->options->cnp || now - responder->last_cnp_ns < CNP_INTERVAL_NS)
		return;
	responder->last_cnp_ns = now;
	responder->cnps++;
	answer(responder, port, &cnp);
}

/* The packet is what packet number @number must be. */
static bool is_right(const struct responder *responder, const struct wire_packet *packet,
		     uint64_t number)
{
	uint64_t message = number / responder->packets_per_message;
	uint64_t position = number % responder->packets_per_message;
	bool last = position + 1 == responder->packets_per_message;
	uint64_t offset = position * responder->mtu;
	uint64_t bytes = last ? responder->size_bytes - offset : responder->mtu;
	uint32_t tag[2] = {htonl(message), htonl(offset)};

	return wire_starts_message(packet->opcode) == (position == 0) &&
	       wire_ends_message(packet->opcode) == last && packet->payload_bytes == bytes &&
	       (bytes < sizeof(tag) || !memcmp(packet->payload, tag, sizeof(tag)));
}

static void note_silence(struct responder *responder, uint64_t now)
{
	uint64_t bound = responder->options->silence_ns, from = responder->delivered_ns;

	responder->delivered_ns = now;
	if (!bound || !from || now - from < bound)
		return;
	if (responder->silences_used < RESPONDER_SILENCES_MAX)
		responder->silences[responder->silences_used] =
			(struct responder_silence){from, now};
	responder->silences_used++;
}

/* The timestamp stands behind the tag of the payload; both ends have one clock. */
static void note_delay(struct responder *responder, const struct wire_packet *packet, uint64_t now)
{
	uint64_t sent_ns, delay_ns;
	const size_t at = 2 * sizeof(uint32_t);

	if (!responder->delays || responder->delays_used == RESPONDER_DELAYS_MAX ||
	    packet->payload_bytes < at + sizeof(sent_ns))
		return;
	memcpy(&sent_ns, packet->payload + at, sizeof(sent_ns));
	delay_ns = sent_ns < now ? now - sent_ns : 0;
	responder->delays[responder->delays_used++] = (struct responder_delay){
		now, delay_ns < UINT32_MAX ? (uint32_t)delay_ns : UINT32_MAX};
}

static void deliver(struct responder *responder, const struct wire_packet *packet, uint64_t now)
{
	note_silence(responder, now);
	note_delay(responder, packet, now);
	if (!is_right(responder, packet, responder->expected))
		responder->invalid++;
	responder->expected++;
	responder->delivered_sport = packet->flow.source_port;
	responder->delivered_packets++;
	responder->delivered_bytes += packet->payload_bytes;
	if (wire_starts_message(packet->opcode))
		responder->message_broken = false;
	if (wire_ends_message(packet->opcode) && !responder->message_broken)
		responder->messages++;
}

/* True when this message has to receive "not ready" before it is taken. */
static bool refuse_not_ready(struct responder *responder, struct port *port)
{
	uint32_t every = responder->options->rnr_every;
	uint64_t message = responder->expected / responder->packets_per_message;

	if (!every || responder->expected % responder->packets_per_message ||
	    (message + 1) % every || responder->rnr_done > message)
		return false;
	responder->rnr_done = message + 1;
	responder->rnr_waiting = true;
	responder->rnr_naks++;
	response_aeth(responder, port, WIRE_AETH_RNR | RNR_TIMER, responder->expected);
	return true;
}

static void note_gap(struct responder *responder, const struct wire_packet *packet)
{
	responder->gaps++;
	responder->gaps_new_port += responder->delivered_packets &&
				    packet->flow.source_port != responder->delivered_sport;
}

static bool receive_reliable(struct responder *responder, const struct wire_packet *packet,
			     struct port *port, int32_t distance, uint64_t now)
{
	if (distance < 0) {
		responder->duplicates++;
		responder->ack_pending = true;
		return true;
	}
	if (distance > 0) {
		note_gap(responder, packet);
		if (responder->nak_sent || responder->rnr_waiting)
			return false;
		responder->nak_sent = true;
		responder->naks++;
		response_aeth(responder, port, WIRE_AETH_NAK_SEQUENCE, responder->expected);
		return false;
	}
	responder->nak_sent = responder->rnr_waiting = false;
	if (refuse_not_ready(responder, port))
		return false;
	deliver(responder, packet, now);
	responder->ack_pending |= packet->ack_request;
	return responder->ack_pending;
}

/* A message with a hole is dropped whole; what comes late is dropped. */
static void receive_unreliable(struct responder *responder, const struct wire_packet *packet,
			       int32_t distance, uint64_t now)
{
	if (distance < 0) {
		responder->duplicates++;
		return;
	}
	if (distance > 0) {
		note_gap(responder, packet);
		responder->lost += distance;
		responder->expected += distance;
		responder->message_broken = true;
	}
	deliver(responder, packet, now);
}

static void note_port(struct responder *responder, uint16_t sport, uint64_t now)
{
	if (responder->ports_used && responder->newest_sport == sport)
		return;
	responder->newest_sport = sport;
	if (responder->ports_used < RESPONDER_PORTS_MAX)
		responder->ports[responder->ports_used] = (struct responder_port){now, sport};
	responder->ports_used++;
}

bool responder_receive(struct responder *responder, const struct wire_packet *packet,
		       struct port *port, uint64_t *random, uint64_t now)
{
	uint32_t base = responder->first_psn + responder->expected;
	int32_t distance = wire_psn_distance(packet->psn, base);

	responder->packets++;
	responder->bytes += packet->ip_bytes;
	if (!responder->first_ns) {
		responder->first_ns = now;
		responder->first_ahead = (uint32_t)distance;
	}
	responder->last_ns = now;
	note_port(responder, packet->flow.source_port, now);
	notice_congestion(responder, packet, port, now);
	if (random_hit(random, responder->options->loss)) {
		responder->injected_losses++;
		return false;
	}
	if (!responder->uc)
		return receive_reliable(responder, packet, port, distance, now);
	receive_unreliable(responder, packet, distance, now);
	return false;
}
