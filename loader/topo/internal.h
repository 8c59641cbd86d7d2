/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef ESC_TOPO_INTERNAL_H
#define ESC_TOPO_INTERNAL_H

#include "topo.h"

/* --- sets.c: disjoint sets, and one-dimensional statistics --- */

size_t *sets_new(size_t count);
size_t sets_find(size_t *sets, size_t of);
/* Whether they were apart. */
bool sets_join(size_t *sets, size_t a, size_t b);
/* Sorts @values. @share of them are below the result; NAN when there are none. */
double quantile_of(double *values, size_t count, double share);
/* Half of the distance between the quartiles: for a symmetric distribution its MAD. */
double spread_of(const double *sorted, size_t count);
double normal_below(double sigmas);

/* --- delay.c --- */

/* Groups of one plane and rail by delay: @leaf and @pod are disjoint sets over all NICs. */
int delay_group(struct topo *topo, size_t *leaf, size_t *pod);

/* --- switch.c --- */

/* The same by switch replies; @known: of which NICs. */
int switch_group(struct topo *topo, size_t *leaf, size_t *pod, bool *known);

/* --- tree.c --- */

/* A sentence on what is not certain; takes @text over. */
void topo_note(struct topo *topo, json_t *text);

/* --- text.c: the topology in formats of others (malloc'd) --- */

char *text_dot(const json_t *topology, const char *rail); /* of all rails */
char *text_slurm(const json_t *topology, const char *rail);
char *text_hypernode(const json_t *topology, const char *rail);
char *text_labels(const json_t *topology, const char *rail);
char *text_ranks(const json_t *topology, const char *rail);

/* --- names.c --- */

bool names_are_dns(const char *name);

/* --- check.c --- */

/* NICs whose leaf is not that of their siblings: an array. */
json_t *check_rails(const json_t *topology);
/* What differs from an earlier topology: {"changes": [...]}; NULL with *@error. */
json_t *check_diff(const json_t *expected, const json_t *now, char **error);

#endif
