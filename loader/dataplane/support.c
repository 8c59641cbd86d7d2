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

#include "bpflog.h"
#include "qp/trace.h"
#include "support_try.h"

#define SUPPORT_BPFFS "/sys/fs/bpf"

static bool bpffs_is_mounted(void)
{
	struct statfs fs;

	return !statfs(SUPPORT_BPFFS, &fs) && fs.f_type == BPF_FS_MAGIC;
}

/* --- libxdp's dispatcher --- */

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
	static const char *answer; /* does not change while we run */

	if (!answer)
		answer = dispatcher_why_not();
	snprintf(why, why_bytes, "%s", answer);
	return !answer[0];
}

/* --- the list --- */

struct support_list {
	struct support_feature *out;
	size_t max;
	size_t count;
};

static void support_add(struct support_list *list, const char *name, bool here, const char *detail,
			const char *cost)
{
	struct support_feature *feature;

	if (list->count == list->max)
		return;
	feature = &list->out[list->count++];
	feature->name = name;
	feature->here = here;
	snprintf(feature->detail, sizeof(feature->detail), "%s", detail ? detail : "");
	feature->cost = cost;
}

/* What could only be tried in a network namespace of its own. */
static void support_add_trial(struct support_list *list, const struct support_trial *trial,
			      const char *name, int err, const char *cost)
{
	char detail[128] = "";

	if (trial->namespace)
		snprintf(detail, sizeof(detail), "not tried, no network namespace can be made: %s",
			 strerror(-trial->namespace));
	else if (err)
		snprintf(detail, sizeof(detail), "%s", strerror(-err));
	support_add(list, name, !err && !trial->namespace, detail, cost);
}

static void support_add_code(struct support_list *list, const char *name, int err, const char *cost)
{
	support_add(list, name, !err, err ? strerror(-err) : "", cost);
}

static void support_list_base(struct support_list *list)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool has_btf = !libbpf_get_error(btf);

	support_add(list, "btf", has_btf, has_btf ? "" : "/sys/kernel/btf/vmlinux cannot be read",
		    "without the kernel's type information escapementd does not start");
	if (has_btf)
		btf__free(btf);
	support_add(list, "bpffs", bpffs_is_mounted(), SUPPORT_BPFFS,
		    "without a bpffs nothing can be pinned and escapementd does not start, unless "
		    "pin_root names another one");
}

static void support_list_xdp(struct support_list *list, const struct support_trial *trial)
{
	char why[128];
	bool dispatcher = support_dispatcher(why, sizeof(why));
	int freplace = libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_EXT, NULL);

	support_add_trial(list, trial, "xdp_link", trial->xdp_link_skb,
			  "without XDP links what comes in is counted in tc ingress");
	support_add_trial(
		list, trial, "xdp_native", trial->xdp_link_native,
		"without native XDP (tried on a veth; each driver decides for itself) skb mode "
		"costs more per packet");
	support_add_trial(list, trial, "xdp_frags", trial->xdp_frags,
			  "without multi-buffer XDP programs jumbo frames rule native XDP out");
	support_add(list, "freplace", freplace == 1, "",
		    "without freplace programs libxdp has no dispatcher");
	support_add(list, "xdp_dispatcher", dispatcher, why,
		    "without libxdp's dispatcher our XDP program cannot run beside another one on "
		    "the same interface");
}

static void support_list_tc(struct support_list *list, const struct support_trial *trial)
{
	support_add_trial(
		list, trial, "tcx", trial->tcx,
		"without tcx (6.6) tc programs are filters of a clsact qdisc, which others "
		"can remove");
	support_add_trial(list, trial, "clsact", trial->clsact,
			  "without clsact and tcx what goes out cannot be counted");
	support_add_trial(list, trial, "fq", trial->fq,
			  "without the fq qdisc RoCE and UDP cannot be paced by departure time");
}

static int support_try_tp_btf(void)
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

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static void support_list_tracing(struct support_list *list)
{
	char why[sizeof(list->out->detail)];
	enum qptrace_how how = qptrace_try(why, sizeof(why));
	bool kprobe = !access("/sys/bus/event_source/devices/kprobe/type", R_OK);

	support_add(
		list, "fentry", libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_TRACING, NULL) == 1, "",
		"without fentry programs queue pairs are not tied to processes by the cheap way");
	support_add_code(
		list, "tp_btf", support_try_tp_btf(),
		"without BTF tracepoints host queueing and fabric delay cannot be told apart");
	support_add(list, "kprobe", kprobe, "",
		    "without kprobes there is no second way to tie queue pairs to processes");
	support_add(list, "qp_tracing", how != QPTRACE_NONE,
		    how != QPTRACE_NONE ? qptrace_how_name(how) : why,
		    "without tracing only RDMA netlink tells whose a queue pair is, by numbers "
		    "alone and late");
}

static int support_try_batch(enum bpf_map_type type, bool take)
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

static void support_list_maps(struct support_list *list)
{
	support_add_code(list, "hash_batch", support_try_batch(BPF_MAP_TYPE_HASH, false),
			 "without batched look-ups reading a large QP table takes more CPU");
	support_add_code(
		list, "hash_take", support_try_batch(BPF_MAP_TYPE_HASH, true),
		"without look-up-and-delete a packet may be lost from the count of a QP that "
		"ages out");
	support_add(list, "ringbuf", libbpf_probe_bpf_map_type(BPF_MAP_TYPE_RINGBUF, NULL) == 1, "",
		    "without ring buffers the kernel programs cannot hand up events");
}

static void support_list_machine(struct support_list *list)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	int rdma = fd < 0 ? -errno : 0;
	char text[8] = "";
	FILE *file = fopen("/proc/sys/kernel/unprivileged_bpf_disabled", "re");

	if (fd >= 0)
		close(fd);
	support_add_code(list, "rdma", rdma,
			 "without the kernel's RDMA core this host has no RDMA devices of its own; "
			 "RoCE that passes through it is still seen");
	if (file) {
		if (!fgets(text, sizeof(text), file))
			text[0] = '\0';
		fclose(file);
	}
	support_add(
		list, "unprivileged_bpf_off", text[0] == '1' || text[0] == '2', "",
		"as long as any user may load BPF programs, a hole in the verifier is open to all "
		"of them; set kernel.unprivileged_bpf_disabled=1");
}

int support_probe(struct support_feature *out, size_t max)
{
	struct support_list list = {.out = out, .max = max};
	struct support_trial trial;

	bpflog_install();
	support_try(&trial);
	support_list_base(&list);
	support_list_xdp(&list, &trial);
	support_list_tc(&list, &trial);
	support_list_tracing(&list);
	support_list_maps(&list);
	support_list_machine(&list);
	return (int)list.count;
}
