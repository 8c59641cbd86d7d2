// SPDX-License-Identifier: BSD-2-Clause
#include "status.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "core/core.h"
#include "maps/maps.h"
#include "verbs.h"

static json_t *version(void)
{
	return json_pack("{s:s, s:i}", "version", ESC_VERSION, "abi", ESC_ABI);
}

static json_t *reply_version(void *self, struct request *request)
{
	(void)self;
	(void)request;
	return version();
}

static void put_kill_switch(json_t *object, const struct core *core)
{
	bool off = core_is_off(core);

	json_put_bool(object, "kill_switch", off);
	if (off && core_kill_file_exists(core))
		json_put(object, "kill_switch_reason",
			 json_sprintf("the file %s is there", core->config->kill_file));
	else if (off)
		json_put(object, "kill_switch_reason",
			 json_sprintf("the off flag is set in %s/control", core->config->pin_root));
}

static json_t *reply_status(void *self, struct request *request)
{
	struct core *core = self;
	json_t *object = version();

	(void)request;
	core_refresh(core);
	json_put_text(object, "host", core->config->host);
	json_put(object, "mode", core_mode(core, -1));
	put_kill_switch(object, core);
	json_put_count(object, "pid", (uint64_t)getpid());
	json_put_count(object, "uptime_s", (time_local_ns() - core->start_local_ns) / 1000000000);
	json_put_text(object, "pin_root", core->config->pin_root);
	json_put_text(object, "config", core->config->path);
	for (size_t i = 0; i < core->module_count; i++)
		if (core->modules[i].capability->status)
			core->modules[i].capability->status(core->modules[i].self, object);
	return object;
}

static json_t *reply_events(void *self, struct request *request)
{
	struct core *core = self;
	uint64_t since_ns;

	if (!request_flag(request, "follow", &request->follow))
		return NULL;
	/* A follower who names no time wants what comes from now on. */
	if (!request_count(request, "since_ns", 0, UINT64_MAX, request->follow ? INT64_MAX : 0,
			   &since_ns))
		return NULL;
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
static int set_modes(struct core *core, const char *name, const json_t *interfaces, char **error)
{
	bool observe = !strcmp(name, "observe");
	int err = 0;

	for (size_t i = 0; !err && i < core->module_count; i++) {
		const struct capability_mode *mode = core->modules[i].capability->mode;

		if (mode && (observe || !strcmp(mode->name, name)))
			err = mode->set(core->modules[i].self, !observe, interfaces, "command",
					error);
	}
	return err;
}

static bool mode_exists(const struct core *core, const char *name)
{
	for (size_t i = 0; i < core->module_count; i++)
		if (core->modules[i].capability->mode &&
		    !strcmp(core->modules[i].capability->mode->name, name))
			return true;
	return !strcmp(name, "observe");
}

static json_t *reply_mode(void *self, struct request *request)
{
	const json_t *interfaces = json_object_get(request->args, "interfaces");
	struct core *core = self;
	const char *mode;
	char *error = NULL;

	if (!request_text(request, "mode", "", &mode))
		return NULL;
	if (!mode_exists(core, mode))
		return request_misuse(request, "`%.32s` is not a mode; give observe, steer or pace",
				      mode);
	/* `mode observe` ends the kill switch; on one interface alone it does not. */
	if ((!strcmp(mode, "observe") && !json_array_size(interfaces) &&
	     core_set_off(core, false, "command", &error)) ||
	    set_modes(core, mode, interfaces, &error))
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
	{"status", reply_status},   {"events", reply_events},
	{"mode", reply_mode},	    {"off", reply_off},
	{"config", reply_config},   {"reload", reply_reload},
	{"version", reply_version}, {"features", reply_features},
	{},
};
