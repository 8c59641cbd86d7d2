// SPDX-License-Identifier: BSD-2-Clause
/* How diagnoses are shown in `status`. */
#include "base/verb.h"

/* clang-format off: tables */

static const struct verb_section status[] = {
	{.rows = "diagnoses",
	 .header = "Diagnosis",
	 .text = "{kind} {subject}, for {since_ms:age}<|, median {seen.p50_ns:time}|><| "
		 "({seen.cause})|>"},
	{},
};

const struct verb_set diagnose_verbs = {.name = "diagnose", .status = status};
