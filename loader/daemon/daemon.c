// SPDX-License-Identifier: BSD-2-Clause
#include "daemon.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "api/api.h"
#include "base/explain.h"
#include "dataplane/dataplane.h"
#include "fleet/fleet.h"
#include "net/rtnl.h"

#define LINKS_INTERVAL_NS 50000000ull

#define CAPABILITY(name) extern const struct capability name##_capability;
#include "capabilities.def"
#undef CAPABILITY

/* In the order in which they are opened. */
const struct capability *const daemon_capabilities[] = {
#define CAPABILITY(name) &name##_capability,
#include "capabilities.def"
#undef CAPABILITY
	NULL,
};
#define CAPABILITIES (sizeof(daemon_capabilities) / sizeof(daemon_capabilities[0]) - 1)

const struct config_section *const *daemon_config_sections(void)
{
	static const struct config_section *sections[CAPABILITIES + 1];
	size_t count = 0;

	for (size_t i = 0; i < CAPABILITIES; i++)
		if (daemon_capabilities[i]->keys)
			sections[count++] = daemon_capabilities[i]->keys;
	return sections;
}

#define DAEMON_EVENTS(X) X(DAEMON_STARTED, "daemon_started", NOTICE, "The daemon serves.")
enum { DAEMON_EVENTS(EVENT_ENUM) };
static const struct event_kind daemon_events[] = {DAEMON_EVENTS(EVENT_KIND){}};

const struct event_kind *const *daemon_event_kinds(void)
{
	static const struct event_kind *lists[CAPABILITIES + 7] = {
		daemon_events,	    core_events,   core_loop_events,
		core_worker_events, events_events, textfile_events};
	size_t count = 6;

	for (size_t i = 0; i < CAPABILITIES; i++)
		if (daemon_capabilities[i]->events)
			lists[count++] = daemon_capabilities[i]->events;
	return lists;
}

const struct metric *const *daemon_metrics(void)
{
	static const struct metric *lists[CAPABILITIES + 2] = {textfile_metrics};
	size_t count = 1;

	for (size_t i = 0; i < CAPABILITIES; i++)
		if (daemon_capabilities[i]->metrics)
			lists[count++] = daemon_capabilities[i]->metrics;
	return lists;
}

/*
 * At once after a quiet time; in a storm of messages every LINKS_INTERVAL_NS, and not while RTNL is
 * held: each link is read with it.
 */
static uint64_t links_changed(void *context, uint64_t now_ns)
{
	struct daemon *daemon = context;

	if (now_ns < daemon->links_due_ns)
		return daemon->links_due_ns - now_ns;
	if (rtnl_wait(CORE_RTNL_MS))
		return LINKS_INTERVAL_NS;
	daemon->links_waits = false;
	core_links_changed(&daemon->core);
	core_took(&daemon->core, "links", now_ns);
	daemon->links_due_ns = time_local_ns() + LINKS_INTERVAL_NS;
	return 0;
}

static int on_links(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct daemon *daemon = context;
	uint64_t delay_ns;

	(void)source;
	(void)events;
	rtnl_drain(fd);
	if (daemon->links_waits)
		return 0;
	daemon->links_waits = true;
	delay_ns = links_changed(daemon, time_local_ns());
	if (!delay_ns)
		return 0;
	core_timer_free(daemon->links_timer);
	if (core_timer_new(&daemon->core, &daemon->links_timer, delay_ns, 0, links_changed, daemon))
		daemon->links_waits = false; /* no memory: the next message, or a tick, tells it */
	return 0;
}

/* Everything that may be refused without a trace comes before the first map is made. */
static int prepare(struct daemon *daemon, char **error)
{
	struct core *core = &daemon->core;
	int err = config_load(&core->config_input, &core->own_config, error);

	core->config = core->own_config;
	if (!err)
		err = fleet_new(&core->fleet);
	if (!err)
		err = fleet_configure(core->fleet, core->config->host,
				      core->config->members_hold_ns, core->config->mesh.degree);
	if (!err) {
		fleet_set(core->fleet, core->config->members, core->own_config->member_list);
		core->own_config->member_list = NULL;
	}
	if (err)
		return err;
	err = events_new(&core->events, core->config->events.keep, core->config->events.file);
	if (err)
		return err;
	events_set_host(core->events, core->config->host);
	events_recall(core->events);
	events_limit(core->events);
	core->modules = calloc(CAPABILITIES, sizeof(*core->modules));
	if (!core->modules)
		return -ENOMEM;
	err = sd_event_default(&core->loop);
	return err < 0 ? explain(error, err, "sd-event: %s", strerror(-err)) : 0;
}

static int serve(struct daemon *daemon, char **error)
{
	struct core *core = &daemon->core;
	int err = 0, fd;

	for (size_t i = 0; !err && i < CAPABILITIES; i++)
		err = core_open(core, daemon_capabilities[i], error);
	if (!err)
		err = server_new(&daemon->server, core, error);
	if (!err)
		err = textfile_new(&daemon->textfile, core);
	if (err)
		return err;
	fd = rtnl_watch_links();
	if (fd < 0)
		return explain(error, fd, "rtnetlink: %s", strerror(-fd));
	err = sd_event_add_io(core->loop, &daemon->links, fd, EPOLLIN, on_links, daemon);
	if (err < 0) {
		close(fd);
		return explain(error, err, "sd-event: %s", strerror(-err));
	}
	sd_event_source_set_io_fd_own(daemon->links, true);
	err = events_watch_file(core->events, core->loop);
	if (err < 0)
		return explain(error, err, "sd-event: %s", strerror(-err));
	return core_watch_kill_file(core);
}

int daemon_new(struct daemon **out, const char *config_path, char **error)
{
	struct daemon *daemon = calloc(1, sizeof(*daemon));
	struct core *core;
	int err;

	*out = NULL;
	if (!daemon)
		return -ENOMEM;
	core = &daemon->core;
	core->config_input.path = config_path;
	core->config_input.sections = daemon_config_sections();
	core->start_realtime_ns = time_realtime_ns();
	core->start_local_ns = time_local_ns();
	err = prepare(daemon, error);
	if (err) {
		daemon_free(daemon);
		return err;
	}
	err = serve(daemon, error);
	if (err) {
		/* Nothing stays attached that was not before. */
		char *pin_root = strdup(core->config->pin_root), *kept = NULL;
		bool fresh = core->module_count && !core->took_over;

		daemon_free(daemon);
		if (fresh && pin_root)
			dataplane_remove(pin_root, &kept, NULL);
		free(kept);
		free(pin_root);
		return err;
	}
	events_add(core->events,
		   &(struct event){
			   .kind = &daemon_events[DAEMON_STARTED],
			   .subject = core->config->host,
			   .seen = json_pack("{s:s, s:i}", "version", ESC_VERSION, "pid",
					     (int)getpid()),
			   .done = json_pack("{s:b, s:b}", "taken_over", core->took_over,
					     "kill_switch", core_is_off(core)),
		   });
	*out = daemon;
	return 0;
}

void daemon_free(struct daemon *daemon)
{
	if (!daemon)
		return;
	textfile_free(daemon->textfile);
	server_free(daemon->server);
	core_timer_free(daemon->links_timer);
	sd_event_source_unref(daemon->links);
	core_close(&daemon->core);
	core_end_start(&daemon->core);
	events_free(daemon->core.events);
	sd_event_unref(daemon->core.loop);
	fleet_free(daemon->core.fleet);
	config_free(daemon->core.own_config);
	free(daemon->core.modules);
	free(daemon);
}
