// SPDX-License-Identifier: BSD-2-Clause
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <systemd/sd-event.h>
#include <time.h>
#include <unistd.h>

#include "config/config.h"
#include "dataplane/dataplane.h"
#include "delay/delay.h"
#include "base/explain.h"
#include "delay/hostqueue.h"
#include "diagnose/diagnose.h"
#include "core/events.h"
#include "dataplane/lock.h"
#include "base/log.h"
#include "mesh/mesh.h"
#include "nic/nic.h"
#include "qp/owners.h"
#include "paths/paths.h"
#include "pace/pace.h"
#include "tcp/tcp.h"
#include "dataplane/preflight.h"
#include "qp/table.h"
#include "net/rtnl.h"
#include "api/server.h"
#include "steer/steer.h"
#include "api/textfile.h"

#define DAEMON_TICK_US 1000000
#define DAEMON_TICK_SLACK_US 20000

static uint64_t daemon_clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

uint64_t daemon_local_ns(void)
{
	return daemon_clock_ns(CLOCK_MONOTONIC);
}

uint64_t daemon_realtime_ns(void)
{
	return daemon_clock_ns(CLOCK_REALTIME);
}

static int daemon_read_qps(struct daemon *daemon)
{
	struct esc_reason_count reasons[ESC_REASON_MAX], *full;
	uint64_t now_ns = daemon_local_ns();
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

/* --- the kill switch --- */

static bool kill_file_is_there(const struct daemon *daemon)
{
	return !access(daemon->config->kill_file, F_OK);
}

static int kill_file_make(const struct daemon *daemon, char **error)
{
	const char *path = daemon->config->kill_file;
	char *copy = strdup(path);
	int fd;

	if (copy)
		mkdir(dirname(copy), 0755); /* when it fails, open() says why */
	free(copy);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return explain(error, -errno,
			       "everything is detached, but %s cannot be made (%s): a daemon that "
			       "starts later would attach again",
			       path, strerror(errno));
	close(fd);
	return 0;
}

static int kill_file_remove(const struct daemon *daemon, char **error)
{
	const char *path = daemon->config->kill_file;

	if (!unlink(path) || errno == ENOENT)
		return 0;
	return explain(error, -errno, "%s cannot be removed: %s", path, strerror(errno));
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

/* @by: command, file or map. */
static int daemon_switch(struct daemon *daemon, bool off, const char *by, char **error)
{
	bool was_off = dataplane_is_off(daemon->dataplane);
	int err;

	if (off) {
		steer_stop(daemon->steer, by);
		pace_stop(daemon->pace, by);
		tcppace_stop(daemon->tcp, by);
	}
	err = off ? dataplane_off(daemon->dataplane, error)
		  : dataplane_on(daemon->dataplane, error);

	daemon->control_flags = dataplane_control_flags(daemon->dataplane);
	owners_set_off(daemon->owners, dataplane_is_off(daemon->dataplane));
	daemon_follow_host_queue(daemon);
	nics_set_off(daemon->nics, dataplane_is_off(daemon->dataplane));
	if (err || was_off == off)
		return err;
	log_warning("the kill switch is %s (by %s)", off ? "on: everything is detached" : "off",
		    by);
	ledger_add(daemon->ledger, off ? "kill_switch_on" : "kill_switch_off", "daemon", NULL,
		   json_pack("{s:s}", "by", by), NULL, NULL);
	return 0;
}

int daemon_set_off(struct daemon *daemon, bool off, char **error)
{
	int err, err_file;

	/* Detaching comes first: it is what the operator is in a hurry for. */
	err = daemon_switch(daemon, off, "command", error);
	if (err)
		return err;
	err_file = off ? kill_file_make(daemon, error) : kill_file_remove(daemon, error);
	daemon->kill_file_seen = kill_file_is_there(daemon);
	return err_file;
}

/* An operator's `touch` or `rm` works as well; only a change counts. */
static void daemon_watch_kill_file(struct daemon *daemon)
{
	bool there = kill_file_is_there(daemon);
	char *error = NULL;

	if (there == daemon->kill_file_seen)
		return;
	daemon->kill_file_seen = there;
	if (daemon_switch(daemon, there, "file", &error))
		log_error("%s", error ? error : "the kill switch failed");
	free(error);
}

/* control.flags written by bpftool: the programs obey at once, we tell. */
static void daemon_watch_control(struct daemon *daemon)
{
	uint32_t flags = dataplane_control_flags(daemon->dataplane);
	bool off = flags & ESC_CONTROL_OFF;

	if (!((flags ^ daemon->control_flags) & ESC_CONTROL_OFF))
		return;
	daemon->control_flags = flags;
	log_warning("the map control was written by somebody else: kill switch %s",
		    off ? "on, programs leave every packet alone" : "off");
	ledger_add(daemon->ledger, off ? "kill_switch_on" : "kill_switch_off", "daemon",
		   json_pack("{s:I}", "flags", (json_int_t)flags), json_pack("{s:s}", "by", "map"),
		   NULL, NULL);
}

/* --- the loop --- */

static int daemon_on_tick(sd_event_source *source, uint64_t due_us, void *context)
{
	struct daemon *daemon = context;
	uint64_t now_us;

	(void)due_us;
	daemon_watch_kill_file(daemon);
	daemon_watch_control(daemon);
	dataplane_tick(daemon->dataplane, daemon_local_ns());
	nics_look(daemon->nics);
	mesh_look(daemon->mesh);
	owners_turn(daemon->owners, daemon_local_ns());
	owners_refresh(daemon->owners);
	sd_event_now(daemon->event, CLOCK_MONOTONIC, &now_us);
	sd_event_source_set_time(source, now_us + DAEMON_TICK_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* Delays are looked at more often than the rest: whoever judges them is to be in time. */
static int daemon_on_look(sd_event_source *source, uint64_t due_us, void *context)
{
	struct daemon *daemon = context;
	uint64_t now_us;

	(void)due_us;
	if (daemon_read_qps(daemon))
		log_debug("the maps of queue pairs could not be read in this turn");
	else
		judge_look(daemon->judge, daemon->refreshed_local_ns);
	sd_event_now(daemon->event, CLOCK_MONOTONIC, &now_us);
	sd_event_source_set_time(source, now_us + delays_interval_ns(daemon->delays) / 1000);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static int daemon_on_links(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct daemon *daemon = context;

	(void)source;
	(void)events;
	rtnl_drain(fd);
	dataplane_tick(daemon->dataplane, daemon_local_ns());
	paths_see_links(daemon->paths);
	nics_look(daemon->nics);
	return 0;
}

static int daemon_watch(struct daemon *daemon, char **error)
{
	int err;

	daemon->links_fd = rtnl_watch_links();
	if (daemon->links_fd < 0)
		return explain(error, daemon->links_fd, "rtnetlink: %s",
			       strerror(-daemon->links_fd));
	err = sd_event_add_io(daemon->event, &daemon->links, daemon->links_fd, EPOLLIN,
			      daemon_on_links, daemon);
	if (err >= 0)
		err = sd_event_add_time_relative(daemon->event, &daemon->tick, CLOCK_MONOTONIC,
						 DAEMON_TICK_US, DAEMON_TICK_SLACK_US,
						 daemon_on_tick, daemon);
	if (err >= 0)
		err = sd_event_add_time_relative(daemon->event, &daemon->look, CLOCK_MONOTONIC,
						 DELAYS_FAST_NS / 1000, DAEMON_TICK_SLACK_US,
						 daemon_on_look, daemon);
	return err < 0 ? explain(error, err, "sd-event: %s", strerror(-err)) : 0;
}

/* --- from file to service --- */

static void daemon_tell_started(struct daemon *daemon)
{
	ledger_add(daemon->ledger, "daemon_started", daemon->config->host,
		   json_pack("{s:s, s:i}", "version", ESC_VERSION, "pid", (int)getpid()),
		   json_pack("{s:b, s:b}", "taken_over", daemon->takeover, "kill_switch",
			     dataplane_is_off(daemon->dataplane)),
		   NULL, NULL);
}

/* Everything that may be refused without a trace comes before the first map is made. */
static int daemon_prepare(struct daemon *daemon, char **error)
{
	int err = config_load(daemon->config_path, &daemon->config, error);

	if (!err)
		err = preflight_check(error);
	if (!err)
		err = locks_take(&daemon->locks, NULL, daemon->config, error);
	if (err)
		return err;
	err = ledger_new(&daemon->ledger, daemon->config->events.keep, daemon->config->events.file);
	if (err)
		return explain(error, err, "%s: events.file %s: %s", daemon->config->path,
			       daemon->config->events.file ? daemon->config->events.file : "(none)",
			       strerror(-err));
	err = sd_event_default(&daemon->event);
	return err < 0 ? explain(error, err, "sd-event: %s", strerror(-err)) : 0;
}

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

static int daemon_serve(struct daemon *daemon, char **error)
{
	int err = daemon_open_qps(daemon, error);

	if (!err)
		err = daemon_open_owners(daemon, error);
	if (!err)
		err = mesh_new(&daemon->mesh, daemon, error);
	if (!err)
		err = steer_new(&daemon->steer, daemon, error);
	if (!err)
		err = paths_new(&daemon->paths, daemon, error);
	if (!err)
		steer_follow_paths(daemon->steer, daemon->paths);
	if (!err)
		err = pace_new(&daemon->pace, daemon, error);
	if (!err)
		err = tcppace_new(&daemon->tcp, daemon, error);
	if (!err)
		err = nics_new(&daemon->nics, daemon, error);
	if (!err)
		err = judge_new(&daemon->judge, daemon);
	if (!err)
		err = server_new(&daemon->server, daemon, error);
	if (!err)
		err = textfile_new(&daemon->textfile, daemon, error);
	if (!err)
		daemon_follow_host_queue(daemon);
	return err ? err : daemon_watch(daemon, error);
}

/* The last part failed: leave nothing attached that was not before. */
static void daemon_undo(struct daemon *daemon)
{
	char *pin_root = strdup(daemon->config->pin_root);
	bool fresh = daemon->dataplane && !daemon->takeover;

	daemon_free(daemon);
	if (fresh && pin_root)
		dataplane_remove(pin_root, NULL);
	free(pin_root);
}

int daemon_new(struct daemon **out, const char *config_path, char **error)
{
	struct daemon *daemon = calloc(1, sizeof(*daemon));
	int err;

	*out = NULL;
	if (!daemon)
		return -ENOMEM;
	daemon->config_path = config_path;
	daemon->links_fd = -1;
	daemon->start_realtime_ns = daemon_realtime_ns();
	daemon->start_local_ns = daemon_local_ns();
	err = daemon_prepare(daemon, error);
	if (err) {
		daemon_free(daemon);
		return err;
	}
	err = dataplane_open(&daemon->dataplane, daemon->config, daemon->ledger, error);
	if (!err) {
		daemon->takeover = dataplane_took_over(daemon->dataplane);
		daemon->control_flags = dataplane_control_flags(daemon->dataplane);
		daemon->kill_file_seen = kill_file_is_there(daemon);
		err = daemon_serve(daemon, error);
	}
	if (err) {
		daemon_undo(daemon);
		return err;
	}
	daemon_tell_started(daemon);
	*out = daemon;
	return 0;
}

void daemon_free(struct daemon *daemon)
{
	if (!daemon)
		return;
	hostqueue_close(daemon->host_queue);
	textfile_free(daemon->textfile);
	server_free(daemon->server);
	sd_event_source_unref(daemon->tick);
	sd_event_source_unref(daemon->look);
	sd_event_source_unref(daemon->links);
	if (daemon->links_fd >= 0)
		close(daemon->links_fd);
	judge_free(daemon->judge);
	nics_free(daemon->nics);
	paths_free(daemon->paths);
	tcppace_free(daemon->tcp);
	pace_free(daemon->pace);
	steer_free(daemon->steer);
	mesh_free(daemon->mesh);
	owners_free(daemon->owners);
	delays_free(daemon->delays);
	qptable_free(daemon->qps);
	dataplane_close(daemon->dataplane);
	ledger_free(daemon->ledger);
	locks_free(daemon->locks);
	sd_event_unref(daemon->event);
	config_free(daemon->config);
	free(daemon);
}
