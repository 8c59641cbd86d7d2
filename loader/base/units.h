/* SPDX-License-Identifier: BSD-2-Clause */
/* Durations and rates from text, numbers to text, and the name nearest to a wrong one. */
#ifndef ESC_LOADER_UNITS_H
#define ESC_LOADER_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNITS_UNDERSTOOD "ns, us, ms, s, min, h"

/*
 * "5s", "2ms", "1.5us", "0". 0, -ERANGE (more than fits) or -EINVAL; then @hint, if not NULL,
 * becomes what was probably meant, "5s" for "5 sec", or "".
 */
int units_parse_duration(const char *text, uint64_t *ns, char hint[32]);

/* "100Gbit", "40G", "2.5gbit/s", "1000000": bits a second, powers of 1000. 0 or -EINVAL. */
int units_parse_bit_rate(const char *text, double *bps);

/* All return @out. Three significant digits: "999", "12.3k", "4.56M". */
#define UNITS_TEXT_BYTES 32
const char *units_count(char out[UNITS_TEXT_BYTES], double count);
/* Powers of 1024: "812 B", "1.50 KiB", "3.20 GiB". */
const char *units_bytes(char out[UNITS_TEXT_BYTES], double bytes);
/* As networks count, powers of 1000 and bits: "9.41 Gbit/s". */
const char *units_bit_rate(char out[UNITS_TEXT_BYTES], double bytes_per_second);
/* How long something lasts, the two largest parts: "3d 4h", "12min 5s", "250ms", "5us". */
const char *units_duration(char out[UNITS_TEXT_BYTES], uint64_t ns);

/* A measured delay, three digits: "0.812us", "7.62us", "168us", "1.00ms", "16.8s". */
const char *units_delay(char out[UNITS_TEXT_BYTES], double ns);

/* Appends @text to the one in @out of @bytes, which is cut; after @separator unless it is the
 * first. */
void text_append(char *out, size_t bytes, const char *separator, const char *text);

/* The next line of *@text, cut to @bytes, and *@text moves behind it. False: it has no more. */
bool text_next_line(const char **text, char *line, size_t bytes);

/* Insertions, deletions, replacements and swaps of neighbours that turn @a into @b. */
unsigned int nearest_distance(const char *a, const char *b);
/* The member of @names nearest to @word, or NULL when none is near. */
const char *nearest_name(const char *word, const char *const *names, size_t count);

#endif
