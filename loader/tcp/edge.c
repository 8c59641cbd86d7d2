// SPDX-License-Identifier: BSD-2-Clause
#include "edge.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataplane/dataplane.h"
#include "tcp_edge.skel.h"

struct tcpedge {
	struct tcp_edge *skeleton;
	struct bpf_link *link;
};

int tcpedge_open(struct tcpedge **out, const struct tcpedge_maps *maps, char *why, size_t why_bytes)
{
	const struct bpfmap_use uses[] = {
		{"control", maps->control_fd}, {"clock", maps->clock_fd},
		{"tcp_flows", maps->flows_fd}, {"tcp_control", -1},
		{"tcp_counts", -1},	       {"tcp_cgroups", -1},
		{"tcp_classes", -1},	       {"tcp_delays", -1},
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
	}
	close(fd);
	return err;
}

void tcpedge_close(struct tcpedge *edge)
{
	if (!edge)
		return;
	bpf_link__destroy(edge->link);
	tcp_edge__destroy(edge->skeleton);
	free(edge);
}

int tcpedge_write(struct tcpedge *edge, const struct esc_tcp_control *word)
{
	uint32_t zero = 0;

	return bpf_map_update_elem(bpf_map__fd(edge->skeleton->maps.tcp_control), &zero, word,
				   BPF_ANY);
}

int tcpedge_counts(const struct tcpedge *edge, struct esc_tcp_counts *counts)
{
	return bpfmap_sum(tcpedge_counts_fd(edge), 0, counts, sizeof(*counts));
}

int tcpedge_class_counts(const struct tcpedge *edge, struct esc_tcp_class_counts *counts)
{
	int fd = bpf_map__fd(edge->skeleton->maps.tcp_classes), err = 0;

	for (uint32_t i = 0; !err && i < ESC_TCP_CLASSES; i++)
		err = bpfmap_sum(fd, i, &counts[i], sizeof(*counts));
	return err;
}

int tcpedge_delays(const struct tcpedge *edge, uint64_t *buckets)
{
	int fd = bpf_map__fd(edge->skeleton->maps.tcp_delays), err = 0;

	for (uint32_t i = 0; !err && i < ESC_OWD_BUCKETS; i++)
		err = bpfmap_sum(fd, i, &buckets[i], sizeof(*buckets));
	return err;
}

int tcpedge_cgroups_fd(const struct tcpedge *edge)
{
	return bpf_map__fd(edge->skeleton->maps.tcp_cgroups);
}

int tcpedge_flows_fd(const struct tcpedge *edge)
{
	return bpf_map__fd(edge->skeleton->maps.tcp_flows);
}

int tcpedge_counts_fd(const struct tcpedge *edge)
{
	return bpf_map__fd(edge->skeleton->maps.tcp_counts);
}

int tcpedge_control_fd(const struct tcpedge *edge)
{
	return bpf_map__fd(edge->skeleton->maps.control);
}

int tcpedge_clock_fd(const struct tcpedge *edge)
{
	return bpf_map__fd(edge->skeleton->maps.clock);
}
