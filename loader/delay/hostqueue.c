// SPDX-License-Identifier: BSD-2-Clause
/* The program behind the qdisc, from load to detach. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "host_queue.skel.h"
#include "internal.h"

/* The programs of tc egress begin with an empty table, or leave it alone. */
static int hostqueue_switch(int queue_fd, bool on)
{
	struct esc_host_queue *table = calloc(1, sizeof(*table));
	uint32_t zero = 0;
	int err;

	if (!table)
		return -ENOMEM;
	table->on = on;
	err = bpf_map_update_elem(queue_fd, &zero, table, BPF_ANY);
	free(table);
	return err;
}

int hostqueue_open(struct host_queue_out **out, int queue_fd, int sent_fd, char *why,
		   size_t why_bytes)
{
	const struct bpfmap_use uses[] = {{"host_queue", queue_fd}, {"qp_sent", sent_fd}, {}};
	struct host_queue_out *skeleton;
	int err;

	*out = NULL;
	why[0] = '\0';
	bpflog_install();
	bpflog_clear();
	skeleton = host_queue_out__open();
	err = skeleton ? bpfmap_share(skeleton->obj, uses) : -errno;
	if (!err)
		err = host_queue_out__load(skeleton);
	if (!err)
		err = host_queue_out__attach(skeleton);
	if (!err)
		err = hostqueue_switch(queue_fd, true);
	if (err) {
		snprintf(why, why_bytes,
			 "the tracepoint net_dev_start_xmit cannot be used (%s): delays are "
			 "reported without the sending host's own queue",
			 strerror(-err));
		hostqueue_close(skeleton);
		return err;
	}
	*out = skeleton;
	return 0;
}

void hostqueue_close(struct host_queue_out *skeleton)
{
	if (!skeleton)
		return;
	hostqueue_switch(bpf_map__fd(skeleton->maps.host_queue), false);
	host_queue_out__destroy(skeleton);
}

void hostqueue_features(json_t *list)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int id = libbpf_find_vmlinux_btf_id("net_dev_start_xmit", BPF_TRACE_RAW_TP);
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_RAW_TP,
		    .attach_btf_id = id);
	int fd =
		id < 0 ? id
		       : bpf_prog_load(BPF_PROG_TYPE_TRACING, "esc_try", "GPL", insns, 2, &options);

	feature_add_trial(
		list, "tp_btf", fd < 0 ? fd : 0,
		"without BTF tracepoints host queueing and fabric delay cannot be distinguished");
	if (fd >= 0)
		close(fd);
}
