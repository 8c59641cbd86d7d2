// SPDX-License-Identifier: BSD-2-Clause
/* Classes of TCP connections: pacing's own, as the TCP programs can hold them. */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/now.h"
#include "internal.h"
#include "pace/pace.h"
#include "qp/qp.h"

#define CGROUP_DEPTH_MAX 32
#define CGROUP_PATH_BYTES 4096

_Static_assert(ESC_TCP_CLASSES == ESC_PACE_CLASSES, "the classes are the same");

static bool matches_cgroups(const struct pace_class *class)
{
	return class->match && (class->match->cgroup || class->match->job);
}

void tcp_load_classes(struct esc_tcp_control *ctl, const struct pace *pace, uint32_t threshold_ns)
{
	unsigned int count;
	const struct pace_class *classes = pace_classes(pace, &count);

	memset(ctl->classes, 0, sizeof(ctl->classes));
	for (unsigned int i = 0; i < count; i++) {
		const struct pace_class_keys *match = classes[i].match;
		struct esc_tcp_class *out = &ctl->classes[i];

		out->weight = classes[i].weight;
		out->threshold_ns = i && classes[i].own_threshold
					    ? (uint32_t)classes[i].threshold_ns
					    : threshold_ns;
		if (!match)
			continue;
		out->dscps = match->dscps;
		out->port_first = match->port_first;
		out->port_last = match->port_last;
		out->by_cgroup = matches_cgroups(&classes[i]);
	}
	ctl->class_count = count;
}

const char *tcp_class_name(const struct pace *pace, unsigned int class)
{
	unsigned int count;
	const struct pace_class *classes = pace_classes(pace, &count);

	return classes[class < count ? class : 0].name;
}

/* --- cgroups --- */

/* Bytes of @path up to the mount point of its unified hierarchy; 0: it is in none. */
static size_t root_bytes(const char *path)
{
	FILE *mounts = setmntent("/proc/self/mounts", "r");
	const struct mntent *mount;
	size_t best = 0;

	while (mounts && (mount = getmntent(mounts))) {
		size_t bytes = strlen(mount->mnt_dir);

		if (!strcmp(mount->mnt_type, "cgroup2") && bytes > best &&
		    !strncmp(path, mount->mnt_dir, bytes) && (!path[bytes] || path[bytes] == '/'))
			best = bytes;
	}
	if (mounts)
		endmntent(mounts);
	return best;
}

/* What a walk looks for: a class by the patterns of its cgroup and its job; NULL: any. */
struct pattern {
	uint32_t bit;
	char *cgroup, *job;
};

struct tcp_walk {
	char path[CGROUP_PATH_BYTES]; /* "": none is looked for */
	struct pattern patterns[ESC_TCP_CLASSES];
	size_t pattern_count;
	struct tcp_cgroups found;
	int err;
	uint64_t took_ns;
};

/* A bit for each class that the cgroup at @path, from the hierarchy's root, matches. */
static uint32_t bits_of(const struct tcp_walk *walk, const char *path)
{
	uint32_t bits = 0;
	struct job job;

	job_of_path(*path ? path : "/", &job);
	for (size_t i = 0; i < walk->pattern_count; i++) {
		const struct pattern *match = &walk->patterns[i];

		if ((match->cgroup && fnmatch(match->cgroup, job.cgroup, 0)) ||
		    (match->job && fnmatch(match->job, job.name, 0)))
			continue;
		bits |= match->bit;
	}
	return bits;
}

static int found_add(struct tcp_cgroups *found, uint64_t id, uint32_t bits)
{
	struct tcp_cgroup *cgroup;

	if (!bits)
		return 0;
	if (found->count == ESC_TCP_CGROUPS) {
		found->left_out++;
		return 0;
	}
	cgroup = array_add(&found->list, &found->count, &found->room, sizeof(*cgroup));
	if (!cgroup)
		return -ENOMEM;
	*cgroup = (struct tcp_cgroup){id, bits};
	return 0;
}

/* A cgroup's id is its inode number (kernfs, 64 bits). One that is removed meanwhile is left out.
 */
static int descend(struct tcp_walk *walk, char *path, size_t root, int depth)
{
	DIR *folder = opendir(path);
	size_t bytes = strlen(path);
	struct dirent *entry;
	int err = 0;

	if (!folder)
		return depth ? 0 : -errno;
	while (!err && (entry = readdir(folder))) {
		if (entry->d_type != DT_DIR || !strcmp(entry->d_name, ".."))
			continue;
		if (!strcmp(entry->d_name, ".")) {
			err = found_add(&walk->found, entry->d_ino, bits_of(walk, path + root));
			continue;
		}
		if (depth == CGROUP_DEPTH_MAX ||
		    bytes + strlen(entry->d_name) + 2 > CGROUP_PATH_BYTES)
			continue;
		sprintf(path + bytes, "/%s", entry->d_name);
		err = descend(walk, path, root, depth + 1);
		path[bytes] = '\0';
	}
	closedir(folder);
	return err;
}

static int by_id(const void *one, const void *other)
{
	const struct tcp_cgroup *a = one, *b = other;

	return a->id < b->id ? -1 : a->id > b->id;
}

/* Updates what has changed in the map, deletes what is gone. */
static int write_cgroups(const struct tcp_cgroups *was, const struct tcp_cgroups *now, int fd)
{
	size_t old = 0;
	int err = 0;

	for (size_t i = 0; i < now->count && !err; i++) {
		const struct tcp_cgroup *cgroup = &now->list[i];

		for (; old < was->count && was->list[old].id < cgroup->id; old++)
			bpf_map_delete_elem(fd, &was->list[old].id);
		if (old < was->count && was->list[old].id == cgroup->id &&
		    was->list[old++].bits == cgroup->bits)
			continue;
		err = bpf_map_update_elem(fd, &cgroup->id, &cgroup->bits, BPF_ANY);
	}
	for (; old < was->count && !err; old++)
		bpf_map_delete_elem(fd, &was->list[old].id);
	return err;
}

bool tcp_has_cgroup_class(const struct pace *pace)
{
	unsigned int count;
	const struct pace_class *classes = pace_classes(pace, &count);

	for (unsigned int i = 1; i < count; i++)
		if (matches_cgroups(&classes[i]))
			return true;
	return false;
}

struct tcp_walk *tcp_walk_new(const struct pace *pace, const char *top)
{
	struct tcp_walk *walk = calloc(1, sizeof(*walk));
	unsigned int class_count;
	const struct pace_class *classes = pace_classes(pace, &class_count);
	bool good = true;

	for (unsigned int i = 1; walk && i < class_count; i++) {
		const struct pace_class_keys *match = classes[i].match;
		struct pattern *pattern = &walk->patterns[walk->pattern_count];

		if (!matches_cgroups(&classes[i]))
			continue;
		walk->pattern_count++;
		pattern->bit = 1u << i;
		pattern->cgroup = match->cgroup ? strdup(match->cgroup) : NULL;
		pattern->job = match->job ? strdup(match->job) : NULL;
		good &= !match->cgroup == !pattern->cgroup && !match->job == !pattern->job;
	}
	if (!walk || !good) {
		tcp_walk_free(walk);
		return NULL;
	}
	if (walk->pattern_count)
		snprintf(walk->path, sizeof(walk->path), "%s", top);
	for (size_t bytes = strlen(walk->path); bytes > 1 && walk->path[bytes - 1] == '/';)
		walk->path[--bytes] = '\0';
	return walk;
}

void tcp_walk_run(void *job)
{
	uint64_t begun_ns = time_local_ns();
	struct tcp_walk *walk = job;

	if (walk->path[0])
		walk->err = descend(walk, walk->path, root_bytes(walk->path), 0);
	if (walk->found.count)
		qsort(walk->found.list, walk->found.count, sizeof(*walk->found.list), by_id);
	walk->took_ns = time_local_ns() - begun_ns;
}

uint64_t tcp_walk_took(const struct tcp_walk *walk)
{
	return walk->took_ns;
}

long tcp_walk_take(struct tcp_walk *walk, struct tcp_cgroups *was, int map_fd)
{
	int err = walk->err ? walk->err : write_cgroups(was, &walk->found, map_fd);

	if (err)
		return err;
	free(was->list);
	*was = walk->found;
	walk->found = (struct tcp_cgroups){};
	return was->left_out;
}

void tcp_walk_free(void *job)
{
	struct tcp_walk *walk = job;

	if (!walk)
		return;
	for (size_t i = 0; i < walk->pattern_count; i++) {
		free(walk->patterns[i].cgroup);
		free(walk->patterns[i].job);
	}
	free(walk->found.list);
	free(walk);
}
