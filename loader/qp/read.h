/* SPDX-License-Identifier: BSD-2-Clause */
/* The map `qps` as a sorted list, in as few calls as the kernel allows. */
#ifndef ESC_LOADER_QPREAD_H
#define ESC_LOADER_QPREAD_H

#include <stddef.h>
#include <stdint.h>

#include "table.h"

struct qpread;

int qpread_new(struct qpread **out, int fd, uint32_t max);
void qpread_free(struct qpread *reader);

/*
 * All entries, sorted by the bytes of their keys, each once; *@out is malloc'd
 * (NULL when there are none). Only key and qp are filled in.
 */
int qpread_all(struct qpread *reader, struct qp_entry **out, size_t *count);

/*
 * Takes @key out of the map and puts its last value into *@qp. A packet that is
 * being counted in this very moment on another CPU may be lost: callers take
 * only entries that have been still for long.
 */
int qpread_take(int fd, const struct esc_qp_key *key, struct esc_qp *qp);

#endif
