// SPDX-License-Identifier: BSD-2-Clause
/* A request and its reply; the verbs of no capability. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "base/explain.h"
#include "base/json.h"
#include "base/verb.h"
#include "base/readfile.h"
#include "dataplane/dataplane.h"
#include "internal.h"
#include "maps/maps.h"
#include "verbs.h"

/* --- without a daemon --- */

static const char *place(const json_t *args, const char *key, const char *fallback)
{
	const char *given = json_string_value(json_object_get(args, key));

	return given ? given : fallback;
}

json_t *local_off(const json_t *args, int *exit, char **error)
{
	const char *kill_file = place(args, "kill_file", PLACES_KILL_FILE);
	const char *pin_root = place(args, "pin_root", ESC_PIN_ROOT);
	const char *socket = place(args, "socket", PLACES_SOCKET);
	bool found = !access(pin_root, F_OK);
	char *why = NULL, *kept = NULL;
	int err_file, err;
	json_t *result;

	/*
	 * Another socket is of another daemon, whose places are not known here: the default ones
	 * would be those of a daemon that was not meant.
	 */
	if (strcmp(socket, PLACES_SOCKET) &&
	    !(json_object_get(args, "pin_root") && json_object_get(args, "kill_file"))) {
		*exit = 3;
		explain(error, 0,
			"no daemon replies at %s, and where it has its maps is not known: give the "
			"--pin-root and the --kill-file of its configuration",
			socket);
		return NULL;
	}
	/* A daemon that starts meanwhile has to find the file, so it comes first. */
	err_file = createfile(kill_file, "");
	err = dataplane_remove(pin_root, &kept, &why);
	*exit = 1;
	if (err)
		explain(error, 0, "%s", why ? why : strerror(-err));
	else if (err_file)
		explain(error, 0,
			"everything is detached, but %s: %s: a daemon that starts later attaches "
			"again",
			kill_file, strerror(-err_file));
	free(why);
	result = err || err_file ? NULL
				 : json_pack("{s:b, s:s, s:s, s:b}", "kill_switch", 1, "kill_file",
					     kill_file, found ? "removed" : "not_found", pin_root,
					     "daemon", 0);
	if (result)
		json_put_text(result, "forwarded", kept);
	free(kept);
	return result;
}

json_t *local_features(const json_t *args, int *exit, char **error)
{
	(void)args;
	(void)exit;
	(void)error;
	return verbs_features();
}

json_t *local_version(const json_t *args, int *exit, char **error)
{
	(void)args;
	(void)exit;
	(void)error;
	return json_pack("{s:s, s:i}", "version", ESC_VERSION, "abi", ESC_ABI);
}

/* --- verbs of no capability; self is the struct core --- */

static json_t *reply_version(void *self, struct request *request)
{
	(void)self;
	(void)request;
	return local_version(NULL, NULL, NULL);
}

/* With the file's text, if it has any that can be shown. */
static json_t *kill_file_reason(const char *path)
{
	char why[256];
	json_t *reason = NULL;

	if (readtext(why, sizeof(why), "%s", path) > 0)
		reason = json_sprintf("the file %s is there: %s", path, why);
	return reason ? reason : json_sprintf("the file %s is there", path);
}

static void put_events_losses(const struct core *core, json_t *status)
{
	struct events_losses losses = {};

	if (core->events)
		events_losses(core->events, &losses);
	if (losses.error)
		json_put(status, "events_file_failed",
			 json_sprintf("%s: %s", losses.path, strerror(-losses.error)));
	if (losses.file + losses.journal)
		json_put(status, "events_lost",
			 json_pack("{s:I, s:I}", "file", (json_int_t)losses.file, "journal",
				   (json_int_t)losses.journal));
}

static void put_events_suppressed(const struct core *core, json_t *status)
{
	const struct event_count *counts;
	size_t count = core->events ? events_counts(core->events, &counts) : 0;
	json_t *kinds = json_object();
	uint64_t all = 0;

	for (size_t i = 0; i < count; i++) {
		all += counts[i].suppressed;
		if (counts[i].suppressed)
			json_put_count(kinds, counts[i].kind, counts[i].suppressed);
	}
	if (!all) {
		json_decref(kinds);
		return;
	}
	json_put(status, "events_suppressed", kinds);
	json_put_count(status, "events_suppressed_total", all);
}

static void put_late(const struct core *core, json_t *status)
{
	json_t *late = core_late(core);

	if (json_array_size(late))
		json_put(status, "late", late);
	else
		json_decref(late);
}

/* Absent unless it is late. */
static void put_heartbeat(const struct core *core, json_t *status)
{
	uint64_t beat_ns = core_last_beat(core), now_ns = time_local_ns();

	if (beat_ns && now_ns - beat_ns > CORE_PAUSE_REPORT_NS && now_ns > beat_ns)
		json_put_count(status, "heartbeat_late_ns", now_ns - beat_ns);
}

static json_t *reply_status(void *self, struct request *request)
{
	struct core *core = self;
	json_t *object = local_version(NULL, NULL, NULL);
	bool off = core_is_off(core);

	(void)request;
	put_heartbeat(core, object);
	core_refresh(core);
	json_put_text(object, "host", core->config->host);
	json_put(object, "mode", core_mode(core, -1));
	json_put_bool(object, "kill_switch", off);
	if (off && core_kill_file_exists(core))
		json_put(object, "kill_switch_reason", kill_file_reason(core->config->kill_file));
	else if (off)
		json_put(object, "kill_switch_reason",
			 json_sprintf("the off flag is set in %s/control", core->config->pin_root));
	json_put_count(object, "pid", (uint64_t)getpid());
	json_put_count(object, "uptime_s", (time_local_ns() - core->start_local_ns) / 1000000000);
	json_put_text(object, "pin_root", core->config->pin_root);
	json_put_text(object, "config", core->config->path);
	put_events_losses(core, object);
	put_events_suppressed(core, object);
	put_late(core, object);
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

static json_t *reply_metrics(void *self, struct request *request)
{
	size_t bytes;
	char *text = textfile_text(self, &bytes);
	json_t *reply = text ? json_pack("{s:s%}", "text", text, bytes) : NULL;

	free(text);
	return reply ? reply : request_fail(request, REQUEST_FAILED, NULL);
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
	const struct fleet_held *held;
	char *error = NULL;
	json_t *object;
	uint64_t left_ns;

	request->later = core_reload_waits(core, request_flag(request, "force"));
	if (request->later)
		return NULL;
	if (core_reload(core, request_flag(request, "force"), &error))
		return request_fail(request, REQUEST_FAILED, error);
	object = json_pack("{s:s}", "config", core->config->path);
	held = fleet_held(core->fleet, time_local_ns(), &left_ns);
	if (held)
		json_put_text(object, "members_held", held->reason);
	return object;
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
	{"metrics", reply_metrics}, {},
};

/* --- a request --- */

/* Takes @object over. */
static char *dump_line(json_t *object, size_t *bytes)
{
	char *text = json_dumps(object, JSON_COMPACT), *line = NULL;
	int length = text ? asprintf(&line, "%s\n", text) : -1;

	free(text);
	json_decref(object);
	*bytes = length < 0 ? 0 : length;
	return length < 0 ? NULL : line;
}

char *request_wrap(const json_t *result, size_t *bytes)
{
	return dump_line(json_pack("{s:b, s:O}", "ok", 1, "result", result), bytes);
}

char *request_refuse(int exit_code, const char *error, size_t *bytes)
{
	json_t *object = json_pack("{s:b, s:s, s:i}", "ok", 0, "error", error, "exit", exit_code);

	if (!object) /* a quoted word was cut inside a character */
		object = json_pack("{s:b, s:s, s:i}", "ok", 0, "error",
				   "the request cannot be shown as text", "exit", exit_code);
	return dump_line(object, bytes);
}

/* *@self becomes what its reply() gets. NULL: there is none. */
static const struct verb_handler *find_handler(struct core *core, const char *name, void **self)
{
	const struct verb_handler *handler = api_verb_handlers;

	*self = core;
	for (; handler->verb; handler++)
		if (!strcmp(handler->verb, name))
			return handler;
	core_for_each (module, core) {
		*self = module->self;
		for (handler = module->capability->verbs; handler && handler->verb; handler++)
			if (!strcmp(handler->verb, name))
				return handler;
	}
	return NULL;
}

static json_t *deny(struct request *request, const struct verb *verb)
{
	char *error = NULL;

	explain(&error, 0,
		"`%s` needs root: members of the group " PLACES_GROUP " may use the verbs that "
		"change nothing",
		verb->name);
	return request_fail(request, REQUEST_DENIED, error);
}

static json_t *reply_object(struct core *core, const json_t *object, enum access access,
			    struct request *request)
{
	const char *name = json_string_value(json_object_get(object, "verb"));
	const struct verb_handler *handler;
	const struct verb *verb;
	char *error = NULL;
	void *self;

	request->args = json_object_get(object, "args");
	if (!name)
		return request_misuse(request,
				      "a request is a line {\"verb\": \"status\", \"args\": {}}");
	if (request->args && !json_is_object(request->args))
		return request_misuse(request, "`args` should be an object");
	verb = verbs_of_request(name, request->args, &error);
	if (verb && !verb->reads && access < ACCESS_CONTROL)
		return deny(request, verb);
	if (!verb || !verbs_check(verb, request->args, &error))
		return request_fail(request, REQUEST_MISUSE, error);
	/* Of the whole name, "steer set", else of its first word. */
	handler = find_handler(core, verb->request ? verb->request : verb->name, &self);
	if (!handler)
		handler = find_handler(core, name, &self);
	if (!handler)
		return request_misuse(request, "this daemon has no `%s`", verb->name);
	return handler->reply(self, request);
}

void request_reply(struct core *core, const char *line, size_t bytes, enum access access,
		   struct request *request)
{
	json_t *object, *result;
	json_error_t problem;

	*request = (struct request){};
	object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &problem);
	if (object)
		result = reply_object(core, object, access, request);
	else
		result = request_misuse(request, "not a line of JSON: %s", problem.text);
	if (result) {
		request->text = request_wrap(result, &request->bytes);
	} else if (request->error) {
		free(request->text);
		request->text = request_refuse(request->exit, request->error, &request->bytes);
		request->follow = false;
	}
	json_decref(result);
	free(request->error);
	request->error = NULL;
	request->args = NULL;
	json_decref(object);
}
