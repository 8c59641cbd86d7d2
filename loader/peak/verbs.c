// SPDX-License-Identifier: BSD-2-Clause
/* Peaks in `status`. */
#include "base/verb.h"

/* clang-format off: tables */

static const struct verb_section status[] = {
	{.rows = "peaks",
	 .only = "bytes_per_second",
	 .header = "Peak",
	 .text = "{interface} {direction}: {bytes_per_second:rate} of RoCEv2 in 10 ms, within the "
		 "last 70 s"},
	{},
};

const struct verb_set peak_verbs = {"peak", NULL, status, NULL, NULL};
