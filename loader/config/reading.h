/* SPDX-License-Identifier: BSD-2-Clause */
/* A file under way to a configuration: where things stand in it, and values taken with their
 * bounds. */
#ifndef ESC_LOADER_CONFIG_READING_H
#define ESC_LOADER_CONFIG_READING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct config_raw;
struct yamltree_node;

struct reading {
	const char *path;
	struct yamltree_node *root;
	struct config_raw *raw;
	struct config *config;
	char **error;
};

/* -EINVAL, with "FILE:LINE: what" as the reading's error. */
int fail_at(struct reading *reading, unsigned int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Where `section.key`, or a top-level key, stands. */
unsigned int line_of(const struct reading *reading, const char *section, const char *key);
unsigned int interface_line(const struct reading *reading, size_t i, const char *key);
/* Not given: what is there stays. */
int take_duration(struct reading *reading, const char *section, const char *key, const char *text,
		  uint64_t least_ns, uint64_t most_ns, uint64_t *ns);
int take_number(struct reading *reading, const char *section, const char *key,
		const uint64_t *given, uint64_t least, uint64_t most, uint32_t *number);
bool interface_name_valid(const char *name);

#endif
