/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits that an operator sets for what is measured: `alerts.thresholds` (config/thresholds.c). */
#ifndef ESC_THRESHOLD_THRESHOLD_H
#define ESC_THRESHOLD_THRESHOLD_H

struct capability;

/* needs: dataplane, clock, mesh, qp, paths, link. It evaluates them once a second, if any. */
extern const struct capability threshold_capability;

#endif
