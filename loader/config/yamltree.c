// SPDX-License-Identifier: BSD-2-Clause
#include "yamltree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define YAMLTREE_DEPTH 16
#define YAMLTREE_CHILDREN 1024 /* keys are looked for one by one */

struct reader {
	yaml_parser_t parser;
	yaml_event_t event; /* the one being looked at */
	unsigned int *line;
	char **error;
};

static int read_value(struct reader *reader, unsigned int depth, struct yamltree_node **out);

__attribute__((format(printf, 3, 4))) static int fail(struct reader *reader, unsigned int line,
						      const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(reader->error, format, arguments) < 0)
		*reader->error = NULL;
	va_end(arguments);
	*reader->line = line;
	return -EINVAL;
}

static unsigned int event_line(const struct reader *reader)
{
	return reader->event.start_mark.line + 1;
}

/* Moves on to the next event. */
static int advance(struct reader *reader)
{
	yaml_event_delete(&reader->event);
	if (yaml_parser_parse(&reader->parser, &reader->event))
		return 0;
	memset(&reader->event, 0, sizeof(reader->event));
	if (reader->parser.error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	return fail(reader, reader->parser.problem_mark.line + 1,
		    "not YAML: %s%s%s; indent with spaces, and quote a value that has a colon or "
		    "begins with a sign",
		    reader->parser.problem ? reader->parser.problem : "unreadable text",
		    reader->parser.context ? " " : "",
		    reader->parser.context ? reader->parser.context : "");
}

static struct yamltree_child *add_child(struct yamltree_node *node)
{
	struct yamltree_child *grown =
		reallocarray(node->children, node->count + 1, sizeof(*grown));

	if (!grown)
		return NULL;
	node->children = grown;
	grown += node->count++;
	*grown = (struct yamltree_child){};
	return grown;
}

/* The event is a key; leaves the reader at its value. */
static int read_key(struct reader *reader, struct yamltree_node *mapping,
		    struct yamltree_child **out)
{
	const char *key = (const char *)reader->event.data.scalar.value;
	unsigned int line = event_line(reader);
	const struct yamltree_child *twin;

	if (reader->event.type != YAML_SCALAR_EVENT ||
	    strlen(key) != reader->event.data.scalar.length)
		return fail(reader, line, "a key should be a plain word; write `key: value`");
	twin = yamltree_get(mapping, key);
	if (twin)
		return fail(reader, line,
			    "`%s` stands here for the second time (first in line %u); "
			    "keep one",
			    key, twin->line);
	*out = add_child(mapping);
	if (!*out)
		return -ENOMEM;
	(*out)->key = strdup(key);
	(*out)->line = line;
	if (!(*out)->key)
		return -ENOMEM;
	return advance(reader);
}

/* From the event after the start of a collection to its end. */
static int read_children(struct reader *reader, unsigned int depth, struct yamltree_node *node)
{
	yaml_event_type_t end =
		node->kind == YAMLTREE_MAPPING ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
	struct yamltree_child *child = NULL;
	int err = advance(reader);

	while (!err && reader->event.type != end) {
		if (node->count == YAMLTREE_CHILDREN)
			return fail(reader, event_line(reader), "more than %d entries here",
				    YAMLTREE_CHILDREN);
		if (node->kind == YAMLTREE_MAPPING) {
			err = read_key(reader, node, &child);
		} else {
			child = add_child(node);
			err = child ? 0 : -ENOMEM;
			if (child)
				child->line = event_line(reader);
		}
		if (!err)
			err = read_value(reader, depth + 1, &child->node);
		if (!err)
			err = advance(reader);
	}
	return err;
}

static int read_scalar(struct reader *reader, struct yamltree_node *node)
{
	const yaml_char_t *value = reader->event.data.scalar.value;

	if (strlen((const char *)value) != reader->event.data.scalar.length)
		return fail(reader, node->line, "a value holds a zero byte; take it out");
	node->text = strdup((const char *)value);
	return node->text ? 0 : -ENOMEM;
}

/* Leaves the reader at the last event of the value. */
static int read_value(struct reader *reader, unsigned int depth, struct yamltree_node **out)
{
	struct yamltree_node *node;

	if (reader->event.type == YAML_ALIAS_EVENT)
		return fail(reader, event_line(reader),
			    "aliases (*name) are not understood here; write the value out");
	if (depth > YAMLTREE_DEPTH)
		return fail(reader, event_line(reader),
			    "nested more than %d deep; nothing here is so deep", YAMLTREE_DEPTH);
	node = calloc(1, sizeof(*node));
	if (!node)
		return -ENOMEM;
	*out = node;
	node->line = event_line(reader);
	switch (reader->event.type) {
	case YAML_SCALAR_EVENT:
		node->kind = YAMLTREE_SCALAR;
		return read_scalar(reader, node);
	case YAML_MAPPING_START_EVENT:
		node->kind = YAMLTREE_MAPPING;
		return read_children(reader, depth, node);
	case YAML_SEQUENCE_START_EVENT:
		node->kind = YAMLTREE_SEQUENCE;
		return read_children(reader, depth, node);
	default:
		return fail(reader, node->line, "not YAML: a value is missing");
	}
}

static int read_document(struct reader *reader, struct yamltree_node **out)
{
	int err = advance(reader); /* stream start */

	if (!err)
		err = advance(reader); /* document start, or the end of nothing */
	if (err || reader->event.type == YAML_STREAM_END_EVENT)
		return err;
	err = advance(reader);
	if (!err)
		err = read_value(reader, 1, out);
	if (!err)
		err = advance(reader); /* document end */
	if (!err)
		err = advance(reader);
	if (!err && reader->event.type != YAML_STREAM_END_EVENT)
		err = fail(reader, event_line(reader),
			   "a second document begins here; keep everything in one, without `---`");
	return err;
}

int yamltree_parse(const char *bytes, size_t size, struct yamltree_node **out, unsigned int *line,
		   char **error)
{
	struct reader reader = {.line = line, .error = error};
	int err;

	*out = NULL;
	*error = NULL;
	*line = 1;
	if (!yaml_parser_initialize(&reader.parser))
		return -ENOMEM;
	yaml_parser_set_input_string(&reader.parser, (const unsigned char *)bytes, size);
	err = read_document(&reader, out);
	yaml_event_delete(&reader.event);
	yaml_parser_delete(&reader.parser);
	if (err) {
		yamltree_free(*out);
		*out = NULL;
	}
	return err;
}

void yamltree_free(struct yamltree_node *node)
{
	if (!node)
		return;
	for (size_t i = 0; i < node->count; i++) {
		free(node->children[i].key);
		yamltree_free(node->children[i].node);
	}
	free(node->children);
	free(node->text);
	free(node);
}

const struct yamltree_child *yamltree_get(const struct yamltree_node *node, const char *key)
{
	if (!node || node->kind != YAMLTREE_MAPPING)
		return NULL;
	for (size_t i = 0; i < node->count; i++)
		if (node->children[i].key && !strcmp(node->children[i].key, key))
			return &node->children[i];
	return NULL;
}
