/* SPDX-License-Identifier: BSD-2-Clause */
/* Passes what the daemon knows to the diagnosis (verdict.h), and its results to the event log. */
#ifndef ESC_DIAGNOSE_H
#define ESC_DIAGNOSE_H

struct capability;

/* needs: dataplane, mesh, qp, delay. It runs after each poll of the delays. */
extern const struct capability diagnose_capability;

#endif
