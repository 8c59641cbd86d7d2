/* SPDX-License-Identifier: BSD-2-Clause */
/* The fleet's hosts, from a file in Prometheus' file_sd format. */
#ifndef ESC_LOADER_MEMBERS_H
#define ESC_LOADER_MEMBERS_H

#include <stddef.h>

#include "maps.h"

struct member {
	struct esc_address address;
	char *host; /* label `host`, else the address as text */
	char *rack; /* label `rack`, NULL none */
};

struct members {
	struct member *list; /* by address, none twice */
	size_t count;
};

/*
 * Reads [{"targets": ["10.0.0.2", ...], "labels": {"host": "h2"}}, ...]. A
 * port behind an address is left out: the same file may serve Prometheus. On
 * failure returns -errno and *@error is a malloc'd sentence that names the
 * file, the line or entry, and the remedy.
 */
int members_load(const char *path, struct members **out, char **error);
/* The same from memory; @path only names it. */
int members_parse(const char *path, const char *bytes, size_t size, struct members **out,
		  char **error);
void members_free(struct members *members);

#endif
