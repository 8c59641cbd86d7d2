// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/steer_net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_BYTES 150 /* for which there may be room where there is none for others */

static struct net_link *links(size_t count, double bps)
{
	struct net_link *made = calloc(count ? count : 1, sizeof(*made));

	for (size_t i = 0; made && i < count; i++)
		made[i].ns_per_byte = 8e9 / bps;
	return made;
}

int net_init(struct net *net, const struct net_shape *shape, size_t qps)
{
	memset(net, 0, sizeof(*net));
	net->shape = *shape;
	net->hosts = shape->leaves * shape->hosts_per_leaf;
	net->host_up = links(net->hosts, shape->host_bps);
	net->host_down = links(net->hosts, shape->host_bps);
	net->up = links(shape->leaves * shape->spines, shape->fabric_bps);
	net->down = links(shape->leaves * shape->spines, shape->fabric_bps);
	net->line_ns = calloc(net->hosts ? net->hosts : 1, sizeof(*net->line_ns));
	net->qps = calloc(qps ? qps : 1, sizeof(*net->qps));
	net->qp_count = qps;
	net->heap.event_bytes = sizeof(struct net_event);
	if (net->host_up && net->host_down && net->up && net->down && net->line_ns && net->qps)
		return 0;
	net_free(net);
	return -ENOMEM;
}

void net_free(struct net *net)
{
	free(net->host_up);
	free(net->host_down);
	free(net->up);
	free(net->down);
	free(net->line_ns);
	free(net->qps);
	heap_free(&net->heap);
	memset(net, 0, sizeof(*net));
}

int64_t net_left_ns(const struct net_qp *qp)
{
	int64_t departed_ns = (int64_t)qp->pace.departed_ns;

	return departed_ns > qp->last_sent_ns ? departed_ns : qp->last_sent_ns;
}

unsigned net_leaf(const struct net *net, unsigned host)
{
	return host / net->shape.hosts_per_leaf;
}

/* --- the way of a packet --- */

static struct net_link *link_at(const struct net *net, unsigned from, unsigned to, unsigned spine,
				unsigned hop)
{
	switch (hop) {
	case 0:
		return &net->host_up[from];
	case 1:
		return &net->up[net_leaf(net, from) * net->shape.spines + spine];
	case 2:
		return &net->down[net_leaf(net, to) * net->shape.spines + spine];
	default:
		return &net->host_down[to];
	}
}

static bool goes_back(const struct net *net)
{
	return net->shape.queue_bytes > 0;
}

static int64_t backlog_ns(const struct net *net, const struct net_link *link)
{
	return link->free_ns > net->now_ns ? link->free_ns - net->now_ns : 0;
}

int64_t net_queue_ns(const struct net *net, unsigned from, unsigned to, unsigned spine)
{
	return backlog_ns(net, link_at(net, from, to, spine, 1)) +
	       backlog_ns(net, link_at(net, from, to, spine, 2));
}

static bool has_room(const struct net *net, const struct net_link *link, uint32_t bytes)
{
	return !net->shape.queue_bytes ||
	       (double)backlog_ns(net, link) / link->ns_per_byte + bytes <=
		       (double)net->shape.queue_bytes;
}

bool net_is_full(const struct net *net, unsigned from, unsigned to, unsigned spine)
{
	for (unsigned hop = 1; hop < NET_HOPS; hop++)
		if (!has_room(net, link_at(net, from, to, spine, hop), PROBE_BYTES))
			return true;
	return false;
}

/* A probe's own bytes are few: what it waits for are the others' packets. */
int64_t net_floor_ns(const struct net *net)
{
	return NET_HOPS * net->shape.hop_ns;
}

int64_t net_delay_ns(const struct net *net, unsigned from, unsigned to, unsigned spine)
{
	return net_floor_ns(net) + net_queue_ns(net, from, to, spine) +
	       backlog_ns(net, link_at(net, from, to, spine, 0)) +
	       backlog_ns(net, link_at(net, from, to, spine, 3));
}

/* In order, or again; behind a gap once a NAK and then nothing. The reply; false: none. */
static bool answer_for(struct net *net, const struct net_event *event, struct net_event *answer)
{
	struct net_qp *qp = &net->qps[event->qp];
	bool behind_gap = event->number > qp->received;

	if (behind_gap && qp->refused)
		return false;
	qp->refused = behind_gap;
	qp->received += event->number == qp->received;
	answer->kind = behind_gap ? NET_NAK : NET_ACK;
	answer->number = qp->received;
	return true;
}

/* The delay of a packet in an empty fabric is the floor: what links take to send it is not queue.
 */
static void send_receipt(struct net *net, const struct net_event *event)
{
	const struct net_qp *qp = &net->qps[event->qp];
	struct net_event receipt = *event;

	receipt.kind = NET_SAMPLE;
	receipt.delay_ns = net->now_ns - event->departure_ns;
	for (unsigned h = 0; h < NET_HOPS; h++)
		receipt.delay_ns -=
			(int64_t)(link_at(net, qp->from, qp->to, event->spine, h)->ns_per_byte *
				  event->bytes);
	receipt.time.at_ns = net->now_ns + net_delay_ns(net, qp->to, qp->from, qp->back_spine);
	heap_push(&net->heap, &receipt);
}

static void take_sample(struct net *net, const struct net_event *event)
{
	struct net_qp *qp = &net->qps[event->qp];

	pause_sample(&qp->pace, &net->shape.rule, &event->mark, (uint64_t)event->departure_ns,
		     event->delay_ns, (uint64_t)net->now_ns);
}

static void receive(struct net *net, const struct net_event *event)
{
	struct net_qp *qp = &net->qps[event->qp];
	struct net_event ack = {.kind = NET_ACK, .qp = event->qp, .bytes = event->bytes};
	uint64_t received = qp->received;

	if (event->sampled)
		send_receipt(net, event);
	if (goes_back(net)) {
		if (!answer_for(net, event, &ack))
			return;
		ack.time.at_ns = net->now_ns + net_delay_ns(net, qp->to, qp->from, qp->back_spine);
		heap_push(&net->heap, &ack);
		qp->received_bytes = qp->received * net->shape.packet_bytes;
		if (net->on_received && qp->received > received)
			net->on_received(net, event->qp);
		return;
	}
	/* Go-back-N would send again; here it is counted. */
	qp->overtaken += event->number != qp->received;
	qp->received++;
	qp->received_bytes += event->bytes;
	ack.time.at_ns = net->now_ns + net_delay_ns(net, qp->to, qp->from, qp->back_spine);
	heap_push(&net->heap, &ack);
	if (net->on_received)
		net->on_received(net, event->qp);
}

static void hop(struct net *net, struct net_event event)
{
	const struct net_qp *qp = &net->qps[event.qp];
	struct net_link *link;

	if (event.hop == NET_HOPS) {
		receive(net, &event);
		return;
	}
	link = link_at(net, qp->from, qp->to, event.spine, event.hop);
	if (event.hop && !has_room(net, link, event.bytes)) {
		net->qps[event.qp].lost++;
		return;
	}
	if (link->free_ns < net->now_ns)
		link->free_ns = net->now_ns;
	link->free_ns += (int64_t)(link->ns_per_byte * event.bytes);
	event.time.at_ns = link->free_ns + net->shape.hop_ns;
	event.hop++;
	heap_push(&net->heap, &event);
}

/* --- senders --- */

static void wake_at(struct net *net, size_t q, int64_t at_ns)
{
	struct net_event event = {.kind = NET_WAKE, .qp = (uint32_t)q, .time.at_ns = at_ns};

	if (net->qps[q].wakes)
		return;
	net->qps[q].wakes = true;
	heap_push(&net->heap, &event);
}

static bool is_paced(const struct net *net)
{
	return net->shape.rule.threshold_ns > 0;
}

/* When the next packet may be handed over, by its demand. */
static int64_t *turn_of(struct net *net, struct net_qp *qp)
{
	return net->shape.one_line ? &net->line_ns[qp->from] : &qp->next_ns;
}

/* As tc egress does it; fq keeps the packet until then. */
static void depart(struct net *net, struct net_qp *qp, struct net_event *event)
{
	bool again = event->number < qp->gone;

	pause_repeat(&qp->pace, &net->shape.rule, again, (uint64_t)net->now_ns);
	event->departure_ns = (int64_t)pause_depart(&qp->pace, &net->shape.rule, event->bytes,
						    (uint64_t)net->now_ns, &event->mark);
	event->time.at_ns = event->departure_ns;
	event->sampled = !again;
	qp->waited_ns += (uint64_t)(event->departure_ns - net->now_ns);
	qp->paced++;
	qp->pace.floor_ns = (uint64_t)net_floor_ns(net) + 1;
}

/* Behind an idle gap, or held for as long as such a gap would be. */
static void obey(struct net *net, struct net_qp *qp)
{
	bool start = qp->sent_bytes % qp->message_bytes == 0;
	int64_t last_ns = net_left_ns(qp);
	int64_t gap_ns = net->now_ns - last_ns;

	/* As the kernel's programs, which know what is acknowledged. */
	if (goes_back(net) && qp->acked == qp->sent)
		gap_ns = qp->order.hold_ns;
	if (gap_ns < qp->order.hold_ns && !(net->now_ns >= qp->order.start_ns && start) &&
	    net->now_ns < qp->order.force_ns)
		return;
	qp->order.waits = false;
	qp->spine = qp->order.spine;
	qp->switches++;
	if (gap_ns < qp->order.hold_ns)
		qp->held_until_ns = last_ns + qp->order.hold_ns;
}

static void time_out_at(struct net *net, size_t q, int64_t at_ns)
{
	struct net_event event = {.kind = NET_TIMEOUT, .qp = (uint32_t)q, .time.at_ns = at_ns};

	net->qps[q].timed = true;
	heap_push(&net->heap, &event);
}

static void send_packet(struct net *net, size_t q, uint32_t bytes)
{
	struct net_qp *qp = &net->qps[q];
	struct net_event event = {.kind = NET_HOP,
				  .qp = (uint32_t)q,
				  .bytes = bytes,
				  .number = qp->sent++,
				  .spine = (uint16_t)qp->spine,
				  .time.at_ns = net->now_ns};
	int64_t *turn_ns = turn_of(net, qp);

	if (qp->sent > 1 && net->now_ns - qp->last_sent_ns > qp->largest_gap_ns)
		qp->largest_gap_ns = net->now_ns - qp->last_sent_ns;
	qp->last_sent_ns = net->now_ns;
	if (is_paced(net))
		depart(net, qp, &event);
	qp->sent_bytes += bytes;
	qp->wire_bytes += bytes;
	if (qp->gone < qp->sent)
		qp->gone = qp->sent;
	if (goes_back(net)) {
		if (qp->acked + 1 == qp->sent)
			qp->progress_ns = net->now_ns;
		if (!qp->timed)
			time_out_at(net, q, qp->progress_ns + net->shape.timeout_ns);
	}
	if (qp->left_bytes != UINT64_MAX)
		qp->left_bytes -= bytes;
	if (qp->demand_bps > 0) {
		/* Who could not send does not make up for all of it. */
		if (*turn_ns < net->now_ns - 1000000)
			*turn_ns = net->now_ns - 1000000;
		*turn_ns += (int64_t)(bytes * 8e9 / qp->demand_bps);
	}
	if (event.time.at_ns > net->now_ns)
		heap_push(&net->heap, &event);
	else
		hop(net, event);
}

static void try_send(struct net *net, size_t q)
{
	struct net_qp *qp = &net->qps[q];

	while (qp->left_bytes) {
		uint64_t bytes = net->shape.packet_bytes;

		if (bytes > qp->left_bytes)
			bytes = qp->left_bytes;
		if (qp->sent_bytes - qp->acked_bytes + bytes > qp->window_bytes)
			return;
		if (qp->demand_bps > 0 && *turn_of(net, qp) > net->now_ns) {
			wake_at(net, q, *turn_of(net, qp));
			return;
		}
		if (qp->order.waits)
			obey(net, qp);
		if (qp->held_until_ns > net->now_ns) {
			wake_at(net, q, qp->held_until_ns);
			return;
		}
		send_packet(net, q, (uint32_t)bytes);
	}
}

/* --- go-back-N --- */

static void go_back(struct net *net, struct net_qp *qp)
{
	uint64_t bytes = (qp->sent - qp->acked) * net->shape.packet_bytes;

	qp->sent = qp->acked;
	qp->sent_bytes -= bytes;
	if (qp->left_bytes != UINT64_MAX)
		qp->left_bytes += bytes;
	qp->progress_ns = net->now_ns;
}

static void hear(struct net *net, const struct net_event *event)
{
	struct net_qp *qp = &net->qps[event->qp];

	if (!goes_back(net)) {
		qp->acked_bytes += event->bytes;
	} else {
		/* What comes late, after it went back, may be of packets not retransmitted yet. */
		uint64_t ahead = event->number > qp->sent ? event->number - qp->sent : 0;

		if (event->number > qp->acked) {
			qp->acked = event->number;
			qp->acked_bytes = qp->acked * net->shape.packet_bytes;
			qp->progress_ns = net->now_ns;
		}
		if (ahead) {
			qp->sent += ahead;
			qp->sent_bytes += ahead * net->shape.packet_bytes;
			if (qp->left_bytes != UINT64_MAX)
				qp->left_bytes -= ahead * net->shape.packet_bytes;
		}
		if (event->kind == NET_NAK)
			go_back(net, qp);
	}
	try_send(net, event->qp);
}

static void time_out(struct net *net, size_t q)
{
	struct net_qp *qp = &net->qps[q];

	qp->timed = false;
	if (qp->acked == qp->sent)
		return;
	if (net->now_ns >= qp->progress_ns + net->shape.timeout_ns) {
		qp->timeouts++;
		go_back(net, qp);
	}
	time_out_at(net, q, qp->progress_ns + net->shape.timeout_ns);
	try_send(net, q);
}

void net_send(struct net *net, size_t q, uint64_t bytes)
{
	struct net_qp *qp = &net->qps[q];

	if (!qp->started_ns)
		qp->started_ns = net->now_ns ? net->now_ns : 1;
	if (!qp->left_bytes && qp->next_ns < net->now_ns)
		qp->next_ns = net->now_ns;
	qp->left_bytes = bytes == UINT64_MAX ? bytes : qp->left_bytes + bytes;
	qp->asked_bytes += bytes;
	try_send(net, q);
}

void net_stop(struct net *net, size_t q)
{
	net->qps[q].left_bytes = 0;
}

void net_timer(struct net *net, int64_t at_ns, uint32_t timer)
{
	struct net_event event = {.kind = NET_TIMER, .qp = timer, .time.at_ns = at_ns};

	heap_push(&net->heap, &event);
}

void net_run(struct net *net, int64_t until_ns)
{
	struct net_event event;

	while (net->heap.count && heap_next_ns(&net->heap) <= until_ns) {
		heap_pop(&net->heap, &event);
		net->now_ns = event.time.at_ns;
		switch (event.kind) {
		case NET_HOP:
			hop(net, event);
			break;
		case NET_ACK:
		case NET_NAK:
			hear(net, &event);
			break;
		case NET_TIMEOUT:
			time_out(net, event.qp);
			break;
		case NET_SAMPLE:
			take_sample(net, &event);
			break;
		case NET_WAKE:
			net->qps[event.qp].wakes = false;
			try_send(net, event.qp);
			break;
		default:
			net->on_timer(net, event.qp);
		}
	}
	net->now_ns = until_ns;
}
