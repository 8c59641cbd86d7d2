// SPDX-License-Identifier: BSD-2-Clause
/* The objects of TCP pacing: the sockops program, the iterator, the congestion control wrappers. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/readfile.h"
#include "dataplane/dataplane.h"
#include "internal.h"
#include "tcp_bbr.skel.h"
#include "tcp_cubic.skel.h"
#include "tcp_edge.skel.h"
#include "tcp_list.skel.h"
#include "tcp_reno.skel.h"

/* --- the sockops program --- */

struct tcpedge {
	struct tcp_edge *skeleton;
	struct bpf_link *link;
	struct bpf_link *names; /* NULL: getsockopt shows the wrappers' names */
};

int tcpedge_open(struct tcpedge **out, const struct tcpedge_maps *maps, char *why, size_t why_bytes)
{
	const struct bpfmap_use uses[] = {
		{"control", maps->control_fd},
		{"clock", maps->clock_fd},
		{"peer_addresses", maps->members_fd},
		{"tcp_flows", maps->flows_fd},
		{"tcp_control", -1},
		{"tcp_counts", -1},
		{"tcp_cgroups", -1},
		{"tcp_classes", -1},
		{"tcp_delays", -1},
		{"tcp_refusals", -1},
		{},
	};
	struct tcpedge *edge = calloc(1, sizeof(*edge));
	int err;

	*out = NULL;
	if (!edge)
		return -ENOMEM;
	bpflog_install();
	bpflog_clear();
	edge->skeleton = tcp_edge__open();
	err = edge->skeleton ? bpfmap_share(edge->skeleton->obj, uses) : -errno;
	if (!err) {
		edge->skeleton->rodata->esc_lab_offset_ns = maps->lab_offset_ns;
		edge->skeleton->rodata->esc_lab_drift_ppb = maps->lab_drift_ppb;
		err = tcp_edge__load(edge->skeleton);
	}
	if (err) {
		snprintf(why, why_bytes, "the kernel does not take the TCP program (sockops): %s",
			 strerror(-err));
		tcpedge_close(edge);
		return err;
	}
	*out = edge;
	return 0;
}

int tcpedge_attach(struct tcpedge *edge, const char *path, char *why, size_t why_bytes)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;

	if (fd < 0) {
		err = -errno;
		snprintf(why, why_bytes, "cgroup %s: %s", path, strerror(-err));
		return err;
	}
	edge->link = bpf_program__attach_cgroup(edge->skeleton->progs.esc_tcp_edge, fd);
	if (!edge->link) {
		err = -errno;
		snprintf(why, why_bytes,
			 "cgroup %s: the TCP program cannot be attached: %s (is it of the unified "
			 "hierarchy, cgroup2?)",
			 path, strerror(-err));
	} else {
		edge->names = bpf_program__attach_cgroup(edge->skeleton->progs.esc_tcp_get, fd);
		if (!edge->names)
			log_warning("cgroup %s: applications read the wrapper's name as their "
				    "congestion control: %s",
				    path, strerror(errno));
	}
	close(fd);
	return err;
}

void tcpedge_close(struct tcpedge *edge)
{
	if (!edge)
		return;
	bpf_link__destroy(edge->link);
	bpf_link__destroy(edge->names);
	tcp_edge__destroy(edge->skeleton);
	free(edge);
}

int tcpedge_write(struct tcpedge *edge, const struct esc_tcp_control *ctl)
{
	uint32_t zero = 0;

	return bpf_map_update_elem(bpf_map__fd(edge->skeleton->maps.tcp_control), &zero, ctl,
				   BPF_ANY);
}

int tcpedge_map_fd(const struct tcpedge *edge, const char *map)
{
	return bpf_object__find_map_fd_by_name(edge->skeleton->obj, map);
}

int tcpedge_sum(const struct tcpedge *edge, const char *map, uint32_t count, void *out,
		size_t bytes)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < count; i++)
		err = bpfmap_sum(tcpedge_map_fd(edge, map), i, (char *)out + i * bytes, bytes);
	return err;
}

/* --- the iterator --- */

struct tcplist {
	struct tcp_list *skeleton;
	struct bpf_link *link;
};

/* @own: of this network namespace alone. */
static int tcplist_load(struct tcplist *list, int flows_fd, bool own)
{
	const struct bpfmap_use uses[] = {{"tcp_flows", flows_fd}, {}};
	union bpf_iter_link_info info = {.map.map_fd = flows_fd};
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &info,
		    .link_info_len = sizeof(info));
	struct bpf_program *program;
	int err;

	list->skeleton = tcp_list__open();
	if (!list->skeleton)
		return -errno;
	program = own ? list->skeleton->progs.esc_tcp_list_own : list->skeleton->progs.esc_tcp_list;
	bpf_program__set_autoload(list->skeleton->progs.esc_tcp_list, !own);
	bpf_program__set_autoload(list->skeleton->progs.esc_tcp_list_own, own);
	err = bpfmap_share(list->skeleton->obj, uses);
	if (!err)
		err = tcp_list__load(list->skeleton);
	if (err)
		return err;
	list->link = bpf_program__attach_iter(program, own ? NULL : &options);
	return list->link ? 0 : -errno;
}

static void tcplist_unload(struct tcplist *list)
{
	bpf_link__destroy(list->link);
	tcp_list__destroy(list->skeleton);
	*list = (struct tcplist){};
}

int tcplist_open(struct tcplist **out, int flows_fd, char *why, size_t why_bytes)
{
	struct tcplist *list = calloc(1, sizeof(*list));
	int err, err_own;

	*out = NULL;
	why[0] = '\0';
	if (!list)
		return -ENOMEM;
	bpflog_install();
	bpflog_clear();
	err = tcplist_load(list, flows_fd, false);
	if (err) {
		tcplist_unload(list);
		err_own = tcplist_load(list, flows_fd, true);
		snprintf(why, why_bytes, "TCP connections%s cannot be listed (iterator): %s",
			 err_own ? "" : " of other network namespaces", strerror(-err));
		err = err_own;
	}
	if (err) {
		tcplist_close(list);
		return err;
	}
	*out = list;
	return 0;
}

void tcplist_close(struct tcplist *list)
{
	if (!list)
		return;
	tcplist_unload(list);
	free(list);
}

long tcplist_read(const struct tcplist *list, struct esc_tcp_row *rows, size_t most)
{
	int fd = bpf_iter_create(bpf_link__fd(list->link));
	struct esc_tcp_row row;
	size_t have = 0;
	long count = 0;
	ssize_t got;

	if (fd < 0)
		return -errno;
	while ((got = read(fd, (char *)&row + have, sizeof(row) - have)) > 0) {
		have += got;
		if (have < sizeof(row))
			continue;
		have = 0;
		if ((size_t)count < most)
			rows[count] = row;
		count++;
	}
	if (got < 0)
		count = -errno;
	close(fd);
	return count;
}

/* --- the wrappers --- */

/* Not in Debian 12's headers: a struct_ops map that is in force by a link (Linux 6.4). */
#define TCPWRAP_MAP_LINK (1u << 13)
#define TCPWRAP_ATTACH_STRUCT_OPS 44
/* Daemons that one kernel may have (the lab's hosts). */
#define TCPWRAP_NAMES 64
#define TCPWRAP_NAME_BYTES 16 /* TCP_CA_NAME_MAX */
#define TCPWRAP_LOADED "/proc/sys/net/ipv4/tcp_available_congestion_control"

struct tcpwrap_one {
	struct bpf_object *object;
	int link_fd;
	char name[TCPWRAP_NAME_BYTES];
};

struct tcpwrap {
	struct tcpwrap_one one[ESC_TCP_INNER_MAX];
};

struct tcpwrap_kind {
	const char *map; /* and its name in the object */
	const void *(*bytes)(size_t *size);
};

static const struct tcpwrap_kind tcpwrap_kinds[ESC_TCP_INNER_MAX] = {
	[ESC_TCP_INNER_CUBIC] = {"esc_cubic", tcp_cubic__elf_bytes},
	[ESC_TCP_INNER_BBR] = {"esc_bbr", tcp_bbr__elf_bytes},
	[ESC_TCP_INNER_RENO] = {"esc_reno", tcp_reno__elf_bytes},
};

/* libbpf 1.1 fills the map, but does not create the link that registers it. */
static int tcpwrap_register(struct tcpwrap_one *one, const char *map_name)
{
	struct bpf_map *map = bpf_object__find_map_by_name(one->object, map_name);
	struct bpf_link *filled = map ? bpf_map__attach_struct_ops(map) : NULL;

	if (!filled)
		return errno ? -errno : -ENOENT;
	bpf_link__disconnect(filled);
	bpf_link__destroy(filled);
	one->link_fd = bpf_link_create(bpf_map__fd(map), 0, TCPWRAP_ATTACH_STRUCT_OPS, NULL);
	return one->link_fd < 0 ? -errno : 0;
}

static void tcpwrap_drop(struct tcpwrap_one *one)
{
	if (one->link_fd >= 0)
		close(one->link_fd);
	bpf_object__close(one->object);
	one->object = NULL;
	one->link_fd = -1;
	one->name[0] = '\0';
}

/*
 * The kernel's list of names is one for all network namespaces. The name is in the object's data,
 * where libbpf 1.1 does not reach it: it is found as 16 bytes, padded with NUL.
 */
static int tcpwrap_load_as(struct tcpwrap_one *one, const struct tcpwrap_kind *kind,
			   const char *name, int flows_fd, int counts_fd)
{
	const struct bpfmap_use uses[] = {
		{"tcp_flows", flows_fd}, {"tcp_counts", counts_fd}, {kind->map, -1}, {}};
	char from[TCPWRAP_NAME_BYTES] = "", to[TCPWRAP_NAME_BYTES] = "", *at;
	size_t size;
	const void *bytes = kind->bytes(&size);
	char *copy = malloc(size);
	int err;

	if (!copy)
		return -ENOMEM;
	memcpy(copy, bytes, size);
	memcpy(from, kind->map, strlen(kind->map));
	memcpy(to, name, strlen(name));
	at = memmem(copy, size, from, sizeof(from));
	if (at)
		memcpy(at, to, sizeof(to));
	one->object = bpf_object__open_mem(copy, size, NULL);
	err = one->object ? bpfmap_share(one->object, uses) : -errno;
	if (!err)
		err = bpf_map__set_map_flags(bpf_object__find_map_by_name(one->object, kind->map),
					     TCPWRAP_MAP_LINK);
	if (!err)
		err = bpf_object__load(one->object);
	if (!err)
		err = tcpwrap_register(one, kind->map);
	free(copy);
	if (err)
		tcpwrap_drop(one);
	else
		snprintf(one->name, sizeof(one->name), "%s", name);
	return err;
}

static int tcpwrap_load(struct tcpwrap_one *one, const struct tcpwrap_kind *kind, int flows_fd,
			int counts_fd)
{
	char name[TCPWRAP_NAME_BYTES];
	int err = -EEXIST;

	for (int i = 1; err == -EEXIST && i <= TCPWRAP_NAMES; i++) {
		snprintf(name, sizeof(name), i == 1 ? "%s" : "%s_%d", kind->map, i);
		err = tcpwrap_load_as(one, kind, name, flows_fd, counts_fd);
	}
	return err;
}

/* Whether the kernel has the congestion control @inner now, or that is not known. */
static bool tcpwrap_is_there(const char *inner)
{
	char names[512], *rest = names, *name;
	bool there = readtext(names, sizeof(names), TCPWRAP_LOADED) <= 0;

	while (!there && (name = strsep(&rest, " ")))
		there = !strcmp(name, inner);
	return there;
}

int tcpwrap_open(struct tcpwrap **out, int flows_fd, int counts_fd, uint32_t refused, char *why,
		 size_t why_bytes)
{
	struct tcpwrap *wrap = calloc(1, sizeof(*wrap));
	int err, loaded = 0, last = 0;
	size_t used = 0;

	*out = NULL;
	why[0] = '\0';
	if (!wrap)
		return -ENOMEM;
	bpflog_install();
	bpflog_clear();
	for (int i = 1; i < ESC_TCP_INNER_MAX; i++) {
		const char *inner = esc_tcp_inner_names[i];

		wrap->one[i].link_fd = -1;
		err = refused >> i & 1
			      ? -ENOTSUP
			      : tcpwrap_load(&wrap->one[i], &tcpwrap_kinds[i], flows_fd, counts_fd);
		if (!err) {
			loaded++;
			continue;
		}
		last = err;
		if (used && used < why_bytes)
			used += snprintf(why + used, why_bytes - used, "; ");
		if (used < why_bytes && tcpwrap_is_there(inner))
			used += snprintf(why + used, why_bytes - used,
					 "the kernel takes no wrapper around %s (%s)", inner,
					 strerror(-err));
		else if (used < why_bytes)
			used += snprintf(why + used, why_bytes - used,
					 "the kernel has no %s now (modprobe tcp_%s, then "
					 "`escapement pace tcp off` and `on`)",
					 inner, inner);
	}
	if (!loaded) {
		free(wrap);
		return last;
	}
	*out = wrap;
	return 0;
}

void tcpwrap_close(struct tcpwrap *wrap)
{
	if (!wrap)
		return;
	for (int i = 1; i < ESC_TCP_INNER_MAX; i++)
		tcpwrap_drop(&wrap->one[i]);
	free(wrap);
}

const char *tcpwrap_name(const struct tcpwrap *wrap, enum esc_tcp_inner inner)
{
	return wrap && inner > ESC_TCP_INNER_NONE && inner < ESC_TCP_INNER_MAX
		       ? wrap->one[inner].name
		       : "";
}
