// SPDX-License-Identifier: BSD-2-Clause
/* SIGHUP and the verb `reload`: the whole file comes into force, or none of it. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "daemon.h"
#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "core/events.h"
#include "dataplane/lock.h"
#include "base/log.h"
#include "mesh/mesh.h"
#include "paths/paths.h"
#include "pace/pace.h"
#include "nic/nic.h"
#include "qp/table.h"
#include "steer/steer.h"
#include "tcp/tcp.h"

static bool text_differs(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) != 0 : a != b;
}

/* What is bound to the process: a socket, pins, an open file. */
static int reload_check_fixed(const struct config *old, const struct config *new, char **error)
{
	const char *key = NULL;

	if (text_differs(old->pin_root, new->pin_root))
		key = "pin_root";
	else if (text_differs(old->socket, new->socket))
		key = "socket";
	else if (text_differs(old->kill_file, new->kill_file))
		key = "kill_file";
	else if (old->qps.max != new->qps.max)
		key = "qps.max";
	else if (text_differs(old->events.file, new->events.file))
		key = "events.file";
	else if (old->events.keep != new->events.keep)
		key = "events.keep";
	else if (old->lab.clock_offset_ns != new->lab.clock_offset_ns ||
		 old->lab.clock_drift_ppb != new->lab.clock_drift_ppb)
		key = "lab";
	if (!key)
		return 0;
	return explain(
		error, -EBUSY,
		"%s: %s cannot change while escapementd runs; restart it, or set the old value",
		new->path, key);
}

static int reload_apply(struct daemon *daemon, const struct config *new, char **error)
{
	struct locks *locks;
	int err = reload_check_fixed(daemon->config, new, error);

	if (!err)
		err = locks_take(&locks, daemon->locks, new, error);
	if (err)
		return err;
	err = dataplane_reconfigure(daemon->dataplane, new, error);
	if (err)
		locks_free(locks);
	else
		locks_replace(&daemon->locks, locks);
	return err;
}

int daemon_reload(struct daemon *daemon, char **error)
{
	struct config *new = NULL, *old = daemon->config;
	char *why = NULL;
	int err = config_load(daemon->config_path, &new, &why);

	if (!err)
		err = reload_apply(daemon, new, &why);
	if (err) {
		log_error("configuration refused, the old one stays in force: %s", why ? why : "");
		ledger_add(daemon->ledger, "config_refused", "daemon",
			   json_pack("{s:s}", "error", why ? why : ""), NULL, NULL, NULL);
		config_free(new);
		explain(error, err, "%s; the old configuration stays in force",
			why ? why : strerror(-err));
		free(why);
		return err;
	}
	qptable_set_idle(daemon->qps, new->qps.idle_ns);
	daemon->config = new;
	mesh_reconfigure(daemon->mesh);
	steer_reconfigure(daemon->steer, old);
	paths_reconfigure(daemon->paths);
	pace_reconfigure(daemon->pace, old);
	tcppace_reconfigure(daemon->tcp, old);
	daemon_follow_host_queue(daemon);
	nics_reconfigure(daemon->nics);
	config_free(old);
	log_info("configuration reloaded from %s", new->path);
	ledger_add(daemon->ledger, "config_reloaded", "daemon",
		   json_pack("{s:s}", "file", new->path), NULL, NULL, NULL);
	return 0;
}
