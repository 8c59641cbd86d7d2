/* SPDX-License-Identifier: BSD-2-Clause */
/* What outlives the daemon: maps and links pinned under one folder of a bpffs. */
#ifndef ESC_LOADER_PINS_H
#define ESC_LOADER_PINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/maps.h"

struct bpf_object;
struct pins;

/* linux/bpf.h of Debian 12 ends before these; include/uapi/linux/bpf.h of 6.6. */
#define TCX_INGRESS ((enum bpf_attach_type)46)
#define TCX_EGRESS ((enum bpf_attach_type)47)

#define PINS_XDP "xdp"
#define PINS_TC_INGRESS "tc-ingress"
#define PINS_TC_EGRESS "tc-egress"

/*
 * Locks @root, then opens its maps or makes them. The number in `abi` is read
 * before anything else; another number, or things that are not ours, are
 * refused and left as they are. The lock is held until pins_close().
 */
int pins_open(struct pins **out, const char *root, uint32_t qps_max, char **error);
/*
 * For taking away: whatever maps are pinned, of any ABI; makes nothing.
 * -ENOENT when there are no pins. *@same_abi: `ports` and `control` may be read.
 */
int pins_open_any(struct pins **out, const char *root, bool *same_abi, char **error);
void pins_close(struct pins *pins);
/* Unpins every link (which detaches it) and map, and removes the folders. */
int pins_remove(struct pins *pins, char **error);

/* The maps were there before. */
bool pins_were_there(const struct pins *pins);
/* Borrowed descriptor, -1 when there is no such map. */
int pins_map_fd(const struct pins *pins, const char *name);
uint32_t pins_map_id(const struct pins *pins, const char *name);
uint32_t pins_map_max(const struct pins *pins, const char *name);
/* The value of `control`, mapped: single words are written without a race. */
struct esc_control *pins_control(const struct pins *pins);

/* Gives @object the pinned maps in place of its own. */
int pins_apply(const struct pins *pins, struct bpf_object *object, char **error);

/* A link that is pinned at ROOT/links/INTERFACE-PIN. */
struct pins_link {
	const char *interface;
	unsigned int ifindex;
	const char *pin;
	const char *what; /* "tcx egress", for errors */
	uint32_t type;	  /* enum bpf_attach_type */
	uint32_t flags;	  /* when it is created */
};
/* Replaces the program of the link in one step, or creates and pins the link. */
int pins_attach_link(const struct pins *pins, const struct pins_link *link, int program_fd,
		     char **error);
bool pins_has_link(const struct pins *pins, const char *interface, const char *pin);
/*
 * The pinned link of @interface, if it is on @ifindex; a link whose interface is gone is unpinned.
 * A descriptor, -ENOENT, or an error.
 */
int pins_open_link(const struct pins *pins, const char *interface, const char *pin,
		   unsigned int ifindex, char **error);
/* Detaches and unpins; nothing there is fine. */
void pins_drop_link(const struct pins *pins, const char *interface, const char *pin);

int pins_read_port(const struct pins *pins, unsigned int slot, struct esc_port *out);
int pins_write_port(const struct pins *pins, unsigned int slot, const struct esc_port *port);

#endif
