/* SPDX-License-Identifier: BSD-2-Clause */
/* The tracing programs on the kernel's modify-QP path, from load to detach. */
#ifndef ESC_LOADER_QPTRACE_H
#define ESC_LOADER_QPTRACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qptrace;

enum qptrace_how { QPTRACE_NONE, QPTRACE_FENTRY, QPTRACE_KPROBE };

/*
 * Attaches by @how, QPTRACE_NONE: by fentry, else by kprobes. The descriptors of the pinned maps
 * are borrowed; less than 0: maps of its own. Returns 0 or -errno with one sentence in @why;
 * -ENODEV: the kernel's RDMA core is not loaded (yet).
 * Nothing is pinned: the programs hold the module ib_core, which could not be unloaded any more
 * after this process.
 */
int qptrace_open(struct qptrace **out, enum qptrace_how how, int control_fd, int owners_fd,
		 char *why, size_t why_bytes);
void qptrace_close(struct qptrace *trace); /* detaches */

enum qptrace_how qptrace_how(const struct qptrace *trace);
/* Queue pairs that found the table full since qptrace_open(). */
uint64_t qptrace_refused(const struct qptrace *trace);

/* "fentry", "kprobe", "none" */
const char *qptrace_how_name(enum qptrace_how how);

/* Whether it can be attached, and how: with maps of its own, and detached at once. */
enum qptrace_how qptrace_try(char *why, size_t why_bytes);
/* The kernel features that it uses, for `features`. */
void qptrace_features(json_t *list);

#endif
