/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel side as the daemon holds it: pinned maps, and programs on interfaces. */
#ifndef ESC_LOADER_DATAPLANE_H
#define ESC_LOADER_DATAPLANE_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include <net/if.h>

#include "config/config.h"
#include "bpflog.h"
#include "mapsweep.h"
#include "maps/maps.h"
#include "pins.h"
#include "visibility.h"

struct dataplane;
struct capability;
struct core;
struct locks;
struct events;

/* What an interface is and what was done to it; `status` shows all of it. */
struct port_info {
	unsigned int index; /* slot in `ports` */
	char name[IF_NAMESIZE];
	unsigned int ifindex; /* 0: the interface is not there now */
	char driver[32];      /* as ethtool says, "" unknown */
	char rdma_device[64]; /* "" none on this netdev */
	unsigned int rdma_port;
	uint32_t mtu;
	bool link_up;
	enum fleet_plane plane;
	enum esc_xdp_mode xdp_mode;
	enum esc_xdp_via xdp_via;
	enum esc_tc_via tc_via;
	uint32_t xdp_program_id;
	char attach_note[256]; /* why not better, one sentence, "" when as asked */
	char visibility[16];   /* packets | control | counters | none */
	char visibility_note[256];
	char offload_note[256]; /* MTU or offloads that attaching took, "" none */
};

/*
 * Opens or makes the pinned maps under config->pin_root, attaches to every
 * interface of @config, or takes over what is attached. Nothing is left half
 * attached on failure. Returns 0 or -errno with *@error a malloc'd sentence
 * that names the thing and the remedy. Attaches nothing while
 * config->kill_file exists.
 * The event log of @core gets attached, detached, interface_gone,
 * interface_back, link_up, link_down.
 */
/* @locks: of the interfaces (lock.h), taken over. */
int dataplane_open(struct dataplane **out, struct core *core, struct locks *locks, char **error);
/* The maps were there before: another daemon made them. */
bool dataplane_took_over(const struct dataplane *dataplane);

/* Applies another configuration: all or nothing, as dataplane_open(). */
int dataplane_reconfigure(struct dataplane *dataplane, const struct config *config, char **error);

/* Forgets the handles. Programs, links and maps stay in the kernel. */
void dataplane_close(struct dataplane *dataplane);

/*
 * Kill switch: sets ESC_CONTROL_OFF first, then detaches everywhere.
 * dataplane_on() attaches again. Both idempotent.
 */
int dataplane_off(struct dataplane *dataplane, char **error);
int dataplane_on(struct dataplane *dataplane, char **error);
bool dataplane_is_off(const struct dataplane *dataplane);
/* ESC_CONTROL_OFF as it is in the map now: an operator may have written it. */
uint32_t dataplane_control_flags(const struct dataplane *dataplane);

/*
 * Without a daemon: detaches all that is recorded under @pin_root, removes the
 * pins, leaves every interface as it was. 0 also when there was nothing.
 */
int dataplane_remove(const char *pin_root, char **error);

/* Once a second: links that came or went, re-attach after a NIC returned. */
void dataplane_tick(struct dataplane *dataplane, uint64_t now_local_ns);

/* needs nothing; self is the struct dataplane. */
extern const struct capability dataplane_capability;

struct core *dataplane_core(const struct dataplane *dataplane);
/* Reports the kill switch when another program wrote it into the map. */
void dataplane_watch_control(struct dataplane *dataplane);

struct port_facts {
	struct port_info info;
	struct esc_port_counts counts;
	bool counted; /* counts could be read */
};
/* All that are served, with their visibility as far as it is known. Returns how many. */
unsigned int dataplane_read_ports(const struct dataplane *dataplane,
				  struct port_facts out[ESC_PORTS_MAX]);
/* Called for each port of dataplane_read_ports(): may change visibility and its note. */
typedef void dataplane_visibility_fn(void *context, uint64_t now_local_ns,
				     struct port_info *port);
void dataplane_set_visibility(struct dataplane *dataplane, dataplane_visibility_fn *visibility,
			      void *context);

/* One port of `status`; @counts NULL: they could not be read. */
json_t *port_json(const struct port_info *port, const struct esc_port_counts *counts);
/* The reasons that have a count, of ESC_REASON_MAX. */
json_t *reasons_json(const struct esc_reason_count *counts);
/* True when packets of this direction are counted now, so that 0 means none. */
bool port_counts_rx(const struct port_info *port);
bool port_counts_tx(const struct port_info *port);
uint64_t reason_sum(const struct esc_reason_count *count);
const char *reason_name(enum esc_reason reason);
const char *xdp_mode_name(enum esc_xdp_mode mode);
const char *xdp_via_name(enum esc_xdp_via via);
const char *tc_via_name(enum esc_tc_via via);

unsigned int dataplane_port_count(const struct dataplane *dataplane);
/* Fresh facts about port number @i of 0..count-1. */
int dataplane_port(const struct dataplane *dataplane, unsigned int i, struct port_info *out);
/* A bit for the slot of each interface that is served. */
uint16_t dataplane_ports_all(const struct dataplane *dataplane);
/*
 * A bit in *@ports for the slot of each interface in @names, an array of texts; NULL or empty: all
 * that are served. -ENODEV with *@error, a sentence.
 */
int dataplane_ports_named(const struct dataplane *dataplane, const json_t *names, uint16_t *ports,
			  char **error);
/* Name of the interface in slot @index of `ports`; NULL: none is served there. */
const char *dataplane_port_name(const struct dataplane *dataplane, unsigned int index);
/* Sums over CPUs. */
int dataplane_port_counts(const struct dataplane *dataplane, unsigned int index,
			  struct esc_port_counts *out);
/* Sums over CPUs of all reasons, ESC_REASON_MAX of them. */
int dataplane_reasons(const struct dataplane *dataplane,
		      struct esc_reason_count out[ESC_REASON_MAX]);

/* fq onto an interface (qdisc.h), to be undone when it is detached; and off again, if it is ours. */
int dataplane_make_fq(struct dataplane *dataplane, const char *interface, char **error);
int dataplane_drop_fq(struct dataplane *dataplane, const char *interface, char **error);

/* The value of `control`, mapped; borrowed. */
struct esc_control *dataplane_control(const struct dataplane *dataplane);
struct pins;
/* Where all is pinned; borrowed. */
const struct pins *dataplane_pins(const struct dataplane *dataplane);
/* Borrowed descriptor of a pinned map. */
int dataplane_map_fd(const struct dataplane *dataplane, const char *name);
/* Entries that it has room for. */
uint32_t dataplane_map_max(const struct dataplane *dataplane, const char *name);
/* NULL when @interface has both programs that stamp probes; else which it lacks, in words. */
const char *dataplane_stamps_missing(const struct dataplane *dataplane, const char *interface);

int dataplane_qps_fd(const struct dataplane *dataplane);
uint32_t dataplane_qps_max(const struct dataplane *dataplane);

#endif
