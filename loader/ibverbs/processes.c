// SPDX-License-Identifier: BSD-2-Clause
/*
 * The files of processes with libescapement-verbs, or another library. They are users': nothing is
 * mapped, since a file that its owner cuts would be a SIGBUS, and no name is followed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "base/verb.h"
#include "internal.h"

#define FOLDER_MODE 01730	/* who may write into it cannot list it, nor remove others' files */
#define RATE_NS 500000000ull	/* a rate is over no less */
#define BEGIN_NS 10000000000ull /* from a file's creation to its header, at most */
#define CHUNK 64		/* slots in a call */

int processes_make_folder(const char *folder)
{
	char buffer[16384];
	struct group group, *found = NULL;
	struct stat status;

	if (mkdir(folder, 0700) && errno != EEXIST)
		return -errno;
	if (lstat(folder, &status))
		return -errno;
	if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid())
		return -ENOTDIR;
	/* An administrator may have made it, with the rights that are wanted. */
	if ((status.st_mode & 07777) != 0700)
		return 0;
	getgrnam_r(PLACES_GROUP, &group, buffer, sizeof(buffer), &found);
	if (found && lchown(folder, (uid_t)-1, found->gr_gid))
		log_debug("%s cannot be given to the group " PLACES_GROUP, folder);
	return chmod(folder, FOLDER_MODE) ? -errno : 0;
}

/* --- sums --- */

static struct verbs_totals *totals_of(struct processes *processes, const char *device)
{
	struct verbs_totals *totals = processes->totals;

	for (size_t i = 0; i < processes->device_count; i++)
		if (!strcmp(totals[i].device, device))
			return &totals[i];
	if (processes->device_count + 1 >= DEVICES_MAX) /* the last place is of all others */
		device = "";
	for (size_t i = 0; !*device && i < processes->device_count; i++)
		if (!totals[i].device[0])
			return &totals[i];
	totals = &totals[processes->device_count++];
	memcpy(totals->device, device, strlen(device) + 1);
	return totals;
}

/* A count that went back, by a post that failed or a user's own doing, adds nothing. */
static uint64_t grown(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static void grow(uint64_t *sum, uint64_t now, uint64_t before)
{
	*sum += grown(now, before);
}

static void add_growth(struct ibverbs_growth *sum, const struct segment_qp *now,
		       const struct segment_qp *before)
{
	sum->messages += grown(segment_messages(now), segment_messages(before));
	sum->bytes += grown(segment_bytes(now), segment_bytes(before));
	sum->received += grown(now->received, before->received);
	sum->received_bytes += grown(now->received_bytes, before->received_bytes);
	sum->errors += grown(watch_failures(now), watch_failures(before));
}

static uint64_t errors_of(const struct segment_qp *qp)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < SEGMENT_STATUSES; i++)
		sum += qp->statuses[i];
	return sum;
}

static void add_totals(struct processes *processes, const struct segment_qp *now,
		       const struct segment_qp *before)
{
	struct verbs_totals *totals = totals_of(processes, now->device);

	for (unsigned int i = 0; i < SEGMENT_KINDS; i++) {
		grow(&totals->messages[i], now->messages[i], before->messages[i]);
		grow(&totals->bytes[i], now->bytes[i], before->bytes[i]);
	}
	grow(&totals->received, now->received, before->received);
	grow(&totals->received_bytes, now->received_bytes, before->received_bytes);
	grow(&totals->errors, errors_of(now), errors_of(before));
}

/* --- one file --- */

static void take_rates(struct verbs_qp *qp, uint64_t now_local_ns)
{
	uint64_t sent = segment_bytes(&qp->is), received = qp->is.received_bytes;
	double seconds = (double)(now_local_ns - qp->before.local_ns) / 1e9;

	if (qp->before.local_ns && now_local_ns - qp->before.local_ns < RATE_NS)
		return;
	if (qp->before.local_ns) {
		qp->sent_per_second = qp->received_per_second = 0;
		if (sent > qp->before.sent)
			qp->sent_per_second = (double)(sent - qp->before.sent) / seconds;
		if (received > qp->before.received)
			qp->received_per_second =
				(double)(received - qp->before.received) / seconds;
	}
	qp->before.local_ns = now_local_ns;
	qp->before.sent = sent;
	qp->before.received = received;
}

static void note_pending(struct verbs_qp *qp, const struct segment_qp *now, uint64_t now_local_ns)
{
	if (!watch_pending(now))
		qp->pending_local_ns = 0;
	else if (!qp->pending_local_ns || now->completed != qp->is.completed)
		qp->pending_local_ns = now_local_ns;
	/* What it was before the first reading is not known. */
	if (now->epoch != qp->is.epoch)
		qp->failures_before = watch_failures(now);
}

/* It moved after @after_local_ns, and before now: it has been read. */
static void note_progress(const struct processes *processes, struct qp_progress *progress,
			  uint64_t after_local_ns)
{
	uint64_t before_local_ns = time_local_ns();
	int64_t bound_ns;

	*progress = (struct qp_progress){.moved = true, .moved_local_ns = before_local_ns};
	if (after_local_ns > before_local_ns)
		after_local_ns = before_local_ns;
	progress->timed = processes->read_time &&
			  processes->read_time(processes->time_context, after_local_ns,
					       &progress->after_fabric_ns, &bound_ns) &&
			  processes->read_time(processes->time_context, before_local_ns,
					       &progress->before_fabric_ns, &progress->bound_ns);
	if (progress->timed && bound_ns > progress->bound_ns)
		progress->bound_ns = bound_ns;
}

static uint64_t moves_of(const struct segment_qp *qp, enum esc_direction direction)
{
	return direction == ESC_DIRECTION_RX ? qp->received
					     : segment_messages(qp) + qp->completed + errors_of(qp);
}

/* @before NULL: it is read for the first time. */
static void note_moves(const struct processes *processes, struct verbs_qp *qp,
		       const struct segment_qp *before, const struct segment_qp *now)
{
	/* What an earlier daemon saw may have moved long ago. */
	if (!processes->has_polled)
		return;
	for (unsigned int d = 0; d < 2; d++) {
		uint64_t moves = moves_of(now, d);

		if (before ? moves != moves_of(before, d) : moves != 0)
			note_progress(processes, &qp->progress[d],
				      before ? qp->read_local_ns : now->first_local_ns);
	}
}

static void take_slot(struct processes *processes, struct process *process, struct verbs_qp *qp,
		      const struct segment_qp *raw, uint64_t now_local_ns)
{
	struct segment_qp now, none = {};
	bool is_same;

	if (!segment_take_qp(raw, &now))
		return;
	is_same = qp->is.state != SEGMENT_FREE && qp->is.generation == now.generation;
	add_totals(processes, &now, is_same ? &qp->is : &none);
	add_growth(&process->grown, &now, is_same ? &qp->is : &none);
	if (!is_same) {
		free(qp->delays);
		*qp = (struct verbs_qp){};
	}
	note_moves(processes, qp, is_same ? &qp->is : NULL, &now);
	note_pending(qp, &now, now_local_ns);
	if (!is_same || memcmp(&qp->is, &now, sizeof(now)))
		qp->moved_local_ns = now_local_ns;
	qp->is = now;
	qp->read_local_ns = now_local_ns;
	take_rates(qp, now_local_ns);
}

/* Room for the slots that are used. */
static void reserve(struct processes *processes, struct process *process)
{
	size_t wanted = process->header.used, room = process->count;

	if (wanted <= process->count)
		return;
	if (processes->qp_count + wanted - process->count > QPS_MAX ||
	    array_reserve(&process->qps, &room, wanted, sizeof(*process->qps))) {
		processes->refused++;
		return;
	}
	memset(&process->qps[process->count], 0, (wanted - process->count) * sizeof(*process->qps));
	processes->qp_count += wanted - process->count;
	process->count = wanted;
}

/* Those of the ring that are new, the oldest first; what was overwritten meanwhile is skipped. */
static void read_samples(struct processes *processes, struct process *process)
{
	static struct segment_sample ring[SEGMENT_SAMPLES];
	uint64_t end = process->header.samples, begin = process->samples_taken;
	int64_t fabric_ns, bound_ns;

	if (!processes->read_time || end == begin)
		return;
	if (pread(process->fd, ring, sizeof(ring), SEGMENT_BYTES - sizeof(ring)) != sizeof(ring))
		return;
	if (begin > end || end - begin > SEGMENT_SAMPLES)
		begin = end < SEGMENT_SAMPLES ? 0 : end - SEGMENT_SAMPLES;
	for (uint64_t i = begin; i < end; i++) {
		const struct segment_sample *sample = &ring[i % SEGMENT_SAMPLES];

		if (sample->place == (uint32_t)i + 1 &&
		    processes->read_time(processes->time_context, sample->local_ns, &fabric_ns,
					 &bound_ns))
			delays_take(process, sample, fabric_ns, bound_ns);
	}
	process->samples_taken = end;
}

static void read_process(struct processes *processes, struct process *process,
			 uint64_t now_local_ns)
{
	const struct ibverbs_files *files = process->files;
	struct segment_header *header = &process->header;
	static struct segment_qp chunk[CHUNK];
	struct segment_header raw;
	uint64_t polls = process->header.polls;

	if (files) {
		process->begun = files->read(files->context, process->fd, &process->own,
					     header->comm, header->rank, header->job_id) ||
				 process->begun;
		return;
	}
	if (pread(process->fd, &raw, sizeof(raw), 0) != sizeof(raw) ||
	    !segment_take_header(&raw, &process->header))
		return;
	process->begun = true;
	if (process->header.polls != polls)
		process->polled_local_ns = now_local_ns;
	reserve(processes, process);
	for (size_t first = 0; first < process->count; first += CHUNK) {
		size_t count = process->count - first < CHUNK ? process->count - first : CHUNK;
		off_t at = (off_t)(sizeof(raw) + first * sizeof(chunk[0]));

		if (pread(process->fd, chunk, count * sizeof(chunk[0]), at) !=
		    (ssize_t)(count * sizeof(chunk[0])))
			return;
		for (size_t i = 0; i < count; i++)
			take_slot(processes, process, &process->qps[first + i], &chunk[i],
				  now_local_ns);
	}
	read_samples(processes, process);
}

/* The process that has the lock, as the kernel knows it: its owner cannot claim another one. */
static bool lives(struct process *process)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (fcntl(process->fd, F_GETLK, &whole) || whole.l_type == F_UNLCK)
		return false;
	if (whole.l_pid > 0 && !process->pid) {
		process->pid = whole.l_pid;
		job_read("/proc", process->pid, &process->job);
	}
	return true;
}

static void end_process(const struct processes *processes, struct process *process, int folder,
			uint64_t now_local_ns)
{
	if (unlinkat(folder, process->name, 0) && errno != ENOENT)
		log_debug("%s/%s cannot be removed: %s", processes->folder, process->name,
			  strerror(errno));
	close(process->fd);
	process->fd = -1;
	process->ended_local_ns = now_local_ns;
}

/* --- the folder --- */

static bool is_name(const char *name)
{
	return strspn(name, "0123456789abcdef") == SEGMENT_NAME_DIGITS &&
	       !name[SEGMENT_NAME_DIGITS];
}

static bool is_known(const struct processes *processes, const char *name)
{
	for (size_t i = 0; i < processes->count; i++)
		if (!strcmp(processes->list[i]->name, name))
			return true;
	return false;
}

static size_t of_user(const struct processes *processes, uid_t uid)
{
	size_t count = 0;

	for (size_t i = 0; i < processes->count; i++)
		count += processes->list[i]->uid == uid;
	return count;
}

static void open_process(struct processes *processes, int folder, const char *name,
			 uint64_t now_local_ns)
{
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	const struct ibverbs_files *files = processes->files;
	struct process *process;
	struct stat status;

	if (fd < 0)
		return;
	if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_nlink != 1 ||
	    (status.st_size != SEGMENT_BYTES && status.st_size != 0 &&
	     (!files || (uint64_t)status.st_size != files->bytes))) {
		processes->unreadable++;
		goto fail;
	}
	/* It was made just now. */
	if (!status.st_size)
		goto fail;
	process = of_user(processes, status.st_uid) < PROCESSES_USER_MAX
			  ? calloc(1, sizeof(*process))
			  : NULL;
	if (!process) {
		processes->refused++;
		goto fail;
	}
	process->fd = fd;
	process->uid = status.st_uid;
	process->files = status.st_size == SEGMENT_BYTES ? NULL : files;
	process->opened_local_ns = now_local_ns;
	memcpy(process->name, name, sizeof(process->name));
	processes->list[processes->count++] = process;
	return;
fail:
	close(fd);
}

/* Names that are none of a segment stay: they are not ours. */
static void look_for_files(struct processes *processes, DIR *folder, uint64_t now_local_ns)
{
	const struct dirent *entry;

	for (unsigned int i = 0; (entry = readdir(folder)); i++) {
		if (i == FILES_MAX) {
			processes->refused++;
			break;
		}
		if (!is_name(entry->d_name) || is_known(processes, entry->d_name))
			continue;
		if (processes->count < PROCESSES_MAX)
			open_process(processes, dirfd(folder), entry->d_name, now_local_ns);
		else
			processes->refused++;
	}
}

static void free_process(struct processes *processes, struct process *process)
{
	if (process->fd >= 0)
		close(process->fd);
	if (process->own)
		process->files->free(process->files->context, process->own);
	processes->qp_count -= process->count;
	for (size_t i = 0; i < process->count; i++)
		free(process->qps[i].delays);
	free(process->qps);
	free(process);
}

/* Two copies of the library in one process count the same. */
static bool is_double(const struct processes *processes, const struct process *process)
{
	for (size_t i = 0; process->pid && i < processes->count; i++) {
		const struct process *other = processes->list[i];

		if (other == process)
			return false;
		if (other->fd >= 0 && other->pid == process->pid && other->files == process->files)
			return true;
	}
	return false;
}

/* False: it is forgotten. */
static bool poll_process(struct processes *processes, struct process *process, int folder,
			 uint64_t now_local_ns)
{
	bool alive;

	if (process->fd < 0)
		return now_local_ns - process->ended_local_ns < processes->idle_ns;
	/* In this order: what it wrote last is read, and then it is known to have ended. */
	alive = lives(process);
	if (!is_double(processes, process))
		read_process(processes, process, now_local_ns);
	if (alive || (!process->begun && now_local_ns - process->opened_local_ns < BEGIN_NS))
		return true;
	end_process(processes, process, folder, now_local_ns);
	return process->begun;
}

void processes_poll(struct processes *processes, uint64_t now_local_ns)
{
	int fd = open(processes->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	size_t kept = 0;

	if (!folder) {
		if (fd >= 0)
			close(fd);
		return;
	}
	processes->refused = processes->unreadable = 0;
	look_for_files(processes, folder, now_local_ns);
	for (size_t i = 0; i < processes->count; i++) {
		struct process *process = processes->list[i];

		if (poll_process(processes, process, dirfd(folder), now_local_ns))
			processes->list[kept++] = process;
		else
			free_process(processes, process);
	}
	processes->count = kept;
	processes->has_polled = true;
	closedir(folder);
}

void processes_forget(struct processes *processes, const struct ibverbs_files *files)
{
	size_t kept = 0;

	for (size_t i = 0; i < processes->count; i++) {
		if (files && processes->list[i]->files == files)
			free_process(processes, processes->list[i]);
		else
			processes->list[kept++] = processes->list[i];
	}
	processes->count = kept;
}

void processes_free(struct processes *processes)
{
	for (size_t i = 0; i < processes->count; i++)
		free_process(processes, processes->list[i]);
	processes->count = 0;
	free(processes->folder);
}
