// SPDX-License-Identifier: BSD-2-Clause
/* A YAML document against the tables of keys; every error is recorded with its line. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "internal.h"

#define NAMES_MAX 64 /* keys and sections of one mapping */

/* What a mapping may hold. */
struct scope {
	const char *name; /* of the section, or of the list that it is an entry of */
	bool entry;
	const struct config_key *keys;
	void *values;
};

/* --- errors --- */

int config_record(struct config_reading *reading, bool error, unsigned int line, const char *format,
		  ...)
{
	unsigned int at = reading->fault_count;
	char *text = NULL, *whole = NULL;
	va_list arguments;
	int bytes;

	reading->error_count += error;
	if (at == CONFIG_FAULTS_MAX)
		return -EINVAL;
	va_start(arguments, format);
	bytes = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (bytes >= 0)
		bytes = asprintf(&whole, "%s%s", error ? "" : "warning: ", text);
	free(text);
	if (bytes < 0) {
		config_no_memory(reading);
		return -EINVAL;
	}
	/* One line each, whatever a key of the file holds. */
	for (char *c = whole; *c; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
	for (; at && reading->faults[at - 1].line > line; at--)
		reading->faults[at] = reading->faults[at - 1];
	reading->faults[at] = (struct config_fault){line, whole};
	reading->fault_count++;
	return -EINVAL;
}

unsigned int config_line_of(struct config_reading *reading, const char *key)
{
	unsigned int line = reading->line;

	if (key)
		config_find(reading, reading->mapping, key, &line);
	return line;
}

int config_no_memory(struct config_reading *reading)
{
	reading->no_memory = true;
	return -ENOMEM;
}

/* --- the document --- */

/* Into reading->document; -EINVAL: it is not YAML, which is recorded. */
static int load_document(struct config_reading *reading, const char *bytes, size_t size)
{
	yaml_document_t more = {};
	yaml_parser_t parser;
	int err = 0;

	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, size);
	if (!yaml_parser_load(&parser, &reading->document) ||
	    (yaml_document_get_root_node(&reading->document) && !yaml_parser_load(&parser, &more)))
		err = parser.error == YAML_MEMORY_ERROR ? -ENOMEM : -EINVAL;
	if (err == -EINVAL)
		config_refuse_at(reading, parser.problem_mark.line + 1,
				 "not YAML: %s%s%s; indent with spaces, and quote a value that has "
				 "a colon or begins with a sign",
				 parser.problem ? parser.problem : "unreadable text",
				 parser.context ? " " : "", parser.context ? parser.context : "");
	if (!err && yaml_document_get_root_node(&more))
		err = config_refuse_at(reading, more.start_mark.line + 1,
				       "a second document begins here; keep everything in one, "
				       "without `---`");
	yaml_document_delete(&more);
	yaml_parser_delete(&parser);
	return err;
}

static unsigned int line_of(const yaml_node_t *node)
{
	return node->start_mark.line + 1;
}

/* NULL: not a scalar, or with a zero byte in it. */
static const char *text_of(const yaml_node_t *node)
{
	const char *text = (const char *)node->data.scalar.value;

	return node->type == YAML_SCALAR_NODE && strlen(text) == node->data.scalar.length ? text
											  : NULL;
}

static const yaml_node_t *node_at(struct config_reading *reading, int index)
{
	return yaml_document_get_node(&reading->document, index);
}

/* The first of @mapping, which may be NULL or of any kind; NULL: none. */
static const yaml_node_pair_t *find_pair(struct config_reading *reading, const yaml_node_t *mapping,
					 const char *key)
{
	const yaml_node_pair_t *pair;

	if (!mapping || mapping->type != YAML_MAPPING_NODE)
		return NULL;
	for (pair = mapping->data.mapping.pairs.start; pair < mapping->data.mapping.pairs.top;
	     pair++) {
		const char *text = text_of(node_at(reading, pair->key));

		if (text && !strcmp(text, key))
			return pair;
	}
	return NULL;
}

const yaml_node_t *config_find(struct config_reading *reading, const yaml_node_t *mapping,
			       const char *key, unsigned int *line)
{
	const yaml_node_pair_t *pair = find_pair(reading, mapping, key);

	if (pair && line)
		*line = line_of(node_at(reading, pair->key));
	return pair ? node_at(reading, pair->value) : NULL;
}

/* An alias is the node that it names, which is before the key or list that holds it. */
static int refuse_alias(struct config_reading *reading, const yaml_node_t *holder,
			const yaml_node_t *value, unsigned int line)
{
	if (value->start_mark.index > holder->start_mark.index)
		return 0;
	return config_refuse_at(reading, line,
				"aliases (*name) are not understood here; write the value out");
}

/* --- unknown keys --- */

/* The name of @section in the mapping of @scope, such as "tcp" in "pace"; NULL: not there. */
static const char *name_in(const struct config_section *section, const struct scope *scope)
{
	size_t bytes = strlen(scope->name);
	const char *name = section->name;

	if (scope->entry || !*name || strncmp(name, scope->name, bytes) ||
	    (bytes && name[bytes] != '.'))
		return NULL;
	name += bytes + (bytes != 0);
	return strchr(name, '.') ? NULL : name;
}

/* The section, or list, that has a key of this name. */
static const char *home_of(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->part_count; i++)
		for (const struct config_key *key = config->parts[i].section->keys; key->name;
		     key++) {
			const struct config_key *entry = key->list ? key->list->keys : NULL;

			if (*config->parts[i].section->name && !strcmp(key->name, name))
				return config->parts[i].section->name;
			for (; entry && entry->name; entry++)
				if (!strcmp(entry->name, name))
					return key->name;
		}
	return NULL;
}

static int refuse_unknown(struct config_reading *reading, const struct scope *scope,
			  const char *key, unsigned int line)
{
	const struct config *config = reading->config;
	const char *names[NAMES_MAX], *near, *home = home_of(config, key);
	char where[96] = "", list[512] = "";
	size_t count = 0;

	for (const struct config_key *known = scope->keys; known->name && count < NAMES_MAX;
	     known++)
		names[count++] = known->name;
	for (size_t i = 0; i < config->part_count && count < NAMES_MAX; i++)
		if (name_in(config->parts[i].section, scope))
			names[count++] = name_in(config->parts[i].section, scope);
	if (*scope->name)
		snprintf(where, sizeof(where), " in `%s`", scope->name);
	near = nearest_name(key, names, count);
	if (near)
		return config_refuse_at(reading, line, "`%.64s` is not a key%s; did you mean `%s`?",
					key, where, near);
	if (home && strcmp(home, scope->name))
		return config_refuse_at(reading, line,
					"`%.64s` is not a key%s; it belongs under `%s`", key, where,
					home);
	for (size_t i = 0; i < count; i++)
		text_append(list, sizeof(list), ", ", names[i]);
	return config_refuse_at(reading, line, "`%.64s` is not a key%s; known are %s", key, where,
				list);
}

/* --- values --- */

static void read_mapping(struct config_reading *reading, const struct scope *scope,
			 const yaml_node_t *node, unsigned int line);

static int read_scalar(struct config_reading *reading, const struct config_key *key,
		       const yaml_node_t *node, unsigned int line, void *value)
{
	const char *text = text_of(node);

	if (node->type != YAML_SCALAR_NODE)
		return config_refuse_at(reading, line, "`%s` should be one value, not a %s",
					key->name,
					node->type == YAML_MAPPING_NODE ? "group of keys" : "list");
	if (!text)
		return config_refuse_at(reading, line, "`%s` holds a zero byte; take it out",
					key->name);
	if (!*text)
		return config_refuse_at(reading, line,
					"`%s` has no value; give one, or take the line out",
					key->name);
	return key->type->parse(reading, key, text, value);
}

static void read_entry(struct config_reading *reading, const struct config_key *key,
		       const yaml_node_item_t *items, size_t i, void *values)
{
	const struct config_list *list = key->list;
	const char *name_key = list->keys[0].name, *text;
	const yaml_node_t *node = node_at(reading, items[i]), *name, *other;
	struct scope scope = {key->name, true, list->keys, values};
	unsigned int line;

	config_set_defaults(list->keys, values);
	read_mapping(reading, &scope, node, line_of(node));
	name = config_find(reading, node, name_key, NULL);
	text = name ? text_of(name) : NULL;
	for (size_t k = 0; text && k < i; k++) {
		other = config_find(reading, node_at(reading, items[k]), name_key, &line);
		if (!other || !text_of(other) || strcmp(text_of(other), text))
			continue;
		reading->mapping = node;
		config_refuse(reading, name_key,
			      "`%s: %.64s` is in `%s` twice (first in line %u); keep one", name_key,
			      text, key->name, line);
		return;
	}
}

static int read_list(struct config_reading *reading, const struct config_key *key,
		     const yaml_node_t *node, unsigned int line, void *value)
{
	const struct config_list *list = key->list;
	const struct config_key *first = &list->keys[0];
	const yaml_node_item_t *items;
	size_t count;

	if (node->type != YAML_SEQUENCE_NODE)
		return config_refuse_at(reading, line,
					"`%s` should be a list; write `- %s: %s` below it",
					key->name, first->name, first->example);
	items = node->data.sequence.items.start;
	count = node->data.sequence.items.top - items;
	if (count < list->least)
		return config_refuse_at(reading, line,
					"`%s` is empty; name at least one: `- %s: %s`", key->name,
					first->name, first->example);
	if (count > list->most)
		return config_refuse_at(reading, line,
					"`%s` has %zu entries; at most %u are served", key->name,
					count, list->most);
	*(void **)value = calloc(count + 1, list->entry_bytes);
	if (!*(void **)value)
		return -ENOMEM;
	*config_list_count(key, value) = count;
	for (size_t i = 0; i < count; i++)
		if (!refuse_alias(reading, node, node_at(reading, items[i]), line))
			read_entry(reading, key, items, i, *(char **)value + i * list->entry_bytes);
	return 0;
}

/* --- mappings --- */

static void read_section(struct config_reading *reading, size_t i, const yaml_node_t *node,
			 unsigned int line)
{
	const struct config_section *section = reading->config->parts[i].section;
	struct scope scope = {section->name, false, section->keys,
			      reading->config->parts[i].values};
	unsigned int before = reading->error_count;

	read_mapping(reading, &scope, node, line);
	if (reading->error_count != before)
		reading->refused |= 1ull << i;
}

/* One `key: value`; *@accepted is the key of @scope whose type takes the value, else NULL. */
static int read_pair(struct config_reading *reading, const struct scope *scope,
		     const yaml_node_t *mapping, const yaml_node_pair_t *pair,
		     const struct config_key **accepted)
{
	const yaml_node_t *name = node_at(reading, pair->key);
	const yaml_node_t *value = node_at(reading, pair->value);
	const char *text = text_of(name);
	const struct config_key *key = scope->keys;
	unsigned int line = line_of(name);
	const yaml_node_pair_t *first;
	const char *in;
	size_t section;
	void *out;
	int err;

	*accepted = NULL;
	if (!text)
		return config_refuse_at(reading, line,
					"a key should be a plain word; write `key: value`");
	first = find_pair(reading, mapping, text);
	if (first != pair)
		return config_refuse_at(
			reading, line,
			"`%.64s` is here for the second time (first in line %u); keep one", text,
			line_of(node_at(reading, first->key)));
	while (key->name && strcmp(key->name, text))
		key++;
	for (section = 0; section < reading->config->part_count; section++) {
		in = name_in(reading->config->parts[section].section, scope);
		if (in && !strcmp(in, text))
			break;
	}
	if (!key->name && section == reading->config->part_count)
		return refuse_unknown(reading, scope, text, line);
	err = refuse_alias(reading, name, value, line);
	if (err)
		return err;
	if (!key->name) {
		read_section(reading, section, value, line);
		return 0;
	}
	out = (char *)scope->values + key->offset;
	err = key->list ? read_list(reading, key, value, line, out)
			: read_scalar(reading, key, value, line, out);
	if (err == -ENOMEM)
		config_no_memory(reading);
	*accepted = err ? NULL : key;
	return err;
}

static void read_mapping(struct config_reading *reading, const struct scope *scope,
			 const yaml_node_t *node, unsigned int line)
{
	const yaml_node_pair_t *pair;
	const struct config_key *accepted;
	uint64_t good = 0; /* a bit for each key of which a value was accepted */

	if (node->type != YAML_MAPPING_NODE) {
		config_refuse_at(reading, line,
				 *scope->name ? "`%s` should hold lines of `key: value`, indented"
					      : "the file%s should hold lines of `key: value`",
				 scope->name);
		return;
	}
	for (pair = node->data.mapping.pairs.start;
	     pair < node->data.mapping.pairs.top && reading->error_count < CONFIG_FAULTS_MAX;
	     pair++) {
		reading->mapping = node;
		reading->line = line;
		read_pair(reading, scope, node, pair, &accepted);
		if (accepted)
			good |= 1ull << (accepted - scope->keys);
	}
	reading->mapping = node;
	reading->line = line;
	for (const struct config_key *key = scope->keys; key->name; key++)
		if (key->required && !config_find(reading, node, key->name, NULL))
			config_refuse_at(reading, line, "`%s` is missing%s%s%s; give `%s: %s`",
					 key->name, scope->entry ? " in an entry of `" : "",
					 scope->name, scope->entry ? "`" : "", key->name,
					 key->example);
	for (const struct config_key *key = scope->keys; key->name; key++)
		if (good >> (key - scope->keys) & 1 && key->check)
			key->check(reading, key, scope->values);
}

void config_enter_section(struct config_reading *reading, const struct config_section *section)
{
	const char *name = section->name;

	reading->mapping = yaml_document_get_root_node(&reading->document);
	reading->line = 1;
	while (*name) {
		char part[CONFIG_NAME_BYTES];
		size_t bytes = strcspn(name, ".");

		snprintf(part, sizeof(part), "%.*s", (int)bytes, name);
		reading->mapping = config_find(reading, reading->mapping, part, &reading->line);
		name += bytes + (name[bytes] == '.');
	}
}

int config_read_yaml(struct config_reading *reading, const char *bytes, size_t size)
{
	int err = load_document(reading, bytes, size);
	const yaml_node_t *root;

	if (err)
		return err;
	root = yaml_document_get_root_node(&reading->document);
	if (!root)
		return config_refuse_at(reading, 1,
					"the file is empty; name at least one interface: "
					"`interfaces: [{name: eth1}]`");
	read_section(reading, 0, root, line_of(root));
	/* A default in the place of a refused value may not suit the others: no check then. */
	for (size_t i = 0; i < reading->config->part_count; i++) {
		const struct config_section *section = reading->config->parts[i].section;

		if (!section->check || reading->refused >> i & 1)
			continue;
		config_enter_section(reading, section);
		section->check(reading, reading->config, reading->config->parts[i].values);
	}
	return 0;
}
