/* SPDX-License-Identifier: BSD-2-Clause */
/* The registry of queue pairs: counts, rates, and the process and job that own each. */
#ifndef ESC_QP_H
#define ESC_QP_H

#include "job.h"
#include "owners.h"
#include "report.h"
#include "table.h"

struct capability;

/* needs: dataplane; self is the struct qptable. */
extern const struct capability qp_capability;

/* Reads the map now. 0 or -errno. */
int qptable_poll(struct qptable *table);
struct owners *qptable_owners(const struct qptable *table);
/* Borrowed; NULL: delays are not known any more. */
void qptable_set_delay_order(struct qptable *table, const struct qp_delay_order *order);

#endif
