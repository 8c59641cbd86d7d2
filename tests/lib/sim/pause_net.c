// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/pause_net.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NO_PACKET UINT32_MAX

int pnet_init(struct pnet *net, size_t links, size_t flows, uint64_t seed)
{
	memset(net, 0, sizeof(*net));
	net->seed = seed;
	rng_seed(&net->rng, seed);
	net->packet_bytes = 1500;
	net->sample_every = 1;
	net->timeout_ns = 67000000;
	net->links = calloc(links, sizeof(*net->links));
	net->link_count = links;
	net->flows = calloc(flows, sizeof(*net->flows));
	net->flow_count = flows;
	net->free_packet = NO_PACKET;
	net->now_ns = 1000000000;
	net->heap.event_bytes = sizeof(struct pnet_event);
	if (net->links && net->flows)
		return 0;
	pnet_free(net);
	return -ENOMEM;
}

void pnet_free(struct pnet *net)
{
	for (size_t l = 0; net->links && l < net->link_count; l++)
		stats_free(&net->links[l].waits);
	free(net->links);
	free(net->flows);
	free(net->packets);
	heap_free(&net->heap);
	memset(net, 0, sizeof(*net));
}

static void push(struct pnet *net, enum pnet_event_kind kind, uint32_t what, int64_t at_ns)
{
	struct pnet_event event = {.time.at_ns = at_ns, .what = what, .kind = kind};

	heap_push(&net->heap, &event);
}

static uint32_t packet_new(struct pnet *net)
{
	uint32_t p = net->free_packet;

	if (p == NO_PACKET) {
		uint32_t more = net->packet_count ? net->packet_count : 1024;

		net->packets =
			realloc(net->packets, (net->packet_count + more) * sizeof(*net->packets));
		if (!net->packets)
			abort();
		for (uint32_t i = 0; i < more; i++)
			net->packets[net->packet_count + i].next_free =
				i + 1 < more ? net->packet_count + i + 1 : NO_PACKET;
		p = net->packet_count;
		net->packet_count += more;
	}
	net->free_packet = net->packets[p].next_free;
	memset(&net->packets[p], 0, sizeof(*net->packets));
	return p;
}

static void packet_free(struct pnet *net, uint32_t p)
{
	net->packets[p].next_free = net->free_packet;
	net->free_packet = p;
}

/* --- the sender --- */

static bool has_window(const struct pnet_flow *flow)
{
	if (flow->kind == PNET_GOBACK)
		return flow->next - flow->una < flow->window;
	return flow->in_flight < flow->window && (double)flow->in_flight < flow->cwnd;
}

/* False: it may send more when something happens; a wake-up is set where that is time. */
static bool may_send(struct pnet *net, struct pnet_flow *flow)
{
	if (flow->next >= flow->limit || !has_window(flow))
		return false;
	if (flow->in_host >= flow->ahead)
		flow->waits = true;
	if (flow->waits && flow->in_host >= flow->ahead_less)
		return false;
	flow->waits = false;
	if (flow->demand_Bps > 0 && flow->demand_ns > net->now_ns) {
		if (!flow->woken)
			push(net, PNET_WAKE, (uint32_t)(flow - net->flows), flow->demand_ns);
		flow->woken = true;
		return false;
	}
	return true;
}

static void send_one(struct pnet *net, struct pnet_flow *flow)
{
	uint32_t p = packet_new(net);
	struct pnet_packet *packet = &net->packets[p];

	packet->flow = (uint32_t)(flow - net->flows);
	packet->number = flow->next++;
	packet->again = packet->number < flow->high;
	if (!packet->again)
		flow->high = flow->next;
	packet->departure_ns = net->now_ns;
	packet->born_ns = flow->demand_Bps > 0 ? flow->demand_ns : net->now_ns;
	if (flow->paced) {
		pause_repeat(&flow->pace, &flow->rule, packet->again, (uint64_t)net->now_ns);
		packet->departure_ns =
			(int64_t)pause_depart(&flow->pace, &flow->rule, net->packet_bytes,
					      (uint64_t)net->now_ns, &packet->mark);
	}
	packet->sampled = flow->paced && !packet->again && packet->number % net->sample_every == 0;
	flow->in_host++;
	flow->in_flight++;
	flow->sent++;
	flow->again += packet->again;
	if (flow->demand_Bps > 0) {
		if (flow->demand_ns < net->now_ns - 100000000)
			flow->demand_ns = net->now_ns;
		flow->demand_ns += (int64_t)(net->packet_bytes * 1e9 / flow->demand_Bps);
	}
	push(net, PNET_PORT, p, packet->departure_ns);
}

static void send_more(struct pnet *net, struct pnet_flow *flow)
{
	while (may_send(net, flow))
		send_one(net, flow);
}

void pnet_start(struct pnet *net, size_t f, uint64_t packets)
{
	struct pnet_flow *flow = &net->flows[f];

	if (!flow->started) {
		flow->started = true;
		flow->cwnd = 10;
		flow->ssthresh = INFINITY;
		if (flow->kind == PNET_GOBACK)
			push(net, PNET_TIMEOUT, (uint32_t)f, net->now_ns + net->timeout_ns);
	}
	flow->limit = packets == UINT64_MAX ? packets : flow->limit + packets;
	flow->progress_ns = net->now_ns;
	send_more(net, flow);
}

/* The oldest packet has had no reply for long: all again. */
static void timeout(struct pnet *net, uint32_t f)
{
	struct pnet_flow *flow = &net->flows[f];
	int64_t at_ns = flow->progress_ns + net->timeout_ns;

	if (flow->una < flow->high && at_ns <= net->now_ns) {
		flow->timeouts++;
		flow->next = flow->una;
		flow->progress_ns = net->now_ns;
		send_more(net, flow);
	}
	push(net, PNET_TIMEOUT, f, (at_ns > net->now_ns ? at_ns : net->now_ns + net->timeout_ns));
}

static void take_sample(struct pnet *net, struct pnet_flow *flow, const struct pnet_packet *packet)
{
	struct pause_mark mark = packet->mark;
	double delay = (double)packet->delay_ns + flow->clock_ns;

	if (net->feedback_loss > 0 && rng_unit(&net->rng) < net->feedback_loss)
		return;
	if (net->noise_ns > 0)
		delay += net->noise_ns * rng_normal(&net->rng);
	if (flow->strawman)
		mark.paused_ns = (pause_u32)flow->pace.paused_ns;
	pause_sample(&flow->pace, &flow->rule, &mark, (uint64_t)packet->departure_ns,
		     (int64_t)delay, (uint64_t)net->now_ns);
}

static void shrink(struct pnet_flow *flow, double factor)
{
	if (flow->una < flow->recover)
		return;
	flow->recover = flow->next;
	flow->ssthresh = flow->cwnd * factor > 2 ? flow->cwnd * factor : 2;
	flow->cwnd = flow->ssthresh;
}

static void acknowledged(struct pnet_flow *flow, const struct pnet_packet *packet)
{
	flow->una++;
	flow->in_flight--;
	/* DCTCP: by as much as the part that was marked. */
	flow->marked += ((double)packet->marked - flow->marked) / 16 / flow->cwnd;
	if (packet->marked)
		shrink(flow, 1 - flow->marked / 2);
	else if (flow->cwnd < flow->ssthresh)
		flow->cwnd++;
	else
		flow->cwnd += 1 / flow->cwnd;
	if (flow->cwnd > (double)flow->window)
		flow->cwnd = (double)flow->window;
}

/* A reply is back at the sender. */
static void back(struct pnet *net, uint32_t p)
{
	struct pnet_packet packet = net->packets[p];
	struct pnet_flow *flow = &net->flows[packet.flow];

	packet_free(net, p);
	if (packet.sampled)
		take_sample(net, flow, &packet);
	if (flow->kind == PNET_AIMD) {
		acknowledged(flow, &packet);
	} else {
		if (packet.cumulative > flow->una) {
			flow->una = packet.cumulative;
			flow->progress_ns = net->now_ns;
		}
		if (packet.nak) {
			flow->naks++;
			flow->next = packet.cumulative > flow->una ? packet.cumulative : flow->una;
		}
		if (flow->next < flow->una)
			flow->next = flow->una;
	}
	send_more(net, flow);
}

/* PNET_AIMD detects a loss (as by SACK), and sends as much again. */
static void lost(struct pnet *net, uint32_t p)
{
	struct pnet_flow *flow = &net->flows[net->packets[p].flow];

	packet_free(net, p);
	flow->in_flight--;
	flow->again++;
	if (flow->limit != UINT64_MAX)
		flow->limit++;
	shrink(flow, 0.5);
	flow->una++;
	send_more(net, flow);
}

/* --- the way --- */

static void receive(struct pnet *net, uint32_t p)
{
	struct pnet_packet *packet = &net->packets[p];
	struct pnet_flow *flow = &net->flows[packet->flow];
	bool news = flow->kind == PNET_AIMD || packet->number == flow->expected;
	size_t f = packet->flow;

	packet->delay_ns = net->now_ns - packet->departure_ns - flow->way_ns;
	for (unsigned h = 0; h < flow->hops; h++)
		packet->delay_ns -=
			(int64_t)(net->packet_bytes * net->links[flow->links[h]].ns_per_byte);
	packet->delay_ns += flow->floor_ns;
	if (news) {
		flow->expected++;
		flow->delivered++;
		flow->nak = false;
	} else if (packet->number > flow->expected && !flow->nak) {
		packet->nak = flow->nak = true;
	}
	packet->cumulative = flow->expected;
	push(net, PNET_BACK, p, net->now_ns + flow->way_ns);
	if (news && flow->message && flow->delivered % flow->message == 0)
		net->on_done(net, f);
}

static void hop(struct pnet *net, uint32_t p)
{
	struct pnet_packet *packet = &net->packets[p];
	struct pnet_flow *flow = &net->flows[packet->flow];
	struct pnet_link *link;
	double wait_ns;
	int64_t now_ns = net->now_ns;

	if (packet->hop == 1) { /* out of the host */
		flow->in_host--;
		send_more(net, flow);
		packet = &net->packets[p];
	}
	if (packet->hop == flow->hops) {
		receive(net, p);
		return;
	}
	link = &net->links[flow->links[packet->hop]];
	wait_ns = link->free_ns > now_ns ? (double)(link->free_ns - now_ns) : 0;
	if (link->watch && now_ns >= net->measure_ns)
		stats_add(&link->waits, wait_ns);
	link->peak_ns = fmax(link->peak_ns, wait_ns);
	link->packets++;
	if (link->buffer_bytes &&
	    wait_ns / link->ns_per_byte + net->packet_bytes > (double)link->buffer_bytes) {
		link->dropped++;
		if (flow->kind == PNET_AIMD)
			push(net, PNET_LOSS, p, now_ns + 2 * flow->way_ns);
		else
			packet_free(net, p);
		return;
	}
	packet->marked |=
		link->mark_bytes && wait_ns / link->ns_per_byte > (double)link->mark_bytes;
	if (link->free_ns < now_ns) {
		int64_t held_ns = packet->departure_ns - packet->born_ns;
		int64_t idle_ns = now_ns - link->free_ns;

		link->wasted_ns += (uint64_t)(held_ns < idle_ns ? held_ns : idle_ns);
		link->free_ns = now_ns;
	}
	link->free_ns += (int64_t)(net->packet_bytes * link->ns_per_byte);
	link->busy_ns += (uint64_t)(net->packet_bytes * link->ns_per_byte);
	packet->hop++;
	/* The host's port has no way of its own: what follows is the same moment. */
	push(net, PNET_HOP, p,
	     link->free_ns + (packet->hop == 1 || flow->hops == 1
				      ? (flow->hops == 1 ? flow->way_ns : 0)
				      : flow->way_ns / (flow->hops - 1)));
}

void pnet_timer(struct pnet *net, uint32_t timer, int64_t at_ns)
{
	push(net, PNET_TIMER, timer, at_ns);
}

static void handle(struct pnet *net, const struct pnet_event *event)
{
	switch (event->kind) {
	case PNET_WAKE:
		net->flows[event->what].woken = false;
		send_more(net, &net->flows[event->what]);
		break;
	case PNET_PORT:
	case PNET_HOP:
		hop(net, event->what);
		break;
	case PNET_BACK:
		back(net, event->what);
		break;
	case PNET_LOSS:
		lost(net, event->what);
		break;
	case PNET_TIMEOUT:
		timeout(net, event->what);
		break;
	default:
		net->on_timer(net, event->what);
	}
}

void pnet_run(struct pnet *net, int64_t until_ns)
{
	struct pnet_event event;

	while (net->heap.count && heap_next_ns(&net->heap) <= until_ns) {
		heap_pop(&net->heap, &event);
		net->now_ns = event.time.at_ns;
		handle(net, &event);
	}
	net->now_ns = until_ns;
}

void pnet_measure(struct pnet *net)
{
	net->measure_ns = net->now_ns;
	for (size_t l = 0; l < net->link_count; l++) {
		struct pnet_link *link = &net->links[l];

		/* What is in it now is sent later. */
		link->busy_ns =
			link->free_ns > net->now_ns ? (uint64_t)(link->free_ns - net->now_ns) : 0;
		link->dropped = link->packets = link->wasted_ns = 0;
		link->peak_ns = 0;
	}
	for (size_t f = 0; f < net->flow_count; f++) {
		struct pnet_flow *flow = &net->flows[f];

		flow->measured = flow->delivered;
		flow->sent = flow->again = flow->timeouts = flow->naks = 0;
	}
}
