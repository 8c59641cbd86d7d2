/* SPDX-License-Identifier: BSD-2-Clause */
/* What delays and throughput usually are, over days, and what is slower than that for long. */
#ifndef ESC_BASELINE_BASELINE_H
#define ESC_BASELINE_BASELINE_H

struct capability;

/* needs: dataplane, mesh, qp, paths. It reads delays and rates ten times an interval. */
extern const struct capability baseline_capability;

#endif
