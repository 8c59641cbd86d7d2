// SPDX-License-Identifier: BSD-2-Clause
#include "request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "daemon/daemon.h"
#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "diagnose/diagnose.h"
#include "core/events.h"
#include "nic/nic.h"
#include "report.h"
#include "clock/report.h"
#include "delay/report.h"
#include "qp/report_owner.h"
#include "paths/report.h"
#include "qp/report.h"
#include "pace/pace.h"
#include "pace/request.h"
#include "steer/request.h"
#include "steer/steer.h"
#include "verbs.h"

struct request {
	struct daemon *daemon;
	const json_t *args;
	struct reply *reply;
	char *error; /* set: the answer is a refusal */
	int exit;
};

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

static json_t *refuse(struct request *request, int exit_code, char *error)
{
	request->exit = exit_code;
	request->error = error ? error : strdup("out of memory");
	return NULL;
}

__attribute__((format(printf, 2, 3))) static json_t *misuse(struct request *request,
							    const char *format, ...)
{
	va_list arguments;
	char *error;

	va_start(arguments, format);
	if (vasprintf(&error, format, arguments) < 0)
		error = NULL;
	va_end(arguments);
	return refuse(request, 2, error);
}

/* An argument that is a text, or @fallback. False: it is something else. */
static bool text_argument(struct request *request, const char *name, const char *fallback,
			  const char **out)
{
	const json_t *value = json_object_get(request->args, name);

	*out = fallback;
	if (!value || json_is_null(value))
		return true;
	*out = json_string_value(value);
	if (!*out)
		misuse(request, "argument `%s` should be a text", name);
	return *out != NULL;
}

static bool count_argument(struct request *request, const char *name, uint64_t fallback,
			   uint64_t *out)
{
	const json_t *value = json_object_get(request->args, name);

	*out = fallback;
	if (!value || json_is_null(value))
		return true;
	if (!json_is_integer(value) || json_integer_value(value) < 0) {
		misuse(request, "argument `%s` should be a whole number", name);
		return false;
	}
	*out = json_integer_value(value);
	return true;
}

static json_t *answer_status(struct request *request)
{
	daemon_refresh(request->daemon);
	return report_status(request->daemon);
}

static int write_qp(FILE *out, const struct daemon *daemon, const struct report_delays *facts,
		    const struct qp_entry *entry)
{
	const struct port_info *port = report_delays_port(facts, entry->key.port);
	json_t *qp = report_qp(entry, port ? port->name : NULL);
	int err;

	report_put_owner(qp, daemon->owners, &entry->key, port ? port->rdma_device : "");
	report_put_delays(qp, facts, entry);
	steer_put(daemon->steer, entry, qp);
	pace_put(daemon->pace, entry, qp);
	judge_put_qp(qp, daemon->judge, entry);
	err = json_dumpf(qp, out, JSON_COMPACT) ? -ENOMEM : 0;
	json_decref(qp);
	return err;
}

/* Written entry by entry: a full table as one JSON tree would take a hundred megabytes. */
static int write_qps(const struct daemon *daemon, FILE *out, const struct qp_entry **list,
		     size_t count, size_t most)
{
	struct esc_reason_count reasons[ESC_REASON_MAX];
	struct report_delays facts;
	size_t tracked;
	int err = 0;

	qptable_entries(daemon->qps, &tracked);
	report_delays_begin(&facts, daemon);
	fputs("{\"ok\":true,\"result\":{\"qps\":[", out);
	for (size_t i = 0; !err && i < count && i < most; i++) {
		if (i)
			fputc(',', out);
		err = write_qp(out, daemon, &facts, list[i]);
	}
	report_delays_end(&facts);
	if (err)
		return err;
	fprintf(out, "],\"tracked\":%zu,\"max\":%u", tracked, dataplane_qps_max(daemon->dataplane));
	if (!dataplane_reasons(daemon->dataplane, reasons))
		fprintf(out, ",\"refused\":%" PRIu64,
			report_reason_sum(&reasons[ESC_REASON_QP_TABLE_FULL]));
	if (count > most)
		fprintf(out, ",\"left_out\":%zu", count - most);
	fputs("}}\n", out);
	return ferror(out) ? -ENOMEM : 0;
}

static void reply_qps(struct request *request, const struct report_qp_filter *filter,
		      enum report_qp_order order, size_t most)
{
	const struct qp_entry *entries, **list;
	struct reply *reply = request->reply;
	size_t count, chosen = 0;
	FILE *out;
	int err;

	entries = qptable_entries(request->daemon->qps, &count);
	list = report_qp_choose(entries, count, filter, order, request->daemon->delays, &chosen);
	out = open_memstream(&reply->text, &reply->bytes);
	err = list && out ? write_qps(request->daemon, out, list, chosen, most) : -ENOMEM;
	if (out && fclose(out))
		err = -ENOMEM;
	free(list);
	if (err) {
		free(reply->text);
		reply->text = NULL;
		refuse(request, 1, NULL);
	}
}

/* Paths to the addresses that match. */
static json_t *answer_paths(struct request *request, const struct report_qp_filter *filter)
{
	json_t *list = json_array();
	struct report_delays facts;
	struct delays_group *groups = NULL;
	size_t count = 0;
	int err;

	report_delays_begin(&facts, request->daemon);
	err = delays_group(facts.delays, facts.members, DELAYS_BY_PATH, NULL, &groups, &count);
	for (size_t i = 0; i < count; i++)
		if (report_qp_matches_address(filter, &groups[i].dst))
			json_array_append_new(list, report_path(&facts, &groups[i]));
	free(groups);
	report_delays_end(&facts);
	if (!err)
		return json_pack("{s:o}", "paths", list);
	json_decref(list);
	return refuse(request, 1, NULL);
}

static json_t *answer_qp(struct request *request)
{
	const json_t *paths = json_object_get(request->args, "paths");
	struct report_qp_filter filter;
	enum report_qp_order order;
	const char *key, *sort;
	uint64_t top;

	if (!text_argument(request, "key", NULL, &key) ||
	    !text_argument(request, "sort", "bytes", &sort) ||
	    !count_argument(request, "top", REPORT_QPS_MOST, &top))
		return NULL;
	if (!report_qp_filter(key, &filter))
		return misuse(request,
			      "`%.64s` names no queue pair; give a QPN (17, 0x11), a part "
			      "of an address, or SRC>DST/QPN",
			      key);
	if (!report_qp_order(sort, &order))
		return misuse(
			request,
			"queue pairs are not sorted by `%.32s`; give one of " REPORT_QP_ORDERS,
			sort);
	if (paths && !json_is_boolean(paths))
		return misuse(request, "argument `paths` should be true or false");
	daemon_refresh(request->daemon);
	if (json_is_true(paths))
		return answer_paths(request, &filter);
	reply_qps(request, &filter, order, top < REPORT_QPS_MOST ? top : REPORT_QPS_MOST);
	return NULL;
}

static json_t *answer_events(struct request *request)
{
	const json_t *follow = json_object_get(request->args, "follow");
	uint64_t since_ns;

	if (follow && !json_is_boolean(follow))
		return misuse(request, "argument `follow` should be true or false");
	request->reply->follow = json_is_true(follow);
	/* A follower who names no time wants what comes from now on. */
	if (!count_argument(request, "since_ns", request->reply->follow ? INT64_MAX : 0, &since_ns))
		return NULL;
	return json_pack("{s:o}", "events", ledger_since(request->daemon->ledger, since_ns));
}

static json_t *answer_off(struct request *request)
{
	char *error = NULL;

	if (daemon_set_off(request->daemon, true, &error))
		return refuse(request, 1, error);
	return json_pack("{s:b, s:s}", "kill_switch", 1, "kill_file",
			 request->daemon->config->kill_file);
}

static json_t *answer_mode(struct request *request)
{
	const json_t *interfaces = json_object_get(request->args, "interfaces");
	struct daemon *daemon = request->daemon;
	const char *mode;
	char *error = NULL;
	bool steer, pace, observe;

	if (!text_argument(request, "mode", "", &mode))
		return NULL;
	steer = !strcmp(mode, "steer");
	pace = !strcmp(mode, "pace");
	observe = !strcmp(mode, "observe");
	if (!steer && !pace && !observe)
		return misuse(request, "`%.32s` is not a mode; give observe, steer or pace", mode);
	/* `mode observe` ends the kill switch; on one interface alone it does not. */
	if ((observe && !json_array_size(interfaces) && daemon_set_off(daemon, false, &error)) ||
	    (!pace && steer_set_mode(daemon->steer, steer, interfaces, "command", &error)) ||
	    (!steer && pace_set_mode(daemon->pace, pace, interfaces, "command", &error)))
		return refuse(request, 1, error);
	return json_pack("{s:s, s:b}", "mode",
			 pace_mode_name(steer_ports(daemon->steer), pace_ports(daemon->pace)),
			 "kill_switch", dataplane_is_off(daemon->dataplane));
}

static json_t *answer_steer(struct request *request)
{
	char *error = NULL;
	json_t *result = request_steer(request->daemon, request->args, &request->exit, &error);

	return result ? result : refuse(request, request->exit, error);
}

static json_t *answer_pace(struct request *request)
{
	char *error = NULL;
	json_t *result = request_pace(request->daemon, request->args, &request->exit, &error);

	return result ? result : refuse(request, request->exit, error);
}

static json_t *answer_nic(struct request *request)
{
	return nics_report(request->daemon->nics);
}

static json_t *answer_config(struct request *request)
{
	return config_to_json(request->daemon->config);
}

static json_t *answer_support(struct request *request)
{
	json_t *support = report_support();

	return support ? support : refuse(request, 1, strdup("the kernel could not be probed"));
}

static json_t *answer_reload(struct request *request)
{
	char *error = NULL;

	if (daemon_reload(request->daemon, &error))
		return refuse(request, 1, error);
	return json_pack("{s:s}", "config", request->daemon->config->path);
}

static json_t *answer_clock(struct request *request)
{
	return report_clock(request->daemon);
}

static json_t *answer_peers(struct request *request)
{
	return report_peers(request->daemon);
}

static json_t *answer_path_list(struct request *request)
{
	const char *peer;
	json_t *result;

	if (!text_argument(request, "peer", NULL, &peer))
		return NULL;
	result = report_paths(request->daemon, peer);
	if (!peer || json_array_size(json_object_get(result, "pairs")))
		return result;
	json_decref(result);
	return misuse(request,
		      "there are no paths to `%.64s`; give a host that `escapement paths` lists, or "
		      "its address",
		      peer);
}

static json_t *answer_version(struct request *request)
{
	(void)request;
	return report_version();
}

static const struct {
	const char *verb;
	json_t *(*answer)(struct request *request); /* NULL: refused, or the reply is written */
} answers[] = {
	{"status", answer_status},
	{"clock", answer_clock},
	{"peers", answer_peers},
	{"paths", answer_path_list},
	{"qp", answer_qp},
	{"top", answer_qp}, /* a page of it */
	{"events", answer_events},
	{"mode", answer_mode},
	{"steer", answer_steer},
	{"pace", answer_pace},
	{"failover", answer_nic},
	{"off", answer_off},
	{"config", answer_config},
	{"features", answer_support},
	{"reload", answer_reload},
	{"version", answer_version},
};

static json_t *dispatch(struct request *request, const char *name)
{
	const struct verb *verb;
	char *error = NULL, later[160];

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if (!strcmp(answers[i].verb, name))
			return answers[i].answer(request);
	verb = verbs_find(name, false, &error);
	if (!verb)
		return refuse(request, 2, error);
	return misuse(request, "%s", verbs_later(name, later));
}

static json_t *answer_object(struct request *request, const json_t *object)
{
	const char *verb = json_string_value(json_object_get(object, "verb"));

	request->args = json_object_get(object, "args");
	if (!verb)
		return misuse(request, "a request is a line {\"verb\": \"status\", \"args\": {}}");
	if (request->args && !json_is_object(request->args))
		return misuse(request, "`args` should be an object");
	return dispatch(request, verb);
}

void request_answer(struct daemon *daemon, const char *line, size_t bytes, struct reply *reply)
{
	struct request request = {.daemon = daemon, .reply = reply};
	json_t *object, *result;
	json_error_t problem;

	*reply = (struct reply){};
	object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &problem);
	if (object)
		result = answer_object(&request, object);
	else
		result = misuse(&request, "not a line of JSON: %s", problem.text);
	if (result)
		reply->text = request_wrap(result, &reply->bytes);
	else if (request.error)
		reply->text = request_refuse(request.exit, request.error, &reply->bytes);
	if (request.error)
		reply->follow = false;
	json_decref(result);
	free(request.error);
	json_decref(object);
}
