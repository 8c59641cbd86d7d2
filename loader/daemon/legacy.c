// SPDX-License-Identifier: BSD-2-Clause
/* Capabilities that are not in their modules yet: each is one function of the daemon's parts. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/metrics.h"
#include "api/report.h"
#include "base/explain.h"
#include "base/log.h"
#include "clock/report.h"
#include "config/config.h"
#include "daemon.h"
#include "dataplane/dataplane.h"
#include "dataplane/lock.h"
#include "delay/delay.h"
#include "delay/hostqueue.h"
#include "delay/metrics.h"
#include "delay/report.h"
#include "diagnose/diagnose.h"
#include "api/verbs.h"
#include "fleet/fleet.h"
#include "mesh/mesh.h"
#include "pace/pace.h"
#include "paths/paths.h"
#include "paths/report.h"
#include "qp/owners.h"
#include "qp/report.h"
#include "qp/report_owner.h"
#include "qp/table.h"
#include "steer/request.h"
#include "steer/steer.h"

static struct daemon *daemon_of(struct core *core)
{
	return (struct daemon *)core;
}

static int daemon_read_qps(struct daemon *daemon)
{
	struct esc_reason_count reasons[ESC_REASON_MAX], *full;
	uint64_t now_ns = time_local_ns();
	int err;

	err = dataplane_reasons(daemon->dataplane, reasons);
	full = &reasons[ESC_REASON_QP_TABLE_FULL];
	if (!err)
		err = qptable_refresh(daemon->qps, now_ns,
				      full->xdp_ingress + full->tc_ingress + full->tc_egress);
	if (!err)
		err = delays_look(daemon->delays, now_ns);
	if (!err)
		daemon->refreshed_local_ns = now_ns;
	return err;
}

int daemon_refresh(struct daemon *daemon)
{
	int err = daemon_read_qps(daemon);

	owners_refresh(daemon->owners);
	return err;
}

void daemon_follow_host_queue(struct daemon *daemon)
{
	const struct config *config = daemon->config;
	const struct dataplane *dataplane = daemon->dataplane;

	if (!config->receipts.on || !config->receipts.host_queue || dataplane_is_off(dataplane)) {
		hostqueue_close(daemon->host_queue);
		daemon->host_queue = NULL;
		daemon->host_queue_note[0] = '\0';
		return;
	}
	if (daemon->host_queue)
		return;
	if (hostqueue_open(&daemon->host_queue, dataplane_map_fd(dataplane, "host_queue"),
			   dataplane_map_fd(dataplane, "qp_sent"), daemon->host_queue_note,
			   sizeof(daemon->host_queue_note)))
		log_warning("%s", daemon->host_queue_note);
}


/* --- dataplane --- */

static uint32_t control_flags; /* as last seen */

/* control.flags written by bpftool: the programs obey at once, we tell. */
static void daemon_watch_control(struct daemon *daemon)
{
	uint32_t flags = dataplane_control_flags(daemon->dataplane);
	bool off = flags & ESC_CONTROL_OFF;

	if (!((flags ^ control_flags) & ESC_CONTROL_OFF))
		return;
	control_flags = flags;
	log_warning("the map control was written by somebody else: kill switch %s",
		    off ? "on, programs leave every packet alone" : "off");
	events_record(daemon->ledger, off ? "kill_switch_on" : "kill_switch_off", "daemon",
		   json_pack("{s:I}", "flags", (json_int_t)flags), json_pack("{s:s}", "by", "map"),
		   NULL, NULL);
}

static bool dataplane_off_now(void *context)
{
	return dataplane_is_off(context);
}

static int open_dataplane(void **self, struct core *core, void *const needs[], char **error)
{
	struct daemon *daemon = daemon_of(core);
	int err = dataplane_open(&daemon->dataplane, core, error);

	(void)needs;
	*self = daemon->dataplane;
	if (err)
		return err;
	core->is_off = dataplane_off_now;
	core->is_off_context = daemon->dataplane;
	control_flags = dataplane_control_flags(daemon->dataplane);
	daemon->takeover = dataplane_took_over(daemon->dataplane);
	return 0;
}

static void close_dataplane(void *self)
{
	dataplane_close(self);
}

struct daemon *legacy_daemon; /* until these are in their modules */

static void tick_dataplane(void *self, uint64_t now_ns)
{
	daemon_watch_control(legacy_daemon);
	dataplane_tick(self, now_ns);
}

static int accept_dataplane(void *self, const struct config *new, char **error)
{
	struct locks *locks;
	int err = locks_take(&locks, legacy_daemon->locks, new, error);

	if (err)
		return err;
	err = dataplane_reconfigure(self, new, error);
	if (err)
		locks_free(locks);
	else
		locks_replace(&legacy_daemon->locks, locks);
	return err;
}

static int off_dataplane(void *self, const char *by, char **error)
{
	int err = dataplane_off(self, error);

	(void)by;
	control_flags = dataplane_control_flags(self);
	return err;
}

static int on_dataplane(void *self, char **error)
{
	int err = dataplane_on(self, error);

	control_flags = dataplane_control_flags(self);
	return err;
}

static void links_dataplane(void *self)
{
	dataplane_tick(self, time_local_ns());
}

static void reconfigure_dataplane(void *self, const struct config *old)
{
	(void)self;
	(void)old;
	legacy_daemon->config = legacy_daemon->core.own_config; /* for those below */
}

static json_t *reply_features(void *self, struct request *request)
{
	json_t *features = report_support();

	(void)self;
	return features ? features
			: request_fail(request, REQUEST_FAILED,
				       strdup("the kernel could not be probed"));
}

static const struct verb_handler dataplane_handlers[] = {{"features", reply_features}, {}};

static void status_dataplane(void *self, json_t *status)
{
	(void)self;
	report_put_dataplane(status, legacy_daemon);
}

const struct capability dataplane_capability = {
	.name = "dataplane",
	.verbs = dataplane_handlers,
	.open = open_dataplane,
	.close = close_dataplane,
	.tick_ns = 1000000000,
	.tick = tick_dataplane,
	.accept = accept_dataplane,
	.reconfigure = reconfigure_dataplane,
	.off = off_dataplane,
	.on = on_dataplane,
	.links_changed = links_dataplane,
	.status = status_dataplane,
};

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
		report_put_count(status, "members",
				 fleet_members(legacy_daemon->core.fleet)->count);
	report_put_clock(status, legacy_daemon);
}

const struct capability mesh_capability = {
	.name = "mesh",
	.open = open_mesh,
	.verbs = mesh_handlers,
	.close = close_mesh,
	.tick_ns = 1000000000,
	.tick = tick_mesh,
	.reconfigure = reconfigure_mesh,
	.status = status_mesh,
};

/* --- queue pairs --- */

static int daemon_open_qps(struct daemon *daemon, char **error)
{
	int err = qptable_new(&daemon->qps, dataplane_qps_fd(daemon->dataplane),
			      dataplane_qps_max(daemon->dataplane), daemon->config->qps.idle_ns,
			      daemon->ledger);

	if (!err)
		err = delays_new(&daemon->delays, dataplane_map_fd(daemon->dataplane, "qp_owd"),
				 dataplane_map_fd(daemon->dataplane, "qp_sent"),
				 dataplane_map_max(daemon->dataplane, "qp_owd"), daemon->qps);
	if (!err)
		err = daemon_refresh(daemon);
	return err ? explain(error, err, "the map qps cannot be read: %s", strerror(-err)) : 0;
}

static int daemon_open_owners(struct daemon *daemon, char **error)
{
	const struct dataplane *dataplane = daemon->dataplane;
	int err = owners_new(&daemon->owners, dataplane_map_fd(dataplane, "control"),
			     dataplane_map_fd(dataplane, "qp_owners"), dataplane_is_off(dataplane));

	return err ? explain(error, err, "queue pairs' owners: %s", strerror(-err)) : 0;
}


static int open_qp(void **self, struct core *core, void *const needs[], char **error)
{
	struct daemon *daemon = daemon_of(core);
	int err = daemon_open_qps(daemon, error);

	(void)needs;
	*self = daemon->qps;
	return err;
}

static void close_qp(void *self)
{
	delays_free(legacy_daemon->delays);
	qptable_free(self);
}

static int refresh_qp(void *self)
{
	(void)self;
	return daemon_read_qps(legacy_daemon);
}

static void reconfigure_qp(void *self, const struct config *old)
{
	(void)old;
	qptable_set_idle(self, legacy_daemon->config->qps.idle_ns);
}

static int write_qp(FILE *out, struct core *core, const struct report_delays *facts,
		    const struct qp_entry *entry)
{
	const struct port_info *port = report_delays_port(facts, entry->key.port);
	json_t *qp = report_qp(entry, port ? port->name : NULL);
	int err;

	report_put_owner(qp, legacy_daemon->owners, &entry->key, port ? port->rdma_device : "");
	report_put_delays(qp, facts, entry);
	core_describe_qp(core, entry, qp);
	err = json_dumpf(qp, out, JSON_COMPACT) ? -ENOMEM : 0;
	json_decref(qp);
	return err;
}

/* Written entry by entry: a full table as one JSON tree would take a hundred megabytes. */
static int write_qps(struct daemon *daemon, FILE *out, const struct qp_entry **list, size_t count,
		     size_t most)
{
	struct esc_reason_count reasons[ESC_REASON_MAX];
	struct report_delays facts;
	size_t tracked;
	int err = 0;

	qptable_entries(daemon->qps, &tracked);
	report_delays_begin(&facts, daemon);
	fputs("{\"ok\":true,\"result\":{\"qps\":[", out);
	for (size_t i = 0; !err && i < count && i < most; i++) {
		if (i)
			fputc(',', out);
		err = write_qp(out, &daemon->core, &facts, list[i]);
	}
	report_delays_end(&facts);
	if (err)
		return err;
	fprintf(out, "],\"tracked\":%zu,\"max\":%u", tracked, dataplane_qps_max(daemon->dataplane));
	if (!dataplane_reasons(daemon->dataplane, reasons))
		fprintf(out, ",\"refused\":%llu",
			(unsigned long long)report_reason_sum(&reasons[ESC_REASON_QP_TABLE_FULL]));
	if (count > most)
		fprintf(out, ",\"left_out\":%zu", count - most);
	fputs("}}\n", out);
	return ferror(out) ? -ENOMEM : 0;
}

static json_t *reply_qps(struct request *request, const struct report_qp_filter *filter,
			 enum report_qp_order order, size_t most)
{
	const struct qp_entry *entries, **list;
	size_t count, chosen = 0, bytes;
	char *text = NULL;
	FILE *out;
	int err;

	entries = qptable_entries(legacy_daemon->qps, &count);
	list = report_qp_choose(entries, count, filter, order, legacy_daemon->delays, &chosen);
	out = open_memstream(&text, &bytes);
	err = list && out ? write_qps(legacy_daemon, out, list, chosen, most) : -ENOMEM;
	if (out && fclose(out))
		err = -ENOMEM;
	free(list);
	if (!err)
		return request_raw(request, text, bytes);
	free(text);
	return request_fail(request, REQUEST_FAILED, NULL);
}

static json_t *reply_qp(void *self, struct request *request)
{
	struct report_qp_filter filter;
	enum report_qp_order order;
	const char *key, *sort;
	uint64_t top;

	(void)self;
	if (!request_text(request, "key", NULL, &key) ||
	    !request_text(request, "sort", "bytes", &sort) ||
	    !request_count(request, "top", 0, UINT64_MAX, REPORT_QPS_MOST, &top))
		return NULL;
	if (!report_qp_filter(key, &filter))
		return request_misuse(
			request,
			"`%.64s` names no queue pair; give a QPN (17, 0x11), a part "
			"of an address, or SRC>DST/QPN",
			key);
	if (!report_qp_order(sort, &order))
		return request_misuse(
			request,
			"queue pairs are not sorted by `%.32s`; give one of " REPORT_QP_ORDERS,
			sort);
	core_refresh(&legacy_daemon->core);
	return reply_qps(request, &filter, order, top < REPORT_QPS_MOST ? top : REPORT_QPS_MOST);
}

static const struct verb_handler qp_handlers[] = {{"qp", reply_qp}, {"top", reply_qp}, {}};

const struct capability qp_capability = {
	.name = "qp",
	.verbs = qp_handlers,
	.open = open_qp,
	.close = close_qp,
	.reconfigure = reconfigure_qp,
	.refresh = refresh_qp,
};

/* --- owners --- */

static int open_owners(void **self, struct core *core, void *const needs[], char **error)
{
	struct daemon *daemon = daemon_of(core);
	int err = daemon_open_owners(daemon, error);

	(void)needs;
	*self = daemon->owners;
	return err;
}

static void close_owners(void *self)
{
	owners_free(self);
}

static void tick_owners(void *self, uint64_t now_ns)
{
	owners_turn(self, now_ns);
	owners_refresh(self);
}

static int refresh_owners(void *self)
{
	owners_refresh(self);
	return 0;
}

static int off_owners(void *self, const char *by, char **error)
{
	(void)by;
	(void)error;
	owners_set_off(self, true);
	return 0;
}

static int on_owners(void *self, char **error)
{
	(void)error;
	owners_set_off(self, dataplane_is_off(legacy_daemon->dataplane));
	return 0;
}

const struct capability owners_capability = {
	.name = "owners",
	.open = open_owners,
	.close = close_owners,
	.tick_ns = 1000000000,
	.tick = tick_owners,
	.refresh = refresh_owners,
	.off = off_owners,
	.on = on_owners,
};

/* --- delay --- */

static int open_delay(void **self, struct core *core, void *const needs[], char **error)
{
	struct daemon *daemon = daemon_of(core);

	(void)needs;
	(void)error;
	*self = daemon->delays;
	daemon_follow_host_queue(daemon);
	return 0;
}

static void close_delay(void *self)
{
	(void)self;
	hostqueue_close(legacy_daemon->host_queue);
}

static void reconfigure_delay(void *self, const struct config *old)
{
	(void)self;
	(void)old;
	daemon_follow_host_queue(legacy_daemon);
}

static int off_delay(void *self, const char *by, char **error)
{
	(void)self;
	(void)by;
	(void)error;
	hostqueue_close(legacy_daemon->host_queue);
	legacy_daemon->host_queue = NULL;
	return 0;
}

static int on_delay(void *self, char **error)
{
	(void)self;
	(void)error;
	daemon_follow_host_queue(legacy_daemon);
	return 0;
}

static void status_delay(void *self, json_t *status)
{
	(void)self;
	report_put_receipts(status, legacy_daemon);
}

static void written_delay(void *self)
{
	if (self)
		delays_written(self);
}

const struct capability delay_capability = {
	.name = "delay",
	.open = open_delay,
	.close = close_delay,
	.reconfigure = reconfigure_delay,
	.off = off_delay,
	.on = on_delay,
	.status = status_delay,
	.metrics_written = written_delay,
};

/* --- paths --- */

static void resume_paths(void *self)
{
	paths_hear_anew(self);
}

static int open_paths(void **self, struct core *core, void *const needs[], char **error)
{
	struct daemon *daemon = daemon_of(core);
	int err = paths_new(&daemon->paths, daemon, error);

	(void)needs;
	*self = daemon->paths;
	if (!err)
		mesh_on_resume(daemon->mesh, resume_paths, daemon->paths);
	return err;
}

static void close_paths(void *self)
{
	mesh_on_resume(legacy_daemon->mesh, NULL, NULL);
	paths_free(self);
	legacy_daemon->paths = NULL;
}

static void reconfigure_paths(void *self, const struct config *old)
{
	(void)old;
	paths_reconfigure(self);
}

static void links_paths(void *self)
{
	paths_see_links(self);
}

static json_t *reply_paths(void *self, struct request *request)
{
	const char *peer;
	json_t *result;

	(void)self;
	if (!request_text(request, "peer", NULL, &peer))
		return NULL;
	result = report_paths(legacy_daemon, peer);
	if (!peer || json_array_size(json_object_get(result, "pairs")))
		return result;
	json_decref(result);
	return request_misuse(
		request,
		"there are no paths to `%.64s`; give a host that `escapement paths` lists, or "
		"its address",
		peer);
}

static const struct verb_handler paths_handlers[] = {{"paths", reply_paths}, {}};

static void status_paths(void *self, json_t *status)
{
	(void)self;
	report_put_paths(status, legacy_daemon);
}

const struct capability paths_capability = {
	.name = "paths",
	.verbs = paths_handlers,
	.open = open_paths,
	.close = close_paths,
	.reconfigure = reconfigure_paths,
	.links_changed = links_paths,
	.status = status_paths,
};

/* --- steer --- */

static int open_steer(void **self, struct core *core, void *const needs[], char **error)
{
	struct daemon *daemon = daemon_of(core);
	int err = steer_new(&daemon->steer, daemon, error);

	(void)needs;
	*self = daemon->steer;
	if (!err)
		steer_follow_paths(daemon->steer, daemon->paths);
	return err;
}

static void close_steer(void *self)
{
	paths_listen(legacy_daemon->paths, NULL, NULL);
	steer_free(self);
	legacy_daemon->steer = NULL;
}

static void reconfigure_steer(void *self, const struct config *old)
{
	steer_reconfigure(self, old);
}

static int off_steer(void *self, const char *by, char **error)
{
	(void)error;
	steer_stop(self, by);
	return 0;
}

static json_t *reply_steer(void *self, struct request *request)
{
	char *error = NULL;
	int exit = 0;
	json_t *result = request_steer(legacy_daemon, request->args, &exit, &error);

	(void)self;
	return result ? result : request_fail(request, exit, error);
}

static const struct verb_handler steer_handlers[] = {{"steer", reply_steer}, {}};

static void qp_steer(void *self, const struct qp_entry *entry, json_t *qp)
{
	steer_put(self, entry, qp);
}

static uint16_t ports_steer(const void *self)
{
	return steer_ports(self);
}

static int set_steer(void *self, bool on, const json_t *interfaces, const char *by, char **error)
{
	return steer_set_mode(self, on, interfaces, by, error);
}

static const struct capability_mode mode_steer = {"steer", ports_steer, set_steer};

const struct capability steer_capability = {
	.name = "steer",
	.verbs = steer_handlers,
	.mode = &mode_steer,
	.open = open_steer,
	.close = close_steer,
	.reconfigure = reconfigure_steer,
	.off = off_steer,
	.qp = qp_steer,
};

/* --- diagnose, and the poll of the maps before it --- */

static struct core_timer *poll_timer;

static uint64_t poll_qps(void *context, uint64_t now_ns)
{
	(void)context;
	(void)now_ns;
	if (daemon_read_qps(legacy_daemon))
		log_debug("the maps of queue pairs could not be read in this tick");
	else
		judge_look(legacy_daemon->judge, legacy_daemon->refreshed_local_ns);
	return delays_interval_ns(legacy_daemon->delays);
}

static int open_diagnose(void **self, struct core *core, void *const needs[], char **error)
{
	struct daemon *daemon = daemon_of(core);
	int err = judge_new(&daemon->judge, daemon);

	(void)needs;
	(void)error;
	*self = daemon->judge;
	return err ? err
		   : core_timer_new(core, &poll_timer, DELAYS_FAST_NS, 20000000, poll_qps, daemon);
}

static void close_diagnose(void *self)
{
	core_timer_free(poll_timer);
	judge_free(self);
}

static void qp_diagnose(void *self, const struct qp_entry *entry, json_t *qp)
{
	judge_put_qp(qp, self, entry);
}

static void status_diagnose(void *self, json_t *status)
{
	json_t *verdicts = judge_report(self, time_local_ns());

	if (verdicts)
		json_object_set_new(status, "verdicts", verdicts);
}

static void gather_ports(const struct daemon *daemon, struct metrics_facts *facts)
{
	const struct dataplane *dataplane = daemon->dataplane;

	for (unsigned int i = 0; i < dataplane_port_count(dataplane) && i < ESC_PORTS_MAX; i++) {
		struct metrics_port *port = &facts->ports[facts->port_count];

		if (dataplane_port(dataplane, i, &port->info))
			continue;
		owners_judge_port(daemon->owners, time_local_ns(), &port->info);
		port->counted = !dataplane_port_counts(dataplane, port->info.index, &port->counts);
		facts->port_count++;
	}
}

/* Freed with the facts. */
static void gather_mesh(const struct daemon *daemon, struct metrics_mesh *facts)
{
	struct mesh_peer_facts *peers = calloc(MESH_EDGES_MAX, sizeof(*peers));

	mesh_get(daemon->mesh, &facts->mesh);
	mesh_get_clock(daemon->mesh, &facts->clock);
	if (peers)
		facts->peer_count = mesh_get_peers(daemon->mesh, peers, MESH_EDGES_MAX);
	facts->peers = peers;
}

static void gather(struct daemon *daemon, struct metrics_facts *facts)
{
	facts->off = dataplane_is_off(daemon->dataplane);
	gather_ports(daemon, facts);
	gather_mesh(daemon, &facts->mesh);
	steer_get(daemon->steer, &facts->steer);
	paths_get(daemon->paths, &facts->paths);
	metrics_lanes_gather(daemon->paths, daemon->config->textfile.top_paths, &facts->lanes);
	judge_get_counts(daemon->judge, &facts->verdicts);
	facts->reasons_read = !dataplane_reasons(daemon->dataplane, facts->reasons);
	facts->qps_read = !core_refresh(&daemon->core);
	facts->qps_max = dataplane_qps_max(daemon->dataplane);
	facts->owners = daemon->owners;
	facts->top_qps = daemon->config->textfile.top_qps;
	facts->delays = daemon->delays;
	facts->members = fleet_members(daemon->core.fleet);
	facts->receipts = daemon->config->receipts.on;
	if (!facts->qps_read)
		return;
	facts->qps = qptable_entries(daemon->qps, &facts->qp_count);
	for (int direction = 0; direction < 2; direction++)
		qptable_totals(daemon->qps, direction, &facts->totals[direction]);
}


static void metrics_diagnose(void *self, FILE *out)
{
	struct metrics_facts *facts = calloc(1, sizeof(*facts));

	(void)self;
	if (!facts)
		return;
	gather(legacy_daemon, facts);
	metrics_write(out, facts);
	free((void *)facts->mesh.peers);
	free(facts->lanes.list);
	free(facts);
}

const struct capability diagnose_capability = {
	.name = "diagnose",
	.open = open_diagnose,
	.close = close_diagnose,
	.status = status_diagnose,
	.qp = qp_diagnose,
	.write_metrics = metrics_diagnose,
};
