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
#include "bpfmap.h"
#include "maps/maps.h"
#include "pins.h"
#include "visibility.h"

struct dataplane;
struct capability;
struct core;

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
 * needs nothing; self is the struct dataplane. Opens or creates the pinned maps under
 * config->pin_root and attaches to every interface, or takes over what is attached; not while
 * config->kill_file exists. Nothing is left half attached on failure. When it is closed programs,
 * links and maps stay in the kernel. The kill switch sets ESC_CONTROL_OFF first, then detaches.
 */
extern const struct capability dataplane_capability;

bool dataplane_is_off(const struct dataplane *dataplane);
/*
 * Without a daemon: detaches all that is recorded under @pin_root, removes the
 * pins, leaves every interface as it was. 0 also when there was nothing.
 */
int dataplane_remove(const char *pin_root, char **error);

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
