/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration: one YAML file, read and checked as a whole, or refused. A module that has keys
 * of its own defines a struct config_section.
 */
#ifndef ESC_LOADER_CONFIG_H
#define ESC_LOADER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <net/if.h>

#include "base/verb.h"
#include "fleet/fleet.h"

#define CONFIG_PATH_DEFAULT "/etc/escapement/escapement.yaml"

/* --- the table of keys: parsing, `config show`, the check of a reload, manual, example --- */

struct config;
struct config_key;
struct config_reading; /* a file that is being read */
struct json_t;

#define CONFIG_US 1000ll
#define CONFIG_MS 1000000ll
#define CONFIG_S 1000000000ll

#define CONFIG_NUMBER_BYTES 32
#define CONFIG_SECTIONS_MAX 64

struct config_type {
	const char *name; /* in the manual, such as "duration"; NULL: the words are listed */
	/* @text is not empty. 0, -ENOMEM, or -EINVAL after config_refuse(). */
	int (*parse)(struct config_reading *reading, const struct config_key *key, const char *text,
		     void *value);
	/* New reference; NULL: not set. What it shows, parse() reads. */
	struct json_t *(*show)(const struct config_key *key, const void *value);
	void (*clear)(const struct config_key *key, void *value); /* NULL: nothing is allocated */
	/* A bound as a file has it, NULL: the type has no range. */
	void (*format)(char out[CONFIG_NUMBER_BYTES], int64_t number);
};

/* A list of mappings, each kept as an entry of @entry_bytes. Its first key names it, uniquely. */
struct config_list {
	const struct config_key *keys; /* ended by {} */
	unsigned int least, most;      /* entries */
	size_t entry_bytes;
	size_t count_offset; /* of its size_t, where the list's own offset is counted from */
};

struct config_key {
	const char *name;
	const struct config_type *type;
	size_t offset, bytes;	  /* of the value in its section's, or list entry's, structure */
	const char *fallback;	  /* default, as a file has it; NULL: zero */
	const char *example;	  /* for the example where there is no default */
	int64_t least, most;	  /* range; of a text: @most bytes, 0: 4096 */
	const char *const *words; /* of a word, NULL at the end */
	const struct config_list *list; /* of a list */
	bool required;
	bool fixed; /* cannot change while the daemon runs */
	/* A given value that its type accepts: refuses it, or loads what it names. */
	void (*check)(struct config_reading *reading, const struct config_key *key, void *values);
	/* For the manual; its first sentence is also the example's comment. `x` is literal. */
	const char *help;
};

struct config_section {
	const char *name;    /* "pace", or "pace.tcp" for a mapping in it; "": the top level */
	const char *summary; /* one sentence or more, as of @help */
	const struct config_key *keys; /* ended by {} */
	size_t bytes; /* of its structure; 0: it is part of struct config, at @offset */
	size_t offset;
	bool for_tests; /* not in the example */
	/* After all keys: values against each other, defaults that depend on others. */
	void (*check)(struct config_reading *reading, const struct config *config, void *values);
};

/*
 * text and path: char *; a relative path starts from the folder of the file. word: the index in
 * .words, into an enum or a bool. boolean: bool. number: an integer of any size; duration: one in
 * ns; both are signed when .least is below 0. bit_rate: double, in bit/s, 0 for `auto`. list: a
 * pointer to the entries.
 */
extern const struct config_type config_type_text, config_type_path, config_type_word,
	config_type_boolean, config_type_number, config_type_duration, config_type_bit_rate,
	config_type_list;

/* The type and place of a key: CONFIG_FIELD(number, struct config_mesh, degree). */
#define CONFIG_FIELD(kind, structure, member)                                                      \
	.type = &config_type_##kind, .offset = offsetof(structure, member),                        \
	.bytes = sizeof(((structure *)0)->member)

#define CONFIG_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/*
 * An error in the file, at the line of @key in the mapping that is being read or checked (NULL:
 * of the mapping). The text continues "FILE:LINE: ". Returns -EINVAL.
 */
#define config_refuse(reading, key, ...)                                                           \
	config_refuse_at(reading, config_line_of(reading, key), __VA_ARGS__)
#define config_refuse_at(reading, line, ...) config_record(reading, true, line, __VA_ARGS__)
/* What does not keep the file from being used; at @line, for --check-config. */
#define config_warn(reading, line, ...) config_record(reading, false, line, __VA_ARGS__)
unsigned int config_line_of(struct config_reading *reading, const char *key);
int config_record(struct config_reading *reading, bool error, unsigned int line, const char *format,
		  ...) __attribute__((format(printf, 4, 5)));
/* Nothing of the file is used, and -ENOMEM is what is returned of it. */
int config_no_memory(struct config_reading *reading);

/* Exact, as a file has it: "1500us", "2ms", "90s", "1h". */
void config_format_duration(char out[CONFIG_NUMBER_BYTES], int64_t ns);

/* --- the keys that several modules read --- */

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
	uint16_t message_port;
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
	char *file;
	uint32_t keep; /* events kept in memory */
};

/* For escapement-alert(8), which reads them by `config show`. */
struct config_alertmanager {
	char *url;
	char *user, *password_file; /* NULL: no basic authentication */
	char *ca_file;		    /* NULL: the system's */
};

/* What a threshold compares: @selectors is of enum config_selectors. */
enum config_unit { CONFIG_UNIT_TIME, CONFIG_UNIT_SHARE, CONFIG_UNIT_COUNT };
enum config_selectors {
	CONFIG_BY_PLANE = 1, /* the order of their names in config/thresholds.c */
	CONFIG_BY_RAIL = 2,
	CONFIG_BY_JOB = 4,
	CONFIG_BY_PEER = 8,
	CONFIG_HAS_FLOOR = 16, /* it may be compared with its least value */
};
#define CONFIG_BY_NIC (CONFIG_BY_PLANE | CONFIG_BY_RAIL)
#define CONFIG_BY_QP (CONFIG_BY_NIC | CONFIG_BY_JOB | CONFIG_BY_PEER)
/* X(id, name, unit, selectors, help): named as the metric or JSON key that shows it. */
#define CONFIG_QUANTITIES(X)                                                                       \
	X(PROBE_OWD, "probe_owd_p99", TIME, CONFIG_BY_NIC | CONFIG_BY_PEER | CONFIG_HAS_FLOOR,     \
	  "delay of the mesh's probes to a peer, 99th percentile of `clock.window`.")              \
	X(PATH_OWD, "path_owd_p99", TIME, CONFIG_BY_NIC | CONFIG_BY_PEER | CONFIG_HAS_FLOOR,       \
	  "the same of a candidate path, of the last 5 to 10 s.")                                  \
	X(QP_OWD, "qp_owd_p99", TIME, CONFIG_BY_QP | CONFIG_HAS_FLOOR,                             \
	  "the same of a queue pair that sends, of the last second.")                              \
	X(PROBE_LOST, "probe_lost", SHARE, CONFIG_BY_NIC | CONFIG_BY_PEER,                         \
	  "probes to a peer without a reply.")                                                     \
	X(QP_PSN_MISSING, "qp_psn_missing", SHARE, CONFIG_BY_QP,                                   \
	  "packets of a queue pair that this host receives which were skipped.")                   \
	X(QP_RETRANSMITS, "qp_retransmits", SHARE, CONFIG_BY_QP,                                   \
	  "packets of a queue pair that this host sends which had been sent before.")              \
	X(QP_CE, "qp_ce", SHARE, CONFIG_BY_QP,                                                     \
	  "packets of a queue pair that this host receives with a congestion mark (ECN CE). "      \
	  "Shares are of the last 10 s, and known from 100 packets on.")                           \
	X(CLOCK_BOUND, "clock_error_bound", TIME, 0, "error bound of fabric time here.")           \
	X(LINK_FLAPS, "link_flaps_1h", COUNT, CONFIG_BY_NIC,                                       \
	  "losses of a link's carrier within the last hour.")

enum config_of {
#define X(id, name, unit, selectors, help) CONFIG_OF_##id,
	CONFIG_QUANTITIES(X)
#undef X
		CONFIG_OFS
};

struct config_quantity {
	const char *name;
	enum config_unit unit;
	unsigned int selectors;
};
extern const struct config_quantity config_quantities[]; /* by enum config_of */

struct config_limit {
	bool given;
	bool over_floor; /* above the least value, else above 0 */
	enum config_unit unit;
	double number; /* ns; a share of 1; a count */
};
#define CONFIG_LIMIT_BYTES (CONFIG_NUMBER_BYTES + 8)
/* As a file has it: "500us", "floor+500us", "0.1%", "8". */
void config_format_limit(char out[CONFIG_LIMIT_BYTES], const struct config_limit *limit);

#define CONFIG_ANY_PLANE 2
struct config_threshold {
	char *name;
	unsigned int of; /* 1 + enum config_of */
	struct config_limit above, clear;
	uint64_t raise_after_ns, clear_after_ns;
	unsigned int severity;	 /* enum event_severity */
	unsigned int plane;	 /* enum fleet_plane, or CONFIG_ANY_PLANE */
	char *rail, *job, *peer; /* NULL: any */
};

struct config_alerts {
	struct config_threshold *thresholds;
	size_t threshold_count;
	struct config_alertmanager *alertmanagers;
	size_t alertmanager_count;
	unsigned int severity; /* enum event_severity: the least that is sent */
	char *hook;	       /* NULL: none */
	uint64_t hook_timeout_ns;
	uint32_t hook_per_minute;
};

/* For escapement-serve(8), which reads it by `config show`. */
struct config_serve {
	char *listen; /* "127.0.0.1:9470" */
};

struct config_mesh {
	uint32_t degree;
	uint64_t pair_interval_ns;
	uint64_t pair_spacing_ns;
	uint64_t down_after_ns;
	uint64_t loss_after_ns;
	uint32_t rotation_pps; /* probes of NICs in turn; 0: none */
};

struct config_clock {
	uint64_t window_ns;
	bool anchor;   /* this host distributes TAI */
	char *anchors; /* hosts that TAI is accepted from, with commas between; NULL: any member */
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
	char *nic; /* NULL: none */
	int64_t nic_offset_ns;
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
	uint64_t members_hold_ns;    /* a list that loses most hosts has to stay the same so long */
	struct members *member_list; /* as read from it; core/ takes it over. NULL: none */
	bool members_kept;	     /* not read, as the file is the one that was read last */
	char *key_file;		     /* NULL: none */
	char *key_file_next;	     /* NULL: none */
	struct fleet_keys keys;	     /* as read from them */
	bool insecure;		     /* control is allowed without a key */
	struct config_interface *interfaces;
	size_t interface_count;
	struct config_qps qps;
	struct config_receipts receipts;
	struct config_textfile textfile;
	struct config_events events;
	struct config_alerts alerts;
	struct config_serve serve;
	struct config_mesh mesh;
	struct config_clock clock;
	struct config_paths paths;
	struct config_lab lab;
	struct {
		const struct config_section *section;
		void *values;	      /* its structure: in this one, or allocated */
	} parts[CONFIG_SECTIONS_MAX]; /* those of config/ first */
	size_t part_count;
};

struct config_input {
	const char *path; /* NULL: CONFIG_PATH_DEFAULT */
	/* Beside those of config/, NULL at the end; NULL: none. */
	const struct config_section *const *sections;
	const struct config *in_force; /* its fixed keys have to stay; NULL: nothing runs */
	const struct fleet *fleet;     /* what it has read is not read again; NULL: it is */
	struct fleet_read *read;       /* of the members file, when it is still that; or NULL */
	bool no_members;	       /* the members file is not read */
	bool check_host;	       /* interfaces, membership, textfile against this host, too */
};

/*
 * Reads and checks the file. 0: *@out is freed with config_free(), and *@report is NULL or warnings
 * of @check_host. Else -errno, and *@report (malloc'd) lists all errors, a line
 * "FILE:LINE: what; remedy" each, by line.
 */
int config_load(const struct config_input *input, struct config **out, char **report);
/* The same from memory; the path only names it, and relative paths start from its folder. */
int config_parse(const struct config_input *input, const char *bytes, size_t size,
		 struct config **out, char **report);
void config_free(struct config *config);

/* The structure of @section, which was among the sections that were loaded. */
const void *config_section(const struct config *config, const struct config_section *section);

/* The configuration in force as a JSON object (new reference). */
struct json_t *config_to_json(const struct config *config);

/* By `lab`: what the programs of that interface add to CLOCK_MONOTONIC, in ns. */
int64_t config_lab_offset(const struct config *config, const char *interface);

bool config_has_key(const struct config *config);
/*
 * Control (steering, pacing, NIC failover) acts on what other hosts report, which without a key any
 * host in the network can forge. 0: there is a key, or the operator accepts that; else -EPERM, and
 * *@error says that @what, such as "steering", needs one.
 */
int config_check_control(const struct config *config, const char *what, char **error);
/* The same of a file, at the line of @key; false: refused. */
bool config_require_key(struct config_reading *reading, const struct config *config,
			const char *key, const char *what);

/* The name of a plane, as the file has it. */
const char *config_plane_name(enum fleet_plane plane);

/* The reference part of escapement.yaml(5) in mdoc, and the example configuration. */
void config_write_man(FILE *out, const struct config_section *const *sections);
void config_write_example(FILE *out, const struct config_section *const *sections);

#endif
