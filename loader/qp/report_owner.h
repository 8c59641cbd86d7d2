/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes and jobs in the answers of `qp` and `status`. */
#ifndef ESC_LOADER_REPORT_OWNER_H
#define ESC_LOADER_REPORT_OWNER_H

#include <jansson.h>

#include "owners.h"

/*
 * Adds to an entry of `qp` whose local queue pair is known: rdma_device,
 * local_qpn, pid, comm, job, job_kind, cgroup, gid_type; each where it is
 * known. @device: the RDMA device of the entry's interface, "" none.
 */
void report_put_owner(json_t *qp, const struct owners *owners, const struct esc_qp_key *key,
		      const char *device);
/* `qp_tracing` of `status`. */
json_t *report_tracing(const struct owners *owners);

/* "RoCE v1", "RoCE v2", "IB"; NULL unknown. */
const char *report_gid_type(const struct esc_owner *owner);

#endif
