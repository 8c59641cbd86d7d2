/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of qp/ share. */
#ifndef ESC_QP_INTERNAL_H
#define ESC_QP_INTERNAL_H

#include "base/prom.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "qp.h"
#include "read.h"
#include "tell.h"

struct qptable {
	int fd;
	uint32_t max;
	uint64_t idle_ns;
	struct events *events;
	struct qpread *reader;
	struct qp_entry *entries; /* sorted by key */
	size_t count;
	uint64_t refreshed_local_ns; /* 0: never */
	struct qp_totals aged[2];    /* by direction */
	struct qptell seen, gone;    /* events of the refresh under way */
	uint64_t refused, refused_told, refused_told_local_ns;

	/* Of the capability. */
	struct core *core;
	struct dataplane *dataplane;
	struct owners *owners;
	const struct qp_delay_order *delay_order; /* NULL: delays are not known */
	bool refresh_failed;			  /* the newest refresh could not read the map */
};

/* metrics.c */
extern const struct metric qp_metrics[];
void qp_write_metrics(void *self, FILE *out);

/* reply.c */
extern const struct verb_handler qp_verb_handlers[];

#endif
