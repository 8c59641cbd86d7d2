// SPDX-License-Identifier: BSD-2-Clause
#include "support.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <linux/magic.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xdp/libxdp.h>

#include "attach.h"
#include "base/feature.h"
#include "bpflog.h"
#include "net/netlink.h"
#include "pins.h"

#define SUPPORT_BPFFS "/sys/fs/bpf"
#define LOOPBACK 1 /* its index in every network namespace */
#ifndef BPF_F_XDP_HAS_FRAGS
#define BPF_F_XDP_HAS_FRAGS (1U << 5)
#endif

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

/* --- what can only be tried, on interfaces of its own --- */

/* Each 0 when it worked, else -errno. */
struct support_trial {
	int namespace;
	int xdp_link_skb, xdp_link_native, xdp_frags;
	int tcx, clsact, fq;
};

static int try_make_veth(void)
{
	union netlink_request request;
	struct nlattr *info;

	netlink_begin(&request, RTM_NEWLINK, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL,
		      sizeof(struct ifinfomsg));
	mnl_attr_put_strz(&request.header, IFLA_IFNAME, "esc0");
	info = mnl_attr_nest_start(&request.header, IFLA_LINKINFO);
	mnl_attr_put_str(&request.header, IFLA_INFO_KIND, "veth");
	mnl_attr_nest_end(&request.header, info);
	return netlink_query(NETLINK_ROUTE, &request, NULL, NULL);
}

static int try_fq(void)
{
	union netlink_request request;
	struct tcmsg *tc = netlink_begin(&request, RTM_NEWQDISC,
					 NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, sizeof(*tc));

	tc->tcm_ifindex = LOOPBACK;
	tc->tcm_parent = TC_H_ROOT;
	mnl_attr_put_strz(&request.header, TCA_KIND, "fq");
	return netlink_query(NETLINK_ROUTE, &request, NULL, NULL);
}

/* "return @value" as a program; a descriptor or -errno. */
static int try_load(enum bpf_prog_type type, int value, __u32 flags)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = value},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .prog_flags = flags);

	return bpf_prog_load(type, "esc_try", "GPL", insns, 2, &options);
}

static int try_link(int program_fd, unsigned int ifindex, enum bpf_attach_type type, __u32 flags)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = flags);
	int fd = program_fd < 0 ? program_fd : bpf_link_create(program_fd, ifindex, type, &options);

	if (fd < 0)
		return fd;
	close(fd); /* which detaches */
	return 0;
}

static void try_all(struct support_trial *out)
{
	struct bpf_tc_hook hook;
	int xdp, tc;

	out->namespace = unshare(CLONE_NEWNET) ? -errno : 0;
	if (out->namespace)
		return;
	xdp = try_load(BPF_PROG_TYPE_XDP, XDP_PASS, 0);
	tc = try_load(BPF_PROG_TYPE_SCHED_CLS, -1, 0);
	out->xdp_link_skb = try_link(xdp, LOOPBACK, BPF_XDP, XDP_FLAGS_SKB_MODE);
	out->xdp_link_native = try_make_veth();
	if (!out->xdp_link_native)
		out->xdp_link_native =
			try_link(xdp, if_nametoindex("esc0"), BPF_XDP, XDP_FLAGS_DRV_MODE);
	out->xdp_frags = try_load(BPF_PROG_TYPE_XDP, XDP_PASS, BPF_F_XDP_HAS_FRAGS);
	if (out->xdp_frags > 0)
		out->xdp_frags = 0;
	out->tcx = try_link(tc, LOOPBACK, TCX_INGRESS, 0);
	clsact_hook(LOOPBACK, BPF_TC_INGRESS | BPF_TC_EGRESS, &hook);
	out->clsact = bpf_tc_hook_create(&hook);
	out->fq = try_fq();
}

/* In a child process whose network namespace ends with it: no interface of the host is touched. */
static void try_in_child(struct support_trial *out)
{
	struct support_trial *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;

	memset(out, 0xff, sizeof(*out)); /* -EPERM: nothing could be tried */
	if (shared == MAP_FAILED)
		return;
	*shared = *out;
	child = fork();
	if (!child) {
		try_all(shared);
		_exit(0);
	}
	if (child > 0) {
		while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
			;
		*out = *shared;
	}
	munmap(shared, sizeof(*shared));
}

/* --- the list --- */

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

	try_in_child(&trial);
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
