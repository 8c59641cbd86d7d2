// SPDX-License-Identifier: BSD-2-Clause
#include "wrap.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataplane/dataplane.h"
#include "tcp_bbr.skel.h"
#include "tcp_cubic.skel.h"
#include "tcp_reno.skel.h"

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

/*
 * The kernel's list of names is one for all network namespaces. The name stands in the object's
 * data, where libbpf 1.1 gives no way to it: it is found by being 16 bytes, NUL behind it.
 */
static void tcpwrap_rename(char *bytes, size_t size, const char *from, const char *to)
{
	char field[TCPWRAP_NAME_BYTES] = "", wanted[TCPWRAP_NAME_BYTES] = "";
	char *at;

	memcpy(field, from, strlen(from));
	memcpy(wanted, to, strlen(to));
	at = memmem(bytes, size, field, sizeof(field));
	if (at)
		memcpy(at, wanted, sizeof(wanted));
}

/* libbpf 1.1 fills the map; the link that registers it is made by hand. */
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

static int tcpwrap_load_as(struct tcpwrap_one *one, const struct tcpwrap_kind *kind,
			   const char *name, int flows_fd, int counts_fd)
{
	const struct bpfmap_use uses[] = {
		{"tcp_flows", flows_fd}, {"tcp_counts", counts_fd}, {kind->map, -1}, {}};
	size_t size;
	const void *bytes = kind->bytes(&size);
	char *copy = malloc(size);
	int err;

	if (!copy)
		return -ENOMEM;
	memcpy(copy, bytes, size);
	tcpwrap_rename(copy, size, kind->map, name);
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
		if (i == 1)
			snprintf(name, sizeof(name), "%s", kind->map);
		else
			snprintf(name, sizeof(name), "%s_%d", kind->map, i);
		err = tcpwrap_load_as(one, kind, name, flows_fd, counts_fd);
	}
	return err;
}

/* A module's functions are there once it is. */
static bool tcpwrap_is_there(const char *inner)
{
	char words[512] = "", *rest = words, *word;
	FILE *file = fopen(TCPWRAP_LOADED, "re");
	bool there = !file;

	if (file && !fgets(words, sizeof(words), file))
		there = true;
	while (!there && (word = strsep(&rest, " \n")))
		there = !strcmp(word, inner);
	if (file)
		fclose(file);
	return there;
}

/* Why there is none around @inner, and what to do. */
static int tcpwrap_say(char *why, size_t why_bytes, const char *inner, int err)
{
	if (tcpwrap_is_there(inner))
		return snprintf(why, why_bytes, "the kernel takes no wrapper around %s (%s)", inner,
				strerror(-err));
	return snprintf(why, why_bytes,
			"the kernel has no %s now (modprobe tcp_%s, then `escapement pace tcp "
			"off` and `on`)",
			inner, inner);
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
		wrap->one[i].link_fd = -1;
		err = refused >> i & 1
			      ? -ENOTSUP
			      : tcpwrap_load(&wrap->one[i], &tcpwrap_kinds[i], flows_fd, counts_fd);
		loaded += !err;
		last = err ? err : last;
		if (err && used && used < why_bytes)
			used += snprintf(why + used, why_bytes - used, "; ");
		if (err && used < why_bytes)
			used += tcpwrap_say(why + used, why_bytes - used, esc_tcp_inner_names[i],
					    err);
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
