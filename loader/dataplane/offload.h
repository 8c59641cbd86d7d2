/* SPDX-License-Identifier: BSD-2-Clause */
/* What attaching XDP takes from an interface: offloads and the largest MTU. */
#ifndef ESC_LOADER_OFFLOAD_H
#define ESC_LOADER_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct offload_state {
	bool known;
	uint32_t active; /* by the list in offload.c */
	uint32_t max_mtu;
};

void offload_read(const char *name, struct offload_state *out);

/* What was there @before and is not @after: bits for struct esc_port's offloads_taken. */
uint32_t offload_taken(const struct offload_state *before, const struct offload_state *after);

/*
 * One sentence for the user, "" when attaching took nothing. @native: XDP is
 * attached in native mode; a veth then takes segmentation from its peer.
 */
void offload_note(const char *name, uint32_t taken, bool native, char *out, size_t bytes);

#endif
