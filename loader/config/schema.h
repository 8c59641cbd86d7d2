/* SPDX-License-Identifier: BSD-2-Clause */
/* The keys of escapement.yaml: libcyaml's tables, and what to say when a file does not fit them. */
#ifndef ESC_LOADER_CONFIG_SCHEMA_H
#define ESC_LOADER_CONFIG_SCHEMA_H

#include <cyaml/cyaml.h>

#include "config.h"

struct yamltree_node;

/* The file as libcyaml loads it: durations still text, what is not given NULL. */
struct config_raw_interface {
	char *name;
	enum fleet_plane plane;
	enum config_attach attach;
	enum config_tc tc;
	uint64_t *probe_port;
	char *sibling, *dummy;
};

struct config_raw_qps {
	uint64_t *max;
	char *idle;
};

struct config_raw_textfile {
	char *directory;
	char *interval;
	uint64_t *top_qps;
	uint64_t *top_paths;
};

struct config_raw_events {
	char *file;
	uint64_t *keep;
};

struct config_raw_mesh {
	uint64_t *degree;
	char *pair_interval, *pair_spacing, *down_after;
};

struct config_raw_clock {
	char *window;
	int anchor; /* false or true */
};

struct config_raw_steer {
	enum config_steer mode;
	char *capacity;
	uint64_t *moves_per_second;
	enum config_overtake overtake;
};

struct config_raw_pace_class {
	char *name;
	uint64_t *weight;
	char *threshold, *dscp, *job, *cgroup, *port;
};

struct config_raw_pace_tcp {
	enum config_pace_tcp mode;
	char *cgroup, *threshold;
};

struct config_raw_pace {
	enum config_pace mode;
	char *threshold, *hold_max, *line;
	struct config_raw_pace_class *classes;
	uint64_t class_count;
	struct config_raw_pace_tcp tcp;
};

enum config_receipts { CONFIG_RECEIPTS_ON, CONFIG_RECEIPTS_OFF };

struct config_raw_receipts {
	enum config_receipts mode;
	int host_queue; /* false or true */
	char *sample, *threshold;
	uint64_t *max_pps;
};

enum config_paths { CONFIG_PATHS_AUTO, CONFIG_PATHS_OFF };

struct config_raw_paths {
	enum config_paths probe;
	uint64_t *per_peer, *budget_pps;
	char *probe_interval, *standby_interval, *dead_after, *return_after;
};

struct config_raw_nic {
	enum config_nic mode;
	enum config_nic_resend resend;
	uint64_t *port;
	char *probe_interval, *dead_after, *return_after;
};

struct config_raw_lab {
	char *clock_offset, *clock_drift_ppb; /* may be negative */
	char *tai_offset;
	char *tcp_refused;
};

struct config_raw {
	char *host, *pin_root, *socket, *kill_file, *members, *key_file, *key_file_next;
	struct config_raw_interface *interfaces;
	uint64_t interface_count;
	struct config_raw_qps qps;
	struct config_raw_textfile textfile;
	struct config_raw_events events;
	struct config_raw_mesh mesh;
	struct config_raw_clock clock;
	struct config_raw_steer steer;
	struct config_raw_pace pace;
	struct config_raw_receipts receipts;
	struct config_raw_paths paths;
	struct config_raw_nic nic;
	struct config_raw_lab lab;
};

extern const cyaml_schema_value_t config_schema;

extern const cyaml_strval_t config_plane_names[], config_attach_names[], config_tc_names[],
	config_steer_names[], config_overtake_names[], config_pace_names[], config_pace_tcp_names[],
	config_nic_names[], config_nic_resend_names[];
/* The word for a value of one of these tables. */
const char *config_word(const cyaml_strval_t *names, int value);

/*
 * Holds @root against the schema and finds the first thing that is wrong.
 * -EINVAL with *@line and *@error, a malloc'd half sentence that wants
 * "FILE:LINE: " before it. Keys of features that are not in this version are
 * warned of, with @path.
 */
int config_schema_check(const char *path, const struct yamltree_node *root, unsigned int *line,
			char **error);

#endif
