/* SPDX-License-Identifier: BSD-2-Clause */
/* What `qp` and `top` show of queue pairs beside their columns. */
#ifndef ESC_CLI_QP_H
#define ESC_CLI_QP_H

#include <jansson.h>

/* Its state in one word: a diagnosis, "loss", "spiky", "ok", "no_feedback", "idle", "rx". */
const char *qp_state(const json_t *qp);

/* Sets what is shown of a queue pair and not in the reply: `state`, `peer`, `owner`. */
void qp_complete(json_t *qp);

#endif
