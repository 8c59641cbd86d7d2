// SPDX-License-Identifier: BSD-2-Clause
#include "nearest.h"

#include <string.h>
#include <sys/param.h>

#define NEAREST_WORD_BYTES 48 /* longer words are cut: no name of ours is so long */

/* Optimal string alignment: Damerau-Levenshtein without touching a place twice. */
unsigned int nearest_distance(const char *a, const char *b)
{
	unsigned int rows[3][NEAREST_WORD_BYTES + 1];
	unsigned int *before = rows[0], *last = rows[1], *row = rows[2], *spare;
	size_t a_bytes = strnlen(a, NEAREST_WORD_BYTES), b_bytes = strnlen(b, NEAREST_WORD_BYTES);

	for (size_t j = 0; j <= b_bytes; j++)
		before[j] = last[j] = j;
	for (size_t i = 1; i <= a_bytes; i++) {
		row[0] = i;
		for (size_t j = 1; j <= b_bytes; j++) {
			row[j] = MIN(last[j], row[j - 1]) + 1;
			row[j] = MIN(row[j], last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = MIN(row[j], before[j - 2] + 1);
		}
		spare = before;
		before = last;
		last = row;
		row = spare;
	}
	return last[b_bytes];
}

const char *nearest_name(const char *word, const char *const *names, size_t count)
{
	size_t bytes = strnlen(word, NEAREST_WORD_BYTES);
	unsigned int best = MAX(1u, (unsigned int)bytes / 3) + 1;
	const char *name = NULL;

	for (size_t i = 0; i < count; i++) {
		unsigned int distance = nearest_distance(word, names[i]);

		/* "dir" for "directory", "intervals" for "interval". */
		if (bytes >= 3 &&
		    (!strncmp(names[i], word, bytes) ||
		     (strlen(names[i]) >= 3 && !strncmp(names[i], word, strlen(names[i])))))
			distance = MIN(distance, 1u);
		if (distance < best) {
			best = distance;
			name = names[i];
		}
	}
	return name;
}
