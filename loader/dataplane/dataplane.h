/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel side as the daemon holds it: pinned maps, and programs on interfaces. */
#ifndef ESC_LOADER_DATAPLANE_H
#define ESC_LOADER_DATAPLANE_H

#include <jansson.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "maps/maps.h"

struct bpf_object;
struct capability;
struct core;
struct dataplane;
struct pins;

/*
 * self is the struct dataplane. Opens or creates the pinned maps under config->pin_root and
 * attaches to every interface, or takes over what is attached, all or nothing; not while
 * config->kill_file exists. When it is closed programs, links and maps stay in the kernel.
 */
extern const struct capability dataplane_capability;

bool dataplane_is_off(const struct dataplane *dataplane);
/*
 * Without a daemon: detaches and unpins all under @pin_root. 0 also when there was nothing. What
 * forwards the packets of dummy devices stays: *@kept is malloc'd names of theirs, NULL: none.
 */
int dataplane_remove(const char *pin_root, char **kept, char **error);
/* Probes the kernel features that it uses, for `features`; see struct verb_set. */
void support_features(json_t *list);

/* --- ports --- */

/* A program of another owner that gets packets before one of ours. */
enum order_hook { ORDER_XDP, ORDER_EGRESS, ORDER_INGRESS };
struct port_before {
	uint32_t id;
	enum order_hook hook;
	char name[16];
};
#define PORT_BEFORE_MAX 8
struct port_order {
	uint32_t xdp; /* id of the dispatcher, or of another program in the place of XDP */
	unsigned int count;
	struct port_before programs[PORT_BEFORE_MAX];
};

/* What an interface is and what was done to it; `status` shows all of it. */
struct port_info {
	unsigned int index; /* slot in `ports` */
	char name[IF_NAMESIZE];
	unsigned int ifindex; /* 0: the interface is not there now */
	char driver[32];      /* as ethtool reports it, "" unknown */
	char rdma_device[64]; /* "" none on this netdev */
	unsigned int rdma_port;
	uint32_t mtu;
	bool link_up;
	enum fleet_plane plane;
	enum esc_xdp_mode xdp_mode;
	enum esc_xdp_via xdp_via;
	enum esc_tc_via tc_via;
	char attach_note[256]; /* why not better, one sentence, "" when as configured */
	char visibility[16];   /* packets | control | counters | none */
	char visibility_note[256];
	char offload_note[256]; /* MTU or offloads that attaching took, "" none */
	struct port_order before;
	uint64_t read_local_ns; /* when */
};

struct port_facts {
	struct port_info info;
	struct esc_port_counts counts;
};

/* Fresh counts of the port in @slot, and facts, a second old at most. -ENODEV: none is served. */
int dataplane_port(const struct dataplane *dataplane, unsigned int slot, struct port_facts *out);
/* All that are served, with their visibility as far as it is known. Returns how many. */
unsigned int dataplane_read_ports(const struct dataplane *dataplane,
				  struct port_facts out[ESC_PORTS_MAX]);
/* A bit for the slot of each interface that is served. */
uint16_t dataplane_ports_all(const struct dataplane *dataplane);
/* The same for those in @names, an array of texts; NULL or empty: all. -ENODEV with *@error. */
int dataplane_ports_named(const struct dataplane *dataplane, const json_t *names, uint16_t *ports,
			  char **error);
/* The slot of @interface in `ports`; -ENODEV: it is not served. */
int dataplane_slot_of(const struct dataplane *dataplane, const char *interface);
/* Name of the interface in slot @index of `ports`; NULL: none is served there. */
const char *dataplane_port_name(const struct dataplane *dataplane, unsigned int index);
/* NULL when @interface has both programs that timestamp probes; else which it lacks. */
const char *dataplane_lacks(const struct dataplane *dataplane, const char *interface);
/* fq onto an interface (net/rtnl.h), to be undone when it is detached; and off again, if ours. */
int dataplane_set_fq(struct dataplane *dataplane, const char *interface, bool on, char **error);

/* Called for each port of dataplane_read_ports(): may change visibility and its note. */
typedef void dataplane_visibility_fn(void *context, uint64_t now_local_ns, struct port_info *port);
void dataplane_set_visibility(struct dataplane *dataplane, dataplane_visibility_fn *visibility,
			      void *context);
/* `control` instead of `counters` or `none` with @ready queue pairs connected for long. */
void visibility_add_ready(struct port_info *port, size_t ready);

/* --- counts --- */

/* Sums over CPUs, of one and of all: a system call for each. */
int dataplane_reason(const struct dataplane *dataplane, enum esc_reason reason,
		     struct esc_reason_count *out);
int dataplane_reasons(const struct dataplane *dataplane,
		      struct esc_reason_count out[ESC_REASON_MAX]);

/* One port of `status`. */
json_t *port_json(const struct port_info *port, const struct esc_port_counts *counts);
/* The reasons that have a count, of ESC_REASON_MAX. */
json_t *reasons_json(const struct esc_reason_count *counts);
/* True when packets that come in are counted now, so that 0 means none. */
bool port_counts_rx(const struct port_info *port);
/* The same of packets that leave. */
bool port_counts_tx(const struct port_info *port);
uint64_t reason_sum(const struct esc_reason_count *count);
const char *reason_name(enum esc_reason reason);

/* --- maps and pinned links --- */

/* All of these are borrowed. */
struct esc_control *dataplane_control(const struct dataplane *dataplane);
const struct pins *dataplane_pins(const struct dataplane *dataplane);
/* Descriptor of a pinned map, -1 when there is none, and the entries it has room for. */
int dataplane_map_fd(const struct dataplane *dataplane, const char *name);
uint32_t dataplane_map_max(const struct dataplane *dataplane, const char *name);
int pins_map_fd(const struct pins *pins, const char *name);

/* linux/bpf.h of Debian 12 ends before these; include/uapi/linux/bpf.h of 6.6. */
#define TCX_INGRESS ((enum bpf_attach_type)46)
#define TCX_EGRESS ((enum bpf_attach_type)47)

/* A link that is pinned at ROOT/links/INTERFACE-PIN. */
struct pins_link {
	const char *interface;
	unsigned int ifindex;
	const char *pin;
	const char *what; /* "tcx egress", for errors */
	uint32_t type;	  /* enum bpf_attach_type */
	uint32_t flags;	  /* when it is created */
	/* tcx: directly behind the link with this pin; without one ahead of all that is there. */
	const char *behind;
};
/* Replaces the program of the link in one step, or creates and pins the link. */
int pins_attach_link(const struct pins *pins, const struct pins_link *link, int program_fd,
		     char **error);
/* Detaches and unpins; a missing link is no error. */
void pins_drop_link(const struct pins *pins, const char *interface, const char *pin);

/* Links of NIC failover that forward a dummy device's packets. */
#define PINS_NIC_DUMMY "nic-dummy"
#define PINS_NIC_INGRESS "nic-ingress"
#define PINS_NIC_EGRESS "nic-egress"
/* Our own tcx links, which those are behind. */
#define PINS_TC_INGRESS "tc-ingress"
#define PINS_TC_EGRESS "tc-egress"
/*
 * The link at @root/links/@name forwards the packets of a dummy device that exists, which would be
 * cut off without it: it stays, whatever else is detached.
 */
bool pins_forwards(const char *root, const char *name);
/* "roce0, roce1": devices that such links forward, malloc'd; NULL: none. */
char *pins_forwarded(const char *root);

/* --- for modules with BPF objects of their own --- */

/* libbpf and libxdp then print to the debug log alone. Idempotent. */
void bpflog_install(void);
/* Their last warning since bpflog_clear(), "" when there was none. */
const char *bpflog_last(void);
void bpflog_clear(void);

typedef bool mapsweep_stays_fn(const void *key, void *context);
/*
 * Deletes the entries of the hash map @fd for whose key, of @key_bytes, @stays is false: after the
 * walk, which would restart. Without memory they are left to the next sweep.
 */
void mapsweep(int fd, size_t key_bytes, mapsweep_stays_fn *stays, void *context);

/* Entry @index of the per-CPU array @fd, __u64s of @bytes in all, summed; zeros on failure. */
int bpfmap_sum(int fd, uint32_t index, void *out, size_t bytes);

/* A map that the programs of an object use: the one of @fd, or with -1 one of their own. */
struct bpfmap_use {
	const char *name;
	int fd;
};
/* Before @object is loaded: its maps that are not in @uses (ended by {}) are not created. */
int bpfmap_share(struct bpf_object *object, const struct bpfmap_use *uses);

#endif
