/* SPDX-License-Identifier: BSD-2-Clause */
/* Which queue pair is slow, stalled or losing, and why: as events, in `qp` and in `status`. */
#ifndef ESC_DIAGNOSE_H
#define ESC_DIAGNOSE_H

struct capability;

/* needs: dataplane, mesh, qp, delay. It runs after each poll of the delays. */
extern const struct capability diagnose_capability;

#endif
