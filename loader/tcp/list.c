// SPDX-License-Identifier: BSD-2-Clause
#include "list.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataplane/dataplane.h"
#include "tcp_list.skel.h"

struct tcplist {
	struct tcp_list *skeleton;
	struct bpf_link *link;
};

static int tcplist_load(struct tcplist *list, int flows_fd)
{
	union bpf_iter_link_info info = {.map.map_fd = flows_fd};
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &info,
		    .link_info_len = sizeof(info));
	int err;

	list->skeleton = tcp_list__open();
	if (!list->skeleton)
		return -errno;
	err = bpfmap_share(list->skeleton->obj, &(struct bpfmap_use){});
	if (!err)
		err = tcp_list__load(list->skeleton);
	if (err)
		return err;
	list->link = bpf_program__attach_iter(list->skeleton->progs.esc_tcp_list, &options);
	return list->link ? 0 : -errno;
}

int tcplist_open(struct tcplist **out, int flows_fd, char *why, size_t why_bytes)
{
	struct tcplist *list = calloc(1, sizeof(*list));
	int err;

	*out = NULL;
	if (!list)
		return -ENOMEM;
	bpflog_install();
	bpflog_clear();
	err = tcplist_load(list, flows_fd);
	if (err) {
		snprintf(why, why_bytes, "TCP connections cannot be listed (iterator): %s",
			 strerror(-err));
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
	bpf_link__destroy(list->link);
	tcp_list__destroy(list->skeleton);
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
