// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "verbs.h"

static char *dump_line(const json_t *object, size_t *bytes)
{
	char *text = json_dumps(object, JSON_COMPACT), *line = NULL;
	int length = text ? asprintf(&line, "%s\n", text) : -1;

	free(text);
	*bytes = length < 0 ? 0 : length;
	return length < 0 ? NULL : line;
}

char *request_wrap(const json_t *result, size_t *bytes)
{
	json_t *object = json_pack("{s:b, s:O}", "ok", 1, "result", result);
	char *line = dump_line(object, bytes);

	json_decref(object);
	return line;
}

char *request_refuse(int exit_code, const char *error, size_t *bytes)
{
	json_t *object = json_pack("{s:b, s:s, s:i}", "ok", 0, "error", error, "exit", exit_code);
	char *line;

	if (!object) /* a quoted word was cut inside a character */
		object = json_pack("{s:b, s:s, s:i}", "ok", 0, "error",
				   "the request cannot be shown as text", "exit", exit_code);
	line = dump_line(object, bytes);
	json_decref(object);
	return line;
}

static const struct verb_handler *find_handler(const struct verb_handler *handlers,
					       const char *verb)
{
	for (; handlers && handlers->verb; handlers++)
		if (!strcmp(handlers->verb, verb))
			return handlers;
	return NULL;
}

/* Of the whole name, "steer set", else of its first word. */
static json_t *reply_by(struct core *core, const char *name, struct request *request, bool *found)
{
	const struct verb_handler *handler = find_handler(api_verb_handlers, name);

	*found = true;
	if (handler)
		return handler->reply(core, request);
	core_for_each (module, core) {
		handler = find_handler(module->capability->verbs, name);
		if (handler)
			return handler->reply(module->self, request);
	}
	*found = false;
	return NULL;
}

static json_t *reply_object(struct core *core, const json_t *object, struct request *request)
{
	const char *name = json_string_value(json_object_get(object, "verb"));
	const struct verb *verb;
	char *error = NULL;
	json_t *result;
	bool found;

	request->args = json_object_get(object, "args");
	if (!name)
		return request_misuse(request,
				      "a request is a line {\"verb\": \"status\", \"args\": {}}");
	if (request->args && !json_is_object(request->args))
		return request_misuse(request, "`args` should be an object");
	verb = verbs_of_request(name, request->args, &error);
	if (!verb || !verbs_check(verb, request->args, &error))
		return request_fail(request, REQUEST_MISUSE, error);
	result = reply_by(core, verb->request ? verb->request : verb->name, request, &found);
	if (!found)
		result = reply_by(core, name, request, &found);
	if (!found)
		return request_misuse(request, "this daemon has no `%s`", verb->name);
	return result;
}

void request_reply(struct core *core, const char *line, size_t bytes, struct reply *reply)
{
	struct request request = {};
	json_t *object, *result;
	json_error_t problem;

	*reply = (struct reply){};
	object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &problem);
	if (object)
		result = reply_object(core, object, &request);
	else
		result = request_misuse(&request, "not a line of JSON: %s", problem.text);
	if (result) {
		reply->text = request_wrap(result, &reply->bytes);
	} else if (request.error) {
		reply->text = request_refuse(request.exit, request.error, &reply->bytes);
		free(request.text);
	} else {
		reply->text = request.text;
		reply->bytes = request.bytes;
	}
	reply->follow = request.follow && !request.error;
	json_decref(result);
	free(request.error);
	json_decref(object);
}
