/* SPDX-License-Identifier: BSD-2-Clause */
/* A file that is being read, and what is done with the keys of a mapping. */
#ifndef ESC_LOADER_CONFIG_INTERNAL_H
#define ESC_LOADER_CONFIG_INTERNAL_H

#include <yaml.h>

#include "config.h"

#define CONFIG_FAULTS_MAX 50
#define CONFIG_NAME_BYTES 64 /* of a section */

struct config_fault {
	unsigned int line;
	char *text;
};

struct config_reading {
	const char *path;
	struct config *config;
	yaml_document_t document;
	const yaml_node_t *mapping; /* that is read or checked; NULL: the file has none */
	unsigned int line;	    /* of the key that it is the value of */
	struct config_fault faults[CONFIG_FAULTS_MAX]; /* by line */
	unsigned int fault_count;
	unsigned int error_count; /* of them and of those without room; warnings are not counted */
	uint64_t refused;	  /* a bit for each section (CONFIG_SECTIONS_MAX) with an error */
	bool no_memory;
	const struct fleet *fleet; /* NULL: the members file is read in any case */
	struct fleet_read *read;   /* and was by a worker; NULL: it was not */
	bool no_members;
	bool for_host; /* it is checked against this host, too */
};

/* The document's mappings into the configuration, and all checks of sections. */
int config_read_yaml(struct config_reading *reading, const char *bytes, size_t size);
/* What is refused next is in the mapping of @section. */
void config_enter_section(struct config_reading *reading, const struct config_section *section);
/* The value of @key, NULL: it has none; *@line is the key's. @mapping may be NULL or of any kind.
 */
const yaml_node_t *config_find(struct config_reading *reading, const yaml_node_t *mapping,
			       const char *key, unsigned int *line);

/* Of `alerts.thresholds`. */
extern const struct config_list config_threshold_list;

/* --- the keys of one structure --- */

void config_set_defaults(const struct config_key *keys, void *values);
struct json_t *config_show_keys(const struct config_key *keys, const void *values);
void config_clear_keys(const struct config_key *keys, void *values);

/* How many entries the list at @value has. */
size_t *config_list_count(const struct config_key *key, void *value);
/* Section @i of all: those that more than one module reads, the top level first, then @more. */
const struct config_section *config_section_at(const struct config_section *const *more, size_t i);

#endif
