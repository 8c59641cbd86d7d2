/* SPDX-License-Identifier: BSD-2-Clause */
/* The fleet: its hosts, from a file in Prometheus' file_sd format, its planes and its keys. */
#ifndef ESC_LOADER_FLEET_H
#define ESC_LOADER_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "clocksync/graph.h"
#include "maps/maps.h"

enum fleet_plane { FLEET_PLANE_BACKEND, FLEET_PLANE_FRONTEND };

#define FLEET_KEY_BYTES 16

struct fleet_pair {
	uint64_t id; /* of the other host */
	__u64 key[2];
};

/*
 * Keys by slot; a slot is the lowest bit of the first byte of the fleet's key. Each pair of hosts
 * has a key of its own. A host has the fleet's key, from which those of all pairs are made, or
 * those of its own pairs alone.
 */
struct fleet_keys {
	bool have[2];
	unsigned int use; /* the slot whose key makes tags, when there is any */
	unsigned char key[2][FLEET_KEY_BYTES];
	struct fleet_pair *pairs[2]; /* by id; NULL: key is the fleet's */
	size_t pair_count[2];
	char host[256]; /* that the pairs are of; "": none are given */
};

/*
 * Adds the key, or the keys of pairs, in the file at @path; the first one that is added makes the
 * tags. -errno and *@error, a malloc'd sentence: not 16 bytes, a damaged line, not root's alone, or
 * of the slot of the other key. Cleared with fleet_keys_clear(), also after an error.
 */
int fleet_keys_add(struct fleet_keys *keys, const char *path, char **error);
void fleet_keys_clear(struct fleet_keys *keys);
/*
 * The key of the pair of hosts @self (this one) and @peer, ids of graph_member_id(): the words k0
 * and k1 of SipHash. False: there is none in that slot.
 */
bool fleet_pair_key(const struct fleet_keys *keys, unsigned int slot, uint64_t self, uint64_t peer,
		    __u64 out[2]);
/* Whether the key of that slot is the fleet's. */
bool fleet_keys_shared(const struct fleet_keys *keys, unsigned int slot);
/*
 * Writes the key file of @host: the keys of its pairs with all others in the file @members_path,
 * made from the fleet's key in the file @key_path.
 */
int fleet_pairs_write(const char *host, const char *key_path, const char *members_path, FILE *out,
		      char **error);

/* --- members --- */

enum member_plane {
	MEMBER_ANY, /* no label `plane`: an address in every mesh */
	MEMBER_BACKEND,
	MEMBER_FRONTEND,
};

struct member {
	struct esc_address address;
	enum member_plane plane;
	bool probed; /* a target; else a further address, of the label `addresses` */
	/* Texts of the list, shared by its entries. */
	const char *host; /* label `host`, else the address as text */
	const char *rack; /* label `rack`; NULL: none, or not probed. So are: */
	const char *rail, *pod;
	uint32_t entry; /* in the file, from 0 */
};

/* A host, its targets: members.by_host[first .. first + count - 1]. */
struct member_host {
	uint32_t first, count;
};

/* Hosts of a rack: members.hosts[first .. first + count - 1]. One without a label is a rack. */
struct member_rack {
	uint32_t first, count;
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
	struct member *list;	 /* by address, none twice */
	size_t count, targets;	 /* targets: that are probed */
	struct member_nic *nics; /* by address, none twice */
	size_t nic_count;
	char **texts; /* blocks */
	size_t text_count;
	/* The same order on all hosts: targets by host, plane, rail and address; hosts by rack. */
	uint32_t *by_host; /* indices into list */
	struct member_host *hosts;
	struct member_rack *racks;
	size_t host_count, rack_count;
	unsigned int ports_max;	 /* NICs of a host, the most there are */
	struct fleet_plan *plan; /* members_plan(); NULL: not made yet */
};
#define MEMBER_PORTS_MAX 64  /* NICs of a host */
#define MEMBER_OTHERS_MAX 64 /* in one label `addresses` */
#define MEMBER_NICS_MAX 32   /* in one label `nics` */

/*
 * Reads [{"targets": ["10.0.0.2", ...], "labels": {"host": "h2"}}, ...]. A port behind an address
 * is left out: the same file may serve Prometheus. A label "addresses" may list further ones,
 * "10.3.0.2, fd00::2". On failure returns -errno and *@error is a malloc'd sentence that names the
 * file, the line or entry, and the remedy.
 */
int members_load(const char *path, struct members **out, char **error);
/* The same from memory; @path only names it. */
int members_parse(const char *path, const char *bytes, size_t size, struct members **out,
		  char **error);
void members_free(struct members *members);

/* The host's name, and its rack's or pod's by the labels; NULL: no label. */
const char *members_host_name(const struct members *members, const struct member_host *host);
const char *members_host_rack(const struct members *members, const struct member_host *host);
const char *members_host_pod(const struct members *members, const struct member_host *host);
/* Whether it is an address of that plane. */
bool member_is_on(const struct member *member, enum fleet_plane plane);
/* Of two addresses of a NIC, or host: labelled with the plane first, then the least. */
bool member_precedes(const struct member *one, const struct member *two);
/*
 * The NICs of a host on @plane, an address each: one for each label `rail`, the least, IPv4 first;
 * without that label each IPv4 address is a NIC, or each IPv6 address. How many, @room at most.
 */
size_t members_ports(const struct members *members, const struct member_host *host,
		     enum fleet_plane plane, const struct member **out, size_t room);
/*
 * Fills in by_host, hosts and racks. -EINVAL and *@error: a host in two racks or pods, a rack in
 * two pods.
 */
int members_index(struct members *members, const char *path, char **error);

/* Whether they have the same hosts with the same addresses; racks and NICs are not compared. */
bool members_equal(const struct members *one, const struct members *two);
/* The entry of @address; NULL: none, or @members is NULL. */
const struct member *members_find(const struct members *members, const struct esc_address *address);
/* The host that has @address; NULL: none, or @members is NULL. */
const char *members_host(const struct members *members, const struct esc_address *address);

/* --- the member list in force --- */

struct fleet;

/* A list that is not applied at once, and why. */
struct fleet_held {
	char reason[96];	    /* continues "FILE: " */
	size_t hosts, before, lost; /* in the list, in the one in force, and of those not in it */
	uint64_t since_ns;	    /* CLOCK_MONOTONIC: its hosts have been the same since then */
};

/*
 * 1: @next is not to be applied over @now at once, since it has no hosts, lacks @host that @now
 * has, or loses more than half of the hosts of @now; *@out has all but since_ns. 0: it may be, as
 * where @now is NULL or has no hosts. -ENOMEM.
 */
int fleet_compare(const struct members *now, const struct members *next, const char *host,
		  struct fleet_held *out);

/* -ENOMEM. There are no members until fleet_set(). */
int fleet_new(struct fleet **out);
void fleet_free(struct fleet *fleet);
/*
 * @host: this one, copied. A list that fleet_compare() objects to is held back for @hold_ns.
 * @degree: of the mesh.
 */
int fleet_configure(struct fleet *fleet, const char *host, uint64_t hold_ns, unsigned int degree);
/*
 * Whether the file at @path is the one that was read last, and a good one: its list is in force, or
 * held back. False: @fleet is NULL.
 */
bool fleet_has_read(const struct fleet *fleet, const char *path);
/* NULL: there is no members file, or @fleet is NULL. Valid until the list is replaced. */
const struct members *fleet_members(const struct fleet *fleet);
/*
 * After the configuration was read: @members (taken over, NULL: none), as read from the file at
 * @path. Subscribers are not called. Returns the list before, for members_free() once nothing
 * refers to it.
 */
struct members *fleet_set(struct fleet *fleet, const char *path, struct members *members);
/* The same, but a list that is held back leaves the old one in force; NULL is returned then. */
struct members *fleet_offer(struct fleet *fleet, const char *path, struct members *members,
			    uint64_t now_ns);
/*
 * Reads the file when it is another one than last time; in parts, since its disk may not respond:
 * fleet_read_run() may be in another thread. fleet_read_new(): NULL without a members file, or
 * without memory. fleet_read_take(): 1: its members, or those that were held back until now, are in
 * force and all subscribers were called; 0: unchanged, held back, or away while it is replaced;
 * -errno and *@error: refused, the old members stay in force. @now_ns: CLOCK_MONOTONIC.
 */
struct fleet_read;
struct fleet_read *fleet_read_new(const struct fleet *fleet);
void fleet_read_run(void *read);
int fleet_read_take(struct fleet *fleet, struct fleet_read *read, uint64_t now_ns, char **error);
void fleet_read_free(void *read);

/*
 * The same of a file that a new configuration names, for its @host and @degree: fleet_read_run() in
 * a worker, then fleet_read_use(). NULL: no memory.
 */
struct fleet_read *fleet_read_file(const char *path, const char *host, unsigned int degree);
/* What @read has, in an object of its own; @read is left empty. NULL: no memory. */
struct fleet_read *fleet_read_move(struct fleet_read *read);
/*
 * True: it is of the file that is at @path now, and its result is *@members, taken over, or *@err
 * with *@error (malloc'd, or NULL). False: it is NULL, of another file, or was used.
 */
bool fleet_read_use(struct fleet_read *read, const char *path, struct members **members, int *err,
		    char **error);

/* The list that is held back, and the time until it is applied; NULL: none, or @fleet is NULL. */
const struct fleet_held *fleet_held(const struct fleet *fleet, uint64_t now_ns, uint64_t *left_ns);

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

/*
 * --- NICs and the edges between them ---
 *
 * A rail is the label `rail`; a NIC without it is on the first rail of its plane. Every host
 * computes the same edges from the same list:
 *   rail: of each rail a random regular graph of the hosts that have a NIC on it;
 *   rack: a ring of the hosts of a rack, each edge on one rail, by hash;
 *   cross: a ring of all hosts of the plane, each edge between two rails, by hash.
 */

enum roster_family { ROSTER_IPV4, ROSTER_IPV6, ROSTER_FAMILIES };

struct fleet_nic {
	const char *rail;    /* of the list; NULL: no label */
	unsigned int number; /* of the rail: fleet_mesh.rails */
	bool has[ROSTER_FAMILIES];
	struct esc_address address[ROSTER_FAMILIES];
};

enum fleet_edge_kind { FLEET_EDGE_RAIL, FLEET_EDGE_RACK, FLEET_EDGE_CROSS };

struct fleet_edge {
	enum fleet_edge_kind kind;
	unsigned int own; /* fleet_mesh.own */
	uint64_t id;	  /* of the other host */
	const char *host; /* and its name, of the list */
	struct fleet_nic nic;
};

struct fleet_rail {
	const char *name; /* NULL: no NIC of the plane has the label */
	uint64_t *ids;	  /* of the hosts that have a NIC on it */
	uint32_t *hosts;  /* the same order: indices into members->hosts */
	size_t count;
	struct graph graph;
};

#define FLEET_RAILS_MAX 16

/* The mesh of a plane as this host has it. */
struct fleet_mesh {
	struct fleet_rail rails[FLEET_RAILS_MAX];
	unsigned int rail_count, rails_left_out; /* beyond FLEET_RAILS_MAX */
	unsigned int degree;			 /* of a rail */
	struct fleet_nic own[FLEET_RAILS_MAX];
	unsigned int own_count;
	struct fleet_edge *edges; /* of this host */
	size_t edge_count;
};

/*
 * @members: borrowed, to outlive the mesh. @degree: that of a host; with several rails each has a
 * part of it. A host that is not in the list has no edges. -ENOMEM, or -EINVAL for the degree.
 */
int fleet_mesh_build(struct fleet_mesh *out, const struct members *members, enum fleet_plane plane,
		     const char *host, unsigned int degree);
void fleet_mesh_free(struct fleet_mesh *mesh);
/* The NIC of @host on a rail. False: it has none. */
bool fleet_mesh_nic(const struct fleet_mesh *mesh, const struct members *members,
		    enum fleet_plane plane, const struct member_host *host, unsigned int rail,
		    struct fleet_nic *out);
/* The host of that id with a NIC on the plane; NULL: none. */
const struct member_host *fleet_mesh_host(const struct fleet_mesh *mesh,
					  const struct members *members, uint64_t id);
/* Indices into the rail's hosts of the neighbors of host @id there. Returns how many. */
size_t fleet_rail_neighbors(const struct fleet_rail *rail, uint64_t id, const uint32_t **out);

/* --- the members of one mesh: a host each, with its id and its addresses on that plane --- */

struct roster_member {
	uint64_t id;	  /* graph_member_id() of the host */
	const char *host; /* of the list it was built from */
	bool has[ROSTER_FAMILIES];
	struct esc_address address[ROSTER_FAMILIES];
};

#define ROSTER_NONE SIZE_MAX

struct roster {
	struct roster_member *list; /* by host */
	uint64_t *ids;		    /* the same order */
	uint64_t *sorted;	    /* the same ids, ascending */
	size_t count;
	size_t self; /* ROSTER_NONE: @host is not in the list */
};

/*
 * Those of @members (borrowed; it has to outlive the roster) with an address that is probed on
 * @plane, an enum fleet_plane; ROSTER_ALL_PLANES: the order in which hosts bootstrap fabric time.
 * Entries labelled with the plane go before those without a label; of several addresses of a family
 * the least is used, so that all hosts choose the same.
 */
#define ROSTER_ALL_PLANES (-1)
int roster_build(struct roster *out, const struct members *members, int plane, const char *host);
void roster_free(struct roster *roster);

/*
 * Hosts of @of that are not in @other, in order: calls @found for each, if there is one. Returns
 * how many. Equal stretches cost next to nothing.
 */
size_t roster_missing(const struct roster *of, const struct roster *other,
		      void (*found)(void *context, const char *host), void *context);

/*
 * --- what a host makes of a list: its rosters and meshes ---
 *
 * With many members that takes seconds: the worker that reads the file makes it as well.
 */

struct fleet_plan {
	unsigned int users;
	char host[256];
	unsigned int degree;
	struct roster all; /* of both planes */
	size_t rank;	   /* of this host, in the order of the bootstrap, where it is in `all` */
	struct roster rosters[2]; /* by plane */
	struct fleet_mesh meshes[2];
};

/*
 * Makes members->plan for @host, unless that is what it has: a second call costs nothing.
 * As fleet_mesh_build(). Whatever the plan refers to is the list's, and valid as long as it.
 */
int members_plan(struct members *members, const char *host, unsigned int degree);
/*
 * The plan of the list in force, made here if the worker has not, as after a reload. *@out is NULL
 * without a list. It is for one user more, who drops it before the list is freed.
 */
int fleet_plan_take(struct fleet *fleet, struct fleet_plan **out);
/* NULL: nothing. */
void fleet_plan_drop(struct fleet_plan *plan);

#endif
