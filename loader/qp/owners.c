// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which process and job owns which queue pair: the map `qp_owners`, which the tracing programs
 * fill, and RDMA netlink for those that no trace has seen being made.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/now.h"
#include "internal.h"

#define BATCH 512
#define RETRY_NS 10000000000ULL	 /* until the RDMA core may have been loaded */
#define READY_NS 10000000000ULL	 /* a connected queue pair sends something before that */
#define AGAIN_NS 2000000000ULL	 /* after a list that had news */
#define PERIOD_NS 15000000000ULL /* where nothing is traced */
#define FIRST_TYPE 2		 /* below are the ports' own: SMI, GSI */

/* --- the map as last read --- */

static int compare_owners(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	if (x->key.qpn != y->key.qpn)
		return x->key.qpn < y->key.qpn ? -1 : 1;
	return x->key.device < y->key.device ? -1 : x->key.device > y->key.device;
}

static int compare_remote(const void *a, const void *b)
{
	const struct owner *x = *(const struct owner *const *)a;
	const struct owner *y = *(const struct owner *const *)b;

	if (x->is.remote_qpn != y->is.remote_qpn)
		return x->is.remote_qpn < y->is.remote_qpn ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* A process stays in its cgroup: what is known of a queue pair's is not read again. */
static void find_job(const struct owners *owners, struct owner *owner)
{
	const struct owner *before = owners->count ? bsearch(owner, owners->list, owners->count,
							     sizeof(*owner), compare_owners)
						   : NULL;

	if (before && before->is.pid == owner->is.pid &&
	    before->is.first_local_ns == owner->is.first_local_ns)
		owner->job = before->job;
	else if (owner->is.pid)
		job_read(owners->proc, owner->is.pid, &owner->job);
}

int owners_replace(struct owners *owners, struct owner *entries, size_t count)
{
	const struct owner **remote = calloc(count + 1, sizeof(*remote));
	size_t remote_count = 0;

	if (!remote) {
		free(entries);
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		entries[i].is.comm[sizeof(entries[i].is.comm) - 1] = '\0';
		entries[i].is.device[sizeof(entries[i].is.device) - 1] = '\0';
		find_job(owners, &entries[i]);
	}
	if (count)
		qsort(entries, count, sizeof(*entries), compare_owners);
	for (size_t i = 0; i < count; i++)
		if (entries[i].is.flags & ESC_OWNER_REMOTE_QPN)
			remote[remote_count++] = &entries[i];
	qsort(remote, remote_count, sizeof(*remote), compare_remote);
	free(owners->list);
	free(owners->remote);
	owners->list = entries;
	owners->count = count;
	owners->remote = remote;
	owners->remote_count = remote_count;
	return 0;
}

void owners_refresh(struct owners *owners)
{
	size_t count;
	void *list;
	int err;

	if (owners->off)
		return;
	err = mapread_list(&owners->reader, sizeof(struct owner), offsetof(struct owner, is), &list,
			   &count);
	if (!err)
		err = owners_replace(owners, list, count);
	if (err)
		log_debug("the map qp_owners could not be read in this tick");
}

/* The kernel's name may be longer than the field in the map. */
static bool is_on(const struct owner *owner, const char *device)
{
	return !strncmp(owner->is.device, device, sizeof(owner->is.device) - 1);
}

static bool is_same(const struct esc_address *a, const struct esc_address *b)
{
	return !memcmp(a, b, sizeof(*a));
}

const struct owner *qptable_owner(const struct qptable *table, const struct esc_qp_key *key,
				  const char *device)
{
	bool rx = key->direction == ESC_DIRECTION_RX;
	const struct owners *owners = table->owners;
	const struct owner *owner, *listed = NULL;
	size_t count = !owners ? 0 : rx ? owners->count : owners->remote_count;
	size_t low = 0, high = count, listed_count = 0;

	/* The first with at least this number. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		owner = rx ? &owners->list[middle] : owners->remote[middle];
		if ((rx ? owner->key.qpn : owner->is.remote_qpn) < key->dest_qpn)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < count; low++) {
		bool has_path, on_device;

		owner = rx ? &owners->list[low] : owners->remote[low];
		if ((rx ? owner->key.qpn : owner->is.remote_qpn) != key->dest_qpn)
			break;
		has_path = owner->is.flags & ESC_OWNER_PATH;
		on_device = device[0] && is_on(owner, device);
		if (rx) {
			if (device[0] ? on_device
				      : has_path && is_same(&owner->is.local, &key->dst))
				return owner;
		} else if (has_path) {
			if (is_same(&owner->is.remote, &key->dst) &&
			    is_same(&owner->is.local, &key->src))
				return owner;
		} else if (on_device) {
			listed = owner;
			listed_count++;
		}
	}
	return listed_count == 1 ? listed : NULL;
}

size_t owners_traced_devices(const struct owners *owners, uint32_t *devices, size_t max)
{
	size_t count = 0;

	for (size_t i = 0; owners->trace && i < owners->count && count <= max; i++) {
		uint32_t device = owners->list[i].key.device;
		size_t at = 0;

		while (at < count && devices[at] != device)
			at++;
		if (at < count)
			continue;
		if (count < max)
			devices[count] = device;
		count++;
	}
	return count;
}

size_t qptable_rocev1(const struct qptable *table, const char *device, unsigned int port)
{
	size_t count = 0;

	for (size_t i = 0; table->owners && i < table->owners->count; i++) {
		const struct owner *owner = &table->owners->list[i];

		count += owner->is.flags & ESC_OWNER_PATH &&
			 owner->is.gid_type == ESC_GID_ROCE_V1 && is_on(owner, device) &&
			 owner->is.port == port;
	}
	return count;
}

size_t owners_ready(const struct owners *owners, const char *device, unsigned int port,
		    uint64_t now_local_ns, uint64_t for_ns)
{
	size_t ready = 0;

	for (size_t i = 0; i < owners->count; i++) {
		const struct esc_owner *is = &owners->list[i].is;
		bool there = !port || !(is->flags & ESC_OWNER_PORT) || is->port == port;

		ready += is->state == ESC_OWNER_RTS && there && is_on(&owners->list[i], device) &&
			 now_local_ns >= is->changed_local_ns &&
			 now_local_ns - is->changed_local_ns >= for_ns;
	}
	return ready;
}

/* --- RDMA netlink --- */

static void *list_thread(void *context)
{
	struct owners_list *list = context;

	list->err = rdmares_read(&list->result);
	__atomic_store_n(&list->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

enum owners_action owners_decide(const struct esc_owner *is, const struct rdmares_qp *listed,
				 uint32_t listed_pid, bool traced, uint64_t started_local_ns)
{
	bool has_remote, other_process, other_peer;

	if (!is)
		return listed ? OWNERS_PUT : OWNERS_KEEP;
	/* Newer than the list, which cannot contain it. */
	if (is->first_local_ns >= started_local_ns || is->changed_local_ns >= started_local_ns)
		return OWNERS_KEEP;
	if (!listed)
		return OWNERS_DROP;
	has_remote = is->flags & ESC_OWNER_REMOTE_QPN;
	other_process = listed_pid && is->pid != listed_pid;
	other_peer = listed->has_remote && has_remote && is->remote_qpn != listed->remote_qpn;
	if (other_process || other_peer)
		return OWNERS_PUT;
	if (!traced && (is->state != listed->state || (listed->has_remote && !has_remote)))
		return OWNERS_PUT;
	return OWNERS_KEEP;
}

/* True: the map has it now, and had not, or not so. */
static bool put(struct owners *owners, const struct rdmares_qp *listed)
{
	struct esc_owner_key key = {.device = listed->device, .qpn = listed->qpn};
	bool has_remote = listed->has_remote && listed->remote_qpn;
	uint64_t now_ns = time_local_ns();
	struct esc_owner is, fresh = {.first_local_ns = now_ns,
				      .changed_local_ns = now_ns,
				      .remote_qpn = has_remote ? listed->remote_qpn : 0,
				      .type = listed->type,
				      .state = listed->state,
				      .port = listed->port};
	bool there;

	if (listed->type < FIRST_TYPE)
		return false;
	if (listed->kernel[0])
		memcpy(fresh.comm, listed->kernel, sizeof(fresh.comm));
	else if (listed->tid && !job_read_process("/proc", listed->tid, &fresh.pid, fresh.comm))
		fresh.pid = 0;
	there = !bpf_map_lookup_elem(owners->reader.fd, &key, &is);
	if (owners_decide(there ? &is : NULL, listed, fresh.pid, owners->trace,
			  owners->netlink.started_local_ns) != OWNERS_PUT)
		return false;
	fresh.flags = ESC_OWNER_LISTED | (has_remote ? ESC_OWNER_REMOTE_QPN : 0) |
		      (listed->port ? ESC_OWNER_PORT : 0);
	memcpy(fresh.device, listed->name, sizeof(fresh.device));
	return !bpf_map_update_elem(owners->reader.fd, &key, &fresh,
				    there ? BPF_EXIST : BPF_NOEXIST);
}

/* Entries go that are of devices that were listed, or are not there any more. */
static bool stays(const void *at, void *context)
{
	const struct esc_owner_key *key = at;
	const struct owners *owners = context;
	const struct rdmares *result = &owners->netlink.result;
	bool covered = result->device_count == result->device_seen ||
		       rdmares_has_device(result, key->device);
	struct esc_owner is;

	if (!covered || rdmares_find(result, key->device, key->qpn) ||
	    bpf_map_lookup_elem(owners->reader.fd, key, &is))
		return true;
	return owners_decide(&is, NULL, 0, false, owners->netlink.started_local_ns) != OWNERS_DROP;
}

static void merge_list(struct owners *owners)
{
	struct owners_list *list = &owners->netlink;
	size_t news = 0;

	if (list->err) {
		log_debug("RDMA netlink: %s", strerror(-list->err));
		list->due_local_ns = list->started_local_ns + PERIOD_NS;
		return;
	}
	list->works = list->result.device_count > 0;
	mapsweep(owners->reader.fd, sizeof(struct esc_owner_key), stays, owners);
	for (size_t i = 0; i < list->result.count; i++)
		news += put(owners, &list->result.qps[i]);
	/*
	 * One that was destroyed after it was listed has been put in for good: the next list takes
	 * it out. Traced, a list without news is the last.
	 */
	if (news || !owners->trace)
		list->due_local_ns = time_local_ns() + (news ? AGAIN_NS : PERIOD_NS);
}

/* --- from start to end --- */

void owners_set_off(struct owners *owners, bool off)
{
	if (owners->off == off)
		return;
	owners->off = off;
	if (off) {
		owners->refused_before = owners_refused(owners);
		qptrace_close(owners->trace);
		owners->trace = NULL;
		owners_replace(owners, NULL, 0);
	} else {
		owners->may_come = true;
		owners->tried_local_ns = 0;
		snprintf(owners->why, sizeof(owners->why), "it is not begun yet");
		owners->netlink.due_local_ns = 0;
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
		owners->netlink.due_local_ns = 0;
	} else if (!owners->may_come) {
		log_info("queue pairs are not traced to their processes: %s", owners->why);
	}
}

void owners_tick(struct owners *owners, uint64_t now_local_ns)
{
	struct owners_list *list = &owners->netlink;

	if (owners->off)
		return;
	try_trace(owners, now_local_ns);
	if (list->listing && __atomic_load_n(&list->done, __ATOMIC_ACQUIRE)) {
		bool due = list->due_local_ns == 0; /* tracing began while it was listed */

		pthread_join(list->thread, NULL);
		list->listing = false;
		merge_list(owners);
		rdmares_free(&list->result);
		if (due)
			list->due_local_ns = 0;
	}
	if (list->listing || now_local_ns < list->due_local_ns)
		return;
	list->started_local_ns = time_local_ns();
	list->done = 0;
	list->listing = !pthread_create(&list->thread, NULL, list_thread, list);
	list->due_local_ns = list->listing ? UINT64_MAX : list->started_local_ns + PERIOD_NS;
}

int owners_new(struct owners **out, int control_fd, int owners_fd, bool off)
{
	struct owners *owners = calloc(1, sizeof(*owners));

	*out = owners;
	if (!owners)
		return -ENOMEM;
	owners->control_fd = control_fd;
	owners->reader = (struct mapread){.fd = owners_fd,
					  .max = ESC_OWNERS_MAX,
					  .key_bytes = sizeof(struct esc_owner_key),
					  .value_bytes = sizeof(struct esc_owner),
					  .batch = BATCH};
	owners->proc = "/proc";
	owners->off = true;
	owners_set_off(owners, off);
	return 0;
}

void owners_free(struct owners *owners)
{
	if (!owners)
		return;
	qptrace_close(owners->trace);
	if (owners->netlink.listing)
		pthread_join(owners->netlink.thread, NULL);
	rdmares_free(&owners->netlink.result);
	mapread_free(&owners->reader);
	free(owners->list);
	free(owners->remote);
	free(owners);
}

const char *owners_how(const struct owners *owners)
{
	bool listed = !owners->trace && !owners->off && owners->netlink.works;

	return listed ? "netlink" : qptrace_how_name(qptrace_how(owners->trace));
}

bool qptable_has_owners(const struct qptable *table)
{
	return table->owners && strcmp(owners_how(table->owners), "none");
}

uint64_t owners_refused(const struct owners *owners)
{
	return owners->refused_before + qptrace_refused(owners->trace);
}

void owners_check_port(void *self, uint64_t now_local_ns, struct port_info *port)
{
	const struct owners *owners = self;

	if (port->rdma_device[0])
		visibility_add_ready(port, owners_ready(owners, port->rdma_device, port->rdma_port,
							now_local_ns, READY_NS));
}
