// SPDX-License-Identifier: BSD-2-Clause
/* Processes with libescapement-verbs in `status`. */
#include "base/verb.h"

/* clang-format off: tables */

static const struct verb_section status[] = {
	{.when = "verbs.processes",
	 .header = "Verbs",
	 .text = "{verbs.processes} processes count their queue pairs with libescapement-verbs"},
	{.when = "verbs.note",
	 .header = "Verbs",
	 .text = "{verbs.folder} cannot be used: {verbs.note}; libescapement-verbs counts nothing"},
	{.when = "verbs.reports_note",
	 .header = "",
	 .text = "message delays are not exchanged: {verbs.reports_note}; see qps.message_port"},
	{.when = "verbs.reports_refused",
	 .header = "",
	 .text = "{verbs.reports_refused} reports of received messages were refused: not of a "
		 "member, of another key, or damaged"},
	{.when = "verbs.refused",
	 .header = "",
	 .text = "{verbs.refused} processes are left out: there is room for 256, 128 of a user, "
		 "and 8,192 queue pairs"},
	{.when = "verbs.unreadable",
	 .header = "",
	 .text = "{verbs.unreadable} files in {verbs.folder} are none of this version"},
	{.when = "verbs.untracked_qps",
	 .header = "",
	 .text = "{verbs.untracked_qps} queue pairs were not counted: a process has room for "
		 "1,023"},
	{.when = "verbs.untracked_contexts",
	 .header = "",
	 .text = "{verbs.untracked_contexts} opened devices were not counted: a layout that is not "
		 "known, or too many"},
	{.when = "verbs.unknown_completions",
	 .header = "",
	 .text = "{verbs.unknown_completions} completions are of no queue pair that is known"},
	{},
};

const struct verb_set ibverbs_verbs = {"ibverbs", NULL, status, NULL, NULL};
