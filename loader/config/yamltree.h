/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A YAML document with the line of every key and value: libcyaml fills
 * structures but forgets where things stood, and an error has to say it.
 */
#ifndef ESC_LOADER_YAMLTREE_H
#define ESC_LOADER_YAMLTREE_H

#include <stddef.h>

enum yamltree_kind { YAMLTREE_SCALAR, YAMLTREE_MAPPING, YAMLTREE_SEQUENCE };

struct yamltree_node;

struct yamltree_child {
	char *key; /* NULL in a sequence */
	unsigned int line;
	struct yamltree_node *node;
};

struct yamltree_node {
	enum yamltree_kind kind;
	unsigned int line;
	char *text; /* of a scalar */
	struct yamltree_child *children;
	size_t count;
};

/*
 * Parses one document. An empty one gives *@out = NULL and 0. Aliases, a
 * second document, a key twice, a key that is no plain word and more than 16
 * levels are refused: -EINVAL with *@line and *@error, a malloc'd half
 * sentence that wants "FILE:LINE: " before it.
 */
int yamltree_parse(const char *bytes, size_t size, struct yamltree_node **out, unsigned int *line,
		   char **error);
void yamltree_free(struct yamltree_node *node);

/* The child of a mapping under @key, or NULL. */
const struct yamltree_child *yamltree_get(const struct yamltree_node *node, const char *key);

#endif
