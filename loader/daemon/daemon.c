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
#include "base/log.h"
#include "dataplane/dataplane.h"
#include "fleet/fleet.h"
#include "net/rtnl.h"

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
	static const struct event_kind *lists[CAPABILITIES + 5] = {
		daemon_events, reload_events, killswitch_events, textfile_events};
	size_t count = 4;

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

static int on_links(sd_event_source *source, int fd, uint32_t events, void *context)
{
	(void)source;
	(void)events;
	rtnl_drain(fd);
	core_links_changed(context);
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
	if (!err) {
		fleet_set(core->fleet, core->config->members, core->own_config->member_list);
		core->own_config->member_list = NULL;
	}
	if (err)
		return err;
	err = events_new(&core->events, core->config->events.keep, core->config->events.file);
	if (err)
		return explain(error, err, "%s: events.file %s: %s", core->config->path,
			       core->config->events.file ? core->config->events.file : "(none)",
			       strerror(-err));
	events_set_host(core->events, core->config->host);
	core->modules = calloc(CAPABILITIES, sizeof(*core->modules));
	if (!core->modules)
		return -ENOMEM;
	err = sd_event_default(&core->loop);
	return err < 0 ? explain(error, err, "sd-event: %s", strerror(-err)) : 0;
}

static int serve(struct daemon *daemon, char **error)
{
	struct core *core = &daemon->core;
	int err = 0;

	for (size_t i = 0; !err && i < CAPABILITIES; i++)
		err = core_open(core, daemon_capabilities[i], error);
	if (!err)
		err = server_new(&daemon->server, core, error);
	if (!err)
		err = textfile_new(&daemon->textfile, core, error);
	if (err)
		return err;
	daemon->links_fd = rtnl_watch_links();
	if (daemon->links_fd < 0)
		return explain(error, daemon->links_fd, "rtnetlink: %s",
			       strerror(-daemon->links_fd));
	err = sd_event_add_io(core->loop, &daemon->links, daemon->links_fd, EPOLLIN, on_links,
			      core);
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
	daemon->links_fd = -1;
	err = prepare(daemon, error);
	if (err) {
		daemon_free(daemon);
		return err;
	}
	core->kill_file_seen = core_kill_file_exists(core);
	err = serve(daemon, error);
	if (err) {
		/* Nothing stays attached that was not before. */
		char *pin_root = strdup(core->config->pin_root);
		bool fresh = core->module_count && !core->took_over;

		daemon_free(daemon);
		if (fresh && pin_root)
			dataplane_remove(pin_root, NULL);
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
	sd_event_source_unref(daemon->links);
	if (daemon->links_fd >= 0)
		close(daemon->links_fd);
	core_close(&daemon->core);
	events_free(daemon->core.events);
	sd_event_unref(daemon->core.loop);
	fleet_free(daemon->core.fleet);
	config_free(daemon->core.own_config);
	free(daemon->core.modules);
	free(daemon);
}
