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
enum config_steer { CONFIG_STEER_OFF, CONFIG_STEER_MANUAL, CONFIG_STEER_AUTO };
enum config_overtake { CONFIG_OVERTAKE_NEVER, CONFIG_OVERTAKE_ONCE };
enum config_pace { CONFIG_PACE_OFF, CONFIG_PACE_ON };
enum config_pace_tcp { CONFIG_PACE_TCP_OFF, CONFIG_PACE_TCP_OBSERVE, CONFIG_PACE_TCP_ON };
enum config_nic { CONFIG_NIC_WRAP, CONFIG_NIC_PLAIN };

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

struct config_steer_keys {
	enum config_steer mode;	       /* of every interface, at the start */
	double capacity_bps;	       /* of a path; 0: the interface's speed */
	uint32_t moves_per_s;	       /* that automatic steering makes at most */
	enum config_overtake overtake; /* of a queue pair without gaps */
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

/* Flows that are paced alike. A flow is of the first class that matches it, else of `default`. */
struct config_pace_class {
	char *name;
	uint32_t weight;
	uint64_t threshold_ns;
	bool own_threshold;		/* given, not that of the section */
	uint64_t dscps;			/* a bit each */
	char *job, *cgroup;		/* shell patterns, NULL: none */
	uint16_t port_first, port_last; /* 0: none */
};

struct config_pace_keys {
	enum config_pace mode;		   /* of every interface, at the start */
	uint64_t threshold_ns;		   /* of the class `default` */
	uint64_t hold_max_ns;		   /* no packet is held longer */
	double line_bps;		   /* of every interface; 0: as each reports it */
	struct config_pace_class *classes; /* beside `default` */
	size_t class_count;
	struct config_pace_tcp_keys {
		enum config_pace_tcp mode;
		char *cgroup; /* NULL: none given */
		uint64_t threshold_ns;
	} tcp;
};

struct config_nic_keys {
	enum config_nic mode;
	bool resend;
	uint16_t port; /* the first of ESC_NIC_PORTS */
	uint64_t probe_interval_ns;
	uint64_t dead_after_ns;	  /* without a reply for so long while another route has replies */
	uint64_t return_after_ns; /* up again for so long before it is used */
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
	struct config_steer_keys steer;
	struct config_pace_keys pace;
	struct config_nic_keys nic;
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

/*
 * Where the daemon with the file at @path is reached: the socket, pin root and kill
 * file of the file, or their defaults. Checks nothing else, so it works on a
 * file that config_load() refuses. -ENOENT when there is no file (the defaults
 * are set all the same), another -errno and *@error when it cannot be read.
 */
struct config_places {
	char *socket, *pin_root, *kill_file;
};
int config_find_places(const char *path, struct config_places *out, char **error);
void config_places_clear(struct config_places *places);

/* What a dead NIC may have lost last is kept, and retransmitted by the other one. */
bool config_nic_resends(const struct config *config);
extern const char *const config_nic_modes[];

/* The name of a plane, as the file has it. */
const char *config_plane_name(enum fleet_plane plane);

/* The reference part of escapement.yaml(5) in mdoc, and the example configuration; 0 or -EIO. */
int config_write_man(FILE *out, const struct config_section *const *sections);
int config_write_example(FILE *out, const struct config_section *const *sections);

#endif
