// SPDX-License-Identifier: BSD-2-Clause
/* Processes with libescapement-nccl in `status`. */
#include "base/verb.h"

/* clang-format off: tables */

static const struct verb_section status[] = {
	{.when = "nccl.ranks",
	 .header = "NCCL",
	 .text = "{nccl.ranks} ranks of {nccl.communicators} communicators are recorded with "
		 "libescapement-nccl"},
	{.when = "nccl.refused",
	 .header = "",
	 .text = "{nccl.refused} ranks are left out: there is room for 512"},
	{},
};

const struct verb_set nccl_verbs = {"nccl", NULL, status, NULL, NULL};
