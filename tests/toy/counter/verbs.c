// SPDX-License-Identifier: BSD-2-Clause
/* The verbs of the counter. */
#include "base/verb.h"

/* clang-format off: tables */

static const struct verb_section output[] = {
	{.text = "{count:count} of {limit:count}"},
	{},
};

static const struct verb_arg add_args[] = {
	{"N", .key = "n", .type = VERB_COUNT, .least = 1, .most = 1000, .help = "how many"},
	{},
};

static const struct verb verbs[] = {
	{.name = "counter", .summary = "what was counted", .output = output},
	{.name = "counter add",
	 .summary = "count one, or N",
	 .args = add_args,
	 .output = output,
	 .help = "An event is recorded when the count reaches the limit."},
	{},
};

const struct verb_set counter_verbs = {.name = "counter", .verbs = verbs};
