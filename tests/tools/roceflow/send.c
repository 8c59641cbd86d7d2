/* SPDX-License-Identifier: BSD-2-Clause */
/* `roceflow send`: connects, drives all requesters at one pace, reports. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "json.h"
#include "requester.h"

#define BURST 32
#define WARM_PART 10
/* Replies still in transit when all is acknowledged: waited for this long after the last one. */
#define QUIET_NS (300 * NS_PER_MS)

struct sender {
	const struct options *options;
	struct port *port;
	int control;
	struct requester *qps;
	struct control_end *end; /* the server's counts */
	unsigned int turn;
	uint64_t random, now, depart_ns, started_ns;
	uint64_t *line;		/* when the next packet may go; of all the host's with a board */
	uint64_t *qp_depart_ns; /* of each, with qp_rate_bps */
	struct board *board;
	const char *error;
};

static uint32_t draw_psn(struct sender *sender)
{
	if (sender->options->first_psn >= 0)
		return sender->options->first_psn & WIRE_PSN_MASK;
	return random_next(&sender->random) & WIRE_PSN_MASK;
}

static void local_flow(int fd, const struct options *options, struct sockaddr_storage *local,
		       struct wire_flow *flow)
{
	socklen_t bytes = sizeof(*local);

	memset(flow, 0, sizeof(*flow));
	getsockname(fd, (struct sockaddr *)local, &bytes);
	flow->six = local->ss_family == AF_INET6;
	flow->tos = options->tos;
	if (flow->six) {
		memcpy(flow->source, &((struct sockaddr_in6 *)local)->sin6_addr, 16);
		memcpy(flow->destination,
		       &((const struct sockaddr_in6 *)&options->address)->sin6_addr, 16);
	} else {
		memcpy(flow->source, &((struct sockaddr_in *)local)->sin_addr, 4);
		memcpy(flow->destination,
		       &((const struct sockaddr_in *)&options->address)->sin_addr, 4);
	}
}

static uint32_t port_for(const struct options *options, unsigned int i)
{
	return options->fixed_port ? options->fixed_port + i * options->port_step : 0;
}

/* Exchanges numbers with the server and makes the requesters. Returns 0 or -errno. */
static int sender_agree(struct sender *sender, struct wire_flow *flow)
{
	const struct options *options = sender->options;
	struct control_setup *ours = calloc(2, sizeof(*ours)), *theirs = ours + 1;
	int err = -ENOMEM;

	if (!ours)
		return err;
	ours->qps = options->qps;
	ours->uc = options->uc;
	ours->write = options->write;
	ours->mtu = options->mtu;
	ours->tos = options->tos;
	ours->size_bytes = options->size_bytes;
	for (unsigned int i = 0; i < options->qps; i++)
		ours->qp[i] = (struct control_qp){options->first_qpn + i, draw_psn(sender),
						  port_for(options, i)};
	err = control_send_setup(sender->control, ours);
	if (!err)
		err = control_receive_setup(sender->control, theirs);
	if (!err && theirs->qps != ours->qps)
		err = -EPROTO;
	for (unsigned int i = 0; i < options->qps && !err; i++) {
		flow->source_port = ours->qp[i].port
					    ? ours->qp[i].port
					    : wire_rxe_port(ours->qp[i].qpn, theirs->qp[i].qpn);
		requester_init(&sender->qps[i], options, flow, ours->qp[i].qpn, theirs->qp[i].qpn,
			       ours->qp[i].psn);
		sender->qps[i].board = sender->board;
	}
	free(ours);
	return err;
}

static void sender_take(void *context, const struct wire_packet *packet)
{
	struct sender *sender = context;
	uint32_t index = packet->qpn - sender->options->first_qpn;

	if (index < sender->options->qps)
		requester_receive(&sender->qps[index], packet, sender->now);
}

static void sender_receive(struct sender *sender)
{
	sender->now = now_ns();
	while (port_receive(sender->port, sender_take, sender) == BURST)
		sender->now = now_ns();
}

static struct requester *next_ready(struct sender *sender)
{
	for (unsigned int i = 0; i < sender->options->qps; i++) {
		unsigned int turn = sender->turn;

		sender->turn = (sender->turn + 1) % sender->options->qps;
		if (sender->qp_depart_ns[turn] <= sender->now &&
		    requester_may_send(&sender->qps[turn], sender->now))
			return &sender->qps[turn];
	}
	return NULL;
}

static void pace_one(const struct options *options, uint64_t *depart_ns, uint64_t now,
		     uint64_t rate, size_t bytes)
{
	uint64_t old, next;

	if (!rate)
		return;
	/* Others may be at the same line. */
	old = __atomic_load_n(depart_ns, __ATOMIC_RELAXED);
	do {
		next = old + options->catch_up_ns < now ? now - options->catch_up_ns : old;
		next += (bytes * 8 * NS_PER_S + rate / 2) / rate;
	} while (!__atomic_compare_exchange_n(depart_ns, &old, next, false, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
}

static void pace(struct sender *sender, const struct requester *qp, size_t bytes)
{
	if (sender->now - sender->started_ns < sender->options->warm_ns)
		bytes *= WARM_PART;
	pace_one(sender->options, sender->line, sender->now, sender->options->rate_bps, bytes);
	pace_one(sender->options, &sender->qp_depart_ns[qp - sender->qps], sender->now,
		 sender->options->qp_rate_bps, bytes);
}

/* Sends what may go now. True when there is more that may go at once. */
static bool sender_send(struct sender *sender)
{
	struct requester *qp = NULL;
	unsigned int sent = 0;

	while (sent < BURST && *sender->line <= sender->now) {
		qp = next_ready(sender);
		if (!qp)
			break;
		pace(sender, qp, requester_send(qp, sender->port, &sender->random, sender->now));
		sent++;
	}
	for (unsigned int i = 0; i < sender->options->qps; i++)
		if (!requester_may_send(&sender->qps[i], sender->now))
			requester_release(&sender->qps[i], sender->port);
	port_flush(sender->port);
	return sent == BURST;
}

static uint64_t sender_wake(struct sender *sender)
{
	uint64_t wake = sender->now + 100 * NS_PER_MS;
	for (unsigned int i = 0; i < sender->options->qps; i++) {
		uint64_t own = requester_wake_ns(&sender->qps[i], sender->now);
		uint64_t departs = sender->qp_depart_ns[i];

		wake = own < wake ? own : wake;
		if (departs < *sender->line)
			departs = *sender->line;
		if (requester_may_send(&sender->qps[i], sender->now) && departs < wake)
			wake = departs;
	}
	return wake;
}

static void sender_wait(struct sender *sender, uint64_t wake)
{
	struct pollfd fds[] = {
		{.fd = port_fd(sender->port), .events = POLLIN},
		{.fd = sender->control, .events = POLLIN},
		{.fd = sender->board ? board_fd(sender->board) : -1, .events = POLLIN}};
	uint64_t now = now_ns(), left = wake > now ? wake - now : 0;
	struct timespec timeout = {.tv_sec = left / NS_PER_S, .tv_nsec = left % NS_PER_S};

	if (ppoll(fds, sizeof(fds) / sizeof(*fds), &timeout, NULL) <= 0)
		return;
	if (fds[1].revents)
		sender->error = "the server closed the connection";
	if (fds[2].revents)
		board_hear(sender->board);
}

/* True while there is something to do. */
static bool sender_continue(struct sender *sender)
{
	const struct options *options = sender->options;
	bool late =
		options->duration_ns && sender->now - sender->started_ns >= options->duration_ns;
	bool busy = false;

	for (unsigned int i = 0; i < options->qps; i++) {
		struct requester *qp = &sender->qps[i];

		if (late || stop_asked)
			requester_finish(qp);
		requester_timer(qp, sender->now);
		if (requester_gave_up(qp, sender->now))
			sender->error = "no reply for too long (--give-up)";
		busy |= !requester_done(qp);
	}
	if (stop_asked && !sender->error && options->messages)
		sender->error = "stopped";
	return busy && !sender->error;
}

static void sender_drive(struct sender *sender)
{
	sender->started_ns = sender->now = now_ns();
	if (!sender->board)
		sender->depart_ns = sender->now;
	while (sender_continue(sender)) {
		bool more = sender_send(sender);

		if (!more)
			sender_wait(sender, sender_wake(sender));
		sender_receive(sender);
	}
}

/* Reports to the server what was sent, receives what it received, and waits for late replies. */
static int sender_end(struct sender *sender)
{
	struct control_end *end = sender->end;
	uint64_t quiet_since = now_ns(), seen = 0, expected = 0;
	int err;

	end->qps = sender->options->qps;
	for (unsigned int i = 0; i < end->qps; i++)
		end->qp[i] = (struct control_count){sender->qps[i].sent.packets,
						    requester_messages(&sender->qps[i])};
	err = control_send_end(sender->control, end);
	if (!err)
		err = control_receive_end(sender->control, end);
	if (err)
		return err;
	for (unsigned int i = 0; i < end->qps; i++)
		expected += end->qp[i].packets;
	while (now_ns() - quiet_since < QUIET_NS) {
		struct pollfd fd = {.fd = port_fd(sender->port), .events = POLLIN};
		uint64_t got = 0;

		sender_receive(sender);
		for (unsigned int i = 0; i < end->qps; i++)
			got += sender->qps[i].responses + sender->qps[i].cnps;
		if (got >= expected)
			break;
		if (got != seen)
			quiet_since = now_ns();
		seen = got;
		poll(&fd, 1, 10);
	}
	return 0;
}

static void report_qp(const struct sender *sender, unsigned int i)
{
	const struct requester *qp = &sender->qps[i];
	uint64_t spent = qp->progress_ns > qp->last_ns ? qp->progress_ns : qp->last_ns;
	uint64_t payload = requester_messages(qp) * sender->options->size_bytes;

	spent -= qp->first_ns;
	json_open(NULL, '{');
	json_number("qpn", qp->qpn);
	json_number("dest_qpn", qp->dest_qpn);
	json_address("src", qp->flow.source, qp->flow.six);
	json_address("dst", qp->flow.destination, qp->flow.six);
	json_number("sport", qp->flow.source_port);
	json_number("first_psn", qp->first_psn);
	json_number("packets", qp->sent.packets);
	json_number("bytes", qp->sent.bytes);
	json_number("messages", requester_messages(qp));
	json_number("payload_bytes", payload);
	json_number("unique_packets", qp->high);
	json_number("retransmitted", qp->retransmitted);
	json_number("timeouts", qp->timeouts);
	json_number("send_errors", qp->sent.errors);
	json_number("injected_losses", qp->injected_losses);
	json_number("reordered", qp->reordered);
	json_number("behind", qp->behind);
	json_number("responses", qp->responses);
	json_number("response_bytes", qp->response_bytes);
	json_number("acks", qp->acks);
	json_number("naks", qp->naks);
	json_number("rnr_naks", qp->rnr_naks);
	json_number("cnps", qp->cnps);
	json_number("ce", qp->ce);
	if (!sender->error)
		json_number("delivered_messages", sender->end->qp[i].messages);
	if (qp->first_ns) {
		json_number("start_ns", qp->first_ns);
		json_number("end_ns", qp->first_ns + spent);
	}
	if (spent)
		json_number("goodput_bps", payload * 8.0 * NS_PER_S / spent);
	json_close('}');
}

static void report(const struct sender *sender)
{
	uint64_t packets = 0, bytes = 0, messages = 0, again = 0, naks = 0;

	for (unsigned int i = 0; i < sender->options->qps; i++) {
		packets += sender->qps[i].sent.packets;
		bytes += sender->qps[i].sent.bytes;
		messages += requester_messages(&sender->qps[i]);
		again += sender->qps[i].retransmitted;
		naks += sender->qps[i].naks;
	}
	if (!sender->options->json) {
		printf("sent %lu packets, %lu bytes, %lu messages on %u QPs; "
		       "%lu retransmitted, %lu NAKs\n",
		       packets, bytes, messages, sender->options->qps, again, naks);
		return;
	}
	json_open(NULL, '{');
	json_text("role", "send");
	json_text("transport", sender->options->uc ? "uc" : "rc");
	json_text("op", sender->options->write ? "write" : "send");
	json_number("size_bytes", sender->options->size_bytes);
	json_number("mtu", sender->options->mtu);
	json_number("packets", packets);
	json_number("bytes", bytes);
	json_number("messages", messages);
	json_number("retransmitted", again);
	json_number("naks", naks);
	json_number("seed", sender->options->seed);
	json_number("onset_ns", sender->started_ns + sender->options->warm_ns);
	json_number("icrc_errors", port_icrc_errors(sender->port));
	json_number("socket_drops", port_socket_drops(sender->port));
	if (sender->error)
		json_text("error", sender->error);
	json_open("qps", '[');
	for (unsigned int i = 0; i < sender->options->qps; i++)
		report_qp(sender, i);
	json_close(']');
	json_close('}');
	putchar('\n');
}

int send_run(const struct options *options)
{
	struct sender sender = {.options = options, .control = -1, .random = options->seed};
	struct sockaddr_storage local;
	struct wire_flow flow;
	int result = 1, err;

	sender.qps = calloc(options->qps, sizeof(*sender.qps));
	sender.end = calloc(1, sizeof(*sender.end));
	sender.qp_depart_ns = calloc(options->qps, sizeof(*sender.qp_depart_ns));
	if (!sender.qps || !sender.end || !sender.qp_depart_ns)
		goto out;
	sender.line = &sender.depart_ns;
	if (options->board) {
		sender.board = board_open(options->board, (int)options->flow);
		if (!sender.board)
			goto out;
		sender.line = board_line(sender.board, options->line);
	}
	sender.control = control_connect(options);
	if (sender.control < 0)
		goto out;
	local_flow(sender.control, options, &local, &flow);
	sender.port = port_open(&local, options->interface, options->first_qpn, options->qps);
	if (!sender.port)
		goto out;
	err = sender_agree(&sender, &flow);
	if (err) {
		fprintf(stderr, "roceflow: the server did not agree: %s\n", strerror(-err));
		goto out;
	}
	sender_drive(&sender);
	if (!sender.error && sender_end(&sender))
		sender.error = "the server did not report its counts";
	if (sender.error)
		fprintf(stderr, "roceflow: %s\n", sender.error);
	report(&sender);
	result = sender.error ? 1 : 0;
out:
	port_close(sender.port);
	board_close(sender.board);
	if (sender.control >= 0)
		close(sender.control);
	free(sender.qp_depart_ns);
	free(sender.qps);
	free(sender.end);
	return result;
}
