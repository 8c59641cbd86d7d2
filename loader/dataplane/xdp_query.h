/* SPDX-License-Identifier: BSD-2-Clause */
/* Which XDP program an interface runs, and whose it is. */
#ifndef ESC_LOADER_XDP_QUERY_H
#define ESC_LOADER_XDP_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/maps.h"

struct pins;

struct xdp_seen {
	uint32_t program_id; /* 0: none */
	enum esc_xdp_mode mode;
	char name[16];
};

int xdp_query(unsigned int ifindex, struct xdp_seen *out);
/* Program @id is called esc_xdp_in and counts into the maps of @pins. */
bool xdp_is_ours(const struct pins *pins, uint32_t id);
/* The same for any of our programs. */
bool program_is_ours(const struct pins *pins, uint32_t id, const char *name);

#endif
