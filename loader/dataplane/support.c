// SPDX-License-Identifier: BSD-2-Clause
#include "support.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <xdp/libxdp.h>

#include "base/feature.h"
#include "bpflog.h"

#define SUPPORT_BPFFS "/sys/fs/bpf"

static bool bpffs_is_mounted(void)
{
	struct statfs fs;

	return !statfs(SUPPORT_BPFFS, &fs) && fs.f_type == BPF_FS_MAGIC;
}

static const char *dispatcher_why_not(void)
{
	const char *skip = getenv("LIBXDP_SKIP_DISPATCHER");
	struct xdp_program *program;

	bpflog_install();
	if (skip && !strcmp(skip, "1"))
		return "LIBXDP_SKIP_DISPATCHER is set";
	if (libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_EXT, NULL) != 1)
		return "the kernel refuses freplace programs, which libxdp's dispatcher needs";
	if (!bpffs_is_mounted())
		return "no bpffs is mounted on " SUPPORT_BPFFS ", where libxdp keeps its pins";
	program = xdp_program__find_file("xdp-dispatcher.o", NULL, NULL);
	if (libxdp_get_error(program))
		return "libxdp's xdp-dispatcher.o is not found: install libxdp1's files or set "
		       "LIBXDP_OBJECT_PATH";
	xdp_program__close(program);
	return "";
}

bool support_dispatcher(char *why, size_t why_bytes)
{
	static const char *reason; /* does not change while we run */

	if (!reason)
		reason = dispatcher_why_not();
	snprintf(why, why_bytes, "%s", reason);
	return !reason[0];
}

static int try_batch(enum bpf_map_type type, bool take)
{
	int fd = bpf_map_create(type, "esc_try", 4, 4, 1, NULL);
	__u32 key = 1, value = 2, cursor, count = 1;
	int err;

	if (fd < 0)
		return fd;
	bpf_map_update_elem(fd, &key, &value, BPF_ANY);
	err = take ? bpf_map_lookup_and_delete_elem(fd, &key, &value)
		   : bpf_map_lookup_batch(fd, NULL, &cursor, &key, &value, &count, NULL);
	close(fd);
	return err == -ENOENT ? 0 : err;
}

static int try_rdma_netlink(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static bool unprivileged_bpf_is_off(void)
{
	FILE *file = fopen("/proc/sys/kernel/unprivileged_bpf_disabled", "re");
	int value = file ? fgetc(file) : EOF;

	if (file)
		fclose(file);
	return value == '1' || value == '2';
}

/* What only the trial shows, in the order of the list. */
static const struct {
	const char *name;
	size_t offset; /* of its result */
	const char *cost;
} trials[] = {
#define TRIAL(member) offsetof(struct support_trial, member)
	{"xdp_link", TRIAL(xdp_link_skb),
	 "without XDP links what comes in is counted in tc ingress"},
	{"xdp_native", TRIAL(xdp_link_native),
	 "without native XDP (tried on a veth; each driver decides for itself) skb mode costs more "
	 "per packet"},
	{"xdp_frags", TRIAL(xdp_frags),
	 "without multi-buffer XDP programs jumbo frames rule native XDP out"},
	{"tcx", TRIAL(tcx),
	 "without tcx (6.6) tc programs are filters of a clsact qdisc, which others can remove"},
	{"clsact", TRIAL(clsact), "without clsact and tcx what goes out cannot be counted"},
	{"fq", TRIAL(fq), "without the fq qdisc RoCE and UDP cannot be paced by departure time"},
};

static void add_trials(json_t *list)
{
	struct support_trial trial;
	char detail[128];

	support_try(&trial);
	snprintf(detail, sizeof(detail), "not tried, no network namespace can be made: %s",
		 strerror(-trial.namespace));
	for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
		int err = *(const int *)((const char *)&trial + trials[i].offset);

		if (trial.namespace)
			feature_add(list, trials[i].name, false, detail, trials[i].cost);
		else
			feature_add_trial(list, trials[i].name, err, trials[i].cost);
	}
}

void support_features(json_t *list)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool has_btf = !libbpf_get_error(btf), dispatcher;
	char why[128];

	bpflog_install();
	feature_add(list, "btf", has_btf, has_btf ? "" : "/sys/kernel/btf/vmlinux cannot be read",
		    "without the kernel's type information escapementd does not start");
	if (has_btf)
		btf__free(btf);
	feature_add(list, "bpffs", bpffs_is_mounted(), SUPPORT_BPFFS,
		    "without a bpffs nothing can be pinned and escapementd does not start, unless "
		    "pin_root names another one");
	add_trials(list);
	feature_add(list, "freplace", libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_EXT, NULL) == 1, "",
		    "without freplace programs libxdp has no dispatcher");
	dispatcher = support_dispatcher(why, sizeof(why));
	feature_add(list, "xdp_dispatcher", dispatcher, why,
		    "without libxdp's dispatcher our XDP program cannot run beside another one on "
		    "the same interface");
	feature_add_trial(list, "hash_batch", try_batch(BPF_MAP_TYPE_HASH, false),
			  "without batched lookups reading a large QP table takes more CPU");
	feature_add_trial(list, "hash_take", try_batch(BPF_MAP_TYPE_HASH, true),
			  "without lookup-and-delete a packet may be lost from the count of a QP "
			  "that ages out");
	feature_add(list, "ringbuf", libbpf_probe_bpf_map_type(BPF_MAP_TYPE_RINGBUF, NULL) == 1, "",
		    "without ring buffers the kernel programs cannot hand up events");
	feature_add_trial(list, "rdma", try_rdma_netlink(),
			  "without the kernel's RDMA core this host has no RDMA devices of its "
			  "own; RoCE that passes through it is still seen");
	feature_add(list, "unprivileged_bpf_off", unprivileged_bpf_is_off(), "",
		    "as long as any user may load BPF programs, a hole in the verifier is open to "
		    "all of them; set kernel.unprivileged_bpf_disabled=1");
}
