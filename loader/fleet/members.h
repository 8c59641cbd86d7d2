/* SPDX-License-Identifier: BSD-2-Clause */
/* The fleet's hosts, from a file in Prometheus' file_sd format. */
#ifndef ESC_LOADER_MEMBERS_H
#define ESC_LOADER_MEMBERS_H

#include <stddef.h>

#include "maps/maps.h"

enum member_plane {
	MEMBER_ANY, /* no label `plane`: an address in every mesh */
	MEMBER_BACKEND,
	MEMBER_FRONTEND,
};

struct member {
	struct esc_address address;
	enum member_plane plane;
	char *host; /* label `host`, else the address as text */
	char *rack; /* label `rack`, NULL none */
};

/* A further address of a member's host: of another NIC, or of another family. It is not probed. */
struct member_address {
	struct esc_address address;
	enum member_plane plane;
	const char *host; /* a member's */
};

/*
 * From the label `nics`, "10.1.1.2|10.2.1.2" or "10.1.200.1=10.1.1.2|10.2.1.2": a queue pair's
 * address, the NIC that it is reached by, and the one that stands in. All of one IP version.
 */
struct member_nic {
	struct esc_address address, first, second;
	const char *host; /* a member's */
};

struct members {
	struct member *list; /* by address, none twice */
	size_t count;
	struct member_address *others; /* by address; none is in the list or twice */
	size_t other_count;
	struct member_nic *nics; /* by address, none twice */
	size_t nic_count;
};
#define MEMBER_OTHERS_MAX 64 /* in one label `addresses` */
#define MEMBER_NICS_MAX 32   /* in one label `nics` */

/*
 * Reads [{"targets": ["10.0.0.2", ...], "labels": {"host": "h2"}}, ...]. A
 * port behind an address is left out: the same file may serve Prometheus. A
 * label "addresses" may list further ones, "10.3.0.2, fd00::2". On
 * failure returns -errno and *@error is a malloc'd sentence that names the
 * file, the line or entry, and the remedy.
 */
int members_load(const char *path, struct members **out, char **error);
/* The same from memory; @path only names it. */
int members_parse(const char *path, const char *bytes, size_t size, struct members **out,
		  char **error);
void members_free(struct members *members);

/* The host that has @address, further ones too; NULL: none, or @members is NULL. */
const char *members_host(const struct members *members, const struct esc_address *address);

#endif
