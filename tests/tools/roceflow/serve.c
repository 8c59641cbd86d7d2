/* SPDX-License-Identifier: BSD-2-Clause */
/* `roceflow serve`: accepts clients, replies with their queue pairs, prints the report when the
 * last has ended. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "board.h"
#include "control.h"
#include "json.h"
#include "responder.h"

#define BURST 32
#define CLIENTS_MAX 64
#define BINS_MAX 32768
/* Packets still in transit when a client has finished: waited for this long after the last one. */
#define QUIET_NS (300 * NS_PER_MS)

struct client {
	int control;
	unsigned int first, qps; /* its responders */
	bool ending;
	uint64_t sent; /* what it put on the wire, once it is reported */
	uint64_t seen, quiet_since_ns;
};

struct server {
	const struct options *options;
	struct port *port;
	struct board *board;
	int listener;
	struct responder *qps[QPS_MAX];
	unsigned int qps_used;
	struct responder *due[QPS_MAX];
	unsigned int due_used;
	struct client clients[CLIENTS_MAX];
	unsigned int clients_used, finished, failed;
	struct control_setup setup;
	struct control_end end;
	uint64_t random, now, active_ns, unknown;
	uint64_t started_ns, bins[BINS_MAX], bins_used; /* bytes delivered, in each */
};

static int server_add_qp(struct server *server, const struct control_qp *theirs,
			 const struct sockaddr_storage *peer)
{
	const struct control_setup *setup = &server->setup;
	struct responder *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return -ENOMEM;
	qp->options = server->options;
	if (qp->options->delays) {
		qp->delays = calloc(RESPONDER_DELAYS_MAX, sizeof(*qp->delays));
		if (!qp->delays) {
			free(qp);
			return -ENOMEM;
		}
	}
	qp->qpn = server->options->first_qpn + server->qps_used;
	qp->peer_qpn = theirs->qpn;
	qp->first_psn = theirs->psn;
	qp->uc = setup->uc;
	qp->write = setup->write;
	qp->mtu = setup->mtu;
	qp->size_bytes = setup->size_bytes;
	qp->packets_per_message =
		setup->size_bytes ? (setup->size_bytes + setup->mtu - 1) / setup->mtu : 1;
	qp->flow.six = peer->ss_family == AF_INET6;
	qp->flow.tos = setup->tos;
	qp->flow.source_port = theirs->port ? theirs->port : wire_rxe_port(qp->qpn, theirs->qpn);
	if (qp->flow.six) {
		memcpy(qp->flow.source,
		       &((const struct sockaddr_in6 *)&server->options->address)->sin6_addr, 16);
		memcpy(qp->flow.destination, &((const struct sockaddr_in6 *)peer)->sin6_addr, 16);
	} else {
		memcpy(qp->flow.source,
		       &((const struct sockaddr_in *)&server->options->address)->sin_addr, 4);
		memcpy(qp->flow.destination, &((const struct sockaddr_in *)peer)->sin_addr, 4);
	}
	server->qps[server->qps_used++] = qp;
	return 0;
}

/* Reads what a client wants and replies with our QPNs. */
static int server_agree(struct server *server, struct client *client,
			const struct sockaddr_storage *peer)
{
	struct control_setup *setup = &server->setup;
	int err = control_receive_setup(client->control, setup);

	if (!err && (setup->mtu < 1 || setup->mtu > WIRE_MTU_MAX))
		err = -EPROTO;
	if (!err && server->qps_used + setup->qps > QPS_MAX)
		err = -ENOSPC;
	client->first = server->qps_used;
	for (unsigned int i = 0; i < setup->qps && !err; i++) {
		err = server_add_qp(server, &setup->qp[i], peer);
		if (!err)
			setup->qp[i].qpn = server->qps[client->first + i]->qpn;
	}
	client->qps = server->qps_used - client->first;
	return err ? err : control_send_setup(client->control, setup);
}

static void server_accept(struct server *server)
{
	struct sockaddr_storage peer;
	socklen_t bytes = sizeof(peer);
	struct client client = {.control = -1};
	int err;

	client.control = accept4(server->listener, (struct sockaddr *)&peer, &bytes, SOCK_CLOEXEC);
	if (client.control < 0)
		return;
	control_set_timeout(client.control);
	err = server->clients_used == CLIENTS_MAX ? -ENOSPC : server_agree(server, &client, &peer);
	if (err) {
		fprintf(stderr, "roceflow: a client was refused: %s\n", strerror(-err));
		close(client.control);
		return;
	}
	server->clients[server->clients_used++] = client;
}

static void server_note(struct server *server, uint64_t bytes)
{
	uint64_t bin = server->options->bin_ns
			       ? (server->now - server->started_ns) / server->options->bin_ns
			       : BINS_MAX;

	if (bin >= BINS_MAX)
		return;
	server->bins[bin] += bytes;
	if (server->bins_used <= bin)
		server->bins_used = bin + 1;
}

static void server_take(void *context, const struct wire_packet *packet)
{
	struct server *server = context;
	uint32_t index = packet->qpn - server->options->first_qpn;
	struct responder *qp = index < server->qps_used ? server->qps[index] : NULL;
	size_t address_bytes = packet->flow.six ? 16 : 4;
	uint64_t delivered, messages;
	bool due;

	if (!qp || memcmp(packet->flow.source, qp->flow.destination, address_bytes)) {
		server->unknown++;
		return;
	}
	server->active_ns = server->now;
	delivered = qp->delivered_bytes;
	messages = qp->messages;
	due = responder_receive(qp, packet, server->port, &server->random, server->now);
	server_note(server, qp->delivered_bytes - delivered);
	if (server->board && qp->messages != messages)
		board_done(server->board, qp->peer_qpn % BOARD_FLOWS, qp->messages, server->now);
	if (due && !qp->ack_queued) {
		qp->ack_queued = true;
		server->due[server->due_used++] = qp;
	}
}

static void server_receive(struct server *server)
{
	int number;

	do {
		server->now = now_ns();
		number = port_receive(server->port, server_take, server);
		for (unsigned int i = 0; i < server->due_used; i++) {
			responder_acknowledge(server->due[i], server->port);
			server->due[i]->ack_queued = false;
		}
		server->due_used = 0;
		port_flush(server->port);
	} while (number == BURST);
}

static void client_close(struct server *server, struct client *client, bool good)
{
	close(client->control);
	client->control = -1;
	server->finished++;
	server->failed += !good;
}

/* Input of the client: it has finished, or disconnected. */
static void client_read(struct server *server, struct client *client)
{
	int err = control_receive_end(client->control, &server->end);

	server->active_ns = server->now;
	if (err || server->end.qps != client->qps) {
		fprintf(stderr, "roceflow: a client disconnected before its end: %s\n",
			strerror(err ? -err : EPROTO));
		client_close(server, client, false);
		return;
	}
	client->ending = true;
	client->quiet_since_ns = server->now;
	for (unsigned int i = 0; i < client->qps; i++)
		client->sent += server->end.qp[i].packets;
}

/* Ends the connection once all of a client's packets are in, or none came for a while. */
static void client_try_end(struct server *server, struct client *client)
{
	uint64_t seen = 0;

	for (unsigned int i = 0; i < client->qps; i++)
		seen += server->qps[client->first + i]->packets;
	if (seen != client->seen)
		client->quiet_since_ns = server->now;
	client->seen = seen;
	if (seen < client->sent && server->now - client->quiet_since_ns < QUIET_NS)
		return;
	server->end.qps = client->qps;
	for (unsigned int i = 0; i < client->qps; i++) {
		const struct responder *qp = server->qps[client->first + i];

		server->end.qp[i] = (struct control_count){qp->replied.packets, qp->messages};
	}
	client_close(server, client, control_send_end(client->control, &server->end) == 0);
}

static void server_wait(struct server *server)
{
	struct pollfd fds[2 + CLIENTS_MAX] = {
		{.fd = port_fd(server->port), .events = POLLIN},
		{.fd = server->listener, .events = POLLIN},
	};

	for (unsigned int i = 0; i < server->clients_used; i++) {
		fds[2 + i].fd = server->clients[i].ending ? -1 : server->clients[i].control;
		fds[2 + i].events = POLLIN;
	}
	if (poll(fds, 2 + server->clients_used, 20) < 0)
		return;
	server_receive(server);
	for (unsigned int i = 0, n = server->clients_used; i < n; i++)
		if (fds[2 + i].fd >= 0 && fds[2 + i].revents)
			client_read(server, &server->clients[i]);
	if (fds[1].revents) {
		server->active_ns = now_ns();
		server_accept(server);
	}
}

/* Returns the exit code. */
static int server_drive(struct server *server)
{
	server->now = server->active_ns = server->started_ns = now_ns();
	while (server->finished < server->options->clients && !stop_asked) {
		server_wait(server);
		server->now = now_ns();
		for (unsigned int i = 0; i < server->clients_used; i++)
			if (server->clients[i].ending && server->clients[i].control >= 0)
				client_try_end(server, &server->clients[i]);
		if (server->now - server->active_ns > server->options->idle_ns) {
			fprintf(stderr, "roceflow: nothing came for too long (--idle)\n");
			return 1;
		}
	}
	return server->failed ? 1 : 0;
}

static void report_silences(const struct responder *qp)
{
	json_number("silences_seen", qp->silences_used);
	json_open("silences", '[');
	for (unsigned int i = 0; i < qp->silences_used && i < RESPONDER_SILENCES_MAX; i++) {
		json_open(NULL, '{');
		json_number("from_ns", qp->silences[i].from_ns);
		json_number("to_ns", qp->silences[i].to_ns);
		json_close('}');
	}
	json_close(']');
}

/* The source port of the first packet, and each that differs from the packet's before. */
static void report_ports(const struct responder *qp)
{
	json_number("ports_seen", qp->ports_used);
	json_open("ports", '[');
	for (unsigned int i = 0; i < qp->ports_used && i < RESPONDER_PORTS_MAX; i++) {
		json_open(NULL, '{');
		json_number("at_ns", qp->ports[i].at_ns);
		json_number("sport", qp->ports[i].sport);
		json_close('}');
	}
	json_close(']');
}

/* One after the other: when a packet came, ns, and what it took, us. */
static void report_delays(const struct responder *qp)
{
	json_open("delays", '[');
	for (unsigned int i = 0; i < qp->delays_used; i++) {
		json_number(NULL, qp->delays[i].at_ns);
		json_number(NULL, qp->delays[i].delay_ns);
	}
	json_close(']');
}

static void report_bins(const struct server *server)
{
	json_number("bin_ns", server->options->bin_ns);
	json_number("bins_start_ns", server->started_ns);
	json_open("bins", '[');
	for (uint64_t i = 0; i < server->bins_used; i++)
		json_number(NULL, server->bins[i]);
	json_close(']');
}

static void report_qp(const struct responder *qp)
{
	json_open(NULL, '{');
	json_number("qpn", qp->qpn);
	json_number("peer_qpn", qp->peer_qpn);
	json_address("src", qp->flow.destination, qp->flow.six);
	json_address("dst", qp->flow.source, qp->flow.six);
	json_number("sport", qp->flow.source_port);
	json_number("packets", qp->packets);
	json_number("bytes", qp->bytes);
	json_number("messages", qp->messages);
	json_number("delivered_packets", qp->delivered_packets);
	json_number("delivered_bytes", qp->delivered_bytes);
	json_number("duplicates", qp->duplicates);
	json_number("gaps", qp->gaps);
	json_number("gaps_new_port", qp->gaps_new_port);
	json_number("lost", qp->lost);
	json_number("first_ahead", qp->first_ahead);
	json_number("injected_losses", qp->injected_losses);
	json_number("invalid", qp->invalid);
	json_number("responses", qp->replied.packets - qp->cnps);
	json_number("response_errors", qp->replied.errors);
	json_number("acks", qp->acks);
	json_number("naks", qp->naks);
	json_number("rnr_naks", qp->rnr_naks);
	json_number("ce", qp->ce);
	json_number("cnps", qp->cnps);
	if (qp->first_ns) {
		json_number("start_ns", qp->first_ns);
		json_number("end_ns", qp->last_ns);
	}
	report_ports(qp);
	if (qp->options->silence_ns)
		report_silences(qp);
	if (qp->delays)
		report_delays(qp);
	if (qp->last_ns > qp->first_ns)
		json_number("goodput_bps",
			    qp->delivered_bytes * 8.0 * NS_PER_S / (qp->last_ns - qp->first_ns));
	json_close('}');
}

static void report(const struct server *server)
{
	uint64_t packets = 0, bytes = 0, messages = 0, invalid = 0;

	for (unsigned int i = 0; i < server->qps_used; i++) {
		packets += server->qps[i]->packets;
		bytes += server->qps[i]->bytes;
		messages += server->qps[i]->messages;
		invalid += server->qps[i]->invalid;
	}
	if (!server->options->json) {
		printf("received %lu packets, %lu bytes, %lu messages on %u QPs\n", packets, bytes,
		       messages, server->qps_used);
		return;
	}
	json_open(NULL, '{');
	json_text("role", "serve");
	json_number("clients", server->finished);
	json_number("packets", packets);
	json_number("bytes", bytes);
	json_number("messages", messages);
	json_number("invalid", invalid);
	json_number("seed", server->options->seed);
	json_number("icrc_errors", port_icrc_errors(server->port));
	json_number("unknown_qp", server->unknown);
	json_number("socket_drops", port_socket_drops(server->port));
	if (server->options->bin_ns)
		report_bins(server);
	json_open("qps", '[');
	for (unsigned int i = 0; i < server->qps_used; i++)
		report_qp(server->qps[i]);
	json_close(']');
	json_close('}');
	putchar('\n');
}

int serve_run(const struct options *options)
{
	struct server *server = calloc(1, sizeof(*server));
	int result = 1;

	if (!server)
		return 1;
	server->options = options;
	server->random = options->seed;
	server->listener = -1;
	if (options->board && !(server->board = board_open(options->board, -1)))
		goto out;
	server->port = port_open(&options->address, options->interface, 0, 0);
	if (server->port)
		server->listener = control_listen(options);
	if (server->listener >= 0) {
		result = server_drive(server);
		report(server);
		close(server->listener);
	}
out:
	for (unsigned int i = 0; i < server->clients_used; i++)
		if (server->clients[i].control >= 0)
			close(server->clients[i].control);
	for (unsigned int i = 0; i < server->qps_used; i++) {
		free(server->qps[i]->delays);
		free(server->qps[i]);
	}
	port_close(server->port);
	board_close(server->board);
	free(server);
	return result;
}
