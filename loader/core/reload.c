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
	X(CONFIG_REFUSED, "config_refused", WARNING,                                               \
	  "A reload was refused; the old one stays in force.")                                     \
	X(CONFIG_RELOADED, "config_reloaded", NOTICE, "Another configuration is in force.")
enum { RELOAD_EVENTS(EVENT_ENUM) };
const struct event_kind reload_events[] = {RELOAD_EVENTS(EVENT_KIND){}};

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
	core_for_each (module, core)
		if (!err && module->capability->accept)
			err = module->capability->accept(module->self, new, &why);
	if (err) {
		config_free(new);
		return refuse(core, err, why, error);
	}
	core->config = core->own_config = new;
	members = fleet_set(core->fleet, new->members, new->member_list);
	new->member_list = NULL;
	core_for_each (module, core)
		if (module->capability->reconfigure)
			module->capability->reconfigure(module->self, old);
	members_free(members);
	config_free(old);
	log_info("configuration reloaded from %s", new->path);
	events_add(core->events, &(struct event){.kind = &reload_events[CONFIG_RELOADED],
						 .subject = "daemon",
						 .seen = json_pack("{s:s}", "file", new->path)});
	return 0;
}
