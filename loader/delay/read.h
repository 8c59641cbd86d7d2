/* SPDX-License-Identifier: BSD-2-Clause */
/* The maps `qp_owd` and `qp_sent`: reading many entries or one, and taking out those of no use. */
#ifndef ESC_LOADER_DELAYREAD_H
#define ESC_LOADER_DELAYREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/maps.h"

struct delayread;

/* Descriptors are borrowed; less than 0: that map is not there. */
int delayread_new(struct delayread **out, int owd_fd, int sent_fd, uint32_t max);
void delayread_free(struct delayread *reader);

typedef void delayread_take(void *context, const struct esc_qp_key *key,
			    const struct esc_qp_owd *owd);

/*
 * Calls @take for each entry of qp_owd, in no order, an entry at most once.
 * -EOPNOTSUPP: the kernel has no batches for this map; take them one by one.
 */
int delayread_all(struct delayread *reader, delayread_take *take, void *context);
/* 0 and *@owd, or -ENOENT. */
int delayread_one(const struct delayread *reader, const struct esc_qp_key *key,
		  struct esc_qp_owd *owd);

/* Out of both maps. */
void delayread_delete(const struct delayread *reader, const struct esc_qp_key *key);

typedef bool delayread_is_known(void *context, const struct esc_qp_key *key);

/*
 * Deletes the entries of both maps whose key @known denies, @most of them at
 * most, and returns how many. Reads keys alone: a call of the kernel each.
 */
size_t delayread_sweep(const struct delayread *reader, delayread_is_known *known, void *context,
		       size_t most);

#endif
