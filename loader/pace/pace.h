/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pacing of RoCEv2: on which interfaces, and which class a flow is of. The kernel programs hold
 * packets (pacing/pause.h) only while there is a heartbeat; they are polled four times a second.
 */
#ifndef ESC_LOADER_PACE_H
#define ESC_LOADER_PACE_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "maps/maps.h"

struct config;
struct config_section;
struct pace;

/*
 * needs: dataplane, clock, qp, delay, paths. Interfaces of an earlier daemon's `pace on`
 * are paced only if the configuration says so. The programs hold nothing once the heartbeat has
 * been missed for 2 s.
 */
extern const struct capability pace_capability;

/* Flows of equal weight and threshold. A flow is of the first class that matches it, else of
 * `default`. */
struct pace_class_keys {
	char *name;
	uint32_t weight;
	uint64_t threshold_ns;
	bool own_threshold;		/* not that of the section */
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

/* A class as it is now: of the configuration, or changed or made at run time. */
struct pace_class {
	char name[16];
	uint32_t weight;
	uint64_t threshold_ns;
	bool own_threshold; /* not that of classes without one */
	const struct pace_class_keys
		*match; /* valid until the next reload; NULL: matches nothing */
	/* Totals; in struct pace those of flows that are gone. */
	uint64_t packets, held, held_ns, bounded, samples, unsure;
	uint64_t flows, flows_held; /* now; held: in the last second */
};
/* All of them, borrowed; the first is `default`. */
const struct pace_class *pace_classes(const struct pace *pace, unsigned int *count);

/* The reply to `pace`. */
json_t *pace_show(struct pace *pace);

#endif
