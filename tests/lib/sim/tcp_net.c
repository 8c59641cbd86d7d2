// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/tcp_net.h"

#include <string.h>

#define TNET_SEGMENT 1448 /* of data */
#define TNET_WIRE 1514
#define TNET_NEVER INT64_MAX
#define TNET_DELAYED_ACK_NS 40000000
#define TNET_WAY_NS 15000  /* from a sender to the port and from there on */
#define TNET_NOISE_NS 8000 /* of timers and of a busy CPU, exponential */
#define TNET_QUICK 16
#define TNET_GAP_MAX_US 20000

enum tnet_kind { TNET_ASK, TNET_SEND, TNET_ARRIVE, TNET_ACK, TNET_DELAYED };

struct tnet_event {
	struct heap_event head;
	enum tnet_kind kind;
	unsigned int flow;
	uint32_t segment;
	uint32_t count;
	double delay_ns;
};

void tnet_init(struct tnet *net, uint64_t seed)
{
	memset(net, 0, sizeof(*net));
	net->seed = seed;
	rng_seed(&net->rng, seed);
	net->events.event_bytes = sizeof(struct tnet_event);
	net->link_bps = 200e6;
	net->queue_bytes = 75000;
	net->threshold_ns = 500e3;
	net->back_ns = 1.2e6;
	net->stall_ns = 200e3;
	net->stalls_ns = 10e6;
	net->warm_s = 1;
	net->seconds = 4;
	net->period_ns = 100000000;
	net->least = 20000 / TNET_SEGMENT + 1;
	net->most = 100000 / TNET_SEGMENT + 1;
}

struct tnet_flow *tnet_add(struct tnet *net, bool asks)
{
	struct tnet_flow *flow = &net->flows[net->count++];

	flow->weight = 1;
	flow->asks = asks;
	flow->quick = TNET_QUICK;
	flow->rest_ns = asks ? 1 : 0;
	tcp_window_start(&flow->law, TCP_WINDOW_NEW);
	flow->law.round = (unsigned)rng_below(&net->rng, TCP_WINDOW_ONE);
	return flow;
}

static void tnet_push(struct tnet *net, int64_t at_ns, enum tnet_kind kind, unsigned int flow,
		      uint32_t segment, uint32_t count, double delay_ns)
{
	struct tnet_event event = {
		.head.at_ns = at_ns,
		.kind = kind,
		.flow = flow,
		.segment = segment,
		.count = count,
		.delay_ns = delay_ns,
	};

	heap_push(&net->events, &event);
}

static uint32_t tnet_window(const struct tnet_flow *flow)
{
	uint32_t window = tcp_window_segments(&flow->law);

	if (flow->free)
		return 200;
	if (flow->rest_ns && window > tcp_window_rested(&flow->law) / TCP_WINDOW_ONE)
		window = tcp_window_rested(&flow->law) / TCP_WINDOW_ONE;
	return window < 200 ? window : 200;
}

/* Through the port: what does not fit is lost, and comes once more a round trip later. */
static void tnet_cross(struct tnet *net, unsigned int index, uint32_t segment, int64_t timestamp_ns)
{
	double each_ns = TNET_WIRE * 8e9 / net->link_bps;
	int64_t at_ns = net->now_ns + (int64_t)(TNET_NOISE_NS * rng_exponential(&net->rng));
	bool measured = net->now_ns > net->measured_ns;

	if ((double)(net->free_ns - at_ns) / each_ns * TNET_WIRE > net->queue_bytes) {
		net->dropped += measured;
		at_ns = net->free_ns + 2000000;
		tnet_push(net, at_ns, TNET_ARRIVE, index, segment, 1,
			  (double)(at_ns - timestamp_ns));
		return;
	}
	/* A token bucket: two segments of credit after some rest. */
	if (net->free_ns < at_ns - 2 * (int64_t)each_ns)
		net->free_ns = at_ns - 2 * (int64_t)each_ns;
	net->free_ns += (int64_t)each_ns;
	if (measured)
		net->busy_ns += each_ns;
	if (net->free_ns > at_ns)
		at_ns = net->free_ns;
	at_ns += TNET_WAY_NS;
	tnet_push(net, at_ns, TNET_ARRIVE, index, segment, 1, (double)(at_ns - timestamp_ns));
}

/* A third of the window at least, unless the next acknowledgement is far (tcp_tso_should_defer). */
static bool tnet_defers(const struct tnet *net, const struct tnet_flow *flow, uint32_t window,
			uint32_t room)
{
	uint32_t left = flow->end - flow->next;

	if (left == 1 || room >= left || flow->next == flow->una || 3 * room >= window)
		return false;
	return net->now_ns - flow->sent_ns[flow->una % TNET_RING] > flow->rtt_us * 500ll;
}

static void tnet_send(struct tnet *net, unsigned int index)
{
	struct tnet_flow *flow = &net->flows[index];
	uint32_t window = tnet_window(flow);

	while (flow->next != flow->end && flow->next - flow->una < window) {
		uint32_t room = window - (flow->next - flow->una), burst = flow->end - flow->next;
		uint64_t rate = flow->rate_Bps;

		if (net->now_ns < flow->pace_ns) {
			if (!flow->woken)
				tnet_push(net,
					  flow->pace_ns + (int64_t)(TNET_NOISE_NS *
								    rng_exponential(&net->rng)),
					  TNET_SEND, index, 0, 0, 0);
			flow->woken = true;
			return;
		}
		if (tnet_defers(net, flow, window, room))
			return;
		burst = burst < room ? burst : room;
		burst = burst < 16 ? burst : 16;
		if (!flow->free && flow->law.window < TCP_WINDOW_PACED)
			burst = 1;
		if (flow->rest_ns && !flow->rest_end_ns)
			flow->rest_end_ns = net->now_ns;
		for (uint32_t i = 0; i < burst; i++) {
			flow->sent_ns[flow->next % TNET_RING] = net->now_ns;
			tnet_cross(net, index, flow->next++, net->now_ns);
		}
		if (flow->next - flow->una > flow->peak)
			flow->peak = flow->next - flow->una;
		if (rate) {
			int64_t gap_ns = (int64_t)(burst * TNET_SEGMENT * 1e9 / (double)rate),
				credit_ns = net->now_ns - flow->timestamp_ns;

			if (credit_ns > gap_ns / 2)
				credit_ns = gap_ns / 2;
			flow->pace_ns = net->now_ns + gap_ns - credit_ns;
			flow->timestamp_ns = flow->pace_ns;
		}
	}
}

static void tnet_ask(struct tnet *net)
{
	for (unsigned int i = 0; i < net->count; i++) {
		struct tnet_flow *flow = &net->flows[i];

		if (!flow->asks)
			continue;
		if (flow->got != flow->end) {
			net->unfinished += net->now_ns > net->measured_ns;
			continue;
		}
		flow->asked_ns = net->now_ns - (int64_t)net->back_ns;
		flow->end +=
			net->least + (uint32_t)rng_below(&net->rng, net->most - net->least + 1);
		tnet_send(net, i);
	}
	tnet_push(net, net->now_ns + net->period_ns, TNET_ASK, 0, 0, 0, 0);
}

static void tnet_tell(struct tnet *net, unsigned int index)
{
	struct tnet_flow *flow = &net->flows[index];
	int64_t at_ns = net->now_ns +
			(int64_t)(net->back_ns + 2 * TNET_NOISE_NS * rng_exponential(&net->rng));

	if (net->stalls_ns > 0 && at_ns > net->stall_at_ns) {
		at_ns += (int64_t)(net->stall_ns * rng_exponential(&net->rng));
		net->stall_at_ns = at_ns + (int64_t)(net->stalls_ns * rng_exponential(&net->rng));
	}
	if (at_ns < net->last_back_ns)
		at_ns = net->last_back_ns;
	net->last_back_ns = at_ns;
	tnet_push(net, at_ns, TNET_ACK, index, flow->got, 0, flow->delay_ns);
	flow->told = flow->got;
}

/* Segments that overtook one that was lost count as if they had come in order. */
static void tnet_arrive(struct tnet *net, const struct tnet_event *event)
{
	struct tnet_flow *flow = &net->flows[event->flow];

	flow->delay_ns = event->delay_ns;
	flow->got++;
	if (net->now_ns > net->measured_ns) {
		flow->arrived++;
		stats_add(&net->delays_us, (event->delay_ns + (double)flow->clock_ns) / 1e3);
	}
	if (flow->asks && flow->got == flow->end && flow->asked_ns > net->measured_ns)
		stats_add(&net->completions_ms, (double)(net->now_ns - flow->asked_ns) / 1e6);
	if (flow->got - flow->told < 2 && !flow->quick) {
		tnet_push(net, net->now_ns + TNET_DELAYED_ACK_NS, TNET_DELAYED, event->flow,
			  flow->got, 0, 0);
		return;
	}
	flow->quick -= flow->quick > 0;
	tnet_tell(net, event->flow);
}

static void tnet_judge(struct tnet *net, struct tnet_flow *flow, uint32_t acked, double reported_ns)
{
	uint64_t rtt_ns = flow->rtt_us * 1000ull, threshold_ns = (uint64_t)net->threshold_ns,
		 delay_ns;

	flow->law.weight = flow->weight;
	delay_ns = tcp_window_above(&flow->law, (int64_t)reported_ns, threshold_ns,
				    (uint64_t)net->now_ns);
	if (rtt_ns <= delay_ns)
		rtt_ns = delay_ns + 1;
	net->cuts += (uint64_t)tcp_window_sample(&flow->law, acked, flow->una, flow->next, delay_ns,
						 threshold_ns, rtt_ns,
						 2 * flow->peak >= tcp_window_segments(&flow->law));
}

static void tnet_ack(struct tnet *net, const struct tnet_event *event)
{
	struct tnet_flow *flow = &net->flows[event->flow];
	uint32_t acked = event->segment - flow->una, rtt_us;
	uint64_t rate, least = TNET_SEGMENT * (1000000 / TNET_GAP_MAX_US);

	if ((int32_t)acked <= 0)
		return;
	flow->una = event->segment;
	if (flow->rest_ns && flow->rest_end_ns - flow->rest_ns > flow->rtt_us * 1000ll)
		tcp_window_rest(&flow->law);
	rtt_us = (uint32_t)((net->now_ns - flow->sent_ns[(flow->una - 1) % TNET_RING]) / 1000);
	if (!flow->rtt_us || flow->una != flow->end || rtt_us <= 2 * flow->rtt_us)
		flow->rtt_us = flow->rtt_us ? (flow->rtt_us + rtt_us) / 2 : rtt_us;
	if (!flow->free)
		tnet_judge(net, flow, acked, event->delay_ns + (double)flow->clock_ns);
	flow->rest_end_ns = 0;
	flow->rest_ns = flow->una == flow->end ? net->now_ns : 0;
	rate = tcp_window_rate(&flow->law, TNET_SEGMENT, flow->rtt_us);
	if (rate && rate < least)
		rate = least;
	flow->rate_Bps = flow->free ? 0 : rate;
	if ((int32_t)(flow->una - flow->peak_end) >= 0) {
		flow->peak = flow->next - flow->una;
		flow->peak_end = flow->next;
	}
	tnet_send(net, event->flow);
}

static void tnet_start(struct tnet *net)
{
	bool asks = false;

	net->measured_ns = (int64_t)(net->warm_s * 1e9);
	for (unsigned int i = 0; i < net->count; i++) {
		struct tnet_flow *flow = &net->flows[i];

		asks |= flow->asks;
		if (flow->asks)
			continue;
		flow->end = UINT32_MAX / 2;
		tnet_push(net, flow->start_ns + (int64_t)(1e6 * rng_unit(&net->rng)), TNET_SEND, i,
			  0, 0, 0);
	}
	if (asks)
		tnet_push(net, net->period_ns, TNET_ASK, 0, 0, 0, 0);
}

void tnet_run(struct tnet *net)
{
	int64_t end_ns = (int64_t)((net->warm_s + net->seconds) * 1e9);

	tnet_start(net);
	while (heap_next_ns(&net->events) < end_ns) {
		struct tnet_event event;
		struct tnet_flow *flow;

		heap_pop(&net->events, &event);
		flow = &net->flows[event.flow];
		net->now_ns = event.head.at_ns;
		if (event.kind == TNET_ASK) {
			tnet_ask(net);
		} else if (event.kind == TNET_SEND) {
			flow->woken = false;
			tnet_send(net, event.flow);
		} else if (event.kind == TNET_ARRIVE) {
			tnet_arrive(net, &event);
		} else if (event.kind == TNET_ACK) {
			tnet_ack(net, &event);
		} else if (flow->got == event.segment && flow->told != flow->got) {
			tnet_tell(net, event.flow);
		}
	}
}

double tnet_jain(const struct tnet *net)
{
	double sum = 0, squares = 0, count = 0;

	for (unsigned int i = 0; i < net->count; i++) {
		double share = (double)net->flows[i].arrived / net->flows[i].weight;

		if (net->flows[i].asks)
			continue;
		count++;
		sum += share;
		squares += share * share;
	}
	return squares > 0 ? sum * sum / (count * squares) : 0;
}

double tnet_load(const struct tnet *net)
{
	return net->busy_ns / (net->seconds * 1e9);
}

void tnet_free(struct tnet *net)
{
	heap_free(&net->events);
	stats_free(&net->delays_us);
	stats_free(&net->completions_ms);
}
