// SPDX-License-Identifier: BSD-2-Clause
#include "ownerlist.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "job.h"
#include "base/log.h"

#define OWNERLIST_AGAIN_NS 2000000000ULL   /* after a list that had news */
#define OWNERLIST_PERIOD_NS 15000000000ULL /* where nothing is traced */
#define OWNERLIST_FIRST_TYPE 2		   /* below are the ports' own: SMI, GSI */

struct ownerlist {
	int fd;
	bool asking, works;
	uint64_t ask_local_ns;	 /* when next; UINT64_MAX: not again */
	uint64_t asked_local_ns; /* before the kernel began to list */
	pthread_t thread;
	int answered; /* written by the thread, last */
	int err;
	struct rdmares answer;
};

static uint64_t ownerlist_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct ownerlist *ownerlist_new(int owners_fd)
{
	struct ownerlist *list = calloc(1, sizeof(*list));

	if (list)
		list->fd = owners_fd;
	return list;
}

static void ownerlist_end(struct ownerlist *list)
{
	pthread_join(list->thread, NULL);
	list->asking = false;
}

void ownerlist_free(struct ownerlist *list)
{
	if (!list)
		return;
	if (list->asking)
		ownerlist_end(list);
	rdmares_free(&list->answer);
	free(list);
}

void ownerlist_ask_anew(struct ownerlist *list)
{
	list->ask_local_ns = 0;
}

bool ownerlist_works(const struct ownerlist *list)
{
	return list->works;
}

/* --- the thread --- */

static void *ownerlist_run(void *context)
{
	struct ownerlist *list = context;

	list->err = rdmares_read(&list->answer);
	__atomic_store_n(&list->answered, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void ownerlist_ask(struct ownerlist *list)
{
	list->asked_local_ns = ownerlist_now_ns();
	list->ask_local_ns = UINT64_MAX;
	list->answered = 0;
	list->asking = !pthread_create(&list->thread, NULL, ownerlist_run, list);
	if (!list->asking)
		list->ask_local_ns = list->asked_local_ns + OWNERLIST_PERIOD_NS;
}

/* --- the answer against the map --- */

enum ownerlist_verdict ownerlist_judge(const struct esc_owner *is, const struct rdmares_qp *listed,
				       uint32_t listed_pid, bool traced, uint64_t asked_local_ns)
{
	bool has_remote, other_process, other_peer;

	if (!is)
		return listed ? OWNERLIST_PUT : OWNERLIST_KEEP;
	/* Newer than the list, which cannot know of it. */
	if (is->first_local_ns >= asked_local_ns || is->changed_local_ns >= asked_local_ns)
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

static void ownerlist_fill(const struct rdmares_qp *listed, uint64_t now_ns, uint32_t pid,
			   const char *comm, struct esc_owner *out)
{
	memset(out, 0, sizeof(*out));
	out->first_local_ns = now_ns;
	out->changed_local_ns = now_ns;
	out->pid = pid;
	out->type = listed->type;
	out->state = listed->state;
	out->flags = ESC_OWNER_LISTED;
	if (listed->has_remote && listed->remote_qpn) {
		out->remote_qpn = listed->remote_qpn;
		out->flags |= ESC_OWNER_REMOTE_QPN;
	}
	if (listed->port) {
		out->port = listed->port;
		out->flags |= ESC_OWNER_PORT;
	}
	memcpy(out->comm, comm, sizeof(out->comm));
	memcpy(out->device, listed->name, sizeof(out->device));
}

static bool ownerlist_take(struct ownerlist *list, const struct rdmares_qp *listed, bool traced)
{
	struct esc_owner_key key = {.device = listed->device, .qpn = listed->qpn};
	struct esc_owner is, fresh;
	bool there = !bpf_map_lookup_elem(list->fd, &key, &is);
	char comm[16] = "";
	uint32_t pid = 0;

	if (listed->type < OWNERLIST_FIRST_TYPE)
		return false;
	if (listed->kernel[0])
		memcpy(comm, listed->kernel, sizeof(comm));
	else if (listed->tid && !job_read_process("/proc", listed->tid, &pid, comm))
		pid = 0;
	if (ownerlist_judge(there ? &is : NULL, listed, pid, traced, list->asked_local_ns) !=
	    OWNERLIST_PUT)
		return false;
	ownerlist_fill(listed, ownerlist_now_ns(), pid, comm, &fresh);
	return !bpf_map_update_elem(list->fd, &key, &fresh, there ? BPF_EXIST : BPF_NOEXIST);
}

/* Entries of devices that were listed, or are not there any more. */
static bool ownerlist_covers(const struct ownerlist *list, uint32_t device)
{
	return list->answer.device_count == list->answer.device_seen ||
	       rdmares_has_device(&list->answer, device);
}

static void ownerlist_drop_gone(struct ownerlist *list, bool traced)
{
	struct esc_owner_key key, next;
	int err = bpf_map_get_next_key(list->fd, NULL, &next);

	for (uint32_t i = 0; !err && i < 2 * ESC_OWNERS_MAX; i++) {
		struct esc_owner is;

		key = next;
		err = bpf_map_get_next_key(list->fd, &key, &next);
		if (!ownerlist_covers(list, key.device) || bpf_map_lookup_elem(list->fd, &key, &is))
			continue;
		if (!rdmares_find(&list->answer, key.device, key.qpn) &&
		    ownerlist_judge(&is, NULL, 0, traced, list->asked_local_ns) == OWNERLIST_DROP)
			bpf_map_delete_elem(list->fd, &key);
	}
}

static void ownerlist_merge(struct ownerlist *list, bool traced)
{
	size_t put = 0;

	if (list->err) {
		log_debug("RDMA netlink: %s", strerror(-list->err));
		list->ask_local_ns = list->asked_local_ns + OWNERLIST_PERIOD_NS;
		return;
	}
	list->works = list->answer.device_count > 0;
	ownerlist_drop_gone(list, traced);
	for (size_t i = 0; i < list->answer.count; i++)
		put += ownerlist_take(list, &list->answer.qps[i], traced);
	/*
	 * One that was destroyed after it was listed has been put in for good:
	 * the next list takes it out. Traced, a list without news is the last.
	 */
	if (put)
		list->ask_local_ns = ownerlist_now_ns() + OWNERLIST_AGAIN_NS;
	else if (!traced)
		list->ask_local_ns = ownerlist_now_ns() + OWNERLIST_PERIOD_NS;
}

void ownerlist_turn(struct ownerlist *list, uint64_t now_local_ns, bool traced)
{
	if (list->asking && __atomic_load_n(&list->answered, __ATOMIC_ACQUIRE)) {
		bool anew = list->ask_local_ns == 0;

		ownerlist_end(list);
		ownerlist_merge(list, traced);
		rdmares_free(&list->answer);
		if (anew) /* tracing began while it was listed */
			list->ask_local_ns = 0;
	}
	if (!list->asking && now_local_ns >= list->ask_local_ns)
		ownerlist_ask(list);
}
