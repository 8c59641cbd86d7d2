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
struct nic;

/* Without a `sibling` in the configuration nothing is attached, and *@out is a part that waits. */
int nics_new(struct nic **out, struct daemon *daemon, char **error);
/* Programs stay attached; they end by themselves 2 s after the daemon's last beat. */
void nics_free(struct nic *nic);
/*
 * After a reload, or another members list. What cannot be done is told in the log, as an event
 * and in the report, and leaves failover off.
 */
void nics_reconfigure(struct nic *nic);
/* The kill switch. A dummy device goes on being forwarded: without that it is cut off. */
void nics_set_off(struct nic *nic, bool off);
/* Once a second, and when a link changed: NICs that came back, the pairs of addresses in use. */
void nics_look(struct nic *nic);

/* Before another members list takes the old one's place. */
void nics_members_changed(struct nic *nic);

/* {"pairs": [...], "ways": [...], ...}; a new reference. */
struct json_t *nic_reply_json(const struct nic *nic);
/* The same in short; NULL when nothing is configured. */
struct json_t *nic_status_json(const struct nic *nic);
void nic_write_metrics(FILE *out, const struct nic *nic);

#endif
