/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pacing: which interfaces, which class a flow is of, and what it does to them. The kernel
 * programs pace by themselves (pacing/pause.h); four times a second they get the
 * heartbeat without which they hold nothing, and it is looked how the flows do.
 */
#ifndef ESC_LOADER_PACE_H
#define ESC_LOADER_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "maps/maps.h"

struct config;
struct config_section;
struct core;
struct dataplane;
struct pace;

/*
 * needs: dataplane, clock, qp, owners, delay, paths. Interfaces of an earlier daemon's `pace on` are
 * paced only if the configuration says so. The programs hold nothing once the heartbeat has been
 * missed for 2 s.
 */
extern const struct capability pace_capability;

/* Flows that are paced alike. A flow is of the first class that matches it, else of `default`. */
struct pace_class_keys {
	char *name;
	uint32_t weight;
	uint64_t threshold_ns;
	bool own_threshold;		/* given, not that of the section */
	uint64_t dscps;			/* a bit each */
	char *job, *cgroup;		/* shell patterns, NULL: none */
	uint16_t port_first, port_last; /* 0: none */
};

/* The section `pace` of the configuration. */
struct pace_keys {
	bool on;			 /* every interface, at the start */
	uint64_t threshold_ns;		 /* of the class `default` */
	uint64_t hold_max_ns;		 /* no packet is held longer */
	double line_bps;		 /* of every interface; 0: as each reports it */
	struct pace_class_keys *classes; /* beside `default` */
	size_t class_count;
};
extern const struct config_section pace_section;
const struct pace_keys *pace_keys(const struct config *config);

/* TCP's half of edge congestion control, which has the same verb and the same classes. */
struct pace_follower {
	void (*classes_changed)(void *self);
	/* The member `tcp` of the reply to `pace` (new reference). */
	json_t *(*show)(void *self);
};
/* One follower; NULL removes it. */
void pace_follow(struct pace *pace, const struct pace_follower *follower, void *self);

/*
 * On or off on the interfaces named in @interfaces, an array of texts (NULL or empty: all).
 * On is refused, with the reason and its remedy, where nothing can be held.
 */
int pace_set_mode(struct pace *pace, bool on, const json_t *interfaces, const char *by,
		  char **error);
/* Bit of each slot in `ports` that is to be paced. */
uint16_t pace_ports(const struct pace *pace);

struct pace_class_change {
	const char *name;
	uint32_t weight;       /* 0: as it is */
	uint64_t threshold_ns; /* 0: as it is */
};
/* A class at run time, until a reload; one that is not there is made. -errno with *@error. */
int pace_set_class(struct pace *pace, const struct pace_class_change *change, char **error);

struct pace_assignment {
	const char *src; /* NULL: any; else, as dst, an address */
	const char *dst;
	uint32_t qpn;
	const char *class; /* NULL: as the configuration's classes say */
};
/* A class as it is now: of the configuration, or changed or made at run time. */
struct pace_class_rule {
	const char *name;
	uint32_t weight;
	uint64_t threshold_ns;		       /* 0: none of its own */
	const struct pace_class_keys *match; /* who fits; NULL: nobody by itself */
};
/* How many of them; 0 is `default`. They are good until the next reload or change. */
unsigned int pace_get_rules(const struct pace *pace,
			    struct pace_class_rule rules[ESC_PACE_CLASSES]);

/* A queue pair's class by hand, until it is gone or the daemon ends. */
int pace_assign(struct pace *pace, const struct pace_assignment *want, json_t **result,
		char **error);

/* fq onto an interface, or off it again, where it is ours. */
int pace_setup_fq(struct pace *pace, const char *interface, bool on, char **error);

/* The answer to `pace`. */
json_t *pace_show(struct pace *pace);
struct pace_class_facts {
	char name[16];
	uint32_t weight;
	uint64_t threshold_ns, packets, held, held_ns, bounded;
	uint64_t flows, flows_held; /* now; held: in the last second */
};
struct pace_facts {
	uint16_t ports;
	unsigned int class_count;
	struct pace_class_facts classes[ESC_PACE_CLASSES];
	uint64_t samples, unsure, overheld;
};
void pace_get(const struct pace *pace, struct pace_facts *out);

#endif
