/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <string.h>

#include "requester.h"

/* rxe requests an acknowledge at least this often (RXE_MAX_PKT_PER_ACK). */
#define PACKETS_PER_ACK 64
#define OVERTAKE 3
#define REMOTE_KEY 0x0e5c
#define REMOTE_ADDRESS 0x7e5c00000000ull

void requester_init(struct requester *requester, const struct options *options,
		    const struct wire_flow *flow, uint32_t qpn, uint32_t dest_qpn, uint32_t psn)
{
	memset(requester, 0, sizeof(*requester));
	requester->options = options;
	requester->flow = *flow;
	requester->qpn = qpn;
	requester->dest_qpn = dest_qpn;
	requester->first_psn = psn;
	requester->packets_per_message = (options->size_bytes + options->mtu - 1) / options->mtu;
	if (!requester->packets_per_message)
		requester->packets_per_message = 1;
	requester->total =
		options->messages ? options->messages * requester->packets_per_message : UINT64_MAX;
}

/* When the others let the next message begin; UINT64_MAX: that is not known yet. */
static uint64_t opens_ns(const struct requester *requester)
{
	return board_opens_ns(requester->board, requester->options->flow,
			      requester->next / requester->packets_per_message);
}

/* Whether a message's first packet may follow those that are under way. */
static bool may_begin(const struct requester *requester, uint64_t now)
{
	uint64_t whole = requester->packets_per_message;

	if (requester->next % whole || requester->next < requester->high)
		return true;
	if (now < requester->think_until_ns)
		return false;
	if (requester->board && now < opens_ns(requester))
		return false;
	return !requester->options->depth ||
	       requester->next / whole - requester->unacknowledged / whole <
		       requester->options->depth;
}

bool requester_may_send(const struct requester *requester, uint64_t now)
{
	if (requester->next >= requester->total)
		return false;
	if (requester->options->uc)
		return true;
	return requester->next - requester->unacknowledged < requester->options->window &&
	       now >= requester->rnr_until_ns && may_begin(requester, now);
}

static uint8_t opcode_at(const struct requester *requester, uint64_t position)
{
	bool first = position == 0, last = position + 1 == requester->packets_per_message;
	uint8_t opcode = requester->options->write ? WIRE_WRITE_FIRST : WIRE_SEND_FIRST;

	if (first && last)
		opcode += WIRE_SEND_ONLY;
	else if (last)
		opcode += WIRE_SEND_LAST;
	else if (!first)
		opcode += WIRE_SEND_MIDDLE;
	return opcode + (requester->options->uc ? WIRE_UC : 0);
}

/* The payload has the message and offset; the far end checks that. */
static size_t fill_payload(const struct requester *requester, uint64_t message, uint64_t position,
			   uint8_t *payload)
{
	uint64_t offset = position * requester->options->mtu;
	uint64_t left = requester->options->size_bytes - offset;
	size_t bytes = left < requester->options->mtu ? left : requester->options->mtu;
	uint32_t tag[2] = {htonl(message), htonl(offset)};
	uint64_t stamp = now_ns();

	if (bytes >= sizeof(tag))
		memcpy(payload, tag, sizeof(tag));
	if (requester->options->delays && bytes >= sizeof(tag) + sizeof(stamp))
		memcpy(payload + sizeof(tag), &stamp, sizeof(stamp));
	return bytes;
}

static size_t emit(struct requester *requester, struct port *port, uint64_t number,
		   bool ack_request)
{
	/* Bytes behind the tag never change: any will do. */
	static uint8_t payload[WIRE_MTU_MAX];
	uint64_t message = number / requester->packets_per_message;
	uint64_t position = number % requester->packets_per_message;
	struct wire_packet packet = {
		.flow = requester->flow,
		.opcode = opcode_at(requester, position),
		.ack_request = ack_request,
		.qpn = requester->dest_qpn,
		.psn = requester->first_psn + number,
		.remote_address = REMOTE_ADDRESS,
		.remote_key = REMOTE_KEY,
		.remote_length = requester->options->size_bytes,
		.payload = payload,
	};

	requester->behind += number < requester->gone;
	if (number >= requester->gone)
		requester->gone = number + 1;
	if (!++requester->ip_id)
		requester->ip_id++; /* 0 means that the kernel chooses */
	packet.ip_id = requester->ip_id;
	packet.payload_bytes = fill_payload(requester, message, position, payload);
	port_queue(port, &packet, &requester->sent);
	requester->payload_bytes += packet.payload_bytes;
	return packet.ip_bytes;
}

static bool wants_ack(struct requester *requester, uint64_t number)
{
	uint64_t often = requester->options->window / 2;

	if (requester->options->uc)
		return false;
	if (often > PACKETS_PER_ACK)
		often = PACKETS_PER_ACK;
	if ((number + 1) % requester->packets_per_message && ++requester->since_request < often)
		return false;
	requester->since_request = 0;
	return true;
}

static void start_timers(struct requester *requester, uint64_t number, bool ack_request,
			 uint64_t now)
{
	if (requester->unacknowledged == requester->high)
		requester->progress_ns = requester->rearm_ns = now;
	if (ack_request && number >= requester->high && !requester->sample_ns) {
		requester->sample_number = number;
		requester->sample_ns = now;
	}
	if (!requester->first_ns)
		requester->first_ns = now;
	requester->last_ns = now;
}

size_t requester_send(struct requester *requester, struct port *port, uint64_t *random,
		      uint64_t now)
{
	const struct options *options = requester->options;
	uint64_t number = requester->next;
	bool ack_request = wants_ack(requester, number);
	size_t bytes = options->mtu;

	start_timers(requester, number, ack_request, now);
	if (random_hit(random, options->loss)) {
		requester->injected_losses++;
	} else if (!requester->held_left && random_hit(random, options->reorder)) {
		requester->held = number;
		requester->held_left = OVERTAKE + 1;
		requester->reordered++;
	} else {
		requester->retransmitted += number < requester->high;
		bytes = emit(requester, port, number, ack_request);
	}
	requester->next++;
	if (requester->next > requester->high)
		requester->high = requester->next;
	if (options->uc)
		requester->unacknowledged = requester->next;
	if (requester->held_left == 1)
		requester_release(requester, port);
	else if (requester->held_left)
		requester->held_left--;
	return bytes;
}

void requester_release(struct requester *requester, struct port *port)
{
	if (!requester->held_left)
		return;
	requester->held_left = 0;
	/* Acknowledged or retransmitted meanwhile: only a duplicate, which is valid too. */
	emit(requester, port, requester->held, !requester->options->uc);
}

static void acknowledge_below(struct requester *requester, uint64_t number, uint64_t now)
{
	if (number <= requester->unacknowledged)
		return;
	if (requester->sample_ns && number > requester->sample_number) {
		uint64_t sample = now - requester->sample_ns;

		requester->round_trip_ns = requester->round_trip_ns
						   ? (7 * requester->round_trip_ns + sample) / 8
						   : sample;
		requester->sample_ns = 0;
	}
	if (number / requester->packets_per_message !=
	    requester->unacknowledged / requester->packets_per_message)
		requester->think_until_ns = now + requester->options->think_ns;
	requester->unacknowledged = number;
	if (requester->next < number)
		requester->next = number;
	requester->progress_ns = requester->rearm_ns = now;
}

static void go_back(struct requester *requester, uint64_t now)
{
	requester->next = requester->unacknowledged;
	requester->since_request = 0;
	requester->sample_ns = 0; /* Karn: a repeated packet times nothing */
	requester->rearm_ns = now;
}

/* ACK, NAK and RNR NAK; all of them acknowledge what came before their PSN. */
static void receive_acknowledge(struct requester *requester, const struct wire_packet *packet,
				uint64_t now)
{
	uint32_t base = requester->first_psn + requester->unacknowledged;
	int32_t distance = wire_psn_distance(packet->psn, base);
	uint64_t number = requester->unacknowledged + distance;
	uint8_t kind = packet->syndrome & WIRE_AETH_KIND;

	requester->responses++;
	requester->response_bytes += packet->ip_bytes;
	if (kind == 0)
		requester->acks++;
	else if (kind == WIRE_AETH_RNR)
		requester->rnr_naks++;
	else
		requester->naks++;
	if (distance < 0 || number >= requester->high) {
		requester->ignored += distance >= 0; /* never sent: ignored */
		return;
	}
	if (kind == 0) {
		acknowledge_below(requester, number + 1, now);
		return;
	}
	acknowledge_below(requester, number, now);
	go_back(requester, now);
	if (kind == WIRE_AETH_RNR)
		requester->rnr_until_ns = now + wire_rnr_wait_ns(packet->syndrome);
}

void requester_receive(struct requester *requester, const struct wire_packet *packet, uint64_t now)
{
	requester->ce += (packet->flow.tos & WIRE_ECN_MASK) == WIRE_ECN_CE;
	if (packet->opcode == WIRE_CNP)
		requester->cnps++;
	else if (packet->opcode == WIRE_ACKNOWLEDGE && !requester->options->uc)
		receive_acknowledge(requester, packet, now);
	else
		requester->ignored++;
}

/* Behind a slow link with a deep queue a reply takes longer than the option allows. */
static uint64_t overdue_ns(const struct requester *requester)
{
	uint64_t wait = requester->options->retransmit_ns;
	uint64_t slow = 4 * requester->round_trip_ns;
	uint64_t from = requester->rearm_ns;

	if (from < requester->rnr_until_ns)
		from = requester->rnr_until_ns;
	return from + (wait > slow ? wait : slow);
}

static bool is_waiting(const struct requester *requester)
{
	return !requester->options->uc && requester->unacknowledged < requester->high;
}

void requester_timer(struct requester *requester, uint64_t now)
{
	if (!is_waiting(requester) || now < overdue_ns(requester))
		return;
	requester->timeouts++;
	go_back(requester, now);
}

uint64_t requester_wake_ns(const struct requester *requester, uint64_t now)
{
	uint64_t wake = is_waiting(requester) ? overdue_ns(requester) : UINT64_MAX;

	if (requester->rnr_until_ns > now && requester->rnr_until_ns < wake)
		wake = requester->rnr_until_ns;
	if (requester->think_until_ns > now && requester->think_until_ns < wake)
		wake = requester->think_until_ns;
	if (requester->board && requester->next == requester->high &&
	    !(requester->next % requester->packets_per_message) && opens_ns(requester) > now &&
	    opens_ns(requester) < wake)
		wake = opens_ns(requester);
	return wake;
}

void requester_finish(struct requester *requester)
{
	uint64_t whole = requester->packets_per_message;

	if (requester->total == UINT64_MAX)
		requester->total = (requester->high + whole - 1) / whole * whole;
}

bool requester_done(const struct requester *requester)
{
	return requester->unacknowledged >= requester->total && !requester->held_left;
}

bool requester_gave_up(const struct requester *requester, uint64_t now)
{
	return is_waiting(requester) &&
	       now - requester->progress_ns > requester->options->give_up_ns;
}

uint64_t requester_messages(const struct requester *requester)
{
	return requester->unacknowledged / requester->packets_per_message;
}
