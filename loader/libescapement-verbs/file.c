// SPDX-License-Identifier: BSD-2-Clause
/* The file of a process that escapementd reads. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "loader/ibverbs/segment.h"
#include "file.h"

#define ROOM_BYTES (32ull << 20) /* of the file system, free before a file is made */

/* A list of programs, "all_reduce_perf,python3"; none: all. */
static bool is_allowed(void)
{
	const char *list = getenv("ESCAPEMENT_VERBS_PROGRAMS"), *off = getenv("ESCAPEMENT_VERBS");
	size_t length = strlen(program_invocation_short_name);

	if (getauxval(AT_SECURE) || (off && !strcmp(off, "off")))
		return false;
	if (!list || !*list)
		return true;
	for (; *list; list += strcspn(list, ","), list += *list == ',')
		if (strcspn(list, ",") == length &&
		    !strncmp(list, program_invocation_short_name, length))
			return true;
	return false;
}

static void copy_variable(char *out, size_t bytes, const char *const names[])
{
	for (; *names; names++) {
		const char *value = getenv(*names);

		if (value && *value) {
			strncpy(out, value, bytes - 1);
			return;
		}
	}
}

void file_identify(char comm[16], char rank[16], char job_id[64])
{
	static const char *const ranks[] = {"RANK",	"OMPI_COMM_WORLD_RANK", "PMIX_RANK",
					    "PMI_RANK", "SLURM_PROCID",		NULL};
	static const char *const jobs[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID",
					   NULL};

	strncpy(comm, program_invocation_short_name, 15);
	copy_variable(rank, 16, ranks);
	copy_variable(job_id, 64, jobs);
}

/*
 * The file stays open for its lock. It is filled now: a full file system must not be met by a store
 * into the mapping, which would be a SIGBUS; and the rest of it is left to others.
 */
void *file_make(size_t bytes)
{
	const char *folder = getenv("ESCAPEMENT_VERBS_FOLDER");
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char path[4096];
	struct statvfs room;
	void *memory = MAP_FAILED;
	uint64_t random;
	int fd;

	folder = folder && *folder ? folder : SEGMENT_FOLDER_DEFAULT;
	if (statvfs(folder, &room) || room.f_bavail * room.f_frsize < ROOM_BYTES ||
	    getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		return NULL;
	if ((size_t)snprintf(path, sizeof(path), "%s/%016llx", folder,
			     (unsigned long long)random) >= sizeof(path))
		return NULL;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return NULL;
	if (!fcntl(fd, F_SETLK, &whole) && !fchmod(fd, 0644) && !posix_fallocate(fd, 0, bytes))
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory != MAP_FAILED)
		return memory;
	unlink(path);
	close(fd);
	return NULL;
}

static bool forked, allowed;
static void (*child_hook)(void);
static pthread_once_t asked = PTHREAD_ONCE_INIT;

static void stop_in_child(void)
{
	forked = true;
	child_hook();
}

static void ask(void)
{
	allowed = is_allowed() && !pthread_atfork(NULL, NULL, stop_in_child);
}

bool file_may_write(void (*in_child)(void))
{
	__atomic_store_n(&child_hook, in_child, __ATOMIC_RELAXED);
	pthread_once(&asked, ask);
	return allowed && !forked;
}
