/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which hosts are virtual machines of one machine, from exports: their points of the verb `cycles`,
 * compared by clocksync/colocate.h.
 */
#ifndef ESC_COLOCATION_COLOCATION_H
#define ESC_COLOCATION_COLOCATION_H

#include <jansson.h>
#include <stddef.h>

#include "base/verb.h"
#include "clocksync/colocate.h"

struct colocation_host {
	const char *name; /* of its export */
	const char *note; /* why it is not compared; NULL: it is */
	struct colocate_series series;
};

struct colocation {
	struct colocation_host *hosts; /* as the exports */
	size_t count;
	struct colocate law;
};

/* @exports outlive it. To be freed in any case. 0, or -errno with *@error. */
int colocation_read(struct colocation *out, const json_t **exports, size_t count, char **error);
void colocation_free(struct colocation *colocation);

extern const struct verb_set colocation_verbs;

#endif
