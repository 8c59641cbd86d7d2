// SPDX-License-Identifier: BSD-2-Clause
/* The steps of this host's NICs, by fabric time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/child.h"
#include "base/explain.h"
#include "base/json.h"
#include "base/now.h"
#include "internal.h"

#define POLL_MS 100
#define AGAIN_NS 500000000ull
#define QUERY_NS 20000000000ull
#define OWD_SETTLES_NS 1500000000ull /* until the daemon has read what the last packets had */

/* A NIC of ours, and its rail. */
struct ring_nic {
	const struct ring_nic_port *port;
	const json_t *pairs;   /* what the run of all pairs has of it */
	const json_t *members; /* of its rail */
	size_t *orders[RING_ORDERS];
	size_t index; /* among the members: ours */

	/* In this step. */
	const json_t *peer; /* the successor */
	struct child server, client;
	bool served, done;
	uint64_t again_ns;		       /* when the client may be started */
	char complaint[CHILD_COMPLAINT_BYTES]; /* of a client that failed */
};

struct ring {
	const struct ring_options *options;
	struct ring_plan plan;
	int64_t fabric_offset_ns; /* fabric time - CLOCK_MONOTONIC */
	struct ring_nic *nics;
	size_t count;
	json_t *rows;
};

/* --- the daemon, by the command line: a run takes longer than one connection --- */

/* New reference; NULL: no reply. */
static json_t *query(const struct ring *ring, const char *verb, const char *option)
{
	const char *const argv[] = {"/proc/self/exe", "-j", "--socket", ring->options->socket, verb,
				    option,	      NULL};
	struct child child = {};
	json_t *reply = NULL;

	if (!child_run(&child, argv, QUERY_NS) && !child.status && child.text)
		reply = json_loadb(child.text, child.bytes, 0, NULL);
	child_clear(&child);
	return reply;
}

/* --- which NICs, and their rails --- */

static const struct ring_nic_port *port_of(const struct ring_options *options,
					   const char *interface)
{
	for (size_t i = 0; i < options->port_count; i++)
		if (*interface && !strcmp(options->ports[i].interface, interface))
			return &options->ports[i];
	return NULL;
}

static bool find_index(struct ring_nic *nic)
{
	const json_t *member;
	size_t i;

	json_array_foreach (nic->members, i, member)
		if (!strcmp(json_text(member, "address"), json_text(nic->pairs, "address"))) {
			nic->index = i;
			return true;
		}
	return false;
}

/* Of the back end: a NIC without the label is in both planes, once is enough. */
static int add_nics(struct ring *ring, const json_t *pairs, char **error)
{
	const json_t *entry, *list = json_object_get(pairs, "nics");
	size_t i;

	ring->nics = calloc(json_array_size(list) + 1, sizeof(*ring->nics));
	if (!ring->nics)
		return explain(error, -ENOMEM, "out of memory");
	json_array_foreach (list, i, entry) {
		struct ring_nic *nic = &ring->nics[ring->count];
		size_t members = json_array_size(json_object_get(entry, "members"));

		nic->port = port_of(ring->options, json_text(entry, "interface"));
		nic->pairs = entry;
		nic->members = json_object_get(entry, "members");
		if (!nic->port || members < 2 || strcmp(json_text(entry, "plane"), "backend") ||
		    !find_index(nic))
			continue;
		ring->count++;
		for (unsigned int k = 0; k < ring->plan.orders; k++) {
			nic->orders[k] = calloc(members, sizeof(size_t));
			if (!nic->orders[k])
				return explain(error, -ENOMEM, "out of memory");
			if (ring_members_order(nic->members, k ? ring->options->order : NULL,
					       nic->orders[k], error))
				return -EINVAL;
		}
	}
	return 0;
}

static const json_t *successor(const struct ring_nic *nic, unsigned int order)
{
	size_t count = json_array_size(nic->members);

	for (size_t i = 0; i < count; i++)
		if (nic->orders[order][i] == nic->index)
			return json_array_get(nic->members, nic->orders[order][(i + 1) % count]);
	return NULL;
}

/* --- a step --- */

static struct ring_end end_of(const struct ring *ring, const struct ring_nic *nic,
			      unsigned int step, const json_t *server)
{
	return (struct ring_end){
		.device = nic->port->device,
		.port = nic->port->port,
		.tcp_port = ring_port((unsigned int)json_count(server, "place"), step),
		.qps = ring_loads[step % RING_LOADS],
		.seconds = (unsigned int)(ring->plan.traffic_ns / 1000000000),
		.gid_index = nic->port->gid_index,
		.traffic_class = ring->options->traffic_class,
	};
}

static void start(struct child *child, const struct ring_end *end)
{
	struct ring_argv argv;

	child_clear(child);
	ring_argv(end, &argv);
	if (child_begin(child, argv.words))
		child->status = CHILD_NOT_FOUND;
}

/* A server ends with its client; one that failed before is begun again. */
static void drive_server(struct ring *ring, struct ring_nic *nic, unsigned int step,
			 uint64_t now_ns, uint64_t last_ns)
{
	bool begun = nic->server.text || nic->server.status || nic->server.complaint[0];
	struct ring_end end;

	if (nic->served || nic->server.pid > 0)
		return;
	nic->served = begun && (!nic->server.status || now_ns >= last_ns);
	if (nic->served)
		return;
	end = end_of(ring, nic, step, json_array_get(nic->members, nic->index));
	start(&nic->server, &end);
}

static bool connects(const struct ring_nic *nic)
{
	return strchr(json_text(nic->peer, "address"), ':') == NULL;
}

static void drive_client(struct ring *ring, struct ring_nic *nic, unsigned int step,
			 uint64_t now_ns, uint64_t last_ns)
{
	struct ring_result result;
	struct ring_end end;

	if (nic->done || nic->client.pid > 0 || now_ns < nic->again_ns)
		return;
	if (nic->client.text || nic->client.complaint[0] || nic->client.status) {
		ring_parse(nic->client.text, &result);
		nic->done = !nic->client.status && result.gbps > 0;
		if (nic->done)
			return;
		if (nic->client.complaint[0])
			snprintf(nic->complaint, sizeof(nic->complaint), "%s",
				 nic->client.complaint);
		child_clear(&nic->client);
		nic->again_ns = now_ns + AGAIN_NS;
		nic->done = now_ns >= last_ns;
		return;
	}
	end = end_of(ring, nic, step, nic->peer);
	end.to = json_text(nic->peer, "address");
	start(&nic->client, &end);
}

/* All clients have a result, and all servers had one. */
static bool is_over(const struct ring *ring)
{
	for (size_t i = 0; i < ring->count; i++)
		if (!ring->nics[i].done || !ring->nics[i].served)
			return false;
	return true;
}

static void poll_children(struct ring *ring)
{
	struct child *children[2 * RING_NICS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < ring->count && i < RING_NICS_MAX; i++) {
		children[count++] = &ring->nics[i].server;
		children[count++] = &ring->nics[i].client;
	}
	child_poll(children, count, POLL_MS);
}

static void sleep_until(uint64_t local_ns)
{
	const struct timespec until = {.tv_sec = (time_t)(local_ns / 1000000000),
				       .tv_nsec = (long)(local_ns % 1000000000)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

/* --- its rows --- */

static void put_idle(json_t *row, const struct ring_nic *nic)
{
	const json_t *result;
	size_t i;

	json_array_foreach (json_object_get(nic->pairs, "results"), i, result)
		if (!strcmp(json_text(result, "to"), json_text(nic->peer, "address")) &&
		    json_count(result, "owd_out_ns")) {
			json_put_count(row, "idle_owd_ns", json_count(result, "owd_out_ns"));
			json_put_count(row, "idle_bound_ns", json_count(result, "bound_ns"));
		}
}

static bool is_of(const json_t *qp, const struct ring_nic *nic, const struct ring_result *result)
{
	if (strcmp(json_text(qp, "direction"), "tx") ||
	    strcmp(json_text(qp, "dst"), json_text(nic->peer, "address")))
		return false;
	for (size_t i = 0; i < result->qpn_count; i++)
		if (json_count(qp, "dest_qpn") == result->remote_qpns[i])
			return true;
	return false;
}

/* The largest of its queue pairs. Absent where no queue pair had a one-way delay. */
static void put_delays(json_t *row, const struct ring_nic *nic, const struct ring_result *result,
		       const json_t *qps)
{
	static const char *const keys[] = {"p50", "p99", "max", "bound"};
	uint64_t most[4] = {}, measured = 0;
	const json_t *qp;
	size_t i;

	json_array_foreach (json_object_get(qps, "qps"), i, qp) {
		const json_t *owd = json_object_get(qp, "owd_lifetime_ns");

		if (!owd || !is_of(qp, nic, result))
			continue;
		measured++;
		for (size_t k = 0; k < 4; k++)
			if (json_count(owd, keys[k]) > most[k])
				most[k] = json_count(owd, keys[k]);
	}
	if (!measured)
		return;
	json_put(row, "owd_ns",
		 json_pack("{s:I, s:I, s:I, s:I, s:I}", "qps", (json_int_t)measured, "p50",
			   (json_int_t)most[0], "p99", (json_int_t)most[1], "max",
			   (json_int_t)most[2], "bound", (json_int_t)most[3]));
}

static void add_row(struct ring *ring, struct ring_nic *nic, unsigned int step, const json_t *qps,
		    const char *missed)
{
	json_t *row = json_object();
	struct ring_result result = {};

	if (!missed && nic->client.pid <= 0 && !nic->client.status)
		ring_parse(nic->client.text, &result);
	json_put_text(row, "order", ring_orders[step / RING_LOADS]);
	json_put_count(row, "qps", ring_loads[step % RING_LOADS]);
	json_put_text(row, "nic", nic->port->subject);
	json_put_text(row, "address", json_text(nic->pairs, "address"));
	json_put_name(row, "peer", json_text(nic->peer, "host"));
	json_put_text(row, "to", json_text(nic->peer, "address"));
	put_idle(row, nic);
	if (missed) {
		json_put_text(row, "missed", missed);
	} else if (result.gbps > 0) {
		json_put_real(row, "gbps", result.gbps);
		put_delays(row, nic, &result, qps);
	} else if (nic->client.pid > 0) {
		json_put_text(row, "error", "perftest did not end in time");
	} else {
		json_put_text(row, "error",
			      nic->complaint[0] ? nic->complaint : "perftest printed no result");
	}
	json_array_append_new(ring->rows, row);
}

static void begin_nics(struct ring *ring, unsigned int step, uint64_t begin_ns)
{
	for (size_t i = 0; i < ring->count; i++) {
		struct ring_nic *nic = &ring->nics[i];

		nic->peer = successor(nic, step / RING_LOADS);
		nic->served = nic->done = false;
		nic->complaint[0] = '\0';
		nic->again_ns = begin_ns + RING_CLIENT_NS;
	}
}

static const char *why_missed(const struct ring_nic *nic, bool late)
{
	if (late)
		return "this host began too late";
	if (nic->port->roce && nic->port->gid_index < 0)
		return "there is no routable GID of RoCE v2";
	return connects(nic) ? NULL : "perftest connects by IPv4, and the peer has IPv6";
}

static void run_step(struct ring *ring, unsigned int step)
{
	uint64_t begin_ns = ring->plan.begin_ns + step * ring_step_ns(&ring->plan) -
			    (uint64_t)ring->fabric_offset_ns;
	uint64_t last_ns = begin_ns + RING_SLACK_NS * 7 / 10;
	uint64_t end_ns = begin_ns + ring_step_ns(&ring->plan) - RING_END_NS;
	bool late = time_local_ns() >= last_ns;
	json_t *qps = NULL;

	begin_nics(ring, step, begin_ns);
	for (size_t i = 0; i < ring->count; i++)
		ring->nics[i].done = why_missed(&ring->nics[i], late) != NULL;
	if (!late) {
		sleep_until(begin_ns);
		while (time_local_ns() < end_ns && !is_over(ring)) {
			for (size_t i = 0; i < ring->count; i++) {
				uint64_t now_ns = time_local_ns();

				drive_server(ring, &ring->nics[i], step, now_ns, last_ns);
				drive_client(ring, &ring->nics[i], step, now_ns, last_ns);
			}
			poll_children(ring);
		}
		sleep_until(time_local_ns() + OWD_SETTLES_NS);
		qps = query(ring, "qp", NULL);
	}
	for (size_t i = 0; i < ring->count; i++) {
		struct ring_nic *nic = &ring->nics[i];

		add_row(ring, nic, step, qps, why_missed(nic, late));
		child_clear(&nic->server);
		child_clear(&nic->client);
	}
	json_decref(qps);
}

/* --- a run --- */

static bool has_tool(void)
{
	static const char *const argv[] = {RING_TOOL, "--version", NULL};
	struct child child = {};
	bool found = !child_run(&child, argv, QUERY_NS) && child.status != CHILD_NOT_FOUND;

	child_clear(&child);
	return found;
}

static json_t *note_of(const char *note)
{
	return json_pack("{s:s}", "note", note);
}

static void free_nics(struct ring *ring)
{
	for (size_t i = 0; i < ring->count; i++)
		for (unsigned int k = 0; k < RING_ORDERS; k++)
			free(ring->nics[i].orders[k]);
	free(ring->nics);
}

static json_t *result_of(struct ring *ring)
{
	unsigned int steps = ring_steps(&ring->plan);
	double step_s = (double)ring_step_ns(&ring->plan) / 1e9;

	for (unsigned int step = 0; step < steps; step++)
		run_step(ring, step);
	return json_pack("{s:I, s:i, s:f, s:I, s:f, s:o}", "begin_ns",
			 (json_int_t)ring->plan.begin_ns, "steps", (int)steps, "takes_s",
			 steps * step_s, "traffic_ns", (json_int_t)ring->plan.traffic_ns,
			 "loaded_s", steps * (double)ring->plan.traffic_ns / 1e9, "rows",
			 ring->rows);
}

json_t *ring_run(const struct ring_options *options, char **error)
{
	struct ring ring = {.options = options, .rows = json_array()};
	json_t *pairs, *clock, *result = NULL;

	pairs = query(&ring, "pairs", "--all");
	clock = query(&ring, "clock", NULL);
	ring.fabric_offset_ns = (int64_t)json_count(clock, "fabric_ns") - (int64_t)time_local_ns();
	ring.plan = (struct ring_plan){
		.begin_ns = json_count(pairs, "over_ns") + RING_LEAD_NS,
		.traffic_ns = options->traffic_ns,
		.orders = options->order ? RING_ORDERS : 1,
	};
	if (!json_count(pairs, "over_ns") || !json_count(clock, "fabric_ns"))
		result = note_of("there is no fabric time, or no run of all pairs");
	else if (!has_tool())
		result = note_of(RING_TOOL " is not installed here: it is in the package perftest");
	else if (add_nics(&ring, pairs, error))
		result = NULL;
	else if (!ring.count)
		result = note_of("no RDMA port of this host is a member of the back end with "
				 "others on its rail");
	else
		result = result_of(&ring);
	if (!json_object_get(result, "rows"))
		json_decref(ring.rows);
	free_nics(&ring);
	json_decref(pairs);
	json_decref(clock);
	return result;
}
