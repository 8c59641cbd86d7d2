// SPDX-License-Identifier: BSD-2-Clause
/* The verb `pace`; api/ checks the arguments by their table. */
#include "base/json.h"
#include "internal.h"

/* The reply to what was applied, or refused. */
static json_t *reply_with(struct pace *pace, struct request *request, int err, char *error)
{
	return err ? request_fail(request, REQUEST_FAILED, error) : pace_show(pace);
}

static json_t *reply_show(void *self, struct request *request)
{
	(void)request;
	return pace_show(self);
}

static json_t *reply_mode(void *self, struct request *request, bool on)
{
	char *error = NULL;
	int err = pace_set_mode(self, on, json_object_get(request->args, "interfaces"), "command",
				&error);

	return reply_with(self, request, err, error);
}

static json_t *reply_on(void *self, struct request *request)
{
	return reply_mode(self, request, true);
}

static json_t *reply_off(void *self, struct request *request)
{
	return reply_mode(self, request, false);
}

static json_t *reply_set(void *self, struct request *request)
{
	const json_t *args = request->args;
	bool has_dst = request_has(request, "dst"), has_qpn = request_has(request, "qpn");
	struct pace_assignment queue_pair = {
		.src = json_string_value(json_object_get(args, "src")),
		.dst = json_string_value(json_object_get(args, "dst")),
		.qpn = (uint32_t)json_count(args, "qpn"),
		.class = json_string_value(json_object_get(args, "class")),
	};
	uint32_t weight = (uint32_t)json_count(args, "weight");
	uint64_t threshold_ns = json_count(args, "threshold_ns");
	json_t *result = NULL;
	char *error = NULL;
	int err;

	if (has_dst != has_qpn)
		return request_misuse(
			request,
			"which queue pair? give --dst ADDRESS and --qpn NUMBER, as `escapement qp` "
			"shows them (direction tx)");
	if (has_dst)
		return pace_assign(self, &queue_pair, &result, &error)
			       ? request_fail(request, REQUEST_FAILED, error)
			       : result;
	if (!queue_pair.class || (!weight && !threshold_ns))
		return request_misuse(
			request,
			"set what? `pace set --class NAME --weight N --threshold TIME`, or `pace "
			"set --dst ADDRESS --qpn NUMBER --class NAME`");
	err = pace_set_class(self, queue_pair.class, weight, threshold_ns, &error);
	return reply_with(self, request, err, error);
}

static json_t *reply_fq(void *self, struct request *request, bool on)
{
	char *error = NULL;
	int err = pace_setup_fq(self, json_text(request->args, "interface"), on, &error);

	return reply_with(self, request, err, error);
}

static json_t *reply_setup_fq(void *self, struct request *request)
{
	return reply_fq(self, request, true);
}

static json_t *reply_undo_fq(void *self, struct request *request)
{
	return reply_fq(self, request, false);
}

const struct verb_handler pace_verb_handlers[] = {
	{"pace", reply_show},
	{"pace on", reply_on},
	{"pace off", reply_off},
	{"pace set", reply_set},
	{"pace setup-fq", reply_setup_fq},
	{"pace undo-fq", reply_undo_fq},
	{},
};
