/* SPDX-License-Identifier: BSD-2-Clause */
/* The fleet: its hosts, from a file in Prometheus' file_sd format, its planes and its keys. */
#ifndef ESC_LOADER_FLEET_H
#define ESC_LOADER_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/maps.h"

enum fleet_plane { FLEET_PLANE_BACKEND, FLEET_PLANE_FRONTEND };

#define FLEET_KEY_BYTES 16

/* The fleet's keys by slot; a slot is the lowest bit of its key's first byte. */
struct fleet_keys {
	bool have[2];
	unsigned int use; /* the slot whose key makes tags, when there is any */
	unsigned char key[2][FLEET_KEY_BYTES];
};

/*
 * Adds the key in the file at @path; the first one that is added makes the tags. -errno and
 * *@error, a malloc'd sentence without a place: not 16 bytes, not root's alone, or of the same
 * slot as the other key.
 */
int fleet_keys_add(struct fleet_keys *keys, const char *path, char **error);

/* --- members --- */

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

/* --- the member list in force --- */

struct fleet;

/* -ENOMEM. There are no members until fleet_set(). */
int fleet_new(struct fleet **out);
void fleet_free(struct fleet *fleet);
/* NULL: there is no members file, or @fleet is NULL. Valid until the list is replaced. */
const struct members *fleet_members(const struct fleet *fleet);
/*
 * After the configuration was read: @members (taken over, NULL: none), as read from the file at
 * @path. Subscribers are not called. Returns the list before, for members_free() once nothing
 * refers to it.
 */
struct members *fleet_set(struct fleet *fleet, const char *path, struct members *members);
/*
 * Reads the file when it is another one than last time. 1: its members are in force and all
 * subscribers were called; 0: unchanged, or away while it is replaced; -errno and *@error:
 * refused, the old members stay in force.
 */
int fleet_poll(struct fleet *fleet, char **error);

/* Called in the order of subscription; @before (NULL: none) is valid until all were called. */
typedef void fleet_changed_fn(void *context, const struct members *before);
/* Filled in and kept by the subscriber. */
struct fleet_subscriber {
	fleet_changed_fn *changed;
	void *context;
	struct fleet_subscriber *next;
};
void fleet_subscribe(struct fleet *fleet, struct fleet_subscriber *subscriber);
void fleet_unsubscribe(struct fleet *fleet, const struct fleet_subscriber *subscriber);

/* --- the members of one mesh: a host each, with its id and its addresses on that plane --- */

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
 * several addresses of a family the least is used, so that all hosts choose the same.
 */
int roster_build(struct roster *out, const struct members *members, enum fleet_plane plane,
		 const char *host);
/* All hosts, whatever their planes: the order in which they bootstrap fabric time. */
int roster_build_all(struct roster *out, const struct members *members, const char *host);
void roster_free(struct roster *roster);

/* NULL: no such member. */
const struct roster_member *roster_find(const struct roster *roster, uint64_t id);

bool roster_is_ipv4(const struct esc_address *address);

#endif
