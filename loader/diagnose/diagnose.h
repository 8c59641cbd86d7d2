/* SPDX-License-Identifier: BSD-2-Clause */
/* Puts what the daemon knows before the verdicts (verdict.h), and what they say into the ledger. */
#ifndef ESC_LOADER_JUDGE_H
#define ESC_LOADER_JUDGE_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "qp/table.h"
#include "verdict.h"

struct daemon;
struct judge;

int judge_new(struct judge **out, const struct daemon *daemon);
void judge_free(struct judge *judge);
/* Right after daemon_refresh(), four times a second. */
void judge_look(struct judge *judge, uint64_t now_local_ns);

/* In all that follows @judge may be NULL: nothing is judged. */

struct judge_counts {
	bool known;
	size_t active[VERDICT_KINDS];
	uint64_t total[VERDICT_KINDS];
};
void judge_get_counts(const struct judge *judge, struct judge_counts *out);

/* New reference: the active verdicts for `status`, the oldest first; NULL: nothing is judged. */
json_t *judge_report(const struct judge *judge, uint64_t now_local_ns);
/* Adds `verdicts`, the kinds that stand on this queue pair or on its way, when there are any. */
void judge_put_qp(json_t *qp, const struct judge *judge, const struct qp_entry *entry);

#endif
