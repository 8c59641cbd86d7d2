// SPDX-License-Identifier: BSD-2-Clause
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/explain.h"
#include "base/json.h"
#include "base/readfile.h"
#include "internal.h"

#define CONFIG_BYTES_MAX (1u << 20)
#define CONFIG_SECTIONS_MAX 64 /* bits in config_reading.refused */

/* --- the structures of the sections --- */

void *config_values(const struct config *config, size_t i)
{
	const struct config_section *section = config->sections[i];

	return section->bytes ? config->values[i] : (char *)config + section->offset;
}

const void *config_section(const struct config *config, const struct config_section *section)
{
	for (size_t i = 0; i < config->section_count; i++)
		if (config->sections[i] == section)
			return config_values(config, i);
	return NULL;
}

void config_set_defaults(const struct config_key *keys, void *values)
{
	struct config_reading nowhere = {.path = "default"};

	for (const struct config_key *key = keys; key->name; key++)
		if (key->fallback)
			key->type->parse(&nowhere, key, key->fallback,
					 (char *)values + key->offset);
	assert(!nowhere.error_count);
}

void config_clear_keys(const struct config_key *keys, void *values)
{
	for (const struct config_key *key = keys; key->name; key++)
		if (key->type->clear)
			key->type->clear(key, (char *)values + key->offset);
}

static int config_new(const char *path, const struct config_section *const *more,
		      struct config **out)
{
	struct config *config = calloc(1, sizeof(*config));
	size_t count = config_own_section_count;

	*out = config;
	while (more && more[count - config_own_section_count])
		count++;
	if (!config)
		return -ENOMEM;
	config->path = strdup(path);
	config->sections = calloc(count, sizeof(*config->sections));
	config->values = calloc(count, sizeof(*config->values));
	if (!config->path || !config->sections || !config->values)
		return -ENOMEM;
	if (count > CONFIG_SECTIONS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < count; i++) {
		const struct config_section *section = i < config_own_section_count
							       ? config_own_sections[i]
							       : more[i - config_own_section_count];

		if (section->bytes) {
			config->values[i] = calloc(1, section->bytes);
			if (!config->values[i])
				return -ENOMEM;
		}
		config->sections[config->section_count++] = section;
		config_set_defaults(section->keys, config_values(config, i));
	}
	return 0;
}

void config_free(struct config *config)
{
	if (!config)
		return;
	for (size_t i = 0; i < config->section_count; i++) {
		config_clear_keys(config->sections[i]->keys, config_values(config, i));
		free(config->values[i]);
	}
	free(config->sections);
	free(config->values);
	free(config->path);
	members_free(config->member_list);
	explicit_bzero(&config->keys, sizeof(config->keys));
	free(config);
}

/* --- to JSON --- */

json_t *config_show_keys(const struct config_key *keys, const void *values)
{
	json_t *object = json_object();

	for (const struct config_key *key = keys; key->name; key++)
		json_put(object, key->name,
			 key->type->show(key, (const char *)values + key->offset));
	return object;
}

/* "pace.tcp" goes into the object of "pace". Takes @shown. */
static void put_section(json_t *root, const char *name, json_t *shown)
{
	char parent[CONFIG_NAME_BYTES];
	size_t bytes = strcspn(name, ".");
	json_t *object;

	if (!*name) {
		json_object_update(root, shown);
		json_decref(shown);
	} else if (name[bytes]) {
		snprintf(parent, sizeof(parent), "%.*s", (int)bytes, name);
		object = json_object_get(root, parent);
		if (!object)
			json_object_set_new(root, parent, object = json_object());
		put_section(object, name + bytes + 1, shown);
	} else if (json_object_size(shown)) {
		json_object_set_new(root, name, shown);
	} else {
		json_decref(shown);
	}
}

json_t *config_to_json(const struct config *config)
{
	json_t *root = json_pack("{s:s}", "path", config->path);

	for (size_t i = 0; i < config->section_count; i++)
		put_section(root, config->sections[i]->name,
			    config_show_keys(config->sections[i]->keys, config_values(config, i)));
	return root;
}

/* --- a reload --- */

/* What is bound to the process: a socket, pins, an open file. */
static void check_fixed_key(struct config_reading *reading, const struct config_section *section,
			    const struct config_key *key, const void *old, const void *new)
{
	json_t *before = key->type->show(key, (const char *)old + key->offset);
	json_t *after = key->type->show(key, (const char *)new + key->offset);
	char *text;

	if (before ? !json_equal(before, after) : !!after) {
		text = before ? json_dumps(before, JSON_ENCODE_ANY) : NULL;
		config_enter_section(reading, section);
		config_refuse(reading, key->name,
			      "%s%s%s cannot change while escapementd runs; restart it, or %s%s",
			      section->name, *section->name ? "." : "", key->name,
			      text ? "set the old value, " : "take the line out", text ? text : "");
		free(text);
	}
	json_decref(before);
	json_decref(after);
}

/* --- a file --- */

static int read_file(struct config_reading *reading, const struct config_input *input,
		     const char *bytes, size_t size)
{
	char name[256] = "";
	int err = config_new(reading->path, input->sections, &reading->config);

	if (!err)
		err = config_read_yaml(reading, bytes, size);
	if (err)
		return err;
	/* A container may have no host name. */
	if (!reading->config->host) {
		bool named = !gethostname(name, sizeof(name) - 1) && name[0];

		reading->config->host = strdup(named ? name : "localhost");
	}
	if (!reading->config->host)
		return -ENOMEM;
	for (size_t i = 0; input->in_force && i < reading->config->section_count; i++) {
		const struct config_section *section = reading->config->sections[i];
		const void *old = config_section(input->in_force, section);

		for (const struct config_key *key = section->keys; old && key->name; key++)
			if (key->fixed)
				check_fixed_key(reading, section, key, old,
						config_values(reading->config, i));
	}
	if (input->check_host)
		config_check_host(reading);
	if (reading->no_memory)
		return -ENOMEM;
	return reading->error_count ? -EINVAL : 0;
}

int config_parse(const struct config_input *input, const char *bytes, size_t size,
		 struct config **out, char **report)
{
	struct config_reading reading = {.path = input->path ? input->path : CONFIG_PATH_DEFAULT};
	size_t report_bytes;
	FILE *lines = NULL;
	int err;

	*report = NULL;
	err = read_file(&reading, input, bytes, size);
	if (reading.fault_count)
		lines = open_memstream(report, &report_bytes);
	for (unsigned int i = 0; i < reading.fault_count; i++) {
		if (lines)
			fprintf(lines, "%s%s:%u: %s", i ? "\n" : "", reading.path,
				reading.faults[i].line, reading.faults[i].text);
		free(reading.faults[i].text);
	}
	if (lines && reading.error_count > CONFIG_FAULTS_MAX)
		fprintf(lines, "\n%s: more than %d errors; correct these first", reading.path,
			CONFIG_FAULTS_MAX);
	if (reading.fault_count && (!lines || fclose(lines)) && !err)
		err = -ENOMEM;
	yaml_document_delete(&reading.document);
	if (err)
		config_free(reading.config);
	else
		*out = reading.config;
	return err;
}

int config_load(const struct config_input *input, struct config **out, char **report)
{
	char *bytes, *reason;
	size_t size;
	int err = readfile(input->path ? input->path : CONFIG_PATH_DEFAULT, CONFIG_BYTES_MAX,
			   &bytes, &size, NULL, &reason);

	*report = NULL;
	if (err) {
		explain(report, err, "%s; %s", reason ? reason : strerror(-err),
			err == -ENOENT ? "write one (man escapement.yaml) or name another with -c "
					 "FILE"
			: err == -EFBIG || err == -EISDIR || err == -EINVAL
				? "name a configuration file with -c FILE"
				: "see that root may read it");
		free(reason);
		return err;
	}
	err = config_parse(input, bytes, size, out, report);
	free(bytes);
	return err;
}
