// SPDX-License-Identifier: BSD-2-Clause
/* Thresholds in `status` and `health`; those that are exceeded are in `findings`. */
#include "base/verb.h"

/* clang-format off: tables */

static const struct verb_section status[] = {
	{.when = "thresholds.count",
	 .header = "Thresholds",
	 .text = "{thresholds.count}, exceeded by {thresholds.exceeded} things (`escapement "
		 "findings`)<|; without a place: {thresholds.left_out}|>"},
	{},
};

static const struct verb_section health[] = {
	{.when = "thresholds.exceeded",
	 .text = "thresholds are exceeded by {thresholds.exceeded} things",
	 .remedy = "`escapement findings` lists them",
	 .began = "threshold_exceeded"},
	{.when = "thresholds.left_out",
	 .text = "{thresholds.left_out} things have no place in the table of thresholds: they are "
		 "not compared",
	 .remedy = "select fewer by plane, rail, job or peer"},
	{},
};

const struct verb_set threshold_verbs = {"threshold", NULL, status, health, NULL};
