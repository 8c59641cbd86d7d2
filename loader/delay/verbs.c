// SPDX-License-Identifier: BSD-2-Clause
/* How receipts are shown in `status`. */
#include "base/verb.h"
#include "internal.h"

/* clang-format off: tables */

static const struct verb_section status[] = {
	{.when = "receipts.mode=on",
	 .header = "Receipts",
	 .text = "on, {receipts.qps_sampled} queue pairs sampled"},
	{.when = "receipts !receipts.mode=on",
	 .header = "Receipts",
	 .text = "off (`receipts.mode`): queue pairs have no delays"},
	{.when = "receipts.host_queue",
	 .header = "",
	 .text = "the delay in the sender's own queue is measured separately"},
	{.header = "", .text = "{receipts.host_queue_note}"},
	{.header = "", .text = "{receipts.poll_note}"},
	{},
};

const struct verb_set delay_verbs = {
	.name = "delay",
	.status = status,
	.features = hostqueue_features,
};
