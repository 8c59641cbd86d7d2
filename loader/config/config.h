/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration: one YAML file, read whole, checked whole, or refused. */
#ifndef ESC_LOADER_CONFIG_H
#define ESC_LOADER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <net/if.h>

#include "fleet/fleet.h"

#define CONFIG_PATH_DEFAULT "/etc/escapement/escapement.yaml"
#define CONFIG_SOCKET_DEFAULT "/run/escapement/escapement.sock"
#define CONFIG_KILL_FILE_DEFAULT "/run/escapement/off"

enum config_attach { CONFIG_ATTACH_AUTO, CONFIG_ATTACH_NATIVE, CONFIG_ATTACH_SKB };
enum config_steer { CONFIG_STEER_OFF, CONFIG_STEER_MANUAL, CONFIG_STEER_AUTO };
enum config_overtake { CONFIG_OVERTAKE_NEVER, CONFIG_OVERTAKE_ONCE };
enum config_pace { CONFIG_PACE_OFF, CONFIG_PACE_ON };
enum config_pace_tcp { CONFIG_PACE_TCP_OFF, CONFIG_PACE_TCP_OBSERVE, CONFIG_PACE_TCP_ON };
enum config_nic { CONFIG_NIC_WRAP, CONFIG_NIC_PLAIN };
enum config_nic_resend { CONFIG_NIC_RESEND_ON, CONFIG_NIC_RESEND_OFF };
enum config_tc { CONFIG_TC_AUTO, CONFIG_TC_TCX, CONFIG_TC_CLSACT };

struct config_interface {
	char *name;
	enum fleet_plane plane;
	enum config_attach attach;
	enum config_tc tc;
	uint16_t probe_port;
	char *sibling; /* NIC that stands in when this one dies; NULL: none */
	char *dummy;   /* dummy device that stands on this one; NULL: none */
};

/* What is paced alike. A flow is of the first class that it fits; of `default` when of none. */
struct config_pace_class {
	char *name;
	uint32_t weight;
	uint64_t threshold_ns;
	bool own_threshold;		/* given, and not pacing's */
	uint64_t dscps;			/* a bit each */
	char *job, *cgroup;		/* patterns as of a shell, NULL: none */
	uint16_t port_first, port_last; /* 0: none */
};

struct config {
	char *path; /* the file it came from, NULL for the defaults */
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
	struct {
		uint32_t max;	  /* entries in `qps` */
		uint64_t idle_ns; /* a QP without packets for so long is gone */
	} qps;
	struct {
		bool on;
		bool sample_fixed;     /* sample_mask does not follow a queue pair's rate */
		uint32_t sample_mask;  /* 2^n - 1; with which a queue pair begins */
		uint32_t max_pps;      /* that each CPU makes at most */
		uint64_t threshold_ns; /* delays above it are counted */
		bool host_queue;       /* the sending host's own queue is told apart */
	} receipts;
	struct {
		char *directory; /* NULL: no textfile */
		uint64_t interval_ns;
		uint32_t top_qps, top_paths;
	} textfile;
	struct {
		char *file;    /* NULL: the ledger is kept in memory only */
		uint32_t keep; /* events kept in memory */
	} events;
	struct {
		uint32_t degree;
		uint64_t pair_interval_ns;
		uint64_t pair_spacing_ns;
		uint64_t down_after_ns;
	} mesh;
	struct {
		uint64_t window_ns;
		bool anchor; /* this host tells the others TAI */
	} clock;
	struct {
		enum config_steer mode;	       /* of every interface, at the start */
		double capacity_bps;	       /* of a path; 0: the interface's speed */
		uint32_t moves_per_s;	       /* that steering by itself makes at most */
		enum config_overtake overtake; /* of a queue pair without gaps */
	} steer;
	struct {
		bool on;		      /* candidate paths are found and probed */
		uint32_t per_peer;	      /* lanes to an address of a peer's */
		uint64_t probe_interval_ns;   /* of a path in use, while something may be steered */
		uint64_t standby_interval_ns; /* of the others, then */
		uint64_t dead_after_ns;
		uint64_t return_after_ns;
		uint32_t budget_pps; /* of all path probes together */
	} paths;
	struct {
		enum config_pace mode;		   /* of every interface, at the start */
		uint64_t threshold_ns;		   /* of the class `default` */
		uint64_t hold_max_ns;		   /* no packet is held longer */
		uint64_t line_Bps;		   /* of every interface; 0: as each says itself */
		struct config_pace_class *classes; /* beside `default` */
		size_t class_count;
		struct {
			enum config_pace_tcp mode;
			char *cgroup; /* NULL: none given */
			uint64_t threshold_ns;
		} tcp;
	} pace;
	struct {
		enum config_nic mode;
		enum config_nic_resend resend;
		uint16_t port; /* the first of ESC_NIC_PORTS */
		uint64_t probe_interval_ns;
		uint64_t dead_after_ns;	  /* unanswered for so long while another way is answered */
		uint64_t return_after_ns; /* well again for so long before it is used */
	} nic;
	struct {
		int64_t clock_offset_ns;
		int64_t clock_drift_ppb;
		int64_t tai_offset_ns; /* 0: TAI is the kernel's */
		uint32_t tcp_refused;  /* bits of enum esc_tcp_inner: as if the kernel lacked it */
	} lab;
};

/*
 * Reads and checks the file at @path. On success *@out is a new configuration,
 * freed with config_free(). On failure returns -errno and *@error is a
 * malloc'd sentence "FILE:LINE: what; remedy".
 */
int config_load(const char *path, struct config **out, char **error);
void config_free(struct config *config);

/* The same from memory; @path only names it, and relative paths start from its folder. */
int config_parse(const char *path, const char *bytes, size_t size, struct config **out,
		 char **error);

/*
 * Where a daemon with the file at @path is met: the socket, pin root and kill
 * file of the file, or their defaults. Checks nothing else, so it answers on a
 * file that config_load() refuses. -ENOENT when there is no file (the defaults
 * are set all the same), another -errno and *@error when it is not to be read.
 */
struct config_places {
	char *socket, *pin_root, *kill_file;
};
int config_find_places(const char *path, struct config_places *out, char **error);
void config_places_clear(struct config_places *places);

/* The configuration in force as a JSON object (new reference). */
struct json_t;
struct json_t *config_to_json(const struct config *config);

#endif
