// SPDX-License-Identifier: BSD-2-Clause
/* The verb findings. */
#include "base/verb.h"

/* clang-format off: tables */

static const struct verb_section status[] = {
	{.when = "findings.count",
	 .header = "Findings",
	 .text = "{findings.count}, the worst {findings.severity}: {findings.kind} of "
		 "{findings.worst} (`escapement findings`)"},
	{.when = "!findings.count", .header = "Findings", .text = "none"},
	{},
};

static const struct column columns[] = {
	{"SEVERITY", "severity", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`critical`, `warning`, `notice` or `info`"},
	{"KIND", "kind", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "what the problem is: the kind of event that began it"},
	{"ID", "id", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "what has it, by the name that every host uses"},
	{"SINCE", "age_ns", FORMAT_AGE, .help = "how long ago it began"},
	{"JOB", "job", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL, .help = "the job whose it is"},
	{"MEMBERS", "members", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL | COLUMN_SHRINK,
	 .help = "what it takes along, and has no finding of its own"},
	{},
};

static const struct verb_section conditions[] = {
	{.rows = "conditions",
	 .only = "seen",
	 .header = "Besides",
	 .text = "{kind}, {severity}: {seen}"},
	{},
};

static const struct verb_section whole[] = {
	{.header = "Finding", .text = "{id}: {kind}, {severity}"},
	{.header = "Subject", .text = "{about} {subject}"},
	{.header = "Since",
	 .text = "{age_ns:age} ago<|, at {since_fabric_ns} ns of fabric time +-{bound_ns:time}|>"},
	{.when = "job", .header = "Job", .text = "{job}"},
	{.when = "members", .header = "Members", .text = "{members}"},
	{.when = "evidence", .header = "Evidence", .text = "{evidence}"},
	{.when = "expected", .header = "Expected", .text = "{expected}"},
	{.sections = conditions},
	{.when = "remedy", .header = "Remedy", .text = "{remedy}"},
	{},
};

static const struct verb_section output[] = {
	{.when = "!count !left_out", .text = "No findings."},
	{.when = "!whole", .rows = "findings", .columns = columns},
	{.when = "whole", .rows = "findings", .sections = whole},
	{.when = "count !whole", .text = "`escapement findings ID` shows the evidence of one."},
	{.text = "{left_out} more conditions had no room in the table since the start; "
		 "`escapement events` has them."},
	{},
};

static const struct verb_arg args[] = {
	{"ID", .key = "id", .type = VERB_TEXT,
	 .help = "shows this one, with its evidence and what to do"},
	{"--job", "JOB", .key = "job", .type = VERB_TEXT, .help = "those of this job alone"},
	{},
};

static const struct verb verbs[] = {
	{.name = "findings",
	 .reads = true,
	 .summary = "the problems that there are now, one for each fault",
	 .args = args,
	 .output = output,
	 .help = "A problem begins and ends with an event (escapement-events(7)). What has several "
		 "problems, or takes other things along, is one finding, by the worst of them; its "
		 "ID is the same on each host that reports it."},
	{},
};

const struct verb_set finding_verbs = {"finding", verbs, status, NULL, NULL};
