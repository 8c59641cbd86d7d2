// SPDX-License-Identifier: BSD-2-Clause
#include "request.h"

#include <stdbool.h>
#include <string.h>

#include "daemon/daemon.h"
#include "base/explain.h"
#include "pace.h"
#include "tcp/tcp.h"

static bool take_text(const json_t *args, const char *name, const char **out, char **error)
{
	const json_t *value = json_object_get(args, name);

	*out = json_string_value(value);
	if (!value || json_is_null(value) || *out)
		return true;
	explain(error, 0, "argument `%s` should be a text", name);
	return false;
}

/* Without it *@out stays as it is. */
static bool take_number(const json_t *args, const char *name, uint64_t least, uint64_t most,
			uint64_t *out, bool *given, char **error)
{
	const json_t *value = json_object_get(args, name);

	*given = value && !json_is_null(value);
	if (!*given)
		return true;
	if (!json_is_integer(value) || json_integer_value(value) < (json_int_t)least ||
	    json_integer_value(value) > (json_int_t)most) {
		explain(error, 0, "argument `%s` should be a whole number, %llu to %llu", name,
			(unsigned long long)least, (unsigned long long)most);
		return false;
	}
	*out = json_integer_value(value);
	return true;
}

static json_t *answer_mode(struct daemon *daemon, const json_t *args, bool on, int *exit,
			   char **error)
{
	const json_t *interfaces = json_object_get(args, "interfaces");

	*exit = 1;
	return pace_set_mode(daemon->pace, on, interfaces, "command", error)
		       ? NULL
		       : pace_show(daemon->pace);
}

static json_t *answer_class(struct daemon *daemon, const json_t *args, const char *class, int *exit,
			    char **error)
{
	uint64_t weight = 0, threshold_ns = 0;
	bool has_weight, has_threshold;

	if (!take_number(args, "weight", 1, ESC_PACE_WEIGHT_MAX, &weight, &has_weight, error) ||
	    !take_number(args, "threshold_ns", ESC_PACE_THRESHOLD_MIN_NS, ESC_PACE_THRESHOLD_MAX_NS,
			 &threshold_ns, &has_threshold, error))
		return NULL;
	if (!class || (!has_weight && !has_threshold)) {
		explain(error, 0,
			"set what? `pace set --class NAME --weight N --threshold TIME`, or `pace "
			"set "
			"--dst ADDRESS --qpn NUMBER --class NAME`");
		return NULL;
	}
	*exit = 1;
	if (pace_set_class(daemon->pace,
			   &(struct pace_class_change){.name = class,
						       .weight = (uint32_t)weight,
						       .threshold_ns = threshold_ns},
			   error))
		return NULL;
	return pace_show(daemon->pace);
}

static json_t *answer_set(struct daemon *daemon, const json_t *args, int *exit, char **error)
{
	struct pace_assignment want = {};
	json_t *result = NULL;
	uint64_t qpn = 0;
	bool has_qpn;

	*exit = 2;
	if (!take_text(args, "src", &want.src, error) ||
	    !take_text(args, "dst", &want.dst, error) ||
	    !take_text(args, "class", &want.class, error) ||
	    !take_number(args, "qpn", 0, ESC_QPN_MASK, &qpn, &has_qpn, error))
		return NULL;
	if (!want.dst && !has_qpn)
		return answer_class(daemon, args, want.class, exit, error);
	if (!want.dst || !has_qpn) {
		explain(error, 0,
			"which queue pair? give --dst ADDRESS and --qpn NUMBER, as `escapement qp` "
			"shows them (direction tx)");
		return NULL;
	}
	want.qpn = (uint32_t)qpn;
	*exit = 1;
	return pace_assign(daemon->pace, &want, &result, error) ? NULL : result;
}

static json_t *answer_fq(struct daemon *daemon, const json_t *args, bool on, int *exit,
			 char **error)
{
	const json_t *interfaces = json_object_get(args, "interfaces");
	const char *name = json_string_value(json_array_get(interfaces, 0));

	*exit = 2;
	if (!name || json_array_size(interfaces) != 1) {
		explain(error, 0, "name one interface, such as `escapement pace %s eth1`",
			on ? "setup-fq" : "undo-fq");
		return NULL;
	}
	*exit = 1;
	return pace_setup_fq(daemon->pace, name, on, error) ? NULL : pace_show(daemon->pace);
}

static json_t *answer_tcp(struct daemon *daemon, const json_t *args, int *exit, char **error)
{
	const char *mode;

	*exit = 2;
	if (!take_text(args, "mode", &mode, error))
		return NULL;
	if (!mode) {
		explain(error, 0, "`pace tcp` needs a mode: `off`, `measure` or `on`");
		return NULL;
	}
	*exit = 1;
	return tcppace_set(daemon->tcp, mode, "command", error) ? NULL : pace_show(daemon->pace);
}

json_t *request_pace(struct daemon *daemon, const json_t *args, int *exit, char **error)
{
	const char *what;

	*exit = 2;
	if (!take_text(args, "what", &what, error))
		return NULL;
	if (!what || !strcmp(what, "show"))
		return pace_show(daemon->pace);
	if (!strcmp(what, "on") || !strcmp(what, "off"))
		return answer_mode(daemon, args, !strcmp(what, "on"), exit, error);
	if (!strcmp(what, "set"))
		return answer_set(daemon, args, exit, error);
	if (!strcmp(what, "setup-fq") || !strcmp(what, "undo-fq"))
		return answer_fq(daemon, args, !strcmp(what, "setup-fq"), exit, error);
	if (!strcmp(what, "tcp"))
		return answer_tcp(daemon, args, exit, error);
	explain(error, 0,
		"`pace %.20s` is not known; there are `pace show`, `on`, `off`, `set`, `tcp`, "
		"`setup-fq` and `undo-fq`",
		what);
	return NULL;
}
