// SPDX-License-Identifier: BSD-2-Clause
#include "owners.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "dataplane/dataplane.h"
#include "mapread.h"
#include "ownerlist.h"
#include "trace.h"

#define BATCH 512
#define RETRY_NS 10000000000ULL /* until the RDMA core may have been loaded */
#define READY_NS 10000000000ULL /* a connected queue pair sends something before that */

struct owners {
	int control_fd;
	bool off;
	struct qptrace *trace;
	uint64_t refused_before; /* by tracing programs that were detached since */
	char why[256];		 /* not traced */
	bool may_come;		 /* the RDMA core may be loaded later */
	uint64_t tried_local_ns;
	struct ownerlist list; /* by RDMA netlink */
	struct mapread reader;
	struct ownertable *table;
};

/* --- reading the map --- */

struct reading {
	struct owner *list;
	size_t count;
};

static int reading_add(void *context, const void *key, const void *value)
{
	struct reading *reading = context;
	struct owner *owner = &reading->list[reading->count];

	if (reading->count == ESC_OWNERS_MAX)
		return 0;
	memcpy(&owner->key, key, sizeof(owner->key));
	memcpy(&owner->is, value, sizeof(owner->is));
	reading->count++;
	return 0;
}

void owners_refresh(struct owners *owners)
{
	struct reading reading = {};
	struct owner *fitted;
	int err = -ENOMEM;

	if (!owners || owners->off)
		return;
	reading.list = calloc(ESC_OWNERS_MAX, sizeof(*reading.list));
	if (reading.list)
		err = mapread_all(&owners->reader, reading_add, &reading);
	if (err) {
		free(reading.list);
	} else {
		fitted = realloc(reading.list, (reading.count + 1) * sizeof(*fitted));
		err = ownertable_replace(owners->table, fitted ? fitted : reading.list,
					 reading.count);
	}
	if (err)
		log_debug("the map qp_owners could not be read in this tick");
}

/* --- from start to end --- */

void owners_set_off(struct owners *owners, bool off)
{
	if (!owners || owners->off == off)
		return;
	owners->off = off;
	if (off) {
		owners->refused_before += qptrace_refused(owners->trace);
		qptrace_close(owners->trace);
		owners->trace = NULL;
		ownertable_replace(owners->table, NULL, 0);
	} else {
		owners->may_come = true;
		owners->tried_local_ns = 0;
		snprintf(owners->why, sizeof(owners->why), "it is not begun yet");
		owners->list.due_local_ns = 0;
	}
}

/* At the start; later too, since the module with the RDMA core may be loaded at any time. */
static void try_trace(struct owners *owners, uint64_t now_local_ns)
{
	int err;

	if (owners->trace || !owners->may_come ||
	    (owners->tried_local_ns && now_local_ns - owners->tried_local_ns < RETRY_NS))
		return;
	owners->tried_local_ns = now_local_ns;
	err = qptrace_open(&owners->trace, QPTRACE_NONE, owners->control_fd, owners->reader.fd,
			   owners->why, sizeof(owners->why));
	owners->may_come = err == -ENODEV;
	if (!err) {
		log_info("queue pairs are traced to their processes by %s",
			 qptrace_how_name(qptrace_how(owners->trace)));
		owners->list.due_local_ns = 0;
	} else if (!owners->may_come) {
		log_info("queue pairs are not traced to their processes: %s", owners->why);
	}
}

void owners_tick(struct owners *owners, uint64_t now_local_ns)
{
	if (!owners || owners->off)
		return;
	try_trace(owners, now_local_ns);
	ownerlist_tick(&owners->list, now_local_ns, owners->trace != NULL);
}

int owners_new(struct owners **out, int control_fd, int owners_fd, bool off)
{
	struct owners *owners = calloc(1, sizeof(*owners));

	*out = NULL;
	if (!owners)
		return -ENOMEM;
	owners->control_fd = control_fd;
	owners->reader = (struct mapread){.fd = owners_fd,
					  .max = ESC_OWNERS_MAX,
					  .key_bytes = sizeof(struct esc_owner_key),
					  .value_bytes = sizeof(struct esc_owner),
					  .batch = BATCH};
	owners->list.fd = owners_fd;
	owners->off = true;
	owners->table = ownertable_new("/proc");
	if (!owners->table) {
		free(owners);
		return -ENOMEM;
	}
	owners_set_off(owners, off);
	*out = owners;
	return 0;
}

void owners_free(struct owners *owners)
{
	if (!owners)
		return;
	qptrace_close(owners->trace);
	ownerlist_close(&owners->list);
	mapread_free(&owners->reader);
	ownertable_free(owners->table);
	free(owners);
}

/* --- what is known --- */

const struct ownertable *owners_table(const struct owners *owners)
{
	return owners ? owners->table : NULL;
}

void owners_get_facts(const struct owners *owners, struct owners_facts *out)
{
	out->tracked = ownertable_count(owners->table);
	out->max = ESC_OWNERS_MAX;
	out->refused = owners->refused_before + qptrace_refused(owners->trace);
	out->note = owners->off ? "the kill switch is on" : owners->trace ? "" : owners->why;
	out->how = "none";
	if (owners->trace)
		out->how = qptrace_how_name(qptrace_how(owners->trace));
	else if (!owners->off && owners->list.works)
		out->how = "netlink";
}

void owners_check_port(void *self, uint64_t now_local_ns, struct port_info *port)
{
	struct visibility visibility = {.mode = port->visibility};
	const struct owners *owners = self;

	if (!owners || !port->rdma_device[0])
		return;
	visibility_add_ready(port->name, port->rdma_device,
			     ownertable_ready(owners->table, port->rdma_device, port->rdma_port,
					      now_local_ns, READY_NS),
			     &visibility);
	if (!visibility.note[0])
		return;
	snprintf(port->visibility, sizeof(port->visibility), "%s", visibility.mode);
	memcpy(port->visibility_note, visibility.note, sizeof(port->visibility_note));
}
