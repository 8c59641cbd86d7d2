/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The topology of the fabric: which NICs share a leaf switch, which leaves share a pod, from the
 * replies of switches to the surveys of paths and from floors of two-way delays. Pure: it reads no
 * socket; files are read by report/.
 */
#ifndef ESC_TOPO_H
#define ESC_TOPO_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/verb.h"

#define TOPO_HOPS_MAX 8
#define TOPO_TIERS_MAX 4
#define TOPO_NONE ((size_t)-1)

/* What a NIC's leaf is known by. */
enum topo_by { TOPO_BY_NONE, TOPO_BY_DELAYS, TOPO_BY_SWITCHES, TOPO_BY_BOTH };

struct topo_nic {
	const char *host, *interface, *address, *plane, *rail; /* "" when not known */
	size_t leaf, pod; /* indices of topo.leaves and numbers of pods; TOPO_NONE */
	double certainty; /* of its leaf by delays, 0 .. 1; NAN: by switches, or not known */
	double own_ns;	  /* its part of a two-way floor, relative to others; NAN */
	enum topo_by by;
	bool conflict;		   /* delays place it on another leaf than the switches do */
	unsigned int probed, down; /* pairs of other hosts with it; those that have it as down */
};

/* Two NICs that were measured. */
struct topo_pair {
	size_t a, b;
	double floor_ns;       /* two-way; the least of both ends; NAN */
	double disagree_ns;    /* between what both ends measured; NAN: one end only */
	double bound_ns;       /* of the error of @floor_ns */
	double p99_ns;	       /* two-way, or the sum of both directions; the larger end's; NAN */
	unsigned int tier;     /* by delay, 0 the nearest */
	unsigned int distance; /* switches on the way; 0: not known */
	bool cross;	       /* of different planes or rails: no part of a tree */
};

struct topo_path {
	size_t a, b;
	size_t hops[TOPO_HOPS_MAX]; /* numbers of addresses from 1; 0: no reply */
	unsigned int hop_count, distance;
};

struct topo_leaf {
	size_t nics, pod;
	size_t first;	  /* its first NIC, by host */
	double certainty; /* the least of its NICs by delays; NAN: none is */
	enum topo_by by;
	size_t uplinks; /* distinct next switches; 0: not known */
};

struct topo {
	struct topo_nic *nics;
	size_t nic_count, nic_room;
	struct topo_pair *pairs;
	size_t pair_count, pair_room;
	struct topo_path *paths;
	size_t path_count, path_room;
	struct topo_leaf *leaves;
	size_t leaf_count, leaf_room, pod_count;
	json_t *names;	 /* every text above: {text: number} */
	json_t *nic_ids; /* {address: index} */
	json_t *pair_ids;
	json_t *hop_ids; /* {address: number} */
	json_t *hosts;	 /* exports that were read: {host: time_ns} */
	json_t *notes;	 /* what is not certain, sentences */
	json_t *apart;	 /* of place: {host: why it is no candidate}; NULL: none */
	json_t *tiers;	 /* of topo_solve() */
	int err;	 /* -ENOMEM */
};

struct topo *topo_new(void);
void topo_free(struct topo *topo);

/* The NIC with @address, added when it is new; texts that are empty are filled in. TOPO_NONE. */
size_t topo_nic(struct topo *topo, const char *address, const char *host, const char *interface,
		const char *plane, const char *rail);
/* A two-way floor, and the bound of its error. Without hashing when @fresh: the pair is new. */
void topo_add_pair(struct topo *topo, size_t a, size_t b, double floor_ns, double bound_ns,
		   bool fresh);
/* All that an export of `escapement -j report` has; -EINVAL with *@error. */
int topo_read(struct topo *topo, const json_t *export, char **error);
/* Leaves, pods, tiers and notes. 0 or -ENOMEM. */
int topo_solve(struct topo *topo);
/* Whether its leaf is: by switches, or by delays with 0.9 at least, and not by both differently. */
bool topo_is_certain(const struct topo_nic *nic);
/* After topo_solve() (new reference). */
json_t *topo_json(const struct topo *topo);

struct report;
/*
 * The newest export of each host of `--from`, or the replies of this host's daemon as one, borrowed
 * of *@report, which is to be freed; *@list is malloc'd. 0, or -errno with *@error.
 */
int topo_exports_of_args(const json_t *args, struct report **report, const json_t ***list,
			 size_t *count, char **error);
/* Their topology, solved. */
struct topo *topo_of_exports(const json_t **exports, size_t count, char **error);
/*
 * What the exports of `--from` say, or the replies of this host's daemon, solved. @args are those
 * of a verb that has TOPO_FROM and .given = topo_given. NULL with *@exit and *@error.
 */
struct topo *topo_of_args(const json_t *args, int *exit, char **error);
extern const char *const topo_given[];
#define TOPO_FROM                                                                                  \
	{                                                                                          \
		"--from", "FILE", .key = "from", .local = true, .repeated = true,                  \
				  .help = "exports of hosts, as `escapement -j report` prints "    \
					  "them; may be given several "                            \
					  "times. Without it: what the daemon of this host knows"  \
	}

/* A name that Slurm, Kubernetes and rank files accept as it is. */
bool topo_is_node_name(const char *name);
/* Names as Slurm folds them: n[1-4,7],x1 (malloc'd; NULL: no memory). */
char *topo_fold_names(const json_t *names);

extern const struct verb_set topo_verbs;

#endif
