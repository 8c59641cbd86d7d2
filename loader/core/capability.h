/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A capability: one directory of loader/ and one line in loader/capabilities.def. This is all
 * that daemon/ and api/ know of it; every member but name and open may be NULL.
 */
#ifndef ESC_CORE_CAPABILITY_H
#define ESC_CORE_CAPABILITY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct config;
struct config_section;
struct core;
struct event_kind;
struct metric;
struct qp_entry;
struct request;

#define CAPABILITY_NEEDS_MAX 10

/* What replies to a verb; the verb itself, with its arguments, is in X/verbs.c. */
struct verb_handler {
	const char *verb;
	/*
	 * The result (new reference), or NULL after request_fail(), request_misuse() or
	 * request_raw(). Arguments fit the verb's table.
	 */
	json_t *(*reply)(void *self, struct request *request);
};

/* A switch per port that the verb `mode` turns: steer, pace. */
struct capability_mode {
	const char *name;
	/* A bit per slot in `ports`. */
	uint16_t (*ports)(const void *self);
	/* @interfaces: array of names; NULL or empty: all. 0 or -errno with *@error. */
	int (*set)(void *self, bool on, const json_t *interfaces, const char *by, char **error);
};

struct capability {
	const char *name;
	/* Capabilities opened before it that open() gets, in this order. */
	const char *needs[CAPABILITY_NEEDS_MAX + 1];

	/* Its keys of the configuration, when they are not in config/ (config/config.h). */
	const struct config_section *keys;
	const struct verb_handler *verbs; /* ended by {} */
	const struct event_kind *events;  /* ended by {} */
	const struct metric *metrics;	  /* ended by {} */
	const struct capability_mode *mode;

	/* @needs: as named above. 0 with *@self, or -errno with *@error, a malloc'd sentence. */
	int (*open)(void **self, struct core *core, void *const needs[], char **error);
	void (*close)(void *self);

	/* Called each @tick_ns by the loop. */
	uint64_t tick_ns;
	void (*tick)(void *self, uint64_t now_local_ns);

	/* A new configuration is in force; @old is the one before. */
	void (*reconfigure)(void *self, const struct config *old);
	/*
	 * Checks and applies @new, all or nothing, before it is in force; -errno with *@error
	 * refuses it.
	 */
	int (*accept)(void *self, const struct config *new, char **error);

	/* The kill switch. off() is called in the reverse of the order of on(). */
	int (*off)(void *self, const char *by, char **error);
	int (*on)(void *self, char **error);

	/* Fresh facts for what is replied next. 0 or -errno. */
	int (*refresh)(void *self);
	void (*links_changed)(void *self);

	/* Adds members to the reply to `status`. */
	void (*status)(void *self, json_t *status);
	/* Adds members to a queue pair of `qp`. */
	void (*qp)(void *self, const struct qp_entry *entry, json_t *qp);
	/* Writes its families of metrics. */
	void (*write_metrics)(void *self, FILE *out);
	/* The metrics were written and are read from now on: histograms of one scrape begin anew.
	 */
	void (*metrics_written)(void *self);
};

#endif
