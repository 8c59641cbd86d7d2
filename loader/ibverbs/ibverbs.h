/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs as processes with libescapement-verbs count them, also where NICs bypass the kernel.
 */
#ifndef ESC_IBVERBS_IBVERBS_H
#define ESC_IBVERBS_IBVERBS_H

struct capability;

/* needs: qp; self is the struct ibverbs. */
extern const struct capability ibverbs_capability;

#endif
