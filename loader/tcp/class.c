// SPDX-License-Identifier: BSD-2-Clause
#include "class.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "config/config.h"
#include "qp/qp.h"
#include "pace/pace.h"

#define TCPCLASS_DEPTH_MAX 32
#define TCPCLASS_PATH_BYTES 4096

struct tcpclass_cgroup {
	uint64_t id;
	uint32_t bits;
};

/* What one look found. */
struct tcpclass_found {
	struct tcpclass_cgroup *cgroups;
	size_t count, room;
	long left_out;
};

struct tcpclass {
	struct pace_class_rule rules[ESC_PACE_CLASSES];
	char names[ESC_PACE_CLASSES][16];
	unsigned int count;
	struct tcpclass_found now; /* as the map has them, by id */
};

_Static_assert(ESC_TCP_CLASSES == ESC_PACE_CLASSES, "the classes are the same");

int tcpclass_new(struct tcpclass **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void tcpclass_free(struct tcpclass *classes)
{
	if (!classes)
		return;
	free(classes->now.cgroups);
	free(classes);
}

static bool rule_names_cgroups(const struct pace_class_rule *rule)
{
	return rule->match && (rule->match->cgroup || rule->match->job);
}

static void take_one(const struct pace_class_rule *rule, uint32_t threshold_ns,
		     struct esc_tcp_class *out)
{
	const struct pace_class_keys *match = rule->match;

	memset(out, 0, sizeof(*out));
	out->weight = rule->weight;
	out->threshold_ns = rule->threshold_ns ? (uint32_t)rule->threshold_ns : threshold_ns;
	if (!match)
		return;
	out->dscps = match->dscps;
	out->port_first = match->port_first;
	out->port_last = match->port_last;
	out->by_cgroup = rule_names_cgroups(rule);
}

void tcpclass_take(struct tcpclass *classes, const struct pace *pace, uint32_t threshold_ns,
		   struct esc_tcp_control *word)
{
	classes->count = pace_get_rules(pace, classes->rules);
	memset(word->classes, 0, sizeof(word->classes));
	for (unsigned int i = 0; i < classes->count; i++) {
		snprintf(classes->names[i], sizeof(classes->names[i]), "%s",
			 classes->rules[i].name);
		take_one(&classes->rules[i], threshold_ns, &word->classes[i]);
	}
	word->classes[0].threshold_ns = threshold_ns;
	word->class_count = classes->count;
}

const char *tcpclass_name(const struct tcpclass *classes, unsigned int class)
{
	return classes->names[class < classes->count ? class : 0];
}

unsigned int tcpclass_count(const struct tcpclass *classes)
{
	return classes->count;
}

/* --- cgroups --- */

/* Where the unified hierarchy that @path is in begins: bytes of @path, 0 for none. */
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

/* A bit of each class whose patterns the cgroup at @path, from the hierarchy's root, fits. */
static uint32_t bits_of(const struct tcpclass *classes, const char *path)
{
	uint32_t bits = 0;
	struct job job;

	job_of_path(*path ? path : "/", &job);
	for (unsigned int i = 1; i < classes->count; i++) {
		const struct pace_class_rule *rule = &classes->rules[i];

		if (!rule_names_cgroups(rule) ||
		    (rule->match->cgroup && fnmatch(rule->match->cgroup, job.cgroup, 0)) ||
		    (rule->match->job && fnmatch(rule->match->job, job.name, 0)))
			continue;
		bits |= 1u << i;
	}
	return bits;
}

static int found_add(struct tcpclass_found *found, uint64_t id, uint32_t bits)
{
	if (!bits)
		return 0;
	if (found->count == ESC_TCP_CGROUPS) {
		found->left_out++;
		return 0;
	}
	if (array_reserve(&found->cgroups, &found->room, found->count + 1,
			  sizeof(*found->cgroups)))
		return -ENOMEM;
	found->cgroups[found->count++] = (struct tcpclass_cgroup){id, bits};
	return 0;
}

/* A cgroup's id is the number of its folder (kernfs, 64 bits). One that goes meanwhile is gone. */
static int walk(const struct tcpclass *classes, struct tcpclass_found *found, char *path,
		size_t root, int depth)
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
			err = found_add(found, entry->d_ino, bits_of(classes, path + root));
			continue;
		}
		if (depth == TCPCLASS_DEPTH_MAX ||
		    bytes + strlen(entry->d_name) + 2 > TCPCLASS_PATH_BYTES)
			continue;
		sprintf(path + bytes, "/%s", entry->d_name);
		err = walk(classes, found, path, root, depth + 1);
		path[bytes] = '\0';
	}
	closedir(folder);
	return err;
}

static int by_id(const void *one, const void *other)
{
	const struct tcpclass_cgroup *a = one, *b = other;

	return a->id < b->id ? -1 : a->id > b->id;
}

/* What is not what it was goes into the map, what is gone out of it. */
static int write_cgroups(const struct tcpclass_found *was, const struct tcpclass_found *now, int fd)
{
	size_t old = 0;
	int err = 0;

	for (size_t i = 0; i < now->count && !err; i++) {
		const struct tcpclass_cgroup *cgroup = &now->cgroups[i];

		for (; old < was->count && was->cgroups[old].id < cgroup->id; old++)
			bpf_map_delete_elem(fd, &was->cgroups[old].id);
		if (old < was->count && was->cgroups[old].id == cgroup->id &&
		    was->cgroups[old++].bits == cgroup->bits)
			continue;
		err = bpf_map_update_elem(fd, &cgroup->id, &cgroup->bits, BPF_ANY);
	}
	for (; old < was->count && !err; old++)
		bpf_map_delete_elem(fd, &was->cgroups[old].id);
	return err;
}

long tcpclass_poll(struct tcpclass *classes, const struct pace *pace, const char *top, int map_fd)
{
	struct tcpclass_found found = {};
	char path[TCPCLASS_PATH_BYTES];
	bool needed = false;
	int err = 0;

	/* The patterns are the configuration's, which a reload replaces. */
	classes->count = pace_get_rules(pace, classes->rules);
	for (unsigned int i = 1; i < classes->count; i++)
		needed |= rule_names_cgroups(&classes->rules[i]);
	if (!needed && !classes->now.count)
		return 0;
	snprintf(path, sizeof(path), "%s", top);
	for (size_t bytes = strlen(path); bytes > 1 && path[bytes - 1] == '/';)
		path[--bytes] = '\0';
	if (needed)
		err = walk(classes, &found, path, root_bytes(path), 0);
	if (found.count)
		qsort(found.cgroups, found.count, sizeof(*found.cgroups), by_id);
	if (!err)
		err = write_cgroups(&classes->now, &found, map_fd);
	if (err) {
		free(found.cgroups);
		return err;
	}
	free(classes->now.cgroups);
	classes->now = found;
	return found.left_out;
}

void tcpclass_forget(struct tcpclass *classes)
{
	classes->now.count = 0;
}
