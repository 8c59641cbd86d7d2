// SPDX-License-Identifier: BSD-2-Clause
#include "owners.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane/dataplane.h"
#include "base/log.h"
#include "ownerlist.h"
#include "trace.h"

#define OWNERS_BATCH 512
#define OWNERS_RETRY_NS 10000000000ULL /* until the RDMA core may have been loaded */
#define OWNERS_READY_NS 10000000000ULL /* a connected queue pair sends something before that */

struct owners {
	int control_fd, fd;
	bool off;
	struct qptrace *trace;
	uint64_t refused_before; /* by tracing programs that were detached since */
	char why[256];		 /* not traced */
	bool may_come;		 /* the RDMA core may be loaded later */
	uint64_t tried_local_ns;
	struct ownerlist *listing; /* RDMA netlink's part */
	struct ownertable *table;
};

/* --- tracing --- */

static void owners_trace(struct owners *owners)
{
	int err = qptrace_open(&owners->trace, owners->control_fd, owners->fd, owners->why,
			       sizeof(owners->why));

	owners->may_come = err == -ENODEV;
	if (!err)
		log_info("queue pairs are traced to their processes by %s",
			 qptrace_how_name(qptrace_how(owners->trace)));
	else if (!owners->may_come)
		log_info("queue pairs are not traced to their processes: %s", owners->why);
}

static void owners_untrace(struct owners *owners)
{
	owners->refused_before += qptrace_refused(owners->trace);
	qptrace_close(owners->trace);
	owners->trace = NULL;
}

/* At the start; later too, since the module with the RDMA core may be loaded at any time. */
static void owners_try(struct owners *owners, uint64_t now_local_ns)
{
	if (owners->trace || !owners->may_come ||
	    (owners->tried_local_ns && now_local_ns - owners->tried_local_ns < OWNERS_RETRY_NS))
		return;
	owners->tried_local_ns = now_local_ns;
	owners_trace(owners);
	if (owners->trace)
		ownerlist_ask_anew(owners->listing);
}

/* --- reading the map --- */

static int owners_read_batches(const struct owners *owners, struct owner *list, size_t *count)
{
	struct esc_owner_key *keys = calloc(OWNERS_BATCH, sizeof(*keys));
	struct esc_owner *values = calloc(OWNERS_BATCH, sizeof(*values));
	uint32_t cursor = 0, *in = NULL;
	int err = keys && values ? 0 : -ENOMEM;

	while (!err) {
		__u32 got = OWNERS_BATCH;

		err = bpf_map_lookup_batch(owners->fd, in, &cursor, keys, values, &got, NULL);
		if (err && err != -ENOENT)
			break;
		for (__u32 i = 0; i < got && *count < ESC_OWNERS_MAX; i++) {
			list[*count].key = keys[i];
			list[(*count)++].is = values[i];
		}
		in = &cursor;
	}
	free(keys);
	free(values);
	return err == -ENOENT ? 0 : err;
}

/* A key that goes under us makes the walk begin anew: bounded; twice the same does no harm. */
static int owners_read_each(const struct owners *owners, struct owner *list, size_t *count)
{
	struct esc_owner_key key, *before = NULL;
	int err = 0;

	while (*count < ESC_OWNERS_MAX) {
		struct esc_owner_key next;

		err = bpf_map_get_next_key(owners->fd, before, &next);
		if (err)
			break;
		key = next;
		before = &key;
		list[*count].key = key;
		if (!bpf_map_lookup_elem(owners->fd, &key, &list[*count].is))
			(*count)++;
	}
	return err == -ENOENT ? 0 : err;
}

static int owners_read(const struct owners *owners, struct owner **out, size_t *count)
{
	struct owner *list = calloc(ESC_OWNERS_MAX, sizeof(*list)), *fitted;
	int err;

	*count = 0;
	if (!list)
		return -ENOMEM;
	err = owners_read_batches(owners, list, count);
	if (err) {
		*count = 0;
		err = owners_read_each(owners, list, count);
	}
	if (err) {
		free(list);
		return err;
	}
	fitted = realloc(list, (*count + 1) * sizeof(*list));
	*out = fitted ? fitted : list;
	return 0;
}

void owners_refresh(struct owners *owners)
{
	struct owner *list;
	size_t count;

	if (!owners || owners->off)
		return;
	if (owners_read(owners, &list, &count) || ownertable_replace(owners->table, list, count))
		log_debug("the map qp_owners could not be read in this turn");
}

/* --- from start to end --- */

void owners_set_off(struct owners *owners, bool off)
{
	if (!owners || owners->off == off)
		return;
	owners->off = off;
	if (off) {
		owners_untrace(owners);
		ownertable_replace(owners->table, NULL, 0);
	} else {
		owners->may_come = true;
		owners->tried_local_ns = 0;
		snprintf(owners->why, sizeof(owners->why), "it is not begun yet");
		ownerlist_ask_anew(owners->listing);
	}
}

void owners_turn(struct owners *owners, uint64_t now_local_ns)
{
	if (!owners || owners->off)
		return;
	owners_try(owners, now_local_ns);
	ownerlist_turn(owners->listing, now_local_ns, owners->trace != NULL);
}

int owners_new(struct owners **out, int control_fd, int owners_fd, bool off)
{
	struct owners *owners = calloc(1, sizeof(*owners));

	*out = NULL;
	if (!owners)
		return -ENOMEM;
	owners->control_fd = control_fd;
	owners->fd = owners_fd;
	owners->off = true;
	owners->table = ownertable_new("/proc");
	owners->listing = ownerlist_new(owners_fd);
	if (!owners->table || !owners->listing) {
		owners_free(owners);
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
	ownerlist_free(owners->listing);
	ownertable_free(owners->table);
	free(owners);
}

/* --- asking --- */

const struct ownertable *owners_table(const struct owners *owners)
{
	return owners ? owners->table : NULL;
}

void owners_get_facts(const struct owners *owners, struct owners_facts *out)
{
	ownertable_list(owners->table, &out->tracked);
	out->max = ESC_OWNERS_MAX;
	out->refused = owners->refused_before + qptrace_refused(owners->trace);
	out->note = owners->off ? "the kill switch is on" : owners->trace ? "" : owners->why;
	out->how = "none";
	if (owners->trace)
		out->how = qptrace_how_name(qptrace_how(owners->trace));
	else if (!owners->off && ownerlist_works(owners->listing))
		out->how = "netlink";
}

void owners_judge_port(const struct owners *owners, uint64_t now_local_ns, struct port_info *port)
{
	struct visibility visibility = {.mode = port->visibility};

	if (!owners || !port->rdma_device[0])
		return;
	visibility_add_ready(port->name, port->rdma_device,
			     ownertable_ready(owners->table, port->rdma_device, port->rdma_port,
					      now_local_ns, OWNERS_READY_NS),
			     &visibility);
	if (!visibility.note[0])
		return;
	snprintf(port->visibility, sizeof(port->visibility), "%s", visibility.mode);
	memcpy(port->visibility_note, visibility.note, sizeof(port->visibility_note));
}
