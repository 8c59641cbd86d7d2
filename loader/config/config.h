/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration: one YAML file, read and checked as a whole, or refused. */
#ifndef ESC_LOADER_CONFIG_H
#define ESC_LOADER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <net/if.h>

#include "base/places.h"
#include "fleet/fleet.h"
#include "key.h"

#define CONFIG_PATH_DEFAULT "/etc/escapement/escapement.yaml"
#define CONFIG_SOCKET_DEFAULT PLACES_SOCKET
#define CONFIG_KILL_FILE_DEFAULT PLACES_KILL_FILE

/* The order of their names in the tables. */
enum config_attach { CONFIG_ATTACH_AUTO, CONFIG_ATTACH_NATIVE, CONFIG_ATTACH_SKB };
enum config_tc { CONFIG_TC_AUTO, CONFIG_TC_TCX, CONFIG_TC_CLSACT };

struct config_interface {
	char *name;
	enum fleet_plane plane;
	enum config_attach attach;
	enum config_tc tc;
	uint16_t probe_port;
	char *sibling; /* NIC that takes over when this one dies; NULL: none */
	char *dummy;   /* dummy device on top of this one; NULL: none */
};

struct config_qps {
	uint32_t max;	  /* entries in `qps` */
	uint64_t idle_ns; /* a QP without packets for so long is removed */
};

struct config_receipts {
	bool on;
	bool sample_fixed;     /* sample_mask does not follow a queue pair's rate */
	uint32_t sample_mask;  /* 2^n - 1; the initial one of a queue pair */
	uint32_t max_pps;      /* per CPU */
	uint64_t threshold_ns; /* delays above it are counted */
	bool host_queue;       /* the sending host's own queue is measured separately */
};

struct config_textfile {
	char *directory; /* NULL: no textfile */
	uint64_t interval_ns;
	uint32_t top_qps, top_paths;
};

struct config_events {
	char *file;    /* NULL: the log is kept in memory only */
	uint32_t keep; /* events kept in memory */
};

struct config_mesh {
	uint32_t degree;
	uint64_t pair_interval_ns;
	uint64_t pair_spacing_ns;
	uint64_t down_after_ns;
};

struct config_clock {
	uint64_t window_ns;
	bool anchor; /* this host distributes TAI */
};

struct config_paths {
	bool on;		      /* candidate paths are found and probed */
	uint32_t per_peer;	      /* candidate paths to an address of a peer */
	uint64_t probe_interval_ns;   /* of a path in use, on interfaces in mode steer */
	uint64_t standby_interval_ns; /* of the others there */
	uint64_t dead_after_ns;
	uint64_t return_after_ns;
	uint32_t budget_pps; /* of all path probes together */
};

struct config_lab {
	int64_t clock_offset_ns;
	int64_t clock_drift_ppb;
	uint64_t tai_offset_ns; /* 0: TAI is the kernel's */
	uint32_t tcp_refused;	/* bits of enum esc_tcp_inner: as if the kernel lacked it */
};

struct config {
	char *path; /* the file it is from */
	char *host;
	char *pin_root;
	char *socket;
	char *kill_file;
	char *members;		     /* NULL: none */
	struct members *member_list; /* as read from it; core/ takes it over. NULL: none */
	char *key_file;		     /* NULL: none */
	char *key_file_next;	     /* NULL: none */
	struct fleet_keys keys;	     /* as read from them */
	struct config_interface *interfaces;
	size_t interface_count;
	struct config_qps qps;
	struct config_receipts receipts;
	struct config_textfile textfile;
	struct config_events events;
	struct config_mesh mesh;
	struct config_clock clock;
	struct config_paths paths;
	struct config_lab lab;
	const struct config_section **sections; /* those of config/ first */
	void **values;				/* of each, NULL: in this structure */
	size_t section_count;
};

struct config_input {
	const char *path; /* NULL: CONFIG_PATH_DEFAULT */
	const struct config_section *const
		*sections;	       /* beside those of config/, NULL at the end; NULL: none */
	const struct config *in_force; /* its fixed keys have to stay; NULL: nothing runs */
	bool check_host;	       /* interfaces and membership against this host, too */
};

/*
 * Reads and checks the file. On success *@out is a new configuration, freed
 * with config_free(). On failure returns -errno, and *@report is malloc'd: all
 * that is wrong, a line "FILE:LINE: what; remedy" each, by line. On success
 * *@report is NULL, or warnings of @check_host, of the same form.
 */
int config_load(const struct config_input *input, struct config **out, char **report);
/* The same from memory; the path only names it, and relative paths start from its folder. */
int config_parse(const struct config_input *input, const char *bytes, size_t size,
		 struct config **out, char **report);
void config_free(struct config *config);

/* The structure of @section, which was among the sections that were loaded. */
const void *config_section(const struct config *config, const struct config_section *section);

/* The configuration in force as a JSON object (new reference). */
struct json_t;
struct json_t *config_to_json(const struct config *config);

/* The name of a plane, as the file has it. */
const char *config_plane_name(enum fleet_plane plane);

/* The reference part of escapement.yaml(5) in mdoc, and the example configuration; 0 or -EIO. */
int config_write_man(FILE *out, const struct config_section *const *sections);
int config_write_example(FILE *out, const struct config_section *const *sections);

#endif
