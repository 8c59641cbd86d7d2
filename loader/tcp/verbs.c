// SPDX-License-Identifier: BSD-2-Clause
/* The verb pace tcp; its connections are in the reply to `pace`. */
#include "base/verb.h"

/* clang-format off: tables */

static const struct verb_arg args[] = {
	{"MODE", .type = VERB_CHOICE, .choices = "off|measure|on", .key = "mode", .required = true,
	 .help = "`measure`: delays only; `on`: windows and rates are limited as well"},
	{},
};

static const struct verb_section output[] = {
	{.text = "TCP: {tcp.mode}; `escapement pace` shows the connections."},
	{.text = "{tcp.reason}"},
	{},
};

static const struct verb verbs[] = {
	{.name = "pace tcp",
	 .summary = "limit TCP connections by their one-way delay",
	 .args = args,
	 .output = output,
	 .help = "Of the cgroup `pace.tcp.cgroup`, until the next reload that changes it. Where "
		 "the kernel cannot wrap a congestion control, `on` is refused with the reason and "
		 "delays are measured."},
	{},
};

const struct verb_set tcp_verbs = {.name = "tcp", .verbs = verbs};
