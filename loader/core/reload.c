// SPDX-License-Identifier: BSD-2-Clause
/* SIGHUP and the verb `reload`: the whole file comes into force, or none of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/log.h"
#include "core.h"
#include "fleet/fleet.h"

#define RELOAD_EVENTS(X)                                                                           \
	X(CONFIG_REFUSED, "config_refused", "A reload was refused; the old one stays in force.")   \
	X(CONFIG_RELOADED, "config_reloaded", "Another configuration is in force.")
enum { RELOAD_EVENTS(EVENT_ENUM) };
const struct event_kind reload_events[] = {RELOAD_EVENTS(EVENT_KIND){}};

static int accept_all(struct core *core, const struct config *new, char **error)
{
	int err = 0;

	for (size_t i = 0; !err && i < core->module_count; i++) {
		const struct core_module *module = &core->modules[i];

		if (module->capability->accept)
			err = module->capability->accept(module->self, new, error);
	}
	return err;
}

static int refuse(struct core *core, int err, char *why, char **error)
{
	const char *text = why ? why : strerror(-err);

	log_error("configuration refused, the old one stays in force: %s", text);
	events_add(core->events, &(struct event){.kind = &reload_events[CONFIG_REFUSED],
						 .subject = "daemon",
						 .seen = json_pack("{s:s}", "error", text)});
	explain(error, err, "%s%sthe old configuration stays in force", text,
		strchr(text, '\n') ? "\n" : "; ");
	free(why);
	return err;
}

int core_reload(struct core *core, char **error)
{
	struct config *new = NULL, *old = core->own_config;
	struct config_input input = core->config_input;
	struct members *members;
	char *why = NULL;
	int err;

	input.in_force = old;
	err = config_load(&input, &new, &why);
	if (!err)
		err = accept_all(core, new, &why);
	if (err) {
		config_free(new);
		return refuse(core, err, why, error);
	}
	core->config = core->own_config = new;
	members = fleet_set(core->fleet, new->members, new->member_list);
	new->member_list = NULL;
	for (size_t i = 0; i < core->module_count; i++)
		if (core->modules[i].capability->reconfigure)
			core->modules[i].capability->reconfigure(core->modules[i].self, old);
	members_free(members);
	config_free(old);
	log_info("configuration reloaded from %s", new->path);
	events_add(core->events, &(struct event){.kind = &reload_events[CONFIG_RELOADED],
						 .subject = "daemon",
						 .seen = json_pack("{s:s}", "file", new->path)});
	return 0;
}
