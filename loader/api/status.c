// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "maps/maps.h"
#include "verbs.h"

static json_t *reply_version(void *self, struct request *request)
{
	(void)self;
	(void)request;
	return local_version(NULL, NULL, NULL);
}

static json_t *reply_status(void *self, struct request *request)
{
	struct core *core = self;
	json_t *object = local_version(NULL, NULL, NULL);
	bool off = core_is_off(core);

	(void)request;
	core_refresh(core);
	json_put_text(object, "host", core->config->host);
	json_put(object, "mode", core_mode(core, -1));
	json_put_bool(object, "kill_switch", off);
	if (off && core_kill_file_exists(core))
		json_put(object, "kill_switch_reason",
			 json_sprintf("the file %s is there", core->config->kill_file));
	else if (off)
		json_put(object, "kill_switch_reason",
			 json_sprintf("the off flag is set in %s/control", core->config->pin_root));
	json_put_count(object, "pid", (uint64_t)getpid());
	json_put_count(object, "uptime_s", (time_local_ns() - core->start_local_ns) / 1000000000);
	json_put_text(object, "pin_root", core->config->pin_root);
	json_put_text(object, "config", core->config->path);
	core_for_each (module, core)
		if (module->capability->status)
			module->capability->status(module->self, object);
	return object;
}

static json_t *reply_events(void *self, struct request *request)
{
	struct core *core = self;
	uint64_t since_ns;

	request->follow = request_flag(request, "follow");
	/* A follower without a time gets what is recorded from now on. */
	since_ns = request_count(request, "since_ns", request->follow ? INT64_MAX : 0);
	return json_pack("{s:o}", "events", events_since(core->events, since_ns));
}

static json_t *reply_off(void *self, struct request *request)
{
	struct core *core = self;
	char *error = NULL;

	if (core_set_off(core, true, "command", &error))
		return request_fail(request, REQUEST_FAILED, error);
	return json_pack("{s:b, s:s}", "kill_switch", 1, "kill_file", core->config->kill_file);
}

/* `mode observe` ends all modes; another begins its own and leaves the others. */
static json_t *reply_mode(void *self, struct request *request)
{
	const json_t *interfaces = json_object_get(request->args, "interfaces");
	const char *name = request_text(request, "mode", "");
	struct core *core = self;
	bool observe = !strcmp(name, "observe");
	char *error = NULL;
	int err = 0;

	/* It ends the kill switch, too, unless it is for some interfaces alone. */
	if (observe && !json_array_size(interfaces))
		err = core_set_off(core, false, "command", &error);
	core_for_each (module, core) {
		const struct capability_mode *mode = module->capability->mode;

		if (!err && mode && (observe || !strcmp(mode->name, name)))
			err = mode->set(module->self, !observe, interfaces, "command", &error);
	}
	if (err)
		return request_fail(request, REQUEST_FAILED, error);
	return json_pack("{s:o, s:b}", "mode", core_mode(core, -1), "kill_switch",
			 core_is_off(core));
}

static json_t *reply_config(void *self, struct request *request)
{
	struct core *core = self;

	(void)request;
	return config_to_json(core->config);
}

static json_t *reply_reload(void *self, struct request *request)
{
	struct core *core = self;
	char *error = NULL;

	if (core_reload(core, &error))
		return request_fail(request, REQUEST_FAILED, error);
	return json_pack("{s:s}", "config", core->config->path);
}

static json_t *reply_features(void *self, struct request *request)
{
	(void)self;
	(void)request;
	return verbs_features();
}

const struct verb_handler api_verb_handlers[] = {
	{"status", reply_status},   {"events", reply_events},	  {"mode", reply_mode},
	{"off", reply_off},	    {"config", reply_config},	  {"reload", reply_reload},
	{"version", reply_version}, {"features", reply_features}, {},
};
