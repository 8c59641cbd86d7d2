/* SPDX-License-Identifier: BSD-2-Clause */
/* NIC failover: pairs of NICs that stand in for each other, as the configuration names them. */
#ifndef ESC_LOADER_NICS_H
#define ESC_LOADER_NICS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct config;
struct daemon;
struct json_t;
struct nics;

/* Without a `sibling` in the configuration nothing is attached, and *@out is a part that waits. */
int nics_new(struct nics **out, struct daemon *daemon, char **error);
/* Programs stay attached; they end by themselves 2 s after the daemon's last beat. */
void nics_free(struct nics *nics);
/*
 * After a reload, or another members list. What cannot be done is told in the log, as an event
 * and in the report, and leaves failover off.
 */
void nics_reconfigure(struct nics *nics);
/* The kill switch. A dummy device goes on being forwarded: without that it is cut off. */
void nics_set_off(struct nics *nics, bool off);
/* Once a second, and when a link changed: NICs that came back, the pairs of addresses in use. */
void nics_look(struct nics *nics);

/* Another member list is in force; the old one is still valid. */
void nics_members_changed(struct nics *nics);

/* {"pairs": [...], "ways": [...], ...}; a new reference. */
struct json_t *nics_report(const struct nics *nics);
/* The same in short; NULL when nothing is configured. */
struct json_t *nics_report_short(const struct nics *nics);
void nics_write_metrics(FILE *out, const struct nics *nics);

#endif
