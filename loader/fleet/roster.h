/* SPDX-License-Identifier: BSD-2-Clause */
/* The members of one mesh: a host each, with its id and the addresses it has on that plane. */
#ifndef ESC_LOADER_ROSTER_H
#define ESC_LOADER_ROSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "maps/maps.h"

struct members;

enum roster_family { ROSTER_IPV4, ROSTER_IPV6, ROSTER_FAMILIES };

struct roster_member {
	uint64_t id;	  /* graph_member_id() of the host */
	const char *host; /* of the list it was built from */
	bool has[ROSTER_FAMILIES];
	struct esc_address address[ROSTER_FAMILIES];
};

#define ROSTER_NOBODY SIZE_MAX

struct roster {
	struct roster_member *list; /* by host */
	uint64_t *ids;		    /* the same order */
	size_t count;
	size_t self; /* ROSTER_NOBODY: @host is not in the list */
};

/*
 * Those of @members (borrowed; it has to outlive the roster) with an address on
 * @plane. Entries labelled with the plane go before those without a label; of
 * several addresses of a family the least counts, so that all hosts choose alike.
 */
int roster_build(struct roster *out, const struct members *members, enum config_plane plane,
		 const char *host);
/* All hosts, whatever their planes: their order of founding fabric time. */
int roster_build_all(struct roster *out, const struct members *members, const char *host);
void roster_free(struct roster *roster);

/* NULL: no such member. */
const struct roster_member *roster_find(const struct roster *roster, uint64_t id);

bool roster_is_ipv4(const struct esc_address *address);

#endif
