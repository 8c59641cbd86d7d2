// SPDX-License-Identifier: BSD-2-Clause
#include "request.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "daemon/daemon.h"
#include "base/explain.h"
#include "steer.h"

#define HOLD_MOST_NS 60000000000ull
#define WITHIN_MOST_NS 3600000000000ull

static bool take_text(const json_t *args, const char *name, const char **out, char **error)
{
	const json_t *value = json_object_get(args, name);

	*out = json_string_value(value);
	if (!value || json_is_null(value) || *out)
		return true;
	explain(error, 0, "argument `%s` should be a text", name);
	return false;
}

/* *@given: whether it is there; without it *@out stays as it is. */
static bool take_number(const json_t *args, const char *name, uint64_t most, uint64_t *out,
			bool *given, char **error)
{
	const json_t *value = json_object_get(args, name);

	*given = value && !json_is_null(value);
	if (!*given)
		return true;
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    (uint64_t)json_integer_value(value) > most) {
		explain(error, 0, "argument `%s` should be a whole number, 0 to %llu", name,
			(unsigned long long)most);
		return false;
	}
	*out = json_integer_value(value);
	return true;
}

static bool take_flag(const json_t *args, const char *name, bool *out, char **error)
{
	const json_t *value = json_object_get(args, name);

	*out = json_is_true(value);
	if (!value || json_is_boolean(value))
		return true;
	explain(error, 0, "argument `%s` should be true or false", name);
	return false;
}

/* What `set` and `clear` have in common. */
static bool take_order(const json_t *args, struct steer_order *order, char **error)
{
	uint64_t qpn = 0, sport = 0, label = 0;
	bool has_qpn, given;

	order->hold_ns = STEER_HOLD_DEFAULT_NS;
	order->within_ns = STEER_WITHIN_DEFAULT_NS;
	if (!take_text(args, "src", &order->src, error) ||
	    !take_text(args, "dst", &order->dst, error) ||
	    !take_number(args, "qpn", ESC_QPN_MASK, &qpn, &has_qpn, error) ||
	    !take_number(args, "sport", 65535, &sport, &given, error) ||
	    !take_number(args, "flow_label", ESC_FLOW_LABEL_MASK, &label, &order->label, error) ||
	    !take_number(args, "flowlet_gap_ns", HOLD_MOST_NS, &order->hold_ns, &given, error) ||
	    !take_number(args, "deadline_ns", WITHIN_MOST_NS, &order->within_ns, &given, error) ||
	    !take_flag(args, "force", &order->now, error))
		return false;
	order->qpn = qpn;
	order->sport = sport;
	order->flow_label = label;
	if (order->dst && has_qpn)
		return true;
	explain(error, 0,
		"which queue pair? give --dst ADDRESS and --qpn NUMBER, as `escapement qp` shows "
		"them (direction tx)");
	return false;
}

static json_t *answer_set(struct daemon *daemon, const json_t *args, int *exit, char **error)
{
	struct steer_order order = {};
	json_t *result = NULL;

	*exit = 2;
	if (!take_order(args, &order, error))
		return NULL;
	if (!order.sport && !order.label) {
		explain(error, 0,
			"which path? give --sport PORT, 1 to 65535, or for IPv6 --flow-label "
			"LABEL");
		return NULL;
	}
	*exit = 1;
	return steer_set(daemon->steer, &order, &result, error) ? NULL : result;
}

static json_t *answer_clear(struct daemon *daemon, const json_t *args, int *exit, char **error)
{
	struct steer_order order = {};
	json_t *result = NULL;
	bool all;
	int err;

	*exit = 2;
	if (!take_flag(args, "all", &all, error) || !take_flag(args, "force", &order.now, error) ||
	    (!all && !take_order(args, &order, error)))
		return NULL;
	*exit = 1;
	if (all)
		err = steer_clear_all(daemon->steer, order.now, &result);
	else
		err = steer_clear(daemon->steer, &order, &result, error);
	return err ? NULL : json_pack("{s:o}", "clearing", result);
}

static json_t *answer_auto(struct daemon *daemon, const json_t *args, int *exit, char **error)
{
	const char *state;
	bool on;

	*exit = 2;
	if (!take_text(args, "state", &state, error))
		return NULL;
	on = state && !strcmp(state, "on");
	if (!on && (!state || strcmp(state, "off"))) {
		explain(error, 0, "`steer auto` wants `on` or `off`");
		return NULL;
	}
	*exit = 1;
	return steer_set_auto(daemon->steer, on, "command", error) ? NULL
								   : json_pack("{s:b}", "auto", on);
}

static json_t *answer_plan(struct daemon *daemon, int *exit)
{
	*exit = 1;
	return steer_plan(daemon->steer);
}

json_t *request_steer(struct daemon *daemon, const json_t *args, int *exit, char **error)
{
	char words[32];
	const char *what;

	*exit = 2;
	if (!take_text(args, "what", &what, error))
		return NULL;
	if (!what)
		return steer_list(daemon->steer);
	if (!strcmp(what, "set"))
		return answer_set(daemon, args, exit, error);
	if (!strcmp(what, "clear"))
		return answer_clear(daemon, args, exit, error);
	snprintf(words, sizeof(words), "steer %.20s", what);
	if (!strcmp(what, "plan"))
		return answer_plan(daemon, exit);
	if (!strcmp(what, "auto"))
		return answer_auto(daemon, args, exit, error);
	explain(error, 0,
		"`%s` is not known; there are `steer`, `steer set`, `steer clear`, `steer auto "
		"on`, "
		"`steer auto off` and `steer plan`",
		words);
	return NULL;
}
