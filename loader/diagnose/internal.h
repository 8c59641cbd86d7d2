/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files share that collect the figures and emit the events. */
#ifndef ESC_DIAGNOSE_INTERNAL_H
#define ESC_DIAGNOSE_INTERNAL_H

#include <jansson.h>

#include "base/address.h"
#include "core/core.h"
#include "diagnosis.h"
#include "qp/qp.h"

/*
 * Which packets reply to a queue pair's (answers.c). No packet names both QPNs of a connection; but
 * a NIC replies with the source port of the request, so the replies are what comes back on the same
 * addresses and port, when only one queue pair each way uses these, or has for five seconds. A peer
 * that steers its replies sends them from another port: then no queue pair is taken to get none
 * while some come back on ports that they do not belong to.
 */
struct answers;
int answers_new(struct answers **out, const struct qp_entry *entries, size_t count);
void answers_free(struct answers *answers);
/* NULL: none, or several that it could be; *@nothing_back then distinguishes them. */
const struct qp_entry *answers_of(const struct answers *answers, const struct qp_entry *tx,
				  bool *nothing_back);

/* events.c; @interface: of the subject's port, "" unknown */
extern const struct event_kind diag_events[]; /* by kind, three each: begin, change, clear */
void diagnose_emit(struct events *events, const struct diag_event *event, const char *interface);
#define DIAGNOSE_SUBJECT_BYTES ADDRESS_QP_BYTES
const char *diagnose_subject(const struct diag_subject *subject, const char *interface,
			     char out[DIAGNOSE_SUBJECT_BYTES]);
/* Its figures, cause, note and the subject's parts. */
json_t *diagnose_seen(const struct diag_active *active, const char *interface);

#endif
