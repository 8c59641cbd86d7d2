// SPDX-License-Identifier: BSD-2-Clause
/* Capabilities that are not in their modules yet: each is one function of the daemon's parts. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "delay/delay.h"
#include "qp/qp.h"
#include "base/log.h"
#include "clock/metrics.h"
#include "clock/report.h"
#include "config/config.h"
#include "daemon.h"
#include "dataplane/dataplane.h"
#include "fleet/fleet.h"
#include "mesh/mesh.h"

static struct daemon *daemon_of(struct core *core)
{
	struct daemon *daemon = (struct daemon *)core;

	daemon->config = core->own_config;
	daemon->dataplane = core_find(core, "dataplane");
	daemon->qps = core_find(core, "qp");
	daemon->delays = core_find(core, "delay");
	return daemon;
}

struct daemon *legacy_daemon; /* until these are in their modules */

/* --- mesh --- */

static int open_mesh(void **self, struct core *core, void *const needs[], char **error)
{
	struct daemon *daemon = daemon_of(core);
	int err;

	(void)needs;
	legacy_daemon = daemon;
	err = mesh_new(&daemon->mesh, daemon, error);
	*self = daemon->mesh;
	return err;
}

static void close_mesh(void *self)
{
	mesh_free(self);
	legacy_daemon->mesh = NULL;
}

static void tick_mesh(void *self, uint64_t now_ns)
{
	(void)now_ns;
	mesh_look(self);
}

static void reconfigure_mesh(void *self, const struct config *old)
{
	(void)old;
	legacy_daemon->config = legacy_daemon->core.own_config;
	mesh_reconfigure(self);
}

static json_t *reply_clock(void *self, struct request *request)
{
	(void)self;
	(void)request;
	return report_clock(legacy_daemon);
}

static json_t *reply_peers(void *self, struct request *request)
{
	(void)self;
	(void)request;
	return report_peers(legacy_daemon);
}

static const struct verb_handler mesh_handlers[] = {
	{"clock", reply_clock}, {"peers", reply_peers}, {}};

static void status_mesh(void *self, json_t *status)
{
	(void)self;
	if (fleet_members(legacy_daemon->core.fleet))
		json_put_count(status, "members",
				 fleet_members(legacy_daemon->core.fleet)->count);
	report_put_clock(status, legacy_daemon);
}

static void metrics_mesh(void *self, FILE *out)
{
	struct mesh_peer_facts *peers = calloc(MESH_EDGES_MAX, sizeof(*peers));
	struct metrics_mesh facts = {};

	mesh_get(self, &facts.mesh);
	mesh_get_clock(self, &facts.clock);
	if (peers)
		facts.peer_count = mesh_get_peers(self, peers, MESH_EDGES_MAX);
	facts.peers = peers;
	metrics_write_mesh(out, &facts);
	free(peers);
}

const struct capability mesh_capability = {
	.needs = {"dataplane"},
	.write_metrics = metrics_mesh,
	.name = "mesh",
	.open = open_mesh,
	.verbs = mesh_handlers,
	.close = close_mesh,
	.tick_ns = 1000000000,
	.tick = tick_mesh,
	.reconfigure = reconfigure_mesh,
	.status = status_mesh,
};
