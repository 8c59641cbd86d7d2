/* SPDX-License-Identifier: BSD-2-Clause */
/* What XDP takes from an interface. */
#ifndef ESC_LOADER_OFFLOAD_H
#define ESC_LOADER_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What attaching XDP takes from an interface: offloads and the largest MTU. */
struct offload_state {
	bool known;
	uint32_t active; /* by the list in offload.c */
	uint32_t max_mtu;
};
void offload_read(const char *name, struct offload_state *out);
/* What was there @before and is not @after: bits for struct esc_port's offloads_taken. */
uint32_t offload_taken(const struct offload_state *before, const struct offload_state *after);
/*
 * Without XDP: turns on those offloads of @taken that are off. The kernel turns rx-lro and
 * rx-gro-hw off for XDP in skb mode, and leaves them so. Not rx-lro where packets are forwarded
 * now. False: @still_off has the names of those that the driver refused.
 */
bool offload_give_back(const char *name, uint32_t taken, char *still_off, size_t bytes);
/* A sentence, "" when nothing was taken. @native: XDP is; a veth then takes TSO from its peer. */
void offload_note(const char *name, uint32_t taken, bool native, char *out, size_t bytes);

/* Up to this MTU a packet is in one buffer: a page, less headroom and what is kept behind it. */
#define OFFLOAD_ONE_BUFFER_MTU 3498

/* What a driver does with native XDP. */
struct native_cost {
	const char *does; /* when it is attached or detached; NULL: not known */
	bool link_down;	  /* the carrier goes off then, or the NIC is reset */
	/*
	 * It gives XDP packets of one buffer, and drops others. While XDP is attached it takes an
	 * MTU above OFFLOAD_ONE_BUFFER_MTU, and with that it does not detach.
	 */
	bool loses_larger;
	/* What native XDP sends, replies to probes, is dropped by a veth's peer without it. */
	bool loses_replies;
};
struct native_cost native_cost(const char *driver, unsigned int ifindex);

#endif
