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

#define DAEMON_EVENTS(X) X(DAEMON_STARTED, "daemon_started", "The daemon serves.")
enum { DAEMON_EVENTS(EVENT_ENUM) };
static const struct event_kind daemon_events[] = {DAEMON_EVENTS(EVENT_KIND){}};

static int on_links(sd_event_source *source, int fd, uint32_t events, void *context)
{
	(void)source;
	(void)events;
	rtnl_drain(fd);
	core_links_changed(context);
	return 0;
}

static int watch_links(struct daemon *daemon, char **error)
{
	int err;

	daemon->links_fd = rtnl_watch_links();
	if (daemon->links_fd < 0)
		return explain(error, daemon->links_fd, "rtnetlink: %s",
			       strerror(-daemon->links_fd));
	err = sd_event_add_io(daemon->core.loop, &daemon->links, daemon->links_fd, EPOLLIN,
			      on_links, &daemon->core);
	return err < 0 ? explain(error, err, "sd-event: %s", strerror(-err)) : 0;
}

static void record_start(struct daemon *daemon)
{
	events_add(daemon->core.events,
		   &(struct event){
			   .kind = &daemon_events[DAEMON_STARTED],
			   .subject = daemon->core.config->host,
			   .seen = json_pack("{s:s, s:i}", "version", ESC_VERSION, "pid",
					     (int)getpid()),
			   .done = json_pack("{s:b, s:b}", "taken_over", daemon->core.took_over,
					     "kill_switch", core_is_off(&daemon->core)),
		   });
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
	if (!err)
		err = watch_links(daemon, error);
	if (!err)
		err = core_watch_kill_file(core);
	return err;
}

/* The last part failed: leave nothing attached that was not before. */
static void undo(struct daemon *daemon)
{
	char *pin_root = strdup(daemon->core.config->pin_root);
	bool fresh = daemon->core.module_count && !daemon->core.took_over;

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
	daemon->core.config_input = (struct config_input){
		.path = config_path,
		.sections = daemon_config_sections(),
	};
	daemon->links_fd = -1;
	daemon->core.start_realtime_ns = time_realtime_ns();
	daemon->core.start_local_ns = time_local_ns();
	err = prepare(daemon, error);
	if (err) {
		daemon_free(daemon);
		return err;
	}
	daemon->core.kill_file_seen = core_kill_file_exists(&daemon->core);
	err = serve(daemon, error);
	if (err) {
		undo(daemon);
		return err;
	}
	record_start(daemon);
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
