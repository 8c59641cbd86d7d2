/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files judge*.c share. Nobody else includes it. */
#ifndef ESC_LOADER_JUDGE_PARTS_H
#define ESC_LOADER_JUDGE_PARTS_H

#include "config/config.h"
#include "diagnose.h"
#include "qp/qp.h"

#include "verdict.h"

#define JUDGE_SUBJECT_BYTES 128

extern const struct event_kind verdict_events[]; /* by kind, three each: begin, change, clear */

/*
 * Which packets answer a queue pair's (judge_answers.c). No packet names both
 * QPNs of a connection; but a NIC answers with the source port that it is asked
 * with, so the answers are what comes back on the same addresses and port,
 * when only one queue pair each way uses these, or has for five seconds. A
 * peer that steers its answers sends them from another port: then nobody is
 * said to get none while some come back on ports that they do not answer.
 */
struct answers;
int answers_new(struct answers **out, const struct qp_entry *entries, size_t count);
void answers_free(struct answers *answers);
/* NULL: none, or several that it could be; *@nothing_back then tells which. */
const struct qp_entry *answers_of(const struct answers *answers, const struct qp_entry *tx,
				  bool *nothing_back);

/* Events and words (judge_tell.c). @interface: of a port's index, "" unknown. */
typedef const char *judge_interface_fn(const void *context, uint8_t port);
void judge_tell(struct events *events, const struct verdict_event *event,
		judge_interface_fn *interface, const void *context);
const char *judge_subject(const struct verdict_subject *subject, const char *interface,
			  char out[JUDGE_SUBJECT_BYTES]);
json_t *judge_figures(const struct verdict_figure *figures, size_t count);
/* Adds cause, note and the subject's parts to @seen. */
void judge_put_words(json_t *seen, const struct verdict_evidence *evidence,
		     const struct verdict_subject *subject, const char *interface);

#endif
