/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP pacing, between its own files. */
#ifndef ESC_LOADER_TCP_INTERNAL_H
#define ESC_LOADER_TCP_INTERNAL_H

#include "base/fields.h"
#include "core/core.h"
#include "tcp.h"

struct pace;
struct tcp_walk;

/* --- programs.c: the sockops program on a cgroup, with the option of time and delay --- */

struct tcpedge;

struct tcpedge_maps {
	int control_fd; /* -1: one of its own, which the caller fills */
	int clock_fd;
	int members_fd; /* `peer_addresses`: the option is for these only */
	int flows_fd;
	int64_t lab_offset_ns;
	int32_t lab_drift_ppb;
};

/* Loads; nothing is attached. 0, or -errno with a sentence in @why. */
int tcpedge_open(struct tcpedge **out, const struct tcpedge_maps *maps, char *why,
		 size_t why_bytes);
/* Sockets that are created in the cgroup at @path from now on. */
int tcpedge_attach(struct tcpedge *edge, const char *path, char *why, size_t why_bytes);
/* Ends with this process too: nothing is pinned. */
void tcpedge_close(struct tcpedge *edge);
int tcpedge_write(struct tcpedge *edge, const struct esc_tcp_control *ctl);
/* Borrowed descriptor of a map that it uses. */
int tcpedge_map_fd(const struct tcpedge *edge, const char *map);
/* The first @count entries of a per-CPU array that it uses, @bytes each, summed over all CPUs. */
int tcpedge_sum(const struct tcpedge *edge, const char *map, uint32_t count, void *out,
		size_t bytes);

/* --- the iterator over `tcp_flows` --- */

struct tcplist;

/* 0 or -errno; what cannot be listed is a sentence in @why, "" for nothing. */
int tcplist_open(struct tcplist **out, int flows_fd, char *why, size_t why_bytes);
void tcplist_close(struct tcplist *list);
/* At most @most connections into @rows; how many there were, or -errno. */
long tcplist_read(const struct tcplist *list, struct esc_tcp_row *rows, size_t most);

/* --- the wrappers around cubic, bbr and reno, registered under names of their own --- */

struct tcpwrap;

/*
 * Loads those that the kernel can have, and explains in @why which it cannot. 0 when there is one
 * at least; the fds are of the maps tcp_flows and tcp_counts. @refused: bits of enum
 * esc_tcp_inner, handled as if the kernel had no such (tests). Each takes the verifier long.
 */
int tcpwrap_open(struct tcpwrap **out, int flows_fd, int counts_fd, uint32_t refused, char *why,
		 size_t why_bytes);
/* No new socket gets them; sockets that have one lose it when their limit ends, within 2 s. */
void tcpwrap_close(struct tcpwrap *wrap);
/* Name in the kernel, "" not loaded. A second daemon on one kernel appends a number. */
const char *tcpwrap_name(const struct tcpwrap *wrap, enum esc_tcp_inner inner);

/* --- class.c: pacing's classes, as the TCP programs have them --- */

struct tcp_cgroup {
	uint64_t id;
	uint32_t bits; /* one for each class that it matches */
};

/* Cgroups that match classes. */
struct tcp_cgroups {
	struct tcp_cgroup *list; /* by id */
	size_t count, room;
	long left_out; /* for lack of room in the map */
};

/* @threshold_ns: of classes that have none of their own. */
void tcp_load_classes(struct esc_tcp_control *ctl, const struct pace *pace, uint32_t threshold_ns);
const char *tcp_class_name(const struct pace *pace, unsigned int class);
/* Whether any class of @pace is by cgroup or job. */
bool tcp_has_cgroup_class(const struct pace *pace);
/*
 * A walk over the cgroups at and below @top, for the classes of @pace that are by cgroup or job: a
 * job of a worker, since there may be very many. NULL: no memory.
 */
struct tcp_walk *tcp_walk_new(const struct pace *pace, const char *top);
void tcp_walk_run(void *walk);
uint64_t tcp_walk_took(const struct tcp_walk *walk);
/*
 * The map `tcp_cgroups` then has those that it found; @was is what it has. Returns how many did
 * not fit, or -errno.
 */
long tcp_walk_take(struct tcp_walk *walk, struct tcp_cgroups *was, int map_fd);
void tcp_walk_free(void *walk);

/* --- tcp.c and report.c --- */

struct tcp {
	struct core *core;
	struct dataplane *dataplane;
	struct clock *clock;
	struct pace *pace;
	struct tcpedge *edge; /* NULL: off */
	struct tcpwrap *wrap; /* NULL: no wrapper, so nothing is limited */
	struct tcplist *list; /* NULL: connections cannot be listed */
	struct tcp_cgroups cgroups;
	long left_out; /* result of the last walk over cgroups */
	struct core_worker *walker;
	uint64_t walk_due_ns; /* CLOCK_MONOTONIC */
	bool walk_again;      /* what it looks for was changed meanwhile */
	struct esc_tcp_control ctl;
	bool clock_lost;    /* fabric time is not good enough, and that was reported */
	char why[512];	    /* what could not be loaded; "": all was */
	char unlisted[128]; /* which connections cannot be listed, and why; "": none */
};

/* Fabric time is good enough for the threshold. *@bound_ns: -1 there is none. */
bool tcp_clock_is_good(const struct tcp *tcp, int64_t *bound_ns);
/* The congestion controls that are wrapped. */
json_t *tcp_wrapped(const struct tcp *tcp);

extern const struct metric tcp_metrics[];
/* The member `tcp` of the reply to `pace`. */
json_t *tcp_show(void *self);
void tcp_write_metrics(void *self, FILE *out);

#endif
