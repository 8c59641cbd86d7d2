// SPDX-License-Identifier: BSD-2-Clause
#include "sysdump.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/explain.h"

struct archive_file {
	struct archive *archive;
	char *path, *folder; /* folder: what each name begins with */
	int fd;		     /* of our own file; -1: the standard output */
};

static void archive_file_free(struct archive_file *file)
{
	if (file->archive)
		archive_write_free(file->archive);
	if (file->fd >= 0)
		close(file->fd);
	free(file->path);
	free(file->folder);
	free(file);
}

static int explain_failure(const struct archive_file *file, char **error)
{
	int err = archive_errno(file->archive);
	const char *text = archive_error_string(file->archive);

	return explain(error, err > 0 ? -err : -EIO, "%s: %s%s%s", file->path,
		       text ? text : "it cannot be written", err > 0 ? ": " : "",
		       err > 0 ? strerror(err) : "");
}

int archive_open(struct archive_file **out, const char *path, const char *folder, char **error)
{
	struct archive_file *file = calloc(1, sizeof(*file));
	bool standard = !strcmp(path, "-");
	int err;

	if (!file)
		return -ENOMEM;
	file->fd = -1;
	file->path = strdup(standard ? "the standard output" : path);
	file->folder = strdup(folder);
	if (!standard)
		file->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (!file->path || !file->folder || (!standard && file->fd < 0)) {
		err = errno;
		explain(error, 0, "%s: %s; give another FILE", path,
			err == EEXIST ? "it is there already" : strerror(err));
		archive_file_free(file);
		return -err;
	}
	file->archive = archive_write_new();
	if (file->archive && !archive_write_add_filter_gzip(file->archive) &&
	    !archive_write_set_format_pax_restricted(file->archive) &&
	    !archive_write_open_fd(file->archive, standard ? STDOUT_FILENO : file->fd)) {
		*out = file;
		return 0;
	}
	err = file->archive ? explain_failure(file, error) : -ENOMEM;
	if (!standard)
		unlink(path);
	archive_file_free(file);
	return err;
}

int archive_add(struct archive_file *file, const char *name, const void *bytes, size_t size,
		char **error)
{
	struct archive_entry *entry = archive_entry_new();
	char path[512];
	int err = 0;

	if (!entry)
		return -ENOMEM;
	snprintf(path, sizeof(path), "%s/%s", file->folder, name);
	archive_entry_set_pathname(entry, path);
	archive_entry_set_size(entry, (int64_t)size);
	archive_entry_set_filetype(entry, AE_IFREG);
	archive_entry_set_perm(entry, 0600);
	archive_entry_set_mtime(entry, time(NULL), 0);
	if (archive_write_header(file->archive, entry) ||
	    archive_write_data(file->archive, bytes, size) != (la_ssize_t)size)
		err = explain_failure(file, error);
	archive_entry_free(entry);
	return err;
}

int archive_close(struct archive_file *file, bool keep, char **error)
{
	int err = 0;

	if (keep && archive_write_close(file->archive))
		err = explain_failure(file, error);
	if (!err && keep && file->fd >= 0 && fsync(file->fd))
		err = explain(error, -errno, "%s: %s", file->path, strerror(errno));
	if ((err || !keep) && file->fd >= 0)
		unlink(file->path);
	if (!keep)
		archive_write_fail(file->archive);
	archive_file_free(file);
	return err;
}
