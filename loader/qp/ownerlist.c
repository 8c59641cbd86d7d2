// SPDX-License-Identifier: BSD-2-Clause
#include "ownerlist.h"

#include <bpf/bpf.h>
#include <string.h>

#include "base/log.h"
#include "base/now.h"
#include "dataplane/dataplane.h"
#include "job.h"

#define AGAIN_NS 2000000000ULL	 /* after a list that had news */
#define PERIOD_NS 15000000000ULL /* where nothing is traced */
#define FIRST_TYPE 2		 /* below are the ports' own: SMI, GSI */

/* --- the thread --- */

static void *list_thread(void *context)
{
	struct ownerlist *list = context;

	list->err = rdmares_read(&list->result);
	__atomic_store_n(&list->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void begin(struct ownerlist *list)
{
	list->started_local_ns = time_local_ns();
	list->due_local_ns = UINT64_MAX;
	list->done = 0;
	list->listing = !pthread_create(&list->thread, NULL, list_thread, list);
	if (!list->listing)
		list->due_local_ns = list->started_local_ns + PERIOD_NS;
}

void ownerlist_close(struct ownerlist *list)
{
	if (list->listing)
		pthread_join(list->thread, NULL);
	list->listing = false;
	rdmares_free(&list->result);
}

/* --- the list against the map --- */

enum ownerlist_action ownerlist_decide(const struct esc_owner *is, const struct rdmares_qp *listed,
				       uint32_t listed_pid, bool traced, uint64_t started_local_ns)
{
	bool has_remote, other_process, other_peer;

	if (!is)
		return listed ? OWNERLIST_PUT : OWNERLIST_KEEP;
	/* Newer than the list, which cannot contain it. */
	if (is->first_local_ns >= started_local_ns || is->changed_local_ns >= started_local_ns)
		return OWNERLIST_KEEP;
	if (!listed)
		return OWNERLIST_DROP;
	has_remote = is->flags & ESC_OWNER_REMOTE_QPN;
	other_process = listed_pid && is->pid != listed_pid;
	other_peer = listed->has_remote && has_remote && is->remote_qpn != listed->remote_qpn;
	if (other_process || other_peer)
		return OWNERLIST_PUT;
	if (!traced && (is->state != listed->state || (listed->has_remote && !has_remote)))
		return OWNERLIST_PUT;
	return OWNERLIST_KEEP;
}

static struct esc_owner owner_of(const struct rdmares_qp *listed, uint32_t pid, const char comm[16])
{
	uint64_t now_ns = time_local_ns();
	struct esc_owner out = {.first_local_ns = now_ns,
				.changed_local_ns = now_ns,
				.pid = pid,
				.type = listed->type,
				.state = listed->state,
				.port = listed->port,
				.flags = ESC_OWNER_LISTED};

	if (listed->has_remote && listed->remote_qpn) {
		out.remote_qpn = listed->remote_qpn;
		out.flags |= ESC_OWNER_REMOTE_QPN;
	}
	if (listed->port)
		out.flags |= ESC_OWNER_PORT;
	memcpy(out.comm, comm, sizeof(out.comm));
	memcpy(out.device, listed->name, sizeof(out.device));
	return out;
}

/* True: the map has it now, and had not. */
static bool put(struct ownerlist *list, const struct rdmares_qp *listed, bool traced)
{
	struct esc_owner_key key = {.device = listed->device, .qpn = listed->qpn};
	struct esc_owner is, fresh;
	bool there = !bpf_map_lookup_elem(list->fd, &key, &is);
	char comm[16] = "";
	uint32_t pid = 0;

	if (listed->type < FIRST_TYPE)
		return false;
	if (listed->kernel[0])
		memcpy(comm, listed->kernel, sizeof(comm));
	else if (listed->tid && !job_read_process("/proc", listed->tid, &pid, comm))
		pid = 0;
	if (ownerlist_decide(there ? &is : NULL, listed, pid, traced, list->started_local_ns) !=
	    OWNERLIST_PUT)
		return false;
	fresh = owner_of(listed, pid, comm);
	return !bpf_map_update_elem(list->fd, &key, &fresh, there ? BPF_EXIST : BPF_NOEXIST);
}

/* Entries go that are of devices that were listed, or are not there any more. */
static bool stays(const void *at, void *context)
{
	const struct esc_owner_key *key = at;
	const struct ownerlist *list = context;
	bool covered = list->result.device_count == list->result.device_seen ||
		       rdmares_has_device(&list->result, key->device);
	struct esc_owner is;

	if (!covered || rdmares_find(&list->result, key->device, key->qpn) ||
	    bpf_map_lookup_elem(list->fd, key, &is))
		return true;
	return ownerlist_decide(&is, NULL, 0, false, list->started_local_ns) != OWNERLIST_DROP;
}

static void merge(struct ownerlist *list, bool traced)
{
	size_t news = 0;

	if (list->err) {
		log_debug("RDMA netlink: %s", strerror(-list->err));
		list->due_local_ns = list->started_local_ns + PERIOD_NS;
		return;
	}
	list->works = list->result.device_count > 0;
	mapsweep(list->fd, sizeof(struct esc_owner_key), stays, list);
	for (size_t i = 0; i < list->result.count; i++)
		news += put(list, &list->result.qps[i], traced);
	/*
	 * One that was destroyed after it was listed has been put in for good: the next list takes
	 * it out. Traced, a list without news is the last.
	 */
	if (news)
		list->due_local_ns = time_local_ns() + AGAIN_NS;
	else if (!traced)
		list->due_local_ns = time_local_ns() + PERIOD_NS;
}

void ownerlist_tick(struct ownerlist *list, uint64_t now_local_ns, bool traced)
{
	if (list->listing && __atomic_load_n(&list->done, __ATOMIC_ACQUIRE)) {
		bool due = list->due_local_ns == 0; /* tracing began while it was listed */

		pthread_join(list->thread, NULL);
		list->listing = false;
		merge(list, traced);
		rdmares_free(&list->result);
		if (due)
			list->due_local_ns = 0;
	}
	if (!list->listing && now_local_ns >= list->due_local_ns)
		begin(list);
}
