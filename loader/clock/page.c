// SPDX-License-Identifier: BSD-2-Clause
#include "page.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/explain.h"
#include "loader/libescapement/page.h"

struct clockpage {
	struct clockpage_layout *layout;
};

static bool page_is_ours(int fd)
{
	struct clockpage_layout layout;
	struct stat status;

	return !fstat(fd, &status) && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
	       status.st_size == CLOCKPAGE_BYTES &&
	       pread(fd, &layout, sizeof(layout), 0) == sizeof(layout) &&
	       layout.magic == CLOCKPAGE_MAGIC && layout.version == CLOCKPAGE_VERSION;
}

/* A page of another version is left to those who have it mapped; its name is ours. */
static int page_make(const char *path)
{
	int fd, err;

	if (unlink(path) && errno != ENOENT)
		return -errno;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	/* Whatever the umask: everybody may know what time it is. */
	if (!fchmod(fd, 0644) && !ftruncate(fd, CLOCKPAGE_BYTES))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static void page_begin(struct clockpage_layout *layout, int64_t lab_offset_ns,
		       int64_t lab_drift_ppb)
{
	/* Odd when a daemon was killed while it wrote. */
	uint32_t sequence = layout->sequence | 1;

	__atomic_store_n(&layout->sequence, sequence, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (layout->lab_offset_ns != lab_offset_ns || layout->lab_drift_ppb != lab_drift_ppb)
		layout->model.generation = 0; /* of another clock */
	layout->lab_offset_ns = lab_offset_ns;
	layout->lab_drift_ppb = lab_drift_ppb;
	layout->version = CLOCKPAGE_VERSION;
	layout->magic = CLOCKPAGE_MAGIC;
	__atomic_store_n(&layout->sequence, sequence + 1, __ATOMIC_RELEASE);
}

int clockpage_open(struct clockpage **out, const char *path, int64_t lab_offset_ns,
		   int64_t lab_drift_ppb, char **error)
{
	struct clockpage *page = calloc(1, sizeof(*page));
	void *memory = MAP_FAILED;
	char *copy = strdup(path);
	int fd, err = 0;

	*out = NULL;
	if (copy)
		mkdir(dirname(copy), 0755); /* when it fails, open() says why */
	free(copy);
	if (!page)
		return -ENOMEM;
	fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && !page_is_ours(fd)) {
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		err = fd = page_make(path);
	if (fd >= 0) {
		memory = mmap(NULL, CLOCKPAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		err = memory == MAP_FAILED ? -errno : 0;
		close(fd);
	}
	if (err) {
		free(page);
		return explain(error, err, "%s, which applications read the time from: %s", path,
			       strerror(-err));
	}
	page->layout = memory;
	page_begin(page->layout, lab_offset_ns, lab_drift_ppb);
	*out = page;
	return 0;
}

void clockpage_close(struct clockpage *page)
{
	if (!page)
		return;
	munmap(page->layout, CLOCKPAGE_BYTES);
	free(page);
}

void clockpage_write(struct clockpage *page, const struct clock_model *model)
{
	struct clockpage_layout *layout = page->layout;
	uint32_t sequence = layout->sequence;

	__atomic_store_n(&layout->sequence, sequence + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	layout->model = *model;
	__atomic_store_n(&layout->sequence, sequence + 2, __ATOMIC_RELEASE);
}
