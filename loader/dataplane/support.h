/* SPDX-License-Identifier: BSD-2-Clause */
/* Which kernel features the programs on interfaces have here. */
#ifndef ESC_DATAPLANE_SUPPORT_H
#define ESC_DATAPLANE_SUPPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Probes the running kernel, for `features`; see struct verb_set. */
void support_features(json_t *list);

/* True when libxdp's dispatcher can be had here; else @why gets one sentence. */
bool support_dispatcher(char *why, size_t why_bytes);

/* What can only be tried. Each 0 when it worked, else -errno. */
struct support_trial {
	int namespace;
	int xdp_link_skb, xdp_link_native, xdp_frags;
	int tcx, clsact, fq;
};

/*
 * In a child process with a network namespace of its own, which ends with it: no interface of the
 * host is touched.
 */
void support_try(struct support_trial *out);

#endif
