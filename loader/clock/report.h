/* SPDX-License-Identifier: BSD-2-Clause */
/* The answers to `clock` and `peers`, and what `status` says of them. Absent is what cannot be
 * known. */
#ifndef ESC_LOADER_REPORT_CLOCK_H
#define ESC_LOADER_REPORT_CLOCK_H

#include <jansson.h>

#include "mesh/mesh.h"

struct daemon;

json_t *report_clock(const struct daemon *daemon);
json_t *report_peers(const struct daemon *daemon);
/* Adds `clock` and `probing` to `status`. */
void report_put_clock(json_t *status, const struct daemon *daemon);

/* From facts alone. */
json_t *report_clock_facts(const struct mesh_clock_facts *clock,
			   const struct mesh_peer_facts *peers, size_t count);
json_t *report_peer_facts(const struct mesh_peer_facts *peer);

const char *report_plane(enum fleet_plane plane);

#endif
