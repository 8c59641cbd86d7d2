// SPDX-License-Identifier: BSD-2-Clause
#include "loader/libescapement/escapement.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "loader/libescapement/page.h"

/* A write takes less than a microsecond, four times a second. */
#define TRIES_MAX 1000
/* As the daemon's own bound grows when it is alone: drift wanders (clocksync/holdover.c). */
#define WANDER_PPB_PER_S 8
#define WANDER_MAX_PPB 320

struct escapement_clock {
	const struct clockpage_layout *page;
};

int escapement_clock_open(struct escapement_clock **clock, const char *path)
{
	struct escapement_clock *opened;
	struct stat status;
	void *memory;
	int fd, err;

	*clock = NULL;
	fd = open(path ? path : CLOCKPAGE_PATH_DEFAULT, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) || status.st_size < CLOCKPAGE_BYTES) {
		close(fd);
		return -EPROTO;
	}
	memory = mmap(NULL, CLOCKPAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	err = memory == MAP_FAILED ? -errno : 0;
	close(fd);
	if (err)
		return err;
	opened = malloc(sizeof(*opened));
	if (!opened) {
		munmap(memory, CLOCKPAGE_BYTES);
		return -ENOMEM;
	}
	opened->page = memory;
	if (opened->page->magic != CLOCKPAGE_MAGIC || opened->page->version != CLOCKPAGE_VERSION) {
		escapement_clock_close(opened);
		return -EPROTO;
	}
	*clock = opened;
	return 0;
}

void escapement_clock_close(struct escapement_clock *clock)
{
	if (!clock)
		return;
	munmap((void *)clock->page, CLOCKPAGE_BYTES);
	free(clock);
}

/* What an uncorrected clock may have wandered, beyond the model's own growth. */
static int64_t wander_ns(int64_t alone_ns)
{
	int64_t alone_ms = alone_ns / 1000000;
	int64_t begins = WANDER_PPB_PER_S * alone_ms * alone_ms / 2000000;
	int64_t later = WANDER_MAX_PPB * alone_ms / 1000;

	if (alone_ms > 1000ll * WANDER_MAX_PPB)
		return later;
	return begins < later ? begins : later;
}

static uint64_t nanoseconds(const struct timespec *at)
{
	return (uint64_t)at->tv_sec * 1000000000ull + (uint64_t)at->tv_nsec;
}

/* A model from before the machine was suspended: its local time did not run. */
static bool stood_still(uint64_t suspended_ns, const struct timespec *boot,
			const struct timespec *now)
{
	return suspended_ns && (int64_t)(nanoseconds(boot) - nanoseconds(now) - suspended_ns) >
				       ESC_SUSPENDED_MIN_NS;
}

static bool page_read(const struct clockpage_layout *page, struct clock_model *model,
		      int64_t *local_ns)
{
	struct timespec boot, now;
	uint64_t suspended_ns;
	uint32_t before;

	for (int i = 0; i < TRIES_MAX; i++) {
		before = __atomic_load_n(&page->sequence, __ATOMIC_ACQUIRE);
		if (before & 1)
			continue;
		*model = page->model;
		suspended_ns = page->suspended_ns;
		/* First: a delay between the two is not taken for a suspension then. */
		clock_gettime(CLOCK_BOOTTIME, &boot);
		/* Inside the lock: a time read long before the model would be put on its past. */
		clock_gettime(CLOCK_MONOTONIC, &now);
		*local_ns =
			clock_local_ns(nanoseconds(&now), page->lab_offset_ns, page->lab_drift_ppb);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&page->sequence, __ATOMIC_RELAXED) != before)
			continue;
		if (stood_still(suspended_ns, &boot, &now))
			model->state = CLOCK_FREE_RUNNING;
		return true;
	}
	return false;
}

int escapement_now(const struct escapement_clock *clock, struct escapement_time *out)
{
	struct clock_model model;
	int64_t local_ns, fabric_ns, bound_ns, age_ns;

	*out = (struct escapement_time){.status = ESCAPEMENT_FREE_RUNNING};
	if (!page_read(clock->page, &model, &local_ns))
		return -EAGAIN;
	if (!model.generation || model.state == CLOCK_FREE_RUNNING)
		return 0;
	fabric_ns = clock_model_read(&model, local_ns);
	bound_ns = clock_model_bound(&model, local_ns);
	age_ns = local_ns - model.bound_local_ns;
	out->status = (enum escapement_status)model.state;
	if (age_ns > CLOCKPAGE_STALE_NS) {
		out->status = ESCAPEMENT_HOLDOVER;
		bound_ns += wander_ns(age_ns);
	}
	if (bound_ns > CLOCK_BOUND_MAX_NS) {
		out->status = ESCAPEMENT_FREE_RUNNING;
		return 0;
	}
	out->earliest_ns = fabric_ns - bound_ns;
	out->latest_ns = fabric_ns + bound_ns;
	return 0;
}

const char *escapement_status_name(enum escapement_status status)
{
	static const char *const names[] = {"free_running", "converging", "synced", "holdover"};

	return (unsigned int)status < 4 ? names[status] : "free_running";
}
