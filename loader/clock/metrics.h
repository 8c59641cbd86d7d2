/* SPDX-License-Identifier: BSD-2-Clause */
/* The families of clock and probes in escapement.prom. */
#ifndef ESC_LOADER_METRICS_CLOCK_H
#define ESC_LOADER_METRICS_CLOCK_H

#include <stdio.h>

#include "mesh/mesh.h"

struct metrics_mesh {
	struct mesh_facts mesh;
	struct mesh_clock_facts clock;
	const struct mesh_peer_facts *peers;
	size_t peer_count;
};

void metrics_write_mesh(FILE *out, const struct metrics_mesh *facts);

#endif
