// SPDX-License-Identifier: BSD-2-Clause
/* The verb `pace`. */
#include <string.h>

#include "core/core.h"
#include "dataplane/dataplane.h"
#include "internal.h"

static json_t *reply_mode(struct pace *pace, struct request *request, bool on)
{
	const json_t *interfaces = json_object_get(request->args, "interfaces");
	char *error = NULL;

	if (pace_set_mode(pace, on, interfaces, "command", &error))
		return request_fail(request, REQUEST_FAILED, error);
	return pace_show(pace);
}

static json_t *reply_class(struct pace *pace, struct request *request, const char *class)
{
	uint64_t weight, threshold_ns;
	char *error = NULL;

	if (!request_count(request, "weight", 1, ESC_PACE_WEIGHT_MAX, 0, &weight) ||
	    !request_count(request, "threshold_ns", ESC_PACE_THRESHOLD_MIN_NS,
			   ESC_PACE_THRESHOLD_MAX_NS, 0, &threshold_ns))
		return NULL;
	if (!class || (!weight && !threshold_ns))
		return request_misuse(
			request,
			"set what? `pace set --class NAME --weight N --threshold TIME`, or `pace "
			"set --dst ADDRESS --qpn NUMBER --class NAME`");
	if (pace_set_class(pace,
			   &(struct pace_class_change){.name = class,
						       .weight = (uint32_t)weight,
						       .threshold_ns = threshold_ns},
			   &error))
		return request_fail(request, REQUEST_FAILED, error);
	return pace_show(pace);
}

static json_t *reply_set(struct pace *pace, struct request *request)
{
	bool has_qpn = request_has(request, "qpn");
	struct pace_assignment want = {};
	json_t *result = NULL;
	char *error = NULL;
	uint64_t qpn;

	if (!request_text(request, "src", NULL, &want.src) ||
	    !request_text(request, "dst", NULL, &want.dst) ||
	    !request_text(request, "class", NULL, &want.class) ||
	    !request_count(request, "qpn", 0, ESC_QPN_MASK, 0, &qpn))
		return NULL;
	if (!want.dst && !has_qpn)
		return reply_class(pace, request, want.class);
	if (!want.dst || !has_qpn)
		return request_misuse(
			request,
			"which queue pair? give --dst ADDRESS and --qpn NUMBER, as `escapement qp` "
			"shows them (direction tx)");
	want.qpn = (uint32_t)qpn;
	if (pace_assign(pace, &want, &result, &error))
		return request_fail(request, REQUEST_FAILED, error);
	return result;
}

static json_t *reply_fq(struct pace *pace, struct request *request, bool on)
{
	const char *name = json_string_value(json_object_get(request->args, "interface"));
	char *error = NULL;

	if (pace_setup_fq(pace, name, on, &error))
		return request_fail(request, REQUEST_FAILED, error);
	return pace_show(pace);
}

static json_t *reply_tcp(struct pace *pace, struct request *request)
{
	char *error = NULL;
	const char *mode;

	if (!request_text(request, "mode", NULL, &mode))
		return NULL;
	if (!mode)
		return request_misuse(request, "`pace tcp` needs a mode: `off`, `measure` or `on`");
	if (!pace->follower)
		return request_misuse(request, "TCP pacing is not open");
	if (pace->follower->set_mode(pace->follower_context, mode, "command", &error))
		return request_fail(request, REQUEST_FAILED, error);
	return pace_show(pace);
}

static json_t *reply_pace(void *self, struct request *request)
{
	const char *what;

	if (!request_text(request, "what", "show", &what))
		return NULL;
	if (!strcmp(what, "show"))
		return pace_show(self);
	if (!strcmp(what, "on") || !strcmp(what, "off"))
		return reply_mode(self, request, !strcmp(what, "on"));
	if (!strcmp(what, "set"))
		return reply_set(self, request);
	if (!strcmp(what, "setup-fq") || !strcmp(what, "undo-fq"))
		return reply_fq(self, request, !strcmp(what, "setup-fq"));
	if (!strcmp(what, "tcp"))
		return reply_tcp(self, request);
	return request_misuse(
		request,
		"`pace %.20s` is not known; there are `pace show`, `on`, `off`, `set`, `tcp`, "
		"`setup-fq` and `undo-fq`",
		what);
}

const struct verb_handler pace_verb_handlers[] = {{"pace", reply_pace}, {}};
