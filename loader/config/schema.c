// SPDX-License-Identifier: BSD-2-Clause
#include "schema.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "maps/maps.h"
#include "base/nearest.h"
#include "yamltree.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define KEYS_MAX 24 /* keys of one mapping */

const cyaml_strval_t config_plane_names[] = {
	{"backend", FLEET_PLANE_BACKEND},
	{"frontend", FLEET_PLANE_FRONTEND},
	{},
};
const cyaml_strval_t config_attach_names[] = {
	{"auto", CONFIG_ATTACH_AUTO},
	{"native", CONFIG_ATTACH_NATIVE},
	{"skb", CONFIG_ATTACH_SKB},
	{},
};
const cyaml_strval_t config_tc_names[] = {
	{"auto", CONFIG_TC_AUTO},
	{"tcx", CONFIG_TC_TCX},
	{"clsact", CONFIG_TC_CLSACT},
	{},
};

const cyaml_strval_t config_steer_names[] = {
	{"off", CONFIG_STEER_OFF},
	{"manual", CONFIG_STEER_MANUAL},
	{"auto", CONFIG_STEER_AUTO},
	{},
};

const cyaml_strval_t config_overtake_names[] = {
	{"never", CONFIG_OVERTAKE_NEVER},
	{"once", CONFIG_OVERTAKE_ONCE},
	{},
};

const cyaml_strval_t config_pace_tcp_names[] = {
	{"off", CONFIG_PACE_TCP_OFF},
	{"measure", CONFIG_PACE_TCP_OBSERVE},
	{"on", CONFIG_PACE_TCP_ON},
	{},
};

const cyaml_strval_t config_pace_names[] = {
	{"off", CONFIG_PACE_OFF},
	{"on", CONFIG_PACE_ON},
	{},
};

const cyaml_strval_t config_nic_names[] = {
	{"wrap", CONFIG_NIC_WRAP},
	{"plain", CONFIG_NIC_PLAIN},
	{},
};

const cyaml_strval_t config_nic_resend_names[] = {
	{"on", CONFIG_NIC_RESEND_ON},
	{"off", CONFIG_NIC_RESEND_OFF},
	{},
};

const char *config_word(const cyaml_strval_t *names, int value)
{
	while (names->str && names->val != value)
		names++;
	return names->str;
}

#define TEXT(key, structure, member)                                                               \
	CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_OPTIONAL, structure, member, 1, 4096)
#define NUMBER(key, structure, member)                                                             \
	CYAML_FIELD_UINT_PTR(key, CYAML_FLAG_OPTIONAL, structure, member)
#define WORD(key, structure, member, names)                                                        \
	CYAML_FIELD_ENUM(key, CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT, structure, member, names,   \
			 COUNT(names) - 1)
#define SECTION(key, structure, member, fields)                                                    \
	CYAML_FIELD_MAPPING(key, CYAML_FLAG_OPTIONAL, structure, member, fields)

static const cyaml_schema_field_t interface_fields[] = {
	CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_DEFAULT, struct config_raw_interface, name, 1,
			       IF_NAMESIZE - 1),
	WORD("plane", struct config_raw_interface, plane, config_plane_names),
	WORD("attach", struct config_raw_interface, attach, config_attach_names),
	WORD("tc", struct config_raw_interface, tc, config_tc_names),
	NUMBER("probe_port", struct config_raw_interface, probe_port),
	TEXT("sibling", struct config_raw_interface, sibling),
	TEXT("dummy", struct config_raw_interface, dummy),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t interface_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct config_raw_interface, interface_fields),
};

static const cyaml_schema_field_t qps_fields[] = {
	NUMBER("max", struct config_raw_qps, max),
	TEXT("idle", struct config_raw_qps, idle),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t textfile_fields[] = {
	TEXT("directory", struct config_raw_textfile, directory),
	TEXT("interval", struct config_raw_textfile, interval),
	NUMBER("top_qps", struct config_raw_textfile, top_qps),
	NUMBER("top_paths", struct config_raw_textfile, top_paths),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t events_fields[] = {
	TEXT("file", struct config_raw_events, file),
	NUMBER("keep", struct config_raw_events, keep),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t mesh_fields[] = {
	NUMBER("degree", struct config_raw_mesh, degree),
	TEXT("pair_interval", struct config_raw_mesh, pair_interval),
	TEXT("pair_spacing", struct config_raw_mesh, pair_spacing),
	TEXT("down_after", struct config_raw_mesh, down_after),
	CYAML_FIELD_END,
};

static const cyaml_strval_t truths[] = {
	{"false", false},
	{"true", true},
	{},
};

static const cyaml_schema_field_t clock_fields[] = {
	TEXT("window", struct config_raw_clock, window),
	WORD("anchor", struct config_raw_clock, anchor, truths),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t steer_fields[] = {
	WORD("mode", struct config_raw_steer, mode, config_steer_names),
	TEXT("capacity", struct config_raw_steer, capacity),
	NUMBER("moves_per_second", struct config_raw_steer, moves_per_second),
	WORD("overtake", struct config_raw_steer, overtake, config_overtake_names),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t pace_class_fields[] = {
	CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_DEFAULT, struct config_raw_pace_class, name, 1,
			       15),
	NUMBER("weight", struct config_raw_pace_class, weight),
	TEXT("threshold", struct config_raw_pace_class, threshold),
	TEXT("dscp", struct config_raw_pace_class, dscp),
	TEXT("job", struct config_raw_pace_class, job),
	TEXT("cgroup", struct config_raw_pace_class, cgroup),
	TEXT("port", struct config_raw_pace_class, port),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t pace_class_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct config_raw_pace_class, pace_class_fields),
};

static const cyaml_schema_field_t pace_tcp_fields[] = {
	WORD("mode", struct config_raw_pace_tcp, mode, config_pace_tcp_names),
	TEXT("cgroup", struct config_raw_pace_tcp, cgroup),
	TEXT("threshold", struct config_raw_pace_tcp, threshold),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t pace_fields[] = {
	WORD("mode", struct config_raw_pace, mode, config_pace_names),
	TEXT("threshold", struct config_raw_pace, threshold),
	TEXT("hold_max", struct config_raw_pace, hold_max),
	TEXT("line", struct config_raw_pace, line),
	CYAML_FIELD_SEQUENCE_COUNT("classes", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
				   struct config_raw_pace, classes, class_count, &pace_class_schema,
				   1, ESC_PACE_CLASSES - 1),
	SECTION("tcp", struct config_raw_pace, tcp, pace_tcp_fields),
	CYAML_FIELD_END,
};

static const cyaml_strval_t receipts_modes[] = {
	{"on", CONFIG_RECEIPTS_ON},
	{"off", CONFIG_RECEIPTS_OFF},
	{},
};

static const cyaml_schema_field_t receipts_fields[] = {
	WORD("mode", struct config_raw_receipts, mode, receipts_modes),
	TEXT("sample", struct config_raw_receipts, sample),
	NUMBER("max_pps", struct config_raw_receipts, max_pps),
	TEXT("threshold", struct config_raw_receipts, threshold),
	WORD("host_queue", struct config_raw_receipts, host_queue, truths),
	CYAML_FIELD_END,
};

static const cyaml_strval_t paths_modes[] = {
	{"auto", CONFIG_PATHS_AUTO},
	{"off", CONFIG_PATHS_OFF},
	{},
};

static const cyaml_schema_field_t paths_fields[] = {
	WORD("probe", struct config_raw_paths, probe, paths_modes),
	NUMBER("per_peer", struct config_raw_paths, per_peer),
	TEXT("probe_interval", struct config_raw_paths, probe_interval),
	TEXT("standby_interval", struct config_raw_paths, standby_interval),
	TEXT("dead_after", struct config_raw_paths, dead_after),
	TEXT("return_after", struct config_raw_paths, return_after),
	NUMBER("probe_budget_pps", struct config_raw_paths, budget_pps),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t nic_fields[] = {
	WORD("mode", struct config_raw_nic, mode, config_nic_names),
	WORD("resend", struct config_raw_nic, resend, config_nic_resend_names),
	NUMBER("port", struct config_raw_nic, port),
	TEXT("probe_interval", struct config_raw_nic, probe_interval),
	TEXT("dead_after", struct config_raw_nic, dead_after),
	TEXT("return_after", struct config_raw_nic, return_after),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t lab_fields[] = {
	TEXT("clock_offset", struct config_raw_lab, clock_offset),
	TEXT("clock_drift_ppb", struct config_raw_lab, clock_drift_ppb),
	TEXT("tai_offset", struct config_raw_lab, tai_offset),
	TEXT("tcp_refused", struct config_raw_lab, tcp_refused),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t top_fields[] = {
	TEXT("host", struct config_raw, host),
	CYAML_FIELD_SEQUENCE_COUNT("interfaces", CYAML_FLAG_POINTER, struct config_raw, interfaces,
				   interface_count, &interface_schema, 1, ESC_PORTS_MAX),
	TEXT("members", struct config_raw, members),
	TEXT("key_file", struct config_raw, key_file),
	TEXT("key_file_next", struct config_raw, key_file_next),
	TEXT("pin_root", struct config_raw, pin_root),
	TEXT("socket", struct config_raw, socket),
	TEXT("kill_file", struct config_raw, kill_file),
	SECTION("qps", struct config_raw, qps, qps_fields),
	SECTION("textfile", struct config_raw, textfile, textfile_fields),
	SECTION("events", struct config_raw, events, events_fields),
	SECTION("mesh", struct config_raw, mesh, mesh_fields),
	SECTION("clock", struct config_raw, clock, clock_fields),
	SECTION("steer", struct config_raw, steer, steer_fields),
	SECTION("receipts", struct config_raw, receipts, receipts_fields),
	SECTION("paths", struct config_raw, paths, paths_fields),
	SECTION("pace", struct config_raw, pace, pace_fields),
	SECTION("nic", struct config_raw, nic, nic_fields),
	SECTION("lab", struct config_raw, lab, lab_fields),
	CYAML_FIELD_END,
};

const cyaml_schema_value_t config_schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct config_raw, top_fields),
};

struct checking {
	const char *path;
	unsigned int *line;
	char **error;
};

static int check_value(struct checking *checking, const char *key, unsigned int line,
		       const cyaml_schema_value_t *schema, const struct yamltree_node *node);

__attribute__((format(printf, 3, 4))) static int fail(struct checking *checking, unsigned int line,
						      const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(checking->error, format, arguments) < 0)
		*checking->error = NULL;
	va_end(arguments);
	*checking->line = line;
	return -EINVAL;
}

static size_t field_names(const cyaml_schema_field_t *fields, const char *names[KEYS_MAX])
{
	size_t count = 0;

	for (; fields->key && count < KEYS_MAX; fields++)
		names[count++] = fields->key;
	return count;
}

/* "a, b, c", cut when it does not fit. */
static const char *join(char *out, size_t room, const char *const *names, size_t count)
{
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < count && used < room; i++)
		used += snprintf(out + used, room - used, "%s%s", i ? ", " : "", names[i]);
	return out;
}

/* The section that has a key of this name, for one that stands in the wrong place. */
static const char *section_with(const char *key)
{
	for (const cyaml_schema_field_t *top = top_fields; top->key; top++) {
		const cyaml_schema_field_t *inner = NULL;

		if (top->value.type == CYAML_MAPPING)
			inner = top->value.mapping.fields;
		else if (top->value.type == CYAML_SEQUENCE)
			inner = top->value.sequence.entry->mapping.fields;
		for (; inner && inner->key; inner++)
			if (!strcmp(inner->key, key))
				return top->key;
	}
	return NULL;
}

static int fail_unknown_key(struct checking *checking, const char *section,
			    const struct yamltree_child *child, const char *const *names,
			    size_t count)
{
	const char *near = nearest_name(child->key, names, count);
	const char *home = section_with(child->key);
	char where[64], list[512];

	snprintf(where, sizeof(where), "%s%s%s", section ? " in `" : "", section ? section : "",
		 section ? "`" : "");
	if (near)
		return fail(checking, child->line, "`%.64s` is not a key%s; did you mean `%s`?",
			    child->key, where, near);
	if (home && (!section || strcmp(home, section)))
		return fail(checking, child->line, "`%.64s` is not a key%s; it belongs under `%s`",
			    child->key, where, home);
	return fail(checking, child->line, "`%.64s` is not a key%s; known are %s", child->key,
		    where, join(list, sizeof(list), names, count));
}

static int check_mapping(struct checking *checking, const char *section, unsigned int line,
			 const cyaml_schema_field_t *fields, const struct yamltree_node *node)
{
	const char *names[KEYS_MAX];
	size_t count = field_names(fields, names);
	int err = 0;

	if (node->kind != YAMLTREE_MAPPING && !section)
		return fail(checking, line, "the file should hold lines of `key: value`");
	if (node->kind != YAMLTREE_MAPPING)
		return fail(checking, line, "`%s` should hold lines of `key: value`, indented",
			    section);
	for (size_t i = 0; !err && i < node->count; i++) {
		const struct yamltree_child *child = &node->children[i];
		const cyaml_schema_field_t *field = fields;

		while (field->key && strcmp(field->key, child->key))
			field++;
		if (!field->key)
			return fail_unknown_key(checking, section, child, names, count);
		err = check_value(checking, child->key, child->line, &field->value, child->node);
	}
	for (; !err && fields->key; fields++)
		if (!(fields->value.flags & CYAML_FLAG_OPTIONAL) &&
		    !yamltree_get(node, fields->key))
			return fail(checking, line, "`%s` is missing%s%s%s; %s", fields->key,
				    section ? " in an entry of `" : "", section ? section : "",
				    section ? "`" : "",
				    !section ? "name at least one: `interfaces: [{name: eth1}]`"
				    : !strcmp(section, "interfaces") ? "give `name: eth1`"
								     : "give `name: storage`");
	return err;
}

static int check_sequence(struct checking *checking, const char *key, unsigned int line,
			  const cyaml_schema_value_t *schema, const struct yamltree_node *node)
{
	int err = 0;

	const char *example = strcmp(key, "interfaces") ? "storage" : "eth1";

	if (node->kind != YAMLTREE_SEQUENCE)
		return fail(checking, line, "`%s` should be a list; write `- name: %s` below it",
			    key, example);
	if (node->count < schema->sequence.min)
		return fail(checking, line, "`%s` is empty; name at least one: `- name: %s`", key,
			    example);
	if (node->count > schema->sequence.max)
		return fail(checking, line, "`%s` has %zu entries; at most %u are served", key,
			    node->count, schema->sequence.max);
	for (size_t i = 0; !err && i < node->count; i++)
		err = check_value(checking, key, node->children[i].line, schema->sequence.entry,
				  node->children[i].node);
	return err;
}

static int check_word(struct checking *checking, const char *key,
		      const cyaml_schema_value_t *schema, const struct yamltree_node *node)
{
	const char *names[KEYS_MAX], *near;
	size_t count = schema->enumeration.count;
	char list[256];

	for (size_t i = 0; i < count; i++) {
		names[i] = schema->enumeration.strings[i].str;
		if (!strcmp(names[i], node->text))
			return 0;
	}
	near = nearest_name(node->text, names, count);
	join(list, sizeof(list), names, count);
	if (near)
		return fail(checking, node->line,
			    "`%s: %.64s` is not understood; did you mean "
			    "`%s`? (%s)",
			    key, node->text, near, list);
	return fail(checking, node->line, "`%s: %.64s` is not understood; give one of %s", key,
		    node->text, list);
}

static int check_number(struct checking *checking, const char *key,
			const struct yamltree_node *node)
{
	size_t digits = strspn(node->text, "0123456789");

	if (!digits || node->text[digits] || digits > 18 || (node->text[0] == '0' && digits > 1))
		return fail(checking, node->line,
			    "`%s: %.64s` should be a plain whole number, "
			    "such as 32",
			    key, node->text);
	return 0;
}

static int check_scalar(struct checking *checking, const char *key, unsigned int line,
			const cyaml_schema_value_t *schema, const struct yamltree_node *node)
{
	if (node->kind != YAMLTREE_SCALAR)
		return fail(checking, line, "`%s` should be one value, not a %s", key,
			    node->kind == YAMLTREE_MAPPING ? "group of keys" : "list");
	if (!*node->text)
		return fail(checking, line, "`%s` has no value; give one, or take the line out",
			    key);
	if (schema->type == CYAML_ENUM)
		return check_word(checking, key, schema, node);
	if (schema->type == CYAML_UINT)
		return check_number(checking, key, node);
	if (strlen(node->text) > schema->string.max)
		return fail(checking, node->line, "`%s` is %zu bytes long; at most %u fit", key,
			    strlen(node->text), schema->string.max);
	return 0;
}

static int check_value(struct checking *checking, const char *key, unsigned int line,
		       const cyaml_schema_value_t *schema, const struct yamltree_node *node)
{
	switch (schema->type) {
	case CYAML_MAPPING:
		return check_mapping(checking, key, line, schema->mapping.fields, node);
	case CYAML_SEQUENCE:
		return check_sequence(checking, key, line, schema, node);
	default:
		return check_scalar(checking, key, line, schema, node);
	}
}

int config_schema_check(const char *path, const struct yamltree_node *root, unsigned int *line,
			char **error)
{
	struct checking checking = {path, line, error};

	*error = NULL;
	if (!root)
		return fail(&checking, 1,
			    "the file is empty; name at least one interface: "
			    "`interfaces: [{name: eth1}]`");
	return check_value(&checking, NULL, root->line, &config_schema, root);
}
