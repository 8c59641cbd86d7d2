/* SPDX-License-Identifier: BSD-2-Clause */
/* Links, between their own files. */
#ifndef ESC_LOADER_LINK_INTERNAL_H
#define ESC_LOADER_LINK_INTERNAL_H

#include <jansson.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/fields.h"
#include "config/config.h"
#include "core/core.h"
#include "link.h"
#include "maps/maps.h"
#include "net/linkinfo.h"

struct dataplane;
struct nic;
struct qptable;
struct sd_event_source;

/* --- keys.c --- */

#define LINK_THRESHOLDS_MAX 4
#define LINK_MORE_THAN_MAX 250 /* below ESC_LINK_FLAPS, so that each decision is exact */
#define LINK_HOUR_NS 3600000000000ull

/* More than so many flaps within a time. */
struct link_threshold {
	uint32_t more_than;
	uint64_t within_ns;
};

/* The section `links` of the configuration. */
struct link_keys {
	struct link_thresholds {
		struct link_threshold list[LINK_THRESHOLDS_MAX];
		uint32_t count;
	} thresholds;
	uint64_t stable_after_ns, down_after_ns, settle_ns;
};

/* --- window.c: the law; no system call, times of CLOCK_BOOTTIME are arguments --- */

/* What one reading changed. */
struct link_change {
	uint32_t flaps;	    /* carrier losses that count */
	uint32_t planned;   /* those that do not */
	bool reset;	    /* the counters were reset; the window was kept */
	bool replaced;	    /* another NIC has the name: all that was known is of the other one */
	bool returned;	    /* it has a carrier, and had none at the reading before */
	uint64_t lasted_ns; /* `returned`: how long it was away */
};

/* The first reading of a link is a baseline. @settle_ns: as the key `settle`. */
void link_take(struct esc_link *link, const struct link_carrier *reading, uint64_t now_ns,
	       uint64_t settle_ns, struct link_change *out);
/* The interface is not there. */
void link_leave(struct esc_link *link);
/* Flaps after @since_ns. */
uint64_t link_count_since(const struct esc_link *link, uint64_t since_ns);
/* Flaps within @within_ns of @now_ns. */
uint64_t link_count(const struct esc_link *link, uint64_t now_ns, uint64_t within_ns);

enum link_step { LINK_NOTHING, LINK_RAISED, LINK_STABLE };
/* Raises the alarm, or ends it when the link was stable for `stable_after`. */
enum link_step link_evaluate(struct esc_link *link, const struct link_keys *keys, uint64_t now_ns);
/* False: there is no alarm. What was counted raises none any more. */
bool link_acknowledge(struct esc_link *link, uint64_t now_ns);
/* Without a carrier, and it should have one. */
bool link_is_lost(const struct esc_link *link, bool expected, uint64_t now_ns);
/* The same for `down_after`, up to now. */
bool link_is_down(const struct esc_link *link, const struct link_keys *keys, bool expected,
		  uint64_t now_ns);

/* --- link.c --- */

enum link_role { LINK_CONFIGURED, LINK_SIBLING, LINK_LOWER };

struct link_entry {
	char name[IF_NAMESIZE];
	enum link_role role;
	char upper[IF_NAMESIZE]; /* of a lower device */
	bool member;		 /* the members list has an address of this interface */
	struct esc_link link;	 /* as in the map */
	bool changed;		 /* not written to it yet */
	bool confirmed;		 /* this daemon has reported the alarms that an earlier one left */
	struct link_details details;
	uint64_t details_ns; /* CLOCK_MONOTONIC of these; 0: not read yet */
};

/* Messages of all links of the host, also of those that are not watched. */
struct link_messages {
	uint64_t total, overruns;	/* overruns: the kernel had no room for some */
	uint64_t begun_ns, reported_ns; /* CLOCK_MONOTONIC: of this second, of the newest event */
	unsigned int in_second;
	char newest[IF_NAMESIZE];
};

struct links {
	struct core *core;
	struct dataplane *dataplane;
	struct qptable *qps;
	struct nic *nic;
	int map_fd, fd; /* fd: of link messages */
	struct sd_event_source *source;
	struct link_messages messages;
	struct link_entry list[ESC_LINKS_MAX];
	size_t count;
	size_t left_out;		 /* links without a place in the table */
	bool stale;			 /* messages were lost, or links are to be looked for */
	uint64_t scanned_ns, details_ns; /* CLOCK_MONOTONIC */
	size_t details_next;		 /* whose turn it is */
	struct core_worker *worker;
};

#define link_for_each(entry, links)                                                                \
	for (struct link_entry *entry = (links)->list; entry < (links)->list + (links)->count;     \
	     entry++)

const struct link_keys *link_keys(const struct config *config);
uint64_t link_now_ns(void);
/* It is expected to have a carrier. Else it is down by design. */
bool link_is_expected(const struct link_entry *entry);

/* --- report.c --- */

#define LINK_EVENTS(X)                                                                             \
	X(LINK_DOWN, "link_down", WARNING,                                                         \
	  "A link lost its carrier, or lost it and has it again; a planned loss is none of "       \
	  "`flaps`.",                                                                              \
	  .about = EVENT_NIC, .begins = "link_no_carrier",                                         \
	  .remedy = "See its cable and its port of the switch.")                                   \
	X(LINK_BACK, "link_up", NOTICE, "A link has its carrier again.", .about = EVENT_NIC,       \
	  .ends = "link_no_carrier")                                                               \
	X(LINK_NO_CARRIER, "link_no_carrier", WARNING,                                             \
	  "A link that should have a carrier has had none for `down_after`.", .about = EVENT_NIC,  \
	  .begins = "link_no_carrier", .remedy = "See its cable and its port of the switch.")      \
	X(LINK_EXCUSED, "link_not_expected", NOTICE,                                               \
	  "A link without a carrier needs none any more: it was set down, left, or is not "        \
	  "watched.",                                                                              \
	  .about = EVENT_NIC, .ends = "link_no_carrier")                                           \
	X(LINK_FLAPPING, "link_flapping", WARNING,                                                 \
	  "A link lost its carrier more often than a threshold allows.", .about = EVENT_NIC,       \
	  .begins = "link_flapping",                                                               \
	  .remedy = "See its cable, module and port of the switch; `escapement links`.")           \
	X(LINK_STABLE_AGAIN, "link_stable", NOTICE,                                                \
	  "The alarm of a link ended: it was stable, acknowledged, or is not watched any more.",   \
	  .about = EVENT_NIC, .ends = "link_flapping")                                             \
	X(LINK_RESET, "link_reset", NOTICE,                                                        \
	  "The counters of a link were reset: its driver was reloaded, or the NIC replaced.",      \
	  .about = EVENT_NIC)                                                                      \
	X(LINK_STORM, "link_storm", NOTICE,                                                        \
	  "Another program changes links very often: each change is a message to every daemon; "   \
	  "with `overrun` some were lost, and all links were read again.",                         \
	  .remedy = "See what creates or changes the link in `seen`: `ip monitor link`.")          \
	X(LINKS_FULL, "links_full", WARNING,                                                       \
	  "Links have no place in the table: they are not watched.")
enum { LINK_EVENTS(EVENT_ENUM) };
extern const struct event_kind link_events[];
extern const struct metric link_metrics[];

/* A loss begins a condition while the link is ESC_LINK_LOST. */
void link_report_change(struct links *links, const struct link_entry *entry,
			const struct link_change *change);
void link_report_flapping(struct links *links, const struct link_entry *entry);
/* @reason: "stable", "acknowledged", "not watched", "replaced". */
void link_report_end(struct links *links, const struct link_entry *entry, const char *reason,
		     uint64_t alarm_ns);
void link_report_down(struct links *links, const struct link_entry *entry);
/* A link that was reported as without a carrier has one, or needs none any more. */
void link_report_excused(struct links *links, const struct link_entry *entry);
/* [{...}] of the verb `links`. */
json_t *link_json(const struct links *links, const struct link_entry *entry);
/* @overrun: by the kernel, whose messages were lost. */
void link_report_storm(const struct links *links, bool overrun);
void link_status(void *self, json_t *status);
void link_write_metrics(void *self, FILE *out);

#endif
