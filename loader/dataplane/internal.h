/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of dataplane/ share. */
#ifndef ESC_DATAPLANE_INTERNAL_H
#define ESC_DATAPLANE_INTERNAL_H

#include <linux/bpf.h>

#include "base/fields.h"
#include "core/core.h"
#include "dataplane.h"
#include "net/offload.h"
#include "net/rdma.h"

#define DATAPLANE_EVENTS(X)                                                                        \
	X(PORT_ATTACHED, "attached", NOTICE,                                                       \
	  "Programs were attached to an interface, or taken over.", .about = EVENT_NIC)            \
	X(PORT_DETACHED, "detached", NOTICE, "Programs were detached from an interface.",          \
	  .about = EVENT_NIC)                                                                      \
	X(PORT_GONE, "interface_gone", WARNING, "An interface does not exist, or not any more.",   \
	  .about = EVENT_NIC, .begins = "interface_gone",                                          \
	  .remedy = "See its driver (dmesg), or take it out of `interfaces`.")                     \
	X(PORT_BACK, "interface_back", NOTICE, "An interface exists, or exists again.",            \
	  .about = EVENT_NIC, .ends = "interface_gone")                                            \
	X(PORT_PROGRAMS_BEFORE, "programs_before", NOTICE,                                         \
	  "Other programs than before get the packets of an interface before ours.",               \
	  .about = EVENT_NIC)                                                                      \
	X(PORT_STACKED, "interface_stacked", WARNING,                                              \
	  "An interface that is served is above others that are: a packet of both counts on "      \
	  "both.",                                                                                 \
	  .about = EVENT_NIC, .begins = "interface_stacked",                                       \
	  .remedy = "Take the interface, or those below it, out of `interfaces`.")                 \
	X(PORT_UNSTACKED, "interface_unstacked", NOTICE,                                           \
	  "Nothing below the interface is served any more.", .about = EVENT_NIC,                   \
	  .ends = "interface_stacked")                                                             \
	X(PORT_FQ_INSTALLED, "fq_installed", NOTICE, "An fq qdisc was put onto an interface.",     \
	  .about = EVENT_NIC)                                                                      \
	X(PORT_FQ_REMOVED, "fq_removed", NOTICE, "The qdisc from before fq was put back.",         \
	  .about = EVENT_NIC)                                                                      \
	X(MAPS_RENEWED, "maps_renewed", NOTICE,                                                    \
	  "Maps with another layout were made again; `lost`: those whose counts start from 0.")
enum { DATAPLANE_EVENTS(EVENT_ENUM) };
extern const struct event_kind dataplane_events[];
extern const struct metric dataplane_metrics[];
void dataplane_write_metrics(void *self, FILE *out);

/* --- pins.c: maps and links outlive the daemon, pinned under one folder of a bpffs --- */

#define PINS_MAPS_MAX 48
#define PINS_ROOT_BYTES 256
#define PINS_XDP "xdp"

/* New maps of another layout than the pinned ones are here until these are not used any more. */
#define PINS_NEXT "next"

struct pinned_map {
	char name[16];
	int fd;
	struct bpf_map_info info;
	bool next; /* pinned in the folder PINS_NEXT */
	bool lost; /* of @old: its contents could not be carried over */
};

struct pins {
	char root[PINS_ROOT_BYTES];
	int lock_fd;	 /* the folder itself, flock'ed */
	bool were_there; /* the maps were there before */
	size_t count;
	struct pinned_map maps[PINS_MAPS_MAX];
	struct esc_control *control; /* mapped: single fields are written without a race */
	/* While programs of another release are replaced: their maps of another layout. */
	size_t old_count;
	struct pinned_map old[PINS_MAPS_MAX];
	char old_version[24];	/* of the release that made these, or "" */
	uint16_t *old_handover; /* of their `control`, NULL: it is ours */
	void *old_control;	/* the same map, mapped as a whole */
	bool counted_shared;	/* the other release has `xdp_counted` or our `port_counts` */
};

/*
 * Locks @root until pins_close(), then opens its maps or makes them: those of another layout again,
 * see pins_settle(). `abi` is read first: another number, or things that are not ours, are refused
 * and left as they are.
 */
int pins_open(struct pins **out, const char *root, uint32_t qps_max, char **error);
/* For removal: all pinned maps; pins->control is NULL when they have another ABI. -ENOENT: none. */
int pins_open_any(struct pins **out, const char *root, char **error);
void pins_close(struct pins *pins);
/* The map @name, in the folder PINS_NEXT with @next: -ENOENT, or an error with its sentence. */
int pins_open_one(const struct pins *pins, const char *name, bool next, struct pinned_map *out,
		  char **error);
void pins_map_path(const struct pins *pins, const char *name, bool next, char *out, size_t bytes);
/* Our number and version into `abi`. */
int pins_write_abi(int fd);
/* Unpins every link (which detaches it) and map, and removes the folders. */
int pins_remove(struct pins *pins, char **error);
const struct pinned_map *pins_find(const struct pins *pins, const char *name); /* NULL: none */

/* A descriptor of the link that is pinned at @path, or -errno. */
int pins_get_link(const char *path);
bool pins_has_link(const struct pins *pins, const char *interface, const char *pin);
/* A descriptor of the link, -ENOENT, or an error. One that is not on @ifindex is unpinned. */
int pins_open_link(const struct pins *pins, const char *interface, const char *pin,
		   unsigned int ifindex, char **error);

int pins_read_port(const struct pins *pins, unsigned int slot, struct esc_port *out);
int pins_write_port(const struct pins *pins, unsigned int slot, const struct esc_port *port);

/* --- upgrade.c: from maps of another layout to ours --- */

/* What is not counted by programs, before the new ones run. @to is empty. */
int upgrade_copy(const struct pinned_map *from, const struct pinned_map *to);
/* The counts, moved, of pins->old; without @late not of maps whose programs other modules have. */
void upgrade_carry(struct pins *pins, bool late);
/*
 * Carries over what programs counted in maps of another layout. @all: no program of the other
 * release runs any more; the new maps take the pins of the old ones, which are gone then.
 */
void pins_settle(struct pins *pins, bool all);
/* Waits until no program that was replaced before is still running. */
void upgrade_wait_grace_period(void);
/* Of `xdp_handover` in a `control` of any layout, or -ENOENT. */
long upgrade_handover_offset(const struct pinned_map *control);

/* --- keep.c: links that forward a dummy device's packets --- */

/* Unpins, and so detaches, every link under @root but those. 0 or -errno with *@error. */
int pins_remove_links(const char *root, char **error);

/* --- port.c: one interface that the daemon serves --- */

#define ATTACH_NOTE_BYTES 256
#define PORT_BELOW_BYTES 160 /* cut when they are more */

struct port {
	const struct pins *pins; /* borrowed, as @core */
	struct core *core;
	char name[IF_NAMESIZE];
	enum fleet_plane plane;
	enum config_attach attach;
	enum config_tc tc;
	uint16_t probe_port;
	int64_t lab_offset_ns;
	int32_t lab_drift_ppb;
	int lock_fd; /* see port_lock() */
	unsigned int slot;
	unsigned int ifindex;	/* that we are attached to; 0: gone */
	struct esc_port record; /* as `ports` has it */
	char xdp_note[ATTACH_NOTE_BYTES];
	char tc_note[ATTACH_NOTE_BYTES];
	char lost_note[ATTACH_NOTE_BYTES]; /* detached by another program */
	uint64_t retry_local_ns;	   /* after a re-attach failed */
	uint32_t mtu;			   /* as attach_judge_mtu() knows it */
	bool mtu_loses;			   /* port->xdp_note is of it */
	uint16_t turn;			   /* that our XDP program waits for in `control` */
	struct port_order before;
	char below[PORT_BELOW_BYTES]; /* names of served interfaces below it, ", " between */
};

/* One daemon on an interface of a network namespace: the lock's descriptor, or -errno. */
int port_lock(const char *name, const struct config *config, char **error);

bool port_is_attached(const struct port *port);
/* Attaches, or takes over, and writes `ports`; after a failure nothing is attached that was not. */
int port_attach(struct port *port, char **error);
/* Detaches all programs; @why ("off", "removed", ...) goes into the event. */
void port_detach(struct port *port, const char *why);
/* fq onto the interface, and off again: see net/rtnl.h. Off with port_detach() at the latest. */
int port_make_fq(struct port *port, char **error);
int port_drop_fq(struct port *port, char **error);
bool port_is_missing(const struct port *port);
/* It is missing: what was attached went with it. port_tick() attaches when it appears. */
void port_lose(struct port *port);
/* Follows the interface: gone, back, up, down, programs detached by others. */
void port_tick(struct port *port, bool off, uint64_t now_local_ns);

/* The event that port->below has changed. */
void port_report_stacked(const struct port *port);

/* --- stack.c: interfaces above one another --- */

/* Sets `below` of each, and reports changes: waits for RTNL. */
void stack_watch(struct port *ports, unsigned int count);

/* --- attach.c: a program of ours is replaced, one of another owner is left as it is --- */

/*
 * Attaches the XDP program, or replaces ours, and sets xdp_* and offloads_taken of port->record.
 * With attach auto a program of another owner is no error: port->xdp_note has the reason.
 */
int attach_xdp(struct port *port, char **error);
/* Says in port->xdp_note and the log where native XDP has the driver lose frames at port->mtu. */
void attach_judge_mtu(struct port *port);
void detach_xdp(struct port *port);
/* The same for the two tc programs; without XDP, tc ingress counts what comes in. */
int attach_tc(struct port *port, char **error);
void detach_tc(struct port *port);
/* "" when all that port->record has is still attached; else a sentence. */
void attach_check(const struct port *port, char note[ATTACH_NOTE_BYTES]);

struct xdp_attached {
	uint32_t program_id; /* 0: none */
	enum esc_xdp_mode mode;
	char name[16];
};
int xdp_query(const struct port *port, struct xdp_attached *out, char **error);
#define PROGRAM_MAPS_MAX 64
/* Name and maps of program @id; @map_ids: room for PROGRAM_MAPS_MAX. 0 or -errno. */
int program_info(uint32_t id, struct bpf_prog_info *info, uint32_t *map_ids);
/* Program @id is called @name and uses the pinned maps. */
bool program_is_ours(const struct pins *pins, uint32_t id, const char *name);

/* --- dispatcher.c: libxdp's dispatcher, in which programs of several owners run --- */

/* The interface runs a dispatcher of libxdp's that this process can work with. */
bool dispatcher_is_there(unsigned int ifindex);
/* Joins, or makes, the dispatcher on an interface where we are not yet. */
int dispatcher_join(struct port *port, enum esc_xdp_mode mode, char **error);
/*
 * Keeps our program in the dispatcher when it is the one we would load, else replaces it without a
 * packet missed or counted twice; finishes what a daemon that died left. 1: done; 0: not there.
 */
int dispatcher_take_over(struct port *port, char **error);
/* False: the driver refused, and a program of ours is still in it. */
bool dispatcher_leave(const struct port *port);

/* Appends the programs that run before ours in the dispatcher. */
void dispatcher_order(const struct port *port, struct port_order *order);

/* --- order.c: the order of programs on a hook --- */

/* A tcx link behind @link->behind, or ahead of all: its descriptor, or -errno. */
int order_create(const struct pins *pins, const struct pins_link *link, int program_fd);
/* Programs of others that run before ours. */

extern const char *const order_hooks[]; /* by enum order_hook */
/* Those on XDP and tcx; of clsact, see clsact_note_order(). */
void order_read(const struct port *port, struct port_order *out);
/* Appends program @id, with its name. */
void order_add(struct port_order *order, uint32_t id, enum order_hook hook);
json_t *order_json(const struct port_order *order);

/* --- object.c: one instance of the compiled programs, for XDP or tc of one interface --- */

enum object_part { OBJECT_MAPS, OBJECT_XDP, OBJECT_TC };

struct object {
	struct dataplane *skeleton; /* the skeleton's struct has this name, too */
	enum object_part part;
	const struct port *port; /* borrowed; NULL: maps alone */
	struct bpf_object *bpf;
	struct bpf_program *xdp, *tc_ingress, *tc_egress;
};

/* With constants and pinned maps of @port (NULL: its own). @turn: see struct esc_control. */
int object_open(struct object **out, enum object_part part, const struct port *port, uint16_t turn,
		char **error);
/*
 * Program @id, which runs, is what loading @object would make of @program: of the same build, with
 * the same constants and the maps that are pinned now. False also when it cannot be read.
 */
bool object_is_current(const struct object *object, const struct bpf_program *program, uint32_t id);
/* The heartbeat goes on meanwhile. */
int object_load(struct object *object, char **error);
void object_close(struct object *object);

/* --- facts.c: what is known of an interface --- */

void port_describe(const struct port *port, const struct esc_port_counts *counts,
		   struct port_info *out);
/* Visibility, except `control`, and its note. @roce_packets: counted so far. */
void visibility_decide(struct port_info *port, const struct rdma_facts *rdma,
		       uint64_t roce_packets);
const char *xdp_mode_name(enum esc_xdp_mode mode);
const char *xdp_via_name(enum esc_xdp_via via);
const char *tc_via_name(enum esc_tc_via via);

/* --- support.c: what the kernel supports --- */

/* What the kernel and our rights must be. 0, or -errno and one sentence with the remedy. */
int preflight_check(char **error);
/* NULL when libxdp's dispatcher can be had here; else why not. */
const char *support_dispatcher(void);

struct bpf_tc_hook;
/* libbpf's handle of a clsact hook; @point: of enum bpf_tc_attach_point, one or both. */
void clsact_hook(unsigned int ifindex, int point, struct bpf_tc_hook *out);

#endif
