/* SPDX-License-Identifier: BSD-2-Clause */
/* Owners of queue pairs as labels of qp_info. */
#ifndef ESC_LOADER_METRICS_OWNER_H
#define ESC_LOADER_METRICS_OWNER_H

#include "owners.h"
#include "table.h"

/* Each "" where it is not known, which leaves the label out. */
struct metrics_owner {
	char device[64], local_qpn[16], sgid_index[16], pid[16];
	const char *roce_version, *comm, *job;
};

#define METRICS_OWNER_LABELS(owner)                                                                \
	"device", (owner).device, "local_qpn", (owner).local_qpn, "roce_version",                  \
		(owner).roce_version, "sgid_index", (owner).sgid_index, "pid", (owner).pid,        \
		"comm", (owner).comm, "job", (owner).job

/* Texts point into the table of owners. */
void metrics_owner_of(const struct owners *owners, const char *device, const struct qp_entry *entry,
		      struct metrics_owner *out);
#endif
