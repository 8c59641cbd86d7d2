// SPDX-License-Identifier: BSD-2-Clause
/* Queue pairs and their owners as a capability. */
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "internal.h"

#define QP_TICK_NS 1000000000ull

int qptable_poll(struct qptable *table)
{
	struct esc_reason_count full;
	int err = dataplane_reason(table->dataplane, ESC_REASON_QP_TABLE_FULL, &full);

	if (!err)
		err = qptable_refresh(table, time_local_ns(), reason_sum(&full));
	table->refresh_failed = err != 0;
	return err;
}

static int refresh(void *self)
{
	struct qptable *table = self;
	int err = qptable_poll(table);

	owners_refresh(table->owners);
	return err;
}

/* Of events about a queue pair. */
static bool find_owner(void *context, const struct esc_qp_key *key, uint32_t *pid, const char **job)
{
	const struct qptable *table = context;
	struct port_facts port = {};
	const struct owner *owner;

	dataplane_port(table->dataplane, key->port, &port);
	owner = qptable_owner(table, key, port.info.rdma_device);
	if (owner) {
		*pid = owner->is.pid;
		*job = owner->job.name;
		return true;
	}
	return table->other_owner && table->other_owner(table->others_context, key, pid, job);
}

static void close_qp(void *self)
{
	struct qptable *table = self;

	dataplane_set_visibility(table->dataplane, NULL, NULL);
	events_set_owners(table->events, NULL, NULL);
	owners_free(table->owners);
	qptable_free(table);
}

static int open_qp(void **self, struct core *core, void *const needs[], char **error)
{
	struct dataplane *dataplane = needs[0];
	struct qptable *table;
	int err = qptable_new(&table, dataplane_map_fd(dataplane, "qps"),
			      dataplane_map_max(dataplane, "qps"), core->config->qps.idle_ns,
			      core->events);

	if (err)
		return explain(error, err, "queue pairs: %s", strerror(-err));
	table->core = core;
	table->dataplane = dataplane;
	err = qptable_share(table, dataplane_map_fd(dataplane, "qp_room"));
	if (err) {
		explain(error, err, "the map qp_room cannot be mapped: %s", strerror(-err));
		goto fail;
	}
	err = qptable_poll(table);
	if (err) {
		explain(error, err, "the map qps cannot be read: %s", strerror(-err));
		goto fail;
	}
	err = owners_new(&table->owners, dataplane_map_fd(dataplane, "control"),
			 dataplane_map_fd(dataplane, "qp_owners"), dataplane_is_off(dataplane));
	if (err) {
		explain(error, err, "queue pairs' owners: %s", strerror(-err));
		goto fail;
	}
	dataplane_set_visibility(dataplane, owners_check_port, table->owners);
	events_set_owners(core->events, find_owner, table);
	*self = table;
	return 0;
fail:
	close_qp(table);
	return err;
}

static void tick(void *self, uint64_t now_ns)
{
	uint32_t devices[ESC_QP_ROOM_DEVICES];
	struct qptable *table = self;

	owners_tick(table->owners, now_ns);
	owners_refresh(table->owners);
	qptable_set_devices(table, devices,
			    owners_traced_devices(table->owners, devices, ESC_QP_ROOM_DEVICES));
}

static void reconfigure(void *self, const struct config *old)
{
	struct qptable *table = self;

	(void)old;
	table->idle_ns = table->core->config->qps.idle_ns;
}

static int off(void *self, const char *by, char **error)
{
	struct qptable *table = self;

	(void)by;
	(void)error;
	owners_set_off(table->owners, true);
	return 0;
}

static int on(void *self, char **error)
{
	struct qptable *table = self;

	(void)error;
	owners_set_off(table->owners, dataplane_is_off(table->dataplane));
	return 0;
}

static void status(void *self, json_t *object)
{
	struct esc_reason_count counts[ESC_REASON_MAX];
	const struct qptable *table = self;
	const struct owners *owners = table->owners;
	json_t *qps = json_object(), *tracing = json_object();

	json_put_count(qps, "tracked", table->count);
	json_put_count(qps, "max", dataplane_map_max(table->dataplane, "qps"));
	if (!dataplane_reasons(table->dataplane, counts)) {
		json_put_count(qps, "refused", reason_sum(&counts[ESC_REASON_QP_TABLE_FULL]));
		json_put_count(qps, "refused_unknown",
			       reason_sum(&counts[ESC_REASON_QP_UNKNOWN_HOST]));
		json_put_count(qps, "refused_foreign", reason_sum(&counts[ESC_REASON_QP_FOREIGN]));
	}
	json_put(object, "qps", qps);
	json_put_text(tracing, "method", owners_how(owners));
	/* Why not better. */
	json_put_text(tracing, "note",
		      owners->off     ? "the kill switch is on"
		      : owners->trace ? ""
				      : owners->why);
	json_put_count(tracing, "known", owners->count);
	json_put_count(tracing, "max", ESC_OWNERS_MAX);
	json_put_count(tracing, "refused", owners_refused(owners));
	json_put(object, "qp_tracing", tracing);
}

const struct capability qp_capability = {
	.name = "qp",
	.needs = {"dataplane"},
	.verbs = qp_verb_handlers,
	.events = qp_events,
	.metrics = qp_metrics,
	.open = open_qp,
	.close = close_qp,
	.tick_ns = QP_TICK_NS,
	.tick = tick,
	.reconfigure = reconfigure,
	.refresh = refresh,
	.off = off,
	.on = on,
	.status = status,
	.write_metrics = qp_write_metrics,
};
