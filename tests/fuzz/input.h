/* SPDX-License-Identifier: BSD-2-Clause */
/* Values from the bytes of a fuzzer; 0 when they are used up. */
#ifndef ESC_TESTS_FUZZ_INPUT_H
#define ESC_TESTS_FUZZ_INPUT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct input {
	const uint8_t *at, *end;
};

static inline uint64_t input_take(struct input *in, size_t bytes)
{
	uint64_t value = 0;
	size_t left = in->end - in->at;

	bytes = bytes < left ? bytes : left;
	memcpy(&value, in->at, bytes);
	in->at += bytes;
	return value;
}

/* A copy of what is left, of exactly its size: a byte behind it is an error. To be freed. */
static inline void *input_rest(const struct input *in, size_t *bytes)
{
	void *copy = malloc((*bytes = in->end - in->at));

	if (*bytes)
		memcpy(copy, in->at, *bytes);
	return copy;
}

#endif
