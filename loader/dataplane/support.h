/* SPDX-License-Identifier: BSD-2-Clause */
/* probe-support: which kernel features are here and what each missing one costs. */
#ifndef ESC_LOADER_SUPPORT_H
#define ESC_LOADER_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>

struct support_feature {
	const char *name; /* "btf", "freplace", "tcx", ... */
	bool here;
	char detail[224]; /* what the kernel said, "" nothing */
	const char *cost; /* what is missing without it, one sentence */
};

/* Probes the running kernel. Returns the number written to @out, at most @max, or -errno. */
int support_probe(struct support_feature *out, size_t max);

/* True when libxdp's dispatcher can be had here; else @why gets one sentence. */
bool support_dispatcher(char *why, size_t why_bytes);

#endif
